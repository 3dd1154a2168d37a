"""W from the sums XᵀX and XᵀB alone, where the rows are gone or elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from shore.solvers.accuracy import good_error, require_range, warn_inaccurate, warn_rank
from shore.solvers.direct import EPS, back_substitute, factorise, is_accurate, is_safe
from shore.solvers.rows import Array, column_blocks

__all__ = ["InaccurateError", "solve_normal_equations"]


class InaccurateError(ArithmeticError):
    """The statistics were not made in the precision that their condition asks for."""


def solve_normal_equations(
    G: Array,
    cross_of: Callable[[int, int], Array],
    m: int,
    alpha: float,
    dtype: np.dtype[Any],
    size: int,
    magnitude: float = 1.0,
    products: npt.DTypeLike = np.float64,
) -> Array:
    """W from float64 statistics: G = XcᵀXc (lower triangle) and blocks of columns of XcᵀB.

    Parameters
    ----------
    G : ndarray of shape (d, d)
        Written over.
    cross_of : callable
        Columns [start, stop) of XcᵀB.
    m : int
    alpha : float
    dtype : dtype
        Of W.
    size : int
        Rows, less 1 if they are centred.
    magnitude : float, default 1
        How much larger the numbers are whose difference G is: they bring their rounding along.
    products : dtype, default float64
        What they were made in before they were added up; `InaccurateError` if that should be float64 too.
    """
    double, goal = np.dtype(np.float64), good_error(dtype)
    factor, rcond = factorise(G.copy(order="F"), alpha)
    if not is_safe(rcond, np.dtype(products)) and products != np.float64:
        raise InaccurateError(f"the condition is about {1 / max(rcond, 1e-300):.1g}, too much for {products}")
    scale = None
    if not is_accurate(rcond / magnitude, goal):  # features of another scale are no trouble
        scale = _scale(G, alpha)
        factor, rcond = factorise(G * scale * scale[:, None], alpha * scale**2)
    if is_safe(rcond / magnitude, double):
        apply, error = _scaled(factor, scale), EPS * magnitude / rcond
    else:
        scale = None
        apply, error = _spectral(G, alpha, size, magnitude)
    W, worst = np.empty((G.shape[0], m), dtype=dtype), 0.0
    for start, stop in column_blocks(m, G.shape[0], 8):
        part = apply(cross_of(start, stop).astype(np.float64, copy=False))
        worst = max(worst, error * _stretch(part, scale))
        W[:, start:stop] = part
    if worst > goal:
        cause = f"the condition of the sums XᵀX is {f'about {1 / rcond:.0e}' if rcond > EPS else 'past 1e15'}"
        warn_inaccurate(worst, cause, "use fit on all rows, which computes with X itself, or a larger alpha")
    return W


def _stretch(W: Array, scale: Array | None) -> float:
    """How much more an error is of W than it is of W / scale."""
    size = float(np.linalg.norm(W))
    if scale is None or size == 0:
        return 1.0
    return float(np.linalg.norm(W / scale[:, None]) * scale.max() / size)


def _scale(G: Array, alpha: float) -> Array:
    """Factors that bring the diagonal of G + alpha to 1."""
    diagonal = np.diagonal(G) + alpha
    return 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def _scaled(factor: Array, scale: Array | None) -> Callable[[Array], Array]:
    if scale is None:
        return lambda C: back_substitute(factor, C)
    return lambda C: scale[:, None] * back_substitute(factor, scale[:, None] * C)


def _spectral(G: Array, alpha: float, size: int, magnitude: float) -> tuple[Callable[[Array], Array], float]:
    """The inverse of G + alpha on what X spans, by its eigenvalues, and about how far off it is."""
    require_range(np.tril(G))
    values, vectors = linalg.eigh(G, lower=True, driver="evd", overwrite_a=True)
    rank, noise = min(size, len(G)), max(size, len(G)) * EPS * magnitude * max(float(values[-1]), 0.0)
    keep = values > noise
    if keep.sum() < rank and alpha <= noise:
        warn_rank(int(keep.sum()), rank, alpha)
    # Directions of eigenvalue 0 take no part in X: they count only where alpha is above the noise that hides them.
    keep |= alpha > noise
    vectors, factors = vectors[:, keep], 1 / (np.maximum(values[keep], 0) + alpha)
    error = EPS * magnitude * max(float(values[-1]), 0.0) * float(factors.max(initial=0.0))
    return lambda C: vectors @ (factors[:, None] * (vectors.T @ C)), error
