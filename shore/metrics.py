"""How good predictions are, on sparse rows and without a loop over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._validation import (
    canonical_csr,
    check_number,
    check_positive,
    check_rows,
    check_vector,
    check_width,
    is_sparse,
)
from shore.compression import Compression

__all__ = [
    "ndcg_at_k",
    "output_difference",
    "precision_at_k",
    "prediction_loss",
    "propensities",
    "propensity_scored_precision_at_k",
    "recall_at_k",
    "training_loss",
]

# Dense blocks of rows take about this many bytes.
_BLOCK_BYTES = 1 << 26


def non_zeros(Y: Any, name: str) -> Any:
    """Canonical CSR in float64 without stored zeros; NaN and infinity are refused."""
    rows = check_rows(Y, name)
    csr = canonical_csr(rows, name) if is_sparse(rows) else sparse.csr_array(np.asarray(rows, dtype=np.float64))
    csr = csr.astype(np.float64)
    csr.eliminate_zeros()
    if not np.isfinite(csr.data).all():
        raise ValueError(f"{name} must not hold NaN or infinity")
    return csr


def _pair(Y_true: Any, Y_pred: Any) -> tuple[Any, Any]:
    pair = non_zeros(Y_true, "Y_true"), non_zeros(Y_pred, "Y_pred")
    if pair[0].shape != pair[1].shape:
        raise ValueError(f"Y_true and Y_pred must have the same shape, got {pair[0].shape} and {pair[1].shape}")
    return pair


def _rows_of(Y: Any) -> npt.NDArray[np.int64]:
    """The row number of every stored entry."""
    return np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr))


def _ranked(Y: Any, k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The k highest-valued non-zero entries of every row, ties by the lower column: their rows, columns and ranks."""
    rows = _rows_of(Y)
    order = np.lexsort((Y.indices, -Y.data, rows))
    rank = np.arange(Y.nnz) - Y.indptr[rows[order]]
    best = rank < k
    order = order[best]
    return rows[order], Y.indices[order].astype(np.int64), rank[best]


def _hits(
    Y_true: Any, Y_pred: Any, k: int
) -> tuple[Any, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The true outputs as CSR, and those among the k best predicted: their rows, columns and ranks."""
    true, predicted = _pair(Y_true, Y_pred)
    rows, columns, ranks = _ranked(predicted, k)
    (n, K), of_true, of_predicted = true.shape, true.indices, columns
    if n * K > np.iinfo(np.int64).max:  # entries are counted with the columns that are in use alone
        used, numbers = np.unique(np.concatenate([true.indices, columns]), return_inverse=True)
        K, of_true, of_predicted = len(used), numbers[: true.nnz], numbers[true.nnz :]
    hit = np.isin(rows * K + of_predicted, _rows_of(true) * K + of_true)
    return true, rows[hit], columns[hit], ranks[hit]


def _mean(total: Any, n: int) -> float:
    """An average over rows; NaN if there are none."""
    return float(total) / n if n else float("nan")


def _in_range(total: Any, names: str) -> float:
    """A sum of squares, refused where it is none of float64."""
    if not math.isfinite(total):
        raise ValueError(f"{names} are too large: the squares of their differences leave the range of float64")
    return float(total)


def precision_at_k(Y_true: Any, Y_pred: Any, k: int) -> float:
    """Share of the k highest-valued predicted outputs that are true ones, averaged over rows.

    A row that predicts fewer than k outputs counts the missing ones as wrong. With k = s this is the paper's
    Precision@s.

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
    true, rows, _, _ = _hits(Y_true, Y_pred, k)
    return _mean(len(rows), true.shape[0]) / k


def recall_at_k(Y_true: Any, Y_pred: Any, k: int) -> float:
    """Share of the true outputs that are among the k highest-valued predicted ones, averaged over rows.

    A row without true outputs counts as 0, as it does in precision.

    Parameters
    ----------
    Y_true, Y_pred, k
        As in `precision_at_k`.

    Returns
    -------
    float
        From 0 to 1; NaN if there are no rows.

    Examples
    --------
    >>> from shore.metrics import recall_at_k
    >>> recall_at_k([[1, 0, 1, 1]], [[0.9, 0.7, 0.2, 0]], k=3).__round__(3)
    0.667
    """
    k = check_positive(k, "k")
    true, rows, _, _ = _hits(Y_true, Y_pred, k)
    n_true = np.diff(true.indptr)
    return _mean(np.sum(1.0 / n_true[rows]), true.shape[0])


def ndcg_at_k(Y_true: Any, Y_pred: Any, k: int) -> float:
    """Normalised discounted cumulative gain of the k highest-valued predicted outputs, averaged over rows.

    A true output at rank r = 1, 2, … gains 1/log₂(r + 1); the sum is divided by the largest that the row allows. A
    row without true outputs counts as 0.

    Parameters
    ----------
    Y_true, Y_pred, k
        As in `precision_at_k`.

    Returns
    -------
    float
        From 0 to 1; NaN if there are no rows.

    Examples
    --------
    >>> from shore.metrics import ndcg_at_k
    >>> ndcg_at_k([[1, 0, 0]], [[0.5, 0.9, 0]], k=2).__round__(3)  # the true one is second
    0.631
    """
    k = check_positive(k, "k")
    true, rows, _, ranks = _hits(Y_true, Y_pred, k)
    n_true = np.minimum(np.diff(true.indptr), min(k, true.nnz))
    most = max(int(n_true.max(initial=0)), int(ranks.max(initial=-1)) + 1)  # not k, nor K, which may be huge
    gains = 1.0 / np.log2(np.arange(2, most + 2))
    ideal = np.concatenate([[0.0], np.cumsum(gains)])[n_true]
    return _mean(np.sum(gains[ranks] / ideal[rows]), true.shape[0])


def propensities(Y_train: Any, *, a: float = 0.55, b: float = 1.5) -> npt.NDArray[np.float64]:
    """How likely an output is noted down when it is true, by how often it occurs.

    The model of Jain, Prabhu and Varma (2016): 1/(1 + c·(N_j + b)^-a) with c = (ln n - 1)·(b + 1)^a, where output j
    occurs in N_j of n rows.

    Parameters
    ----------
    Y_train : array-like or SciPy sparse matrix of shape (n, K)
    a, b : float
        Positive. The defaults are the usual ones; 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon.

    Returns
    -------
    ndarray of shape (K,)
        From 0 to 1.

    Examples
    --------
    >>> from shore.metrics import propensities
    >>> propensities([[1, 0], [1, 0], [1, 1], [1, 0]]).round(3)
    array([0.8  , 0.721])
    """
    true = non_zeros(Y_train, "Y_train")
    check_width(true, "Y_train")
    return propensities_of_counts(np.bincount(true.indices, minlength=true.shape[1]), true.shape[0], a, b)


def propensities_of_counts(
    counts: npt.NDArray[np.int64], n: int, a: float = 0.55, b: float = 1.5
) -> npt.NDArray[np.float64]:
    """`propensities` of outputs that occur in so many of n rows.

    Parameters
    ----------
    counts : ndarray of shape (K,)
    n : int
    a, b : float
    """
    if n == 0:
        raise ValueError("Y_train must have at least one row")
    a, b = (check_number(value, name, "a positive number") for value, name in ((a, "a"), (b, "b")))
    if n < 3:  # ln n - 1 is not positive: of two rows or one nothing is learnt
        return np.ones(len(counts))
    with np.errstate(over="ignore"):  # c·(N_j + b)^-a, whose factors may leave the range where it does not
        rarity = (math.log(n) - 1) * ((b + 1) / (counts + b)) ** a
    return np.asarray(1.0 / (1.0 + rarity))


def propensity_scored_precision_at_k(Y_true: Any, Y_pred: Any, k: int, propensity: Any) -> float:
    """Precision at k in which a true output counts 1/propensity, as a share of the most that could be reached.

    Parameters
    ----------
    Y_true, Y_pred, k
        As in `precision_at_k`.
    propensity : array-like of shape (K,)
        Positive; see `propensities`.

    Returns
    -------
    float
        From 0 to 1; NaN if there are no true outputs.

    Examples
    --------
    >>> from shore.metrics import propensity_scored_precision_at_k
    >>> propensity_scored_precision_at_k([[1, 1, 0]], [[0.9, 0, 0.1]], 2, [0.5, 0.25, 1.0]).__round__(3)
    0.333
    """
    reached, most = propensity_scored_sums(Y_true, Y_pred, k, propensity)
    return reached / most if most > 0 else float("nan")


def propensity_scored_sums(Y_true: Any, Y_pred: Any, k: int, propensity: Any) -> tuple[float, float]:
    """What `propensity_scored_precision_at_k` divides: sums over rows, which add up over blocks of them.

    Parameters
    ----------
    Y_true, Y_pred, k, propensity
        As there.

    Returns
    -------
    reached, most : float
    """
    k = check_positive(k, "k")
    true, _, columns, _ = _hits(Y_true, Y_pred, k)
    weights = 1.0 / _check_propensity(propensity, true.shape[1])
    best = true.copy()
    best.data = weights[best.indices]
    _, reachable, _ = _ranked(best, k)
    with np.errstate(over="ignore"):
        reached, most = float(weights[columns].sum()), float(weights[reachable].sum())
    if not math.isfinite(most):  # the larger of the two
        raise ValueError("propensity is too small: sums of its reciprocals leave the range of float64")
    return reached, most


def _check_propensity(propensity: Any, n_outputs: int) -> npt.NDArray[np.float64]:
    values = check_vector(propensity, "propensity", n_outputs)
    # the reciprocal of what is smaller is no number
    if not (np.isfinite(values).all() and np.all(values >= np.finfo(np.float64).tiny)):
        raise ValueError("propensity must be positive and finite")
    return values


def output_difference(Y_true: Any, Y_pred: Any) -> float:
    """‖v - y‖₂², averaged over rows: the paper's Output-diff.

    Parameters
    ----------
    Y_true, Y_pred : array-like or SciPy sparse matrix of shape (n, K)

    Returns
    -------
    float
        NaN if there are no rows.

    Examples
    --------
    >>> from shore.metrics import output_difference
    >>> output_difference([[1, 0, 2]], [[0, 0, 1.5]])
    1.25
    """
    true, predicted = _pair(Y_true, Y_pred)
    with np.errstate(over="ignore"):
        total = np.sum((true - predicted).data ** 2)
    return _mean(_in_range(total, "Y_true and Y_pred"), true.shape[0])


def prediction_loss(Y_pred: Any, B: Any, compression: Compression | None = None) -> float:
    """‖Φv - Wx‖₂², averaged over rows: the paper's Prediction-Loss.

    Parameters
    ----------
    Y_pred : array-like or SciPy sparse matrix of shape (n, K)
        Predicted outputs v.
    B : array-like of shape (n, m)
        Wx, what `ShoreRegressor.predict_compressed` gives.
    compression : Compression, optional
        Φ; None for an uncompressed model, whose B has K columns.

    Returns
    -------
    float
        NaN if there are no rows.

    Examples
    --------
    >>> import numpy as np, shore
    >>> from shore.metrics import prediction_loss
    >>> phi = shore.MatrixCompression(np.eye(3))
    >>> prediction_loss([[1, 0, 2]], [[1, 1, 2]], phi)
    1.0
    """
    return _distance(Y_pred, "Y_pred", B, compression)


def training_loss(Y: Any, B: Any, compression: Compression | None = None) -> float:
    """‖Φy - Wx‖₂², averaged over rows: the loss that stage 1 minimises, (1/n)·‖ΦYᵀ - WXᵀ‖_F².

    Parameters
    ----------
    Y : array-like or SciPy sparse matrix of shape (n, K)
        True outputs y.
    B, compression
        As in `prediction_loss`.

    Returns
    -------
    float
        NaN if there are no rows.

    Examples
    --------
    >>> import shore
    >>> from shore.datasets import make_synthetic
    >>> from shore.metrics import training_loss
    >>> problem = make_synthetic(500, 20, 1000)
    >>> model = shore.ShoreRegressor(3, n_components=400, alpha=0).fit(problem.X, problem.Y)
    >>> plain = shore.ShoreRegressor(3, compression=None, alpha=0).fit(problem.X, problem.Y)
    >>> compressed = training_loss(problem.Y, model.predict_compressed(problem.X), model.compression_)
    >>> bool(0.9 < compressed / training_loss(problem.Y, plain.predict_compressed(problem.X)) < 1.1)  # Theorem 1
    True
    """
    return _distance(Y, "Y", B, compression)


def _distance(Y: Any, name: str, B: Any, compression: Compression | None) -> float:
    outputs = non_zeros(Y, name)
    scores = check_rows(B, "B")
    if compression is not None and not isinstance(compression, Compression):
        raise TypeError(f"compression must be a compression or None, got {type(compression).__name__}")
    n_outputs, m = (scores.shape[1],) * 2 if compression is None else (compression.n_outputs, compression.n_components)
    for got, wanted, which in ((outputs.shape[1], n_outputs, name), (scores.shape[1], m, "B")):
        if got != wanted:
            raise ValueError(f"{which} must have {wanted} columns, got {got}")
    if outputs.shape[0] != scores.shape[0]:
        raise ValueError(
            f"{name} and B must have the same number of rows, got {outputs.shape[0]} and {scores.shape[0]}"
        )
    total, n = 0.0, scores.shape[0]
    step = max(1, _BLOCK_BYTES // max(1, 8 * m))
    for start in range(0, n, step):
        here = slice(start, start + step)
        block = scores[here].toarray() if is_sparse(scores) else np.asarray(scores[here])
        if not np.isfinite(block).all():
            raise ValueError("B must not hold NaN or infinity")
        compressed = outputs[here].toarray() if compression is None else _compressed(outputs[here], name, compression)
        with np.errstate(over="ignore"):
            difference = compressed.astype(np.float64) - block
            total += float(np.einsum("ij,ij->", difference, difference))
    return _mean(_in_range(total, f"{name} and B"), n)


def _compressed(outputs: Any, name: str, compression: Compression) -> npt.NDArray[Any]:
    try:
        return compression.compress(outputs)
    except ValueError as error:  # which calls them Y
        raise ValueError(f"{name}{str(error).removeprefix('Y')}") from None
