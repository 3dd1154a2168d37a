"""Reading of arguments: every check that a public function makes, and the words of its errors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "canonical_csr",
    "check_positive",
    "check_rows",
    "check_seed",
    "float_dtype",
    "is_sparse",
    "working_dtype",
]


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
