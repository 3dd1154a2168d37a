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
    "as_array",
    "canonical_csr",
    "check_alpha",
    "check_entries",
    "check_finite_rows",
    "check_flag",
    "check_number",
    "check_outputs",
    "check_positive",
    "check_rows",
    "check_seed",
    "check_share",
    "check_size",
    "check_vector",
    "check_verbose",
    "check_weights",
    "check_width",
    "csr_rows",
    "float_dtype",
    "is_sparse",
    "require_some",
    "working_dtype",
]

# Dense rows are looked through in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 25
# Of 8 bytes each: their offsets, and twice those, are numbers of 64 bits.
_MOST_ENTRIES = 1 << 59


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
        except Exception:  # not a dtype at all: NumPy raises errors of several types, and arrays have no one truth
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


def check_size(value: Any, name: str) -> int:
    """A number of rows or columns: an integer of at least 1 that offsets into an array can reach."""
    number = check_positive(value, name)
    if number > _MOST_ENTRIES:
        raise ValueError(f"{name} must be at most 2**59, got {value!r}")
    return number


def check_entries(**sizes: int) -> None:
    """Refuse an array of so many entries that no offset reaches them all; what memory lacks is a MemoryError."""
    if math.prod(sizes.values()) > _MOST_ENTRIES:
        given = " and ".join(f"{name}={size}" for name, size in sizes.items())
        raise ValueError(f"{given} are too large together: an array has at most 2**59 entries")


def check_alpha(alpha: Any) -> None:
    """A penalty, or 'auto'."""
    if not (isinstance(alpha, str) and alpha == "auto"):
        check_number(alpha, "alpha", "a number of at least 0 or 'auto'", closed=True)


def check_flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r} of type {type(value).__name__}")
    return bool(value)


def check_verbose(verbose: Any) -> bool:
    """Whether to show progress: an integer that is not 0, or True."""
    if not isinstance(verbose, bool | np.bool_ | numbers.Integral):
        raise TypeError(f"verbose must be an integer of at least 0, got {verbose!r} of type {type(verbose).__name__}")
    if verbose < 0:
        raise ValueError(f"verbose must be an integer of at least 0, got {verbose!r}")
    return bool(verbose)


def check_share(value: Any, name: str) -> None:
    """A number between 0 and 1, neither of them."""
    check_number(value, name, "a number between 0 and 1", 0, 1)


def _require_fit(fits: Any, name: str, words: str) -> None:
    if not fits:
        raise ValueError(f"{name} is not a valid sparse matrix: {words}")


def _check_indices(indices: Any, end: int, name: str, what: str) -> None:
    _require_fit(indices.ndim == 1 and indices.dtype.kind in "iu", name, f"{what} must be a 1-D array of integers")
    if indices.size:
        _require_fit(indices.min() >= 0, name, f"{what} must be >= 0")
        _require_fit(indices.max() < end, name, f"{what} must be < {end}")


def _check_compressed(matrix: Any, name: str) -> None:
    """CSR, CSC or BSR whose arrays fit together: no offset and no index leads out of them."""
    n_rows, n_columns = matrix.shape
    blocks = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    major, minor = n_rows // blocks[0], n_columns // blocks[1]
    if matrix.format == "csc":
        major, minor = minor, major
    indptr, size = matrix.indptr, matrix.data.shape[0]
    _require_fit(matrix.data.ndim == (3 if matrix.format == "bsr" else 1), name, f"data has shape {matrix.data.shape}")
    _require_fit(indptr.ndim == 1 and indptr.dtype.kind in "iu", name, "indptr must be a 1-D array of integers")
    _require_fit(len(indptr) == major + 1, name, f"indptr has length {len(indptr)}, but {major + 1} is needed")
    _require_fit(indptr[0] == 0, name, f"indptr must start with 0, not with {indptr[0]}")
    _require_fit((indptr[1:] >= indptr[:-1]).all(), name, "indptr must be a non-decreasing sequence")
    _require_fit(len(matrix.indices) == size, name, f"{len(matrix.indices)} indices are not those of {size} values")
    _require_fit(indptr[-1] <= size, name, f"indptr ends with {indptr[-1]}, but there are {size} values")
    _check_indices(matrix.indices[: indptr[-1]], minor, name, "indices")


def _check_sparse(matrix: Any, name: str) -> None:
    """Refuse what a conversion to CSR would follow out of its arrays: SciPy itself looks only when it makes them."""
    if matrix.format in ("csr", "csc", "bsr"):
        _check_compressed(matrix, name)
    elif matrix.format == "coo":
        _require_fit(matrix.data.ndim == 1, name, f"data has shape {matrix.data.shape}")
        for indices, end, what in zip((matrix.row, matrix.col), matrix.shape, ("row", "col"), strict=True):
            _require_fit(len(indices) == len(matrix.data), name, f"{what} must be as long as data")
            _check_indices(indices, end, name, what)
    elif matrix.format == "dia":
        offsets = matrix.offsets
        fits = matrix.data.ndim == 2 and offsets.shape == matrix.data.shape[:1] and offsets.dtype.kind in "iu"
        _require_fit(fits and len(np.unique(offsets)) == len(offsets), name, "offsets must be one integer per diagonal")
    elif matrix.format == "lil":
        lengths = [[len(row) for row in part] for part in (matrix.rows, matrix.data)]
        fits = lengths[0] == lengths[1] and len(lengths[0]) == matrix.shape[0]
        _require_fit(fits, name, "rows and data must be lists of the same lengths, one for each row")


def _as_csr(matrix: Any, name: str) -> Any:
    """The matrix in CSR, its structure checked, in a dtype that SciPy computes in."""
    dtype = working_dtype(matrix.dtype, name)
    _check_sparse(matrix, name)
    if matrix.dtype.kind == "f" and matrix.dtype.itemsize == 2:
        matrix = matrix.astype(dtype)
    elif not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    if matrix.format == "csr":
        return matrix
    csr = sparse.csr_array(matrix)
    _check_compressed(csr, name)
    return csr


def canonical_csr(matrix: Any, name: str) -> sparse.csr_array:
    """The matrix as CSR with sorted indices and no duplicates, its structure checked; no copy if it is so."""
    try:
        given = _as_csr(matrix, name)
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name} is not a valid sparse matrix: {error}") from None  # in the words of SciPy or NumPy
    nnz = int(given.indptr[-1])  # arrays may be longer
    arrays = given.data[:nnz], given.indices[:nnz], given.indptr
    data, indices, indptr = (np.require(array, requirements=["C", "A"]) for array in arrays)
    # A new object forgets what the old one believed of its arrays.
    csr: sparse.csr_array = sparse.csr_array((data, indices, indptr), shape=given.shape)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.dtype.kind == "f" and csr.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # infinity is refused by those who look at the numbers
            csr = csr.astype(np.float64)
    return csr


def as_array(value: Any, name: str, accepted: str) -> npt.NDArray[Any]:
    """What NumPy makes of a list, a data frame or an array."""
    try:
        return np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # ragged lists, and whatever the __array__ of other containers raises
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must be {accepted}: {error}") from None


def _refuse_masked(value: Any, name: str) -> None:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill its masked entries first, e.g. with filled(0)")


def check_vector(values: Any, name: str, size: int | None = None) -> npt.NDArray[np.float64]:
    """So many real numbers, or at least one, in float64; infinity and NaN are up to the caller."""
    _refuse_masked(values, name)
    if is_sparse(values):
        raise TypeError(f"{name} must be a 1-D array, got a sparse matrix")
    given = as_array(values, name, "a 1-D array of numbers")
    working_dtype(given.dtype, name)
    if size is None and (given.ndim != 1 or len(given) == 0):
        raise ValueError(f"{name} must be 1-D with at least one number, got shape {given.shape}")
    if size is not None and given.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {given.shape}")
    with np.errstate(over="ignore"):
        return given.astype(np.float64, copy=False)


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
        The dtype is the caller's, but for floats wider than float64, which become that; `working_dtype` says which
        one to compute in.
    """
    _refuse_masked(matrix, name)
    rows: Any = matrix if is_sparse(matrix) else as_array(matrix, name, "a 2-D array")
    if not is_sparse(rows):
        working_dtype(rows.dtype, name)
    if rows.ndim != 2:
        hint = f". Reshape your data: one row is {name}[None, :]" if rows.ndim == 1 else ""
        raise ValueError(f"{name} must be 2-D with one row a sample, got shape {rows.shape}{hint}")
    if is_sparse(rows):
        return canonical_csr(rows, name)
    if rows.dtype.kind == "f" and rows.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # infinity is refused by those who look at the numbers
            return rows.astype(np.float64)
    return rows


def csr_rows(matrix: Any, name: str) -> sparse.csr_array:
    """As `check_rows`, and dense rows as CSR too, in the dtype to compute in."""
    rows = check_rows(matrix, name)
    if not is_sparse(rows):
        rows = np.asarray(rows, dtype=working_dtype(rows.dtype, name))
    return sparse.csr_array(rows)


def require_some(matrix: Any, name: str, column: str) -> None:
    """Refuse a matrix without rows or without columns, which are `column`s."""
    for count, what in zip(matrix.shape, ("sample", column), strict=True):
        if count == 0:
            raise ValueError(f"{name} has 0 {what}(s) (shape={matrix.shape}) while a minimum of 1 is required.")


def check_width(matrix: Any, name: str) -> None:
    """Refuse a sparse matrix of more columns than an array has entries; what memory lacks is a MemoryError."""
    if matrix.shape[1] > _MOST_ENTRIES:
        raise ValueError(f"{name} has {matrix.shape[1]} columns, and at most 2**59 can be worked with")


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
    outputs = csr_rows(Y, "Y")
    if rows.shape[0] != outputs.shape[0]:
        raise ValueError(f"X and Y must have the same number of rows, got {rows.shape[0]} and {outputs.shape[0]}")
    require_some(rows, "X", "feature")
    require_some(outputs, "Y", "output")
    check_width(rows, "X")
    check_width(outputs, "Y")
    if not np.isfinite(outputs.data).all():
        raise ValueError("Y must be finite, but it holds NaN or infinity")
    return outputs


def check_weights(sample_weight: Any, n: int) -> npt.NDArray[np.float64] | None:
    """Square roots of the weights of n rows; None for ones."""
    if sample_weight is None:
        return None
    weights = check_vector(sample_weight, "sample_weight", n)
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() == 0:
        raise ValueError("sample_weight must be finite, not negative and not all zero")
    return np.asarray(np.sqrt(weights))
