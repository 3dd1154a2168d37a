"""What the estimates share: reading X and Y, blocks of rows, columns of Φ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._validation import check_rows, is_sparse, working_dtype
from shore.compression import Compression

__all__ = ["Array", "blocks", "check_compression", "check_pair", "columns_of", "row_norms2"]

Array = npt.NDArray[Any]

# Dense blocks of float64 are kept to about this size.
_BLOCK_BYTES = 1 << 25


def blocks(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows that are `width` float64 numbers long each."""
    step = max(1, _BLOCK_BYTES // (8 * max(1, width)))
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def check_compression(compression: Any) -> None:
    """Refuse what is not a Φ."""
    if not isinstance(compression, Compression):
        raise TypeError(
            f"compression must be a compression such as shore.GaussianCompression, got {type(compression).__name__}; "
            "for an array, pass shore.MatrixCompression(array)"
        )


def check_pair(X: Any, Y: Any) -> tuple[Any, sparse.csr_array]:
    """X as an ndarray or CSR in the dtype it came in, and Y as CSR in float64 without stored zeros; both finite."""
    rows, given = check_rows(X, "X"), check_rows(Y, "Y")
    if rows.shape[0] != given.shape[0]:
        raise ValueError(f"X and Y must have the same number of rows, got {rows.shape[0]} and {given.shape[0]}")
    for name, matrix in (("X", rows), ("Y", given)):
        if 0 in matrix.shape:
            raise ValueError(f"{name} must have at least one row and one column, got shape {matrix.shape}")
        parts = [matrix.data] if is_sparse(matrix) else (matrix[here] for here in blocks(*matrix.shape))
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError(f"{name} must be finite, but it holds NaN or infinity")
    outputs = sparse.csr_array(given if is_sparse(given) else np.asarray(given, dtype=np.float64)).astype(np.float64)
    outputs.eliminate_zeros()
    if not is_sparse(rows) and (rows.dtype == np.float16 or not rows.dtype.isnative):  # SciPy multiplies neither
        rows = rows.astype(working_dtype(rows.dtype, "X"))
    return rows, outputs


def columns_of(compression: Compression, outputs: Array, n_threads: int) -> Array:
    """The columns φ_j of Φ for a few outputs j, as rows of a float64 array, exactly as they are stored."""
    n = len(outputs)
    units = sparse.csr_array((np.ones(n), outputs, np.arange(n + 1)), shape=(n, compression.n_outputs))
    return compression.compress(units, n_threads=n_threads).astype(np.float64)


def row_norms2(Y: sparse.csr_array) -> Array:
    """‖y‖² of every row."""
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    return np.bincount(rows, weights=Y.data.astype(np.float64) ** 2, minlength=Y.shape[0])
