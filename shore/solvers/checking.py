"""How far off a solution by conjugate gradients is: where X is ill-conditioned their residual says little of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from shore._validation import is_sparse
from shore.solvers.accuracy import good_error, warn_inaccurate
from shore.solvers.cg import iterate, warn_not_converged
from shore.solvers.rows import Array, Rows, Targets, column_blocks, product, times, whole

__all__ = ["check_gradients", "check_products", "estimate_error", "lowest_eigenvalue"]

Multiply = Callable[[Array], Array]

# Random mixtures of the columns of W that are looked at, and random vectors to find the lowest eigenvalue by.
_MIXTURES, _PROBES = 4, 4


def mixture(m: int, dtype: np.dtype[np.floating]) -> Array:
    """Weights (m, w) of a few mixtures of m columns: errors of them are errors of the whole, in the mean."""
    if m <= _MIXTURES:
        return np.eye(m, dtype=dtype)
    return np.random.default_rng(0).standard_normal((m, _MIXTURES)).astype(dtype)


def lowest_eigenvalue(multiply: Multiply, size: int, dtype: np.dtype[np.floating], null: Array | None = None) -> float:
    """About the lowest eigenvalue of A, by z = A⁻¹g for random g: zᵀAz / zᵀz; 0 if that cannot be found.

    `null` is a unit vector that A maps to 0 and that does not count.
    """
    g = np.random.default_rng(1).standard_normal((size, _PROBES)).astype(dtype)
    if null is not None:
        g -= np.outer(null, null @ g).astype(dtype)
    z, _, done = iterate(multiply, g.copy(), 0.1 / np.sqrt(size))
    squares = np.einsum("fc,fc->c", z, z, dtype=np.float64)
    if not (done and squares.min() > 0):
        return 0.0
    return max(0.0, float((np.einsum("fc,fc->c", z, g, dtype=np.float64) / squares).min()) / 3)


def _highest_eigenvalue(multiply: Multiply, size: int, dtype: np.dtype[np.floating]) -> float:
    """About the highest eigenvalue of A, from below."""
    g = np.random.default_rng(2).standard_normal((size, 1)).astype(dtype)
    for _ in range(4):
        g = multiply(g / max(float(np.linalg.norm(g)), np.finfo(dtype).tiny))
    return float(np.linalg.norm(g))


def estimate_error(
    multiply: Multiply, left: Array, W: Array, alpha: float, lowest: Callable[[], float], goal: float
) -> float:
    """About ‖E‖ / ‖W‖ for the error E = A⁻¹ left of W, if that is near the goal or above it, else some bound below it.

    E is found by conjugate gradients too, far enough that what they leave of it does not matter: an error is at most
    its residual over the lowest eigenvalue, which is no less than alpha. `lowest` is called if alpha is small.
    """
    size, residual, bound = float(np.linalg.norm(W)), float(np.linalg.norm(left)), alpha
    if size == 0 or residual == 0:
        return 0.0
    if 0.2 * goal * alpha * size < 1e-3 * residual:  # many steps, and perhaps for nothing
        bound = max(alpha, lowest())
    if bound == 0:
        return np.inf
    tol = 0.2 * goal * bound * size / residual
    if tol >= 1:
        return residual / (bound * size)
    E, _, done = iterate(multiply, left, tol)
    return float(np.linalg.norm(E)) / size if done else np.inf


def judge_gradients(error: float, tol: float, goal: float) -> None:
    """Warn if the error is near the goal or above it."""
    if not error <= 0.7 * goal:  # nor is it where that could not be found
        cause = f"conjugate gradients stopped at a residual of {tol:g} of its start, but X is ill-conditioned"
        warn_inaccurate(error, cause, "use solver='cholesky', a smaller solver_tol or a larger alpha", 6)


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
    penalty, mix = dtype.type(alpha), mixture(m, dtype)
    B = np.zeros((n, mix.shape[1]), dtype=dtype)
    for start, stop in column_blocks(m, max(n, d), dtype.itemsize):
        B += targets(start, stop).astype(dtype, copy=False) @ mix[start:stop]
    V = W @ mix
    if not V.any():  # of right-hand sides of 0
        return

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

    goal = good_error(dtype, tol)
    error = estimate_error(multiply, back(B - forward(V)) - penalty * V, V, alpha, lowest, goal)
    if n < d and error <= 0.7 * goal:  # rounding of W where X maps to 0 leaves nothing to see in a residual
        noise = float(np.finfo(dtype).eps) * _highest_eigenvalue(multiply, d, dtype)
        if noise > 0.7 * alpha * goal:
            error = max(error, noise / max(lowest(), alpha, noise))
    judge_gradients(error, tol, goal)


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
    mix, goal = mixture(W.shape[1], W.dtype), good_error(W.dtype, tol)
    V = W @ mix
    left = (C @ mix).astype(W.dtype) - multiply(V)

    def lowest() -> float:
        return lowest_eigenvalue(multiply, len(W), W.dtype) if n >= len(W) else 0.0

    judge_gradients(estimate_error(multiply, left, V, alpha, lowest, goal), tol, goal)


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
