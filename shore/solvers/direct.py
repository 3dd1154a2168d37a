"""Direct solvers: Cholesky factors of XᵀX or XXᵀ, and their spectrum where those are not accurate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from shore._core.blas import limit_blas
from shore._progress import Progress
from shore.solvers.rows import Array, Rows, Targets, as_double, column_blocks, cross, gram, gram_of_rows

__all__ = ["Factorisation", "InaccurateError", "solve_direct", "solve_normal_equations"]

# The largest matrix that LAPACK factorises in one call: well under a second.
_PANEL = 6144


def _norm_1(G: Array) -> float:
    """‖G‖₁ of a symmetric matrix of which the lower triangle is there, in strips."""
    d = G.shape[0]
    sums = np.zeros(d)
    for start in range(0, d, 512):
        strip = np.abs(np.tril(G[:, start : start + 512], -start))
        sums[start : start + 512] += strip.sum(axis=0)
        sums += strip.sum(axis=1)
    return float((sums - np.abs(np.diagonal(G))).max(initial=0.0))


def _factorise(G: Array, alpha: float) -> tuple[Array, float]:
    """The Cholesky factor of G + alpha (in place of G) and an estimate of 1/condition; 0 if it is not definite."""
    G.flat[:: G.shape[0] + 1] += alpha
    norm = _norm_1(G)
    functions: Any = linalg.get_lapack_funcs(("potrf", "pocon"), (G,))
    potrf, pocon = functions
    factor, info = potrf(G, lower=1, overwrite_a=1, clean=0) if len(G) <= _PANEL else _cholesky_by_panels(G, potrf)
    if info != 0:
        return factor, 0.0
    rcond, info = pocon(factor, norm, uplo="L")
    return factor, float(rcond) if info == 0 else 0.0


def _cholesky_by_panels(G: Array, potrf: Any) -> tuple[Array, int]:
    """The Cholesky factor in the lower triangle, panel by panel: Ctrl-C is heard between them."""
    trsm: Any = linalg.get_blas_funcs("trsm", (G,))
    width = _PANEL // 4
    for start in range(0, len(G), width):
        stop = min(len(G), start + width)
        corner, info = potrf(G[start:stop, start:stop], lower=1, clean=1)
        if info != 0:
            return G, start + int(info)
        G[start:stop, start:stop] = corner
        if stop == len(G):
            break
        below = trsm(1.0, corner, G[stop:, start:stop], side=1, lower=1, trans_a=1)
        G[stop:, start:stop] = below
        for panel in range(stop, len(G), width):
            end = min(len(G), panel + width)
            G[panel:, panel:end] -= below[panel - stop :] @ below[panel - stop : end - stop].T
    return G, 0


def _back_substitute(factor: Array, C: Array) -> Array:
    potrs: Any = linalg.get_lapack_funcs("potrs", (factor, C))
    # A copy even of column-major C: potrs writes over it, and it may be the caller's
    solution, _ = potrs(factor, np.array(C, order="F"), lower=1, overwrite_b=1)
    return np.ascontiguousarray(solution)


def _is_safe(rcond: float, dtype: np.dtype[Any], solver: str = "cholesky") -> bool:
    """Whether W is good to about 1e-4 in float32, and to half the digits in float64.

    The estimate is in the 1-norm, which for many features is far above the condition that counts; the dual's solution
    is large and cancels in XᵀA, so it has less to lose.
    """
    single = 1e4 if solver == "dual" else 1e3
    return rcond > (single if dtype == np.float32 else 30) * float(np.finfo(dtype).eps)


def _spectral(G: Array, alpha: float, cut: float, full_rank: int) -> tuple[Array, Array]:
    """Vectors V and factors f with (G + alpha)⁻¹ = V diag(f) Vᵀ; eigenvalues up to `cut` of the largest count as 0."""
    if not np.isfinite(np.tril(G)).all():
        raise ValueError("X is too large: products of its rows or columns leave the range of float64")
    values, vectors = linalg.eigh(G, lower=True, driver="evd", overwrite_a=True)
    keep = values > cut * max(values[-1], 0.0)
    if alpha == 0 and keep.sum() < full_rank:
        warnings.warn(
            f"X has rank {int(keep.sum())} of {full_rank} and alpha is 0: the solution of minimum norm is returned",
            linalg.LinAlgWarning,
            stacklevel=4,
        )
    # Directions of eigenvalue 0 take no part in X: they count only where alpha is above the noise that hides them.
    keep |= alpha > cut * max(values[-1], 0.0)
    factors = np.zeros_like(values)
    factors[keep] = 1 / (np.maximum(values[keep], 0) + alpha)
    return vectors, factors


class InaccurateError(ArithmeticError):
    """The statistics were not made in the precision that their condition asks for."""


def solve_normal_equations(
    G: Array,
    cross_of: Callable[[int, int], Array],
    m: int,
    alpha: float,
    dtype: np.dtype[Any],
    size: int,
    products: npt.DTypeLike = np.float64,
) -> Array:
    """W from float64 statistics of `size` rows: G = XcᵀXc (lower triangle) and blocks of columns of XcᵀB.

    `products` is what they were made in before they were added up; `InaccurateError` if that should be float64 too.
    """
    factor, rcond = _factorise(G.copy(order="F"), alpha)
    if not _is_safe(rcond, np.dtype(products)) and products != np.float64:
        raise InaccurateError(f"the condition is about {1 / max(rcond, 1e-300):.1g}, too much for {products}")
    W = np.empty((G.shape[0], m), dtype=dtype)
    if _is_safe(rcond, np.dtype(np.float64)):
        for start, stop in column_blocks(m, G.shape[0], 8):
            W[:, start:stop] = _back_substitute(factor, cross_of(start, stop).astype(np.float64))
        return W
    V, factors = _spectral(G, alpha, size * float(np.finfo(np.float64).eps), min(size, len(G)))
    for start, stop in column_blocks(m, G.shape[0], 8):
        W[:, start:stop] = V @ (factors[:, None] * (V.T @ cross_of(start, stop)))
    return W


class Factorisation:
    """XcᵀXc + alpha (or, dual, Xc Xcᵀ + alpha) factorised, for any number of right-hand sides.

    By Cholesky in the dtype of the rows; where that is not accurate, in float64; where that is not either, by the
    spectrum.

    Parameters
    ----------
    rows : Rows
    alpha : float
    solver : {'cholesky', 'dual'}
    n_threads : int
    """

    def __init__(self, rows: Rows, alpha: float, solver: str, n_threads: int) -> None:
        self.rows, self.alpha, self.solver = rows, alpha, solver
        make = gram if solver == "cholesky" else gram_of_rows
        with limit_blas(n_threads):
            self._used = rows
            self._factor: Array | None
            self._factor, rcond = _factorise(make(rows, n_threads), alpha)
            if not _is_safe(rcond, rows.dtype, solver) and rows.dtype == np.float32:
                self._factor, self._used = None, as_double(rows)
                self._factor, rcond = _factorise(make(self._used, n_threads), alpha)
            if not _is_safe(rcond, self._used.dtype, solver):
                self._factor, self._used = None, as_double(rows)
                cut = max(rows.shape) * float(np.finfo(np.float64).eps)
                full_rank = min(rows.shape)
                self._vectors, self._factors = _spectral(make(self._used, n_threads), alpha, cut, full_rank)

    def _apply(self, C: Array) -> Array:
        if self._factor is not None:
            return _back_substitute(self._factor, C)
        return np.ascontiguousarray(self._vectors @ (self._factors[:, None] * (self._vectors.T @ C)))

    def solve(self, B: Array, n_threads: int) -> Array:
        """W of shape (d, w) for targets B of shape (n, w)."""
        rows = self._used
        targets = B.astype(rows.dtype, copy=False)
        with limit_blas(n_threads):
            if self.solver == "cholesky":
                return self.solve_cross(cross(rows, targets, n_threads), n_threads)
            return cross(rows, self._apply(targets), n_threads)

    def solve_cross(self, C: Array, n_threads: int) -> Array:
        """W = (XcᵀXc + alpha)⁻¹ C for C = XcᵀB that is there already; only of 'cholesky'.

        Parameters
        ----------
        C : ndarray of shape (d, w)
            XcᵀB, e.g. of `cross`.
        n_threads : int

        Returns
        -------
        ndarray of shape (d, w)
            In the dtype that the factorisation had to be made in.

        Examples
        --------
        >>> import numpy as np
        >>> from shore import solvers
        >>> rows = solvers.Rows(np.array([[1.0, 0.0], [0.0, 2.0]]), np.dtype(np.float64))
        >>> factorisation = solvers.Factorisation(rows, 1.0, "cholesky", n_threads=1)
        >>> factorisation.solve_cross(np.array([[2.0], [5.0]]), n_threads=1)
        array([[1.],
               [1.]])
        """
        if self.solver != "cholesky":
            raise ValueError(f"solve_cross needs a factorisation by 'cholesky', got {self.solver!r}; give solve B")
        with limit_blas(n_threads):
            return self._apply(C.astype(self._used.dtype, copy=False))


def solve_direct(factorisation: Factorisation, targets: Targets, m: int, n_threads: int, progress: Progress) -> Array:
    """W of shape (d, m), block of columns by block of columns."""
    rows = factorisation.rows
    W = np.empty((rows.shape[1], m), dtype=rows.dtype)
    for start, stop in column_blocks(m, max(rows.shape), rows.dtype.itemsize):
        part = factorisation.solve(targets(start, stop), n_threads)
        if stop - start == m and part.dtype == W.dtype:
            W = part
        else:
            W[:, start:stop] = part
        progress.advance(stop - start)
    return W
