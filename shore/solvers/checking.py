"""How far off a solution by conjugate gradients is: where X is ill-conditioned their residual says little of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import linalg

from shore._validation import is_sparse
from shore.solvers.accuracy import good_error, norm, warn_inaccurate
from shore.solvers.cg import iterate, warn_not_converged
from shore.solvers.rows import Array, Rows, Targets, column_blocks, product, times, whole

__all__ = ["check_gradients", "check_products", "estimate_error", "lowest_eigenvalue"]

Multiply = Callable[[Array], Array]

# Random vectors to find the lowest eigenvalue by.
_PROBES = 4
# Random mixtures of the columns of W whose error is found, and the share of the goal up to which it counts as good. The
# error of w mixtures varies about that of W, most where all columns are off in one direction: as the root of χ²/w does.
# That it is below the share where W is at the goal has a chance of less than 1e-6.
_FEW, _FEW_SHARE = 16, 0.3
_MANY, _MANY_SHARE = 64, 0.6
# For all columns there is no chance in it.
_ALL_SHARE = 0.7
# What may be left of an error that is looked for, as a share of the goal.
_LEFT_OVER = 0.1
# A residual that is reached in few steps, and that shows the worst errors already.
_FIRST_TOL = 1e-3


def mixture(m: int, most: int, dtype: np.dtype[np.floating]) -> Array:
    """Weights (m, w) of at most so many mixtures of m columns; in the mean their squared norm is that of all."""
    if m <= most:
        return np.eye(m, dtype=dtype)
    return np.asarray(np.random.default_rng(0).standard_normal((m, most)) / np.sqrt(most), dtype=dtype)


def judge_columns(
    error_of: Callable[[Array], float], m: int, dtype: np.dtype[np.floating], goal: float
) -> float | None:
    """About the error of m columns if it may be above the goal, else None; `error_of` finds it for a mixture."""
    error = error_of(mixture(m, _FEW, dtype))
    share = _ALL_SHARE if m <= _FEW else _FEW_SHARE
    if m > _FEW and _FEW_SHARE * goal < error <= goal:  # they do not tell
        error = error_of(mixture(m, _MANY, dtype))
        share = _ALL_SHARE if m <= _MANY else _MANY_SHARE
    return None if error <= share * goal else error


def lowest_eigenvalue(multiply: Multiply, size: int, dtype: np.dtype[np.floating], null: Array | None = None) -> float:
    """About the lowest eigenvalue of A, rather less; 0 if it cannot be found.

    Conjugate gradients for A⁻¹g with random g are Lanczos's method: their steps make a tridiagonal matrix, whose lowest
    eigenvalue nears that of A from above. Once hardly anything of g is left in any direction, it is found.

    `null` is a unit vector that A maps to 0 and that does not count.
    """
    g = np.random.default_rng(1).standard_normal((size, _PROBES)).astype(dtype)
    if null is not None:
        g -= np.outer(null, null @ g).astype(dtype)
    history: list[tuple[Array, Array]] = []
    _, _, done = iterate(multiply, g, 0.1 / np.sqrt(size), history=history)
    if not done or not history:
        return 0.0
    steps, shrunk = (np.array(part) for part in zip(*history, strict=True))
    return max(0.0, min(_lowest_of_steps(steps[:, c], shrunk[:, c]) for c in range(_PROBES)) / 2)


def _lowest_of_steps(steps: Array, shrunk: Array) -> float:
    """The lowest eigenvalue of Lanczos's tridiagonal matrix, from the steps of conjugate gradients."""
    taken = int(np.argmin(steps > 0)) if not steps.all() else len(steps)
    if taken == 0:
        return 0.0
    inverse, ratio = 1 / steps[:taken], shrunk[: taken - 1]
    diagonal = inverse + np.append(0.0, ratio * inverse[:-1])
    beside = np.sqrt(ratio) * inverse[:-1]
    return float(linalg.eigh_tridiagonal(diagonal, beside, True, "i", (0, 0))[0])


def _highest_eigenvalue(multiply: Multiply, size: int, dtype: np.dtype[np.floating]) -> float:
    """About the highest eigenvalue of A, from below."""
    g = np.random.default_rng(2).standard_normal((size, 1)).astype(dtype)
    for _ in range(4):
        g = multiply(g / max(float(np.linalg.norm(g)), np.finfo(dtype).tiny))
    return float(np.linalg.norm(g))


def estimate_error(
    multiply: Multiply, left: Array, size: float, alpha: float, lowest: Callable[[], float], goal: float
) -> float:
    """About ‖E‖ / size for the error E = A⁻¹ left: no more than that if it is above the goal, no less if far below.

    E is found by conjugate gradients too, far enough that what they leave of it does not matter: an error is at most
    its residual over the lowest eigenvalue, which is no less than alpha. `lowest` is called if alpha is small.
    """
    residual, bound = norm(left), alpha
    if residual == 0:
        return 0.0
    if size == 0:
        return np.inf
    if _LEFT_OVER * goal * alpha * size < _FIRST_TOL * residual:  # many steps, and perhaps for nothing
        E, _, _ = iterate(multiply, left.copy(), _FIRST_TOL, enough=goal * size)
        if (error := norm(E) / size) > goal:
            return error
        bound = max(alpha, lowest())
    if bound == 0:
        return np.inf
    tol = _LEFT_OVER * goal * bound * size / residual
    if tol >= 1:
        return residual / (bound * size)
    E, _, done = iterate(multiply, left, tol, enough=goal * size)
    return norm(E) / size if done else np.inf


def _warn_of_gradients(error: float, tol: float) -> None:
    cause = f"conjugate gradients stopped at a residual of {tol:g} of its start, but X is ill-conditioned"
    warn_inaccurate(error, cause, "use solver='cholesky', a smaller solver_tol or a larger alpha", "at least")


def check_gradients(
    rows: Rows,
    targets: Targets,
    m: int,
    alpha: float,
    W: Array,
    tol: float,
    taken: int,
    converged: bool,
    n_threads: int,
) -> None:  # fmt: skip
    """Warn if the solution W by conjugate gradients is not good, see accuracy.py."""
    if not converged:
        warn_not_converged(tol, taken)
        return
    (n, d), dtype = rows.shape, rows.dtype
    if n == 0 or not np.isfinite(W).all():
        return
    forward, back = _operators(rows, n_threads)
    penalty, size = dtype.type(alpha), norm(W)

    def multiply(P: Array) -> Array:
        return np.asarray(back(forward(P)) + penalty * P)

    def multiply_dual(P: Array) -> Array:
        return np.asarray(forward(back(P)) + penalty * P)

    @cache
    def lowest() -> float:
        if n > d:
            return lowest_eigenvalue(multiply, d, dtype)
        null = None if rows.mean is None else rows.ones() / np.linalg.norm(rows.ones())
        return lowest_eigenvalue(multiply_dual, n, dtype, null)

    def error_of(mix: Array) -> float:
        B = np.zeros((n, mix.shape[1]), dtype=dtype)
        for start, stop in column_blocks(m, max(n, d), dtype.itemsize):
            B += targets(start, stop).astype(dtype, copy=False) @ mix[start:stop]
        V = W @ mix
        return estimate_error(multiply, back(B - forward(V)) - penalty * V, size, alpha, lowest, goal)

    goal = good_error(dtype, tol)
    error = judge_columns(error_of, m, dtype, goal)
    if error is None and size > 0 and (n < d or rows.mean is not None):
        # rounding, of W where X maps to 0 and of what centring leaves of X, is nothing that a residual shows
        noise = float(np.finfo(dtype).eps) * max(_highest_eigenvalue(multiply, d, dtype), rows.cancelled)
        if noise > _ALL_SHARE * alpha * goal:
            rounding = noise / max(lowest(), alpha, noise)
            error = rounding if rounding > _ALL_SHARE * goal else None
    if error is not None:
        _warn_of_gradients(error, tol)


def check_products(multiply: Multiply, C: Array, W: Array, alpha: float, tol: float, n: int) -> None:
    """As `check_gradients`, of W with A W = C where products with A of n rows are all there is.

    Parameters
    ----------
    multiply : callable
        AP of P.
    C, W : ndarray of shape (d, m)
    alpha : float
        What the eigenvalues of A are no less than.
    tol : float
    n : int
        With fewer rows than features A is singular but for alpha, and a small alpha says nothing.
    """
    goal, size = good_error(W.dtype, tol), norm(W)

    @cache
    def lowest() -> float:
        return lowest_eigenvalue(multiply, len(W), W.dtype) if n >= len(W) else 0.0

    def error_of(mix: Array) -> float:
        left = (C @ mix).astype(W.dtype) - multiply(W @ mix)
        return estimate_error(multiply, left, size, alpha, lowest, goal)

    error = judge_columns(error_of, W.shape[1], W.dtype, goal)
    if error is not None:
        _warn_of_gradients(error, tol)


def _operators(rows: Rows, n_threads: int) -> tuple[Multiply, Multiply]:
    """Xc P and XcᵀQ, in the dtype of the rows."""
    if not is_sparse(rows.X):
        X = whole(rows)
        return lambda P: X @ P, lambda Q: X.T @ Q

    def back(Q: Array) -> Array:
        out = times(rows.transposed, Q, n_threads)
        if rows.mean is not None:
            out -= np.outer(rows.mean, rows.ones() @ Q)
        return out

    return lambda P: product(rows, P, n_threads), back
