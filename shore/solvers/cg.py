"""Conjugate gradients on the normal equations, all columns of a block at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shore._core import linear as _core
from shore._core.blas import limit_blas
from shore._progress import Progress
from shore.solvers.accuracy import warn
from shore.solvers.rows import Array, Rows, Targets, column_blocks, csr_parts, whole

__all__ = ["CsrBlocks", "attainable", "cg_csr", "cg_dense", "conjugate_gradients", "iterate", "warn_not_converged"]

_MAX_CG_STEPS = 1000


def _cg_width(n: int, d: int, m: int, itemsize: int, n_threads: int) -> int:
    """Columns of a block: a few vectors, fewer where its matrices (three of d rows, one of n) would leave the cache."""
    lanes = 64 // itemsize
    vectors = max(1, min(4, 12_000_000 // max(1, (3 * d + n) * 64)))
    return max(1, min(lanes * vectors, -(-m // n_threads)))


def attainable(tol: float, dtype: np.dtype[Any]) -> float:
    """No less than the rounding of a residual: steps past that only add noise to W."""
    return max(tol, 4 * float(np.finfo(dtype).eps))


class CsrBlocks:
    """Column blocks of one problem on CSR rows, as many at a time as there are threads."""

    def __init__(self, rows: Rows, targets: Targets, m: int, tol: float, n_threads: int) -> None:
        self.rows, self.targets, self.m, self.tol = rows, targets, m, attainable(tol, rows.dtype)
        self.n_threads = min(n_threads, 64)  # as many blocks as the engine holds
        self.width = _cg_width(*rows.shape, m, rows.dtype.itemsize, self.n_threads)
        self._mean = None if rows.mean is None else rows.mean.astype(rows.dtype)
        self._shift = None if rows.shift is None else rows.shift.astype(rows.dtype)
        self.most_steps, self._steps_at_once, self.converged = 0, 1, True

    def groups(self) -> Iterator[list[slice]]:
        """Columns of the blocks that are solved together."""
        step = self.width * self.n_threads
        for start in range(0, self.m, step):
            yield [slice(s, min(self.m, s + self.width)) for s in range(start, min(self.m, start + step), self.width)]

    def open(self, group: list[slice]) -> tuple[Any, Array, Array]:
        """The engine, its right-hand sides and its solutions. Narrower blocks are filled up with columns of zeros."""
        n, d = self.rows.shape
        B = np.zeros((len(group), n, self.width), dtype=self.rows.dtype)
        W = np.zeros((len(group), d, self.width), dtype=self.rows.dtype)
        for block, columns in enumerate(group):
            B[block, :, : columns.stop - columns.start] = self.targets(columns.start, columns.stop)
        X, Xt = csr_parts(self.rows.X), csr_parts(self.rows.transposed)
        return _core.ConjugateGradients(X, Xt, B, W, self.tol, self._mean, self._shift), B, W

    def run(self, cg: Any) -> None:
        """Steps until all columns are solved; back in Python, to hear Ctrl-C, every quarter second."""
        taken, done = np.zeros(cg.n_blocks, dtype=np.int64), False
        while not done and taken.max() < _MAX_CG_STEPS:
            began = time.monotonic()
            steps = min(self._steps_at_once, _MAX_CG_STEPS - int(taken.max()))
            done = cg.iterate(steps, taken, self.n_threads)
            seconds = (time.monotonic() - began) / steps
            self._steps_at_once = max(1, min(50, int(0.25 / max(seconds, 1e-9))))
        self.converged &= done
        self.most_steps = max(self.most_steps, int(taken.max()))


def cg_csr(
    rows: Rows, targets: Targets, m: int, alpha: float, tol: float, n_threads: int, progress: Progress
) -> tuple[Array, int, bool]:
    """W of shape (d, m) for CSR rows, the most steps of a block of columns, and whether they were enough."""
    result = np.zeros((rows.shape[1], m), dtype=rows.dtype)
    if rows.X.nnz == 0:
        return result, 0, True
    blocks = CsrBlocks(rows, targets, m, tol, n_threads)
    for group in blocks.groups():
        cg, _, W = blocks.open(group)
        cg.begin(alpha, n_threads)
        blocks.run(cg)
        for block, columns in enumerate(group):
            result[:, columns] = W[block, :, : columns.stop - columns.start]
            progress.advance(columns.stop - columns.start)
    return result, blocks.most_steps, blocks.converged


def warn_not_converged(tol: float, taken: int) -> None:
    """Say that conjugate gradients gave up."""
    warn(
        f"conjugate gradients stopped after {taken} steps before every residual was at most {tol:g} of its "
        "start; use solver='cholesky' or a larger alpha",
        RuntimeWarning,
    )


def conjugate_gradients(multiply: Callable[[Array], Array], R: Array, tol: float) -> tuple[Array, int]:
    """W of shape (d, w) with A W = R for all columns at once, and the steps it took; from W = 0 on.

    Parameters
    ----------
    multiply : callable
        AP of P, both of shape (d, w), for a symmetric positive semidefinite A.
    R : ndarray of shape (d, w)
        The right-hand sides; written over.
    tol : float
        A column is done when its residual is at most this share of its start.

    Returns
    -------
    W : ndarray of shape (d, w)
        NaN where products overflow, for the caller to refuse.
    taken : int

    Examples
    --------
    >>> import numpy as np
    >>> from shore import solvers
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> W, taken = solvers.conjugate_gradients(lambda P: A @ P, np.array([[3.0], [4.0]]), 1e-10)
    >>> W.round(6).ravel().tolist(), taken
    ([1.0, 1.0], 2)
    """
    W, taken, done = iterate(multiply, R, tol)
    if not done:
        warn_not_converged(tol, taken)
    return W, taken


def iterate(
    multiply: Callable[[Array], Array],
    R: Array,
    tol: float,
    *,
    enough: float = np.inf,
    history: list[tuple[Array, Array]] | None = None,
) -> tuple[Array, int, bool]:
    """As `conjugate_gradients`, without the warning; and whether every residual was small enough in the end.

    A column stops before that where rounding undoes as much of the residual as a step does, and all of them once the
    norm of W, which only grows, is past `enough`. `history` gets the length of every step, and by how much the square
    of the residual shrank in it, for each column.
    """
    dtype, eps, tol = R.dtype, float(np.finfo(R.dtype).eps), attainable(tol, R.dtype)
    P, W = R.copy(), np.zeros_like(R)
    rr = np.einsum("fc,fc->c", R, R, dtype=np.float64)
    if not np.isfinite(rr).all():
        return np.full_like(W, np.nan), 0, True
    goal, largest, done = tol * tol * rr, np.zeros_like(rr), True
    for taken in range(_MAX_CG_STEPS + 1):
        going = rr > goal
        if not going.any() or taken == _MAX_CG_STEPS:
            break
        AP = multiply(P)
        curvature = np.einsum("fc,fc->c", P, AP, dtype=np.float64)
        if not np.isfinite(curvature).all():
            return np.full_like(W, np.nan), taken, True
        squares = np.einsum("fc,fc->c", P, P, dtype=np.float64)
        np.maximum(largest, np.divide(curvature, squares, where=squares > 0, out=np.zeros_like(rr)), out=largest)
        stuck = going & ~(curvature > eps * largest * squares)
        done &= not stuck.any()
        going &= ~stuck
        step = np.divide(rr, curvature, where=going, out=np.zeros_like(rr))
        W += step.astype(dtype) * P
        R -= step.astype(dtype) * AP
        after = np.einsum("fc,fc->c", R, R, dtype=np.float64)
        goal[~going] = np.inf
        shrunk = np.divide(after, rr, where=rr > 0, out=np.zeros_like(rr))
        P = R + shrunk.astype(dtype) * P
        if history is not None:
            history.append((step, shrunk))
        rr = after
        if enough < np.inf and float(np.linalg.norm(W)) > enough:
            return W, taken + 1, True
    return W, taken, done and taken < _MAX_CG_STEPS


def cg_dense(
    rows: Rows, targets: Targets, m: int, alpha: float, tol: float, n_threads: int, progress: Progress
) -> tuple[Array, int, bool]:
    """W of shape (d, m) for dense rows, the most steps of a block of columns, and whether they were enough."""
    n, d = rows.shape
    X, penalty = whole(rows), rows.dtype.type(alpha)
    W, most, converged = np.zeros((d, m), dtype=rows.dtype), 0, True

    def multiply(P: Array) -> Array:
        return np.asarray(X.T @ (X @ P) + penalty * P)

    def right_hand_sides(start: int, stop: int) -> Array:
        return np.asarray(X.T @ targets(start, stop).astype(rows.dtype, copy=False))

    with limit_blas(n_threads):
        for start, stop in column_blocks(m, max(n, d), rows.dtype.itemsize):
            W[:, start:stop], taken, _ = iterate(multiply, right_hand_sides(start, stop), tol)
            most, converged = max(most, taken), converged and taken < _MAX_CG_STEPS
            progress.advance(stop - start)
    return W, most, converged
