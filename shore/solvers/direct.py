"""Direct solvers: Cholesky factors of XᵀX or XXᵀ, and their spectrum where those are not accurate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from shore._core.blas import limit_blas
from shore._progress import Progress
from shore.solvers.accuracy import good_error, norm, warn_inaccurate
from shore.solvers.orthogonal import Spectrum
from shore.solvers.rows import Array, Rows, Targets, as_double, column_blocks, cross, gram, gram_of_rows, product
from shore.solvers.units import RowUnits, TargetUnits, rows_in_units

__all__ = ["EPS", "Factorisation", "back_substitute", "factorise", "is_accurate", "is_safe", "solve_direct"]

# The largest matrix that LAPACK factorises in one call: well under a second.
_PANEL = 6144
EPS = float(np.finfo(np.float64).eps)
# With 1/condition below this, a factor of XᵀX is too far off for refinement to make up for it.
_LEAST_RCOND = 1e-13
_MOST_REFINEMENTS = 6


def _norm_1(G: Array) -> float:
    """‖G‖₁ of a symmetric matrix of which the lower triangle is there, in strips."""
    d = G.shape[0]
    sums = np.zeros(d)
    for start in range(0, d, 512):
        strip = np.abs(np.tril(G[:, start : start + 512], -start))
        sums[start : start + 512] += strip.sum(axis=0)
        sums += strip.sum(axis=1)
    return float((sums - np.abs(np.diagonal(G))).max(initial=0.0))


def factorise(G: Array, alpha: float | Array, cancelled: float = 0.0) -> tuple[Array, float]:
    """The Cholesky factor of G + diag(alpha), in place of G, and about 1/condition; 0 if it is not definite.

    `cancelled` is the size of what was taken off to make G, whose rounding is left in it: it counts with that of G.
    """
    G.flat[:: G.shape[0] + 1] += alpha
    norm = _norm_1(G)
    functions: Any = linalg.get_lapack_funcs(("potrf", "pocon"), (G,))
    potrf, pocon = functions
    factor, info = potrf(G, lower=1, overwrite_a=1, clean=0) if len(G) <= _PANEL else _cholesky_by_panels(G, potrf)
    if info != 0:
        return factor, 0.0
    rcond, info = pocon(factor, norm, uplo="L")
    return factor, float(rcond) * norm / (norm + cancelled) if info == 0 and norm > 0 else 0.0


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


def back_substitute(factor: Array, C: Array) -> Array:
    """(LLᵀ)⁻¹ C."""
    potrs: Any = linalg.get_lapack_funcs("potrs", (factor, C))
    # A copy even of column-major C: potrs writes over it, and it may be the caller's
    solution, _ = potrs(factor, np.array(C, order="F"), lower=1, overwrite_b=1)
    return np.ascontiguousarray(solution)


def is_safe(rcond: float, dtype: np.dtype[Any], solver: str = "cholesky") -> bool:
    """Whether a factor in float32 gives W to about 1e-4; one in float64 is good to far more, see `is_accurate`.

    The estimate is in the 1-norm, which for many features is far above the condition that counts; the dual's solution
    is large and cancels in XᵀA, so it has less to lose.
    """
    single = 1e4 if solver == "dual" else 1e3
    return rcond > (single if dtype == np.float32 else _LEAST_RCOND / EPS) * float(np.finfo(dtype).eps)


def is_accurate(rcond: float, goal: float) -> bool:
    """Whether a factor in float64 gives W to `goal` without refinement."""
    return rcond > 4 * EPS / goal


class Factorisation:
    """XcᵀXc + alpha (or, dual, Xc Xcᵀ + alpha) factorised, for any number of right-hand sides.

    By Cholesky in the dtype of the rows; where that is not accurate, in float64, and solutions are refined if need be;
    where that is not enough either, by the singular values of Xc, which are those of a triangle that orthogonal
    transformations make of it.

    Parameters
    ----------
    rows : Rows
    alpha : float
    solver : {'cholesky', 'dual'}
    n_threads : int
    """

    def __init__(self, rows: Rows, alpha: float, solver: str, n_threads: int) -> None:
        self.rows, self.alpha, self.solver = rows, alpha, solver
        self._goal = good_error(rows.dtype)
        self._units = rows_in_units(rows, alpha, factors=2)
        rows, alpha = self._units.rows, self._units.alpha
        make = gram if solver == "cholesky" else gram_of_rows
        with limit_blas(n_threads):
            self._used = rows
            self._factor: Array | None
            self._factor, rcond = factorise(make(rows, n_threads), alpha, rows.cancelled)
            if not is_safe(rcond, rows.dtype, solver) and rows.dtype == np.float32:
                self._factor, self._used = None, as_double(rows)
                self._factor, rcond = factorise(make(self._used, n_threads), alpha, rows.cancelled)
            # With more rows than features the dual's solution holds all that X cannot explain, divided by alpha
            too_large = solver == "dual" and rows.shape[0] > rows.shape[1]
            goal = self._goal * (1e-3 if too_large else 1.0)
            self._refine = self._used.dtype == np.float64 and not is_accurate(rcond, goal)
            self._dual = solver == "dual" and not (too_large and self._refine)
            if self._refine and (too_large or not is_safe(rcond, self._used.dtype)):
                self._factor = None
                self._spectrum = Spectrum(self._used, alpha, self._dual, self.rows.X.dtype, self.alpha)

    def _apply(self, C: Array) -> Array:
        return self._spectrum.apply(C) if self._factor is None else back_substitute(self._factor, C)

    def solve(self, B: Array, n_threads: int) -> Array:
        """W of shape (d, w) for targets B of shape (n, w)."""
        units = TargetUnits(lambda start, stop: B[:, start:stop], B.shape[1], self.rows.dtype, self._units)
        return units.undo(self._solve(units(0, B.shape[1]), n_threads))

    def _solve(self, B: Array, n_threads: int) -> Array:
        """W in units."""
        rows = self._used
        targets = B.astype(rows.dtype, copy=False)
        with limit_blas(n_threads):
            if self._refine:

                def left(W: Array | None) -> Array:
                    residual = targets if W is None else targets - product(rows, W, n_threads)
                    return residual if self._dual else cross(rows, residual, n_threads)

                return self._refined(left, B.shape[1], n_threads)
            if self._dual:
                return cross(rows, self._apply(targets), n_threads)
            return self._apply(cross(rows, targets, n_threads))

    def _refined(self, left: Callable[[Array | None], Array], width: int, n_threads: int) -> Array:
        """W, corrected for as long as that helps, and a warning if the last correction was large.

        `left` gives what a W, or 0 at first, leaves of the right-hand sides.
        """
        rows = self._used
        W: Array = np.zeros((rows.shape[1], width))
        Z = np.zeros((rows.shape[0], width)) if self._dual else W  # W = XcᵀZ
        remainder, last, error = left(None), np.inf, np.inf
        for taken in range(1 + _MOST_REFINEMENTS):
            D = self._apply(remainder - self._units.alpha * Z)
            change = cross(rows, D, n_threads) if self._dual else D
            moved = norm(change)
            # A first correction may be as large as what it corrects; then they shrink, or are noise
            if moved == 0 or (taken > 1 and moved > 0.5 * last):
                break
            W += change
            if self._dual:
                Z += D
            last, error = moved, moved / max(norm(W), np.finfo(np.float64).tiny)
            if error <= 0.1 * self._goal:
                break
            remainder = left(W)
        error = max(2 * error, 0.0 if self._factor is not None else self._spectrum.floor)
        if error > self._goal and np.any(W):
            warn_inaccurate(error, "X is ill-conditioned", "scale its features, or use a larger alpha")
        return W

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
        twice = RowUnits(self._units.rows, self._units.alpha, 2 * self._units.exponent)
        units = TargetUnits(lambda start, stop: C[:, start:stop], C.shape[1], self.rows.dtype, twice)
        return units.undo(self._solve_cross(units(0, C.shape[1]), n_threads))

    def _solve_cross(self, C: Array, n_threads: int) -> Array:
        """W in units, for C in units."""
        C, rows = C.astype(self._used.dtype, copy=False), self._used
        with limit_blas(n_threads):
            if not self._refine:
                return self._apply(C)

            def left(W: Array | None) -> Array:
                return C if W is None else C - cross(rows, product(rows, W, n_threads), n_threads)

            return self._refined(left, C.shape[1], n_threads)


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
