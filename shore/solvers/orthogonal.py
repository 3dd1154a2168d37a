"""The singular values of ill-conditioned rows, by orthogonal transformations: XᵀX would square their condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg

from shore._validation import is_sparse
from shore.solvers.accuracy import require_range, warn_rank
from shore.solvers.rows import Array, Rows

__all__ = ["Spectrum"]

_BLOCK_BYTES = 1 << 26
_EPS = float(np.finfo(np.float64).eps)
# Squares of smaller singular values, and what is divided by them, leave the range of float64.
_LEAST = float(np.sqrt(np.finfo(np.float64).tiny))


def _dense_blocks(rows: Rows, of_columns: bool) -> Iterator[Array]:
    """Blocks of rows of Xc, or with `of_columns` of Xcᵀ, as dense arrays that may be written over."""
    n, d = rows.shape
    length, width = (d, n) if of_columns else (n, d)
    step = max(width, 256, _BLOCK_BYTES // (8 * width))
    source = rows.transposed if of_columns and is_sparse(rows.X) else rows.X
    for start in range(0, length, step):
        here = slice(start, min(length, start + step))
        if is_sparse(source):
            block = source[here].toarray()
        else:
            block = np.array(source[:, here].T if of_columns else source[here], dtype=np.float64, order="C")
        mean, shift = rows.mean, rows.ones()
        if not is_sparse(source):
            if mean is not None:
                block -= mean[here, None] if of_columns else mean
            if rows.shift is not None:
                block *= shift if of_columns else shift[here, None]
        elif mean is not None:  # CSR rows are weighted already
            block -= np.outer(mean[here], shift) if of_columns else np.outer(shift[here], mean)
        yield block


def _triangle(rows: Rows, of_columns: bool) -> Array:
    """R with RᵀR = XcᵀXc, or Xc Xcᵀ: block by block, so that it takes no more memory than that, and hears Ctrl-C."""
    functions: Any = linalg.get_lapack_funcs(("geqrf", "geqrf_lwork"), dtype=np.float64)
    geqrf, geqrf_lwork = functions
    R: Array | None = None
    for block in _dense_blocks(rows, of_columns):
        stacked = np.asfortranarray(block if R is None else np.concatenate([R, block]))
        work, _ = geqrf_lwork(*stacked.shape)
        factored = geqrf(stacked, lwork=int(work), overwrite_a=1)[0]
        R = np.triu(factored[: min(factored.shape)])
    assert R is not None
    require_range(R)
    return np.asarray(R)


class Spectrum:
    """The inverse of XcᵀXc + alpha (or, of columns, of Xc Xcᵀ + alpha), on what Xc spans, by the singular values of Xc.

    Singular values that are lost in the rounding of X count as 0, with a warning, unless alpha is above them. That is
    the rounding of the numbers as stored: X of float32 has none that mean something below 2⁻²² of the largest.

    Parameters
    ----------
    rows : Rows
        To compute in float64.
    alpha : float
    of_columns : bool
    stored : dtype
        What X came in.
    asked : float
        The alpha that was asked for, which in units may be another.

    Attributes
    ----------
    floor : float
        The share of its size that W may be off by, however it is refined.
    """

    def __init__(self, rows: Rows, alpha: float, of_columns: bool, stored: np.dtype[Any], asked: float) -> None:
        n, d = rows.shape
        _, values, vectors = linalg.svd(_triangle(rows, of_columns), full_matrices=False, overwrite_a=True)
        largest = float(values[0])
        if rows.mean is not None:  # what centring takes away rounds too
            largest = max(largest, float(np.linalg.norm(rows.mean) * np.linalg.norm(rows.ones())))
        require_range(np.square(largest))
        least = max(largest * (2.0**-22 if stored == np.float32 else max(n, d) * _EPS), _LEAST)
        full_rank = min(n - (rows.mean is not None), d)
        keep = values > least
        if keep.sum() < full_rank and alpha <= least**2:
            warn_rank(int(keep.sum()), full_rank, asked)
        # Products with X round in every residual alike, as weights and centring do, so that refinement does not see it.
        smallest = float(np.sqrt(values[keep].min(initial=largest) ** 2 + alpha))
        self.floor = 0.1 * _EPS * largest / smallest if smallest > 0 else 0.0
        self._vectors = vectors[keep].T
        self._factors = 1 / (values[keep] ** 2 + alpha)
        if alpha > least**2 and not keep.all():
            self._vectors, self._factors = vectors.T, 1 / (values**2 + alpha)

    def apply(self, C: Array) -> Array:
        """(XcᵀXc + alpha)⁻¹ C."""
        return np.ascontiguousarray(self._vectors @ (self._factors[:, None] * (self._vectors.T @ C)))
