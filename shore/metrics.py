"""How good predictions are, on sparse rows and without a loop over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._validation import canonical_csr, check_positive, check_rows, is_sparse

__all__ = ["precision_at_k"]


def _non_zeros(Y: Any, name: str) -> Any:
    """Canonical CSR in float64 without stored zeros; NaN is refused."""
    rows = check_rows(Y, name)
    csr = canonical_csr(rows, name) if is_sparse(rows) else sparse.csr_array(np.asarray(rows, dtype=np.float64))
    csr = csr.astype(np.float64)
    csr.eliminate_zeros()
    if np.isnan(csr.data).any():
        raise ValueError(f"{name} must not hold NaN")
    return csr


def _pair(Y_true: Any, Y_pred: Any) -> tuple[Any, Any]:
    pair = _non_zeros(Y_true, "Y_true"), _non_zeros(Y_pred, "Y_pred")
    if pair[0].shape != pair[1].shape:
        raise ValueError(f"Y_true and Y_pred must have the same shape, got {pair[0].shape} and {pair[1].shape}")
    return pair


def _rows_of(Y: Any) -> npt.NDArray[np.int64]:
    """The row number of every stored entry."""
    return np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr))


def _top(Y: Any, k: int) -> npt.NDArray[np.int64]:
    """The k highest-valued non-zero entries of every row, ties by the lower column, as row·K + column."""
    rows = _rows_of(Y)
    order = np.lexsort((Y.indices, -Y.data, rows))
    rank = np.arange(Y.nnz) - Y.indptr[rows[order]]
    order = order[rank < k]
    return np.asarray(rows[order] * Y.shape[1] + Y.indices[order])


def precision_at_k(Y_true: Any, Y_pred: Any, k: int) -> float:
    """Share of the k highest-valued predicted outputs that are true ones, averaged over rows.

    A row that predicts fewer than k outputs counts the missing ones as wrong.

    Parameters
    ----------
    Y_true, Y_pred : array-like or SciPy sparse matrix of shape (n, K)
        An output is true where `Y_true` is not 0. Predicted outputs are ranked by value, ties by index.
    k : int

    Returns
    -------
    float
        From 0 to 1; NaN if there are no rows.

    Examples
    --------
    >>> from shore.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 1, 0]], [[0.9, 0.7, 0.2, 0]], k=2)
    0.5
    """
    k = check_positive(k, "k")
    true, predicted = _pair(Y_true, Y_pred)
    n, n_outputs = true.shape
    if n == 0:
        return float("nan")
    relevant = _rows_of(true) * n_outputs + true.indices
    return float(np.isin(_top(predicted, k), relevant).sum() / (n * k))
