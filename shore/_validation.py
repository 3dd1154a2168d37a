"""Reading of arguments: every check that a public function makes, and the words of its errors."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = [
    "canonical_csr",
    "check_alpha",
    "check_finite_rows",
    "check_number",
    "check_outputs",
    "check_positive",
    "check_rows",
    "check_seed",
    "check_share",
    "check_weights",
    "float_dtype",
    "is_sparse",
    "require_some",
    "working_dtype",
]

# Dense rows are looked through in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 25


def is_sparse(matrix: Any) -> bool:
    """Whether it is a SciPy sparse matrix or array (without narrowing its type for type checkers)."""
    return bool(sparse.issparse(matrix))


def working_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """The dtype to compute in: float32 stays (float16 joins it), float64 and integers become float64."""
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    if dtype.kind in "iub":
        return np.dtype(np.float64)
    raise TypeError(f"{name} must hold real numbers (float32, float64 or integers), got dtype {dtype}")


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 or float64, however it is spelled."""
    for accepted in (np.dtype(np.float32), np.dtype(np.float64)):
        try:
            if dtype is not None and accepted == dtype:
                return accepted
        except TypeError:  # not a dtype at all
            break
    raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")


def check_number(
    value: Any, name: str, accepted: str, low: float = 0.0, high: float = math.inf, *, closed: bool = False
) -> float:
    """A number between `low` and `high`; `closed` lets `low` itself in."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {accepted}, got {value!r} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (low < number < high or (closed and number == low)):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return number


def check_seed(seed: Any, name: str) -> int:
    """An integer of 64 bits."""
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {seed!r} of type {type(seed).__name__}") from None
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{name} must be from 0 to 2**64 - 1, got {seed!r}")
    return number


def check_positive(value: Any, name: str, most: int | None = None) -> int:
    """An integer of at least 1; more than `most` counts as that."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a positive integer, got {value!r} of type {type(value).__name__}") from None
    if isinstance(value, bool | np.bool_) or number < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return number if most is None else min(number, most)


def check_alpha(alpha: Any) -> None:
    """A penalty, or 'auto'."""
    if alpha != "auto":
        if isinstance(alpha, bool) or not isinstance(alpha, numbers.Real):
            raise TypeError(f"alpha must be a number of at least 0 or 'auto', got {alpha!r}")
        if not 0 <= float(alpha) < np.inf:
            raise ValueError(f"alpha must be a number of at least 0 or 'auto', got {alpha!r}")


def check_share(value: Any, name: str) -> None:
    """A number between 0 and 1, neither of them."""
    if not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}")


def canonical_csr(matrix: Any, name: str) -> sparse.csr_array:
    """The matrix as CSR with sorted indices and no duplicates, its structure checked; no copy if it is so."""
    given = sparse.csr_array(matrix)
    # A new object forgets what the old one believed of its arrays.
    csr = sparse.csr_array((given.data, given.indices, given.indptr), shape=given.shape)
    try:
        csr.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid sparse matrix: {error}") from None
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def check_rows(matrix: Any, name: str) -> Any:
    """A 2-D matrix of real numbers, rows first: an ndarray as it came, or canonical CSR.

    Parameters
    ----------
    matrix : array-like or SciPy sparse matrix or array
    name : str
        The argument's name, for errors.

    Returns
    -------
    ndarray or csr_array
        The dtype is the caller's; `working_dtype` says which one to compute in.
    """
    if isinstance(matrix, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill its masked entries first, e.g. with filled(0)")
    if is_sparse(matrix):
        rows: Any = matrix
    else:
        try:
            rows = np.asarray(matrix)
        except ValueError as error:
            raise ValueError(f"{name} must be a 2-D array: {error}") from None
    working_dtype(rows.dtype, name)
    if rows.ndim != 2:
        hint = f". Reshape your data: one row is {name}[None, :]" if rows.ndim == 1 else ""
        raise ValueError(f"{name} must be 2-D with one row a sample, got shape {rows.shape}{hint}")
    if is_sparse(rows):
        return canonical_csr(rows, name)
    return rows


def require_some(matrix: Any, name: str, column: str) -> None:
    """Refuse a matrix without rows or without columns, which are `column`s."""
    for count, what in zip(matrix.shape, ("sample", column), strict=True):
        if count == 0:
            raise ValueError(f"{name} has 0 {what}(s) (shape={matrix.shape}) while a minimum of 1 is required.")


def check_finite_rows(X: Any, dtype: np.dtype[Any]) -> Any:
    """Rows of X, all finite in the dtype to compute in; CSR in that dtype, dense rows as they came."""
    rows = check_rows(X, "X")
    working_dtype(rows.dtype, "X")
    if is_sparse(rows):
        with np.errstate(over="ignore"):
            rows = sparse.csr_array(rows.astype(dtype, copy=False))
        finite = bool(np.isfinite(rows.data).all())
    else:
        step = max(1, _BLOCK_BYTES // max(1, rows.shape[1] * rows.dtype.itemsize))
        narrower = rows.dtype.kind == "f" and rows.dtype.itemsize > dtype.itemsize
        most = rows.dtype.type(np.finfo(dtype).max) if narrower else None
        blocks = (rows[i : i + step] for i in range(0, rows.shape[0], step))
        finite = all(bool((np.isfinite(block) if most is None else np.abs(block) <= most).all()) for block in blocks)
    if not finite:
        raise ValueError(f"X must be finite in {dtype}, but it holds NaN, infinity or larger numbers")
    return rows


def check_outputs(Y: Any, rows: Any) -> sparse.csr_array:
    """Outputs of those rows of X, finite, as CSR; neither may be empty."""
    given = check_rows(Y, "Y")
    outputs = sparse.csr_array(given if is_sparse(given) else given.astype(working_dtype(given.dtype, "Y"), copy=False))
    if rows.shape[0] != outputs.shape[0]:
        raise ValueError(f"X and Y must have the same number of rows, got {rows.shape[0]} and {outputs.shape[0]}")
    require_some(rows, "X", "feature")
    require_some(outputs, "Y", "output")
    if not np.isfinite(outputs.data).all():
        raise ValueError("Y must be finite, but it holds NaN or infinity")
    return outputs


def check_weights(sample_weight: Any, n: int) -> npt.NDArray[np.float64] | None:
    """Square roots of the weights of n rows; None for ones."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"sample_weight must hold numbers, got {sample_weight!r}") from None
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}")
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() == 0:
        raise ValueError("sample_weight must be finite, not negative and not all zero")
    return np.asarray(np.sqrt(weights))
