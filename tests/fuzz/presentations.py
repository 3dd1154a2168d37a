"""How one and the same matrix can lie in memory, and how a sparse one can be broken."""

import atexit
import itertools
import tempfile
import warnings
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

# ---------------------------------------------------------------- dense


class Subclass(np.ndarray):
    """An array of another class."""


class Frame:
    """Becomes an array when asked, as data frames do."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return self._values if dtype is None else self._values.astype(dtype)

    def __repr__(self):
        return f"Frame({self._values!r})"


def _every_other(values):
    """Columns with something else between them."""
    wide = np.full((*values.shape[:-1], 2 * values.shape[-1]), 7).astype(values.dtype)
    wide[..., ::2] = values
    return wide[..., ::2]


def _reversed(values):
    """Negative strides."""
    turned = (slice(None, None, -1),) * values.ndim
    return values[turned].copy()[turned]


def _misaligned(values):
    """Numbers that begin at odd addresses."""
    buffer = np.zeros(values.nbytes + 1, dtype=np.uint8)
    odd = buffer[1:].view(values.dtype).reshape(values.shape)
    odd[...] = values
    return odd


def _read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


_FOLDER = tempfile.TemporaryDirectory(prefix="shore-fuzz-")
atexit.register(_FOLDER.cleanup)
_names = itertools.count()


def _mapped(values):
    """A read-only memory map; a map cannot be empty."""
    if values.size == 0:
        return _read_only(values)
    path = Path(_FOLDER.name, f"{next(_names)}.bin")
    path.write_bytes(values.tobytes())
    mapped = np.memmap(path, dtype=values.dtype, mode="r", shape=values.shape)
    path.unlink()
    return mapped


DENSE = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "reversed": _reversed,
    "every other": _every_other,
    "misaligned": _misaligned,
    "read-only": _read_only,
    "memory-mapped": _mapped,
    "broadcast": lambda values: np.broadcast_to(values, (1, *values.shape))[0],
    "subclass": lambda values: values.view(Subclass),
    "frame": Frame,
    "list": lambda values: values.tolist(),
}

# ---------------------------------------------------------------- sparse

# SciPy stores no other numbers.
SPARSE_DTYPES = ("float32", "float64", "longdouble", "int8", "uint8", "int32", "int64", "bool")
FORMATS = ("csr", "csr", "csr", "csr", "csc", "coo", "bsr", "lil", "dok", "dia")


def in_format(matrix, kind):
    """As `asformat`, whatever SciPy thinks of a format for the matrix, such as of many diagonals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
        return matrix.asformat(kind)


def _set(matrix, **arrays):
    for name, array in arrays.items():
        setattr(matrix, name, array)


def _unsort(matrix, draw):
    """Entries of a row in no order."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    for start, end in itertools.pairwise(matrix.indptr):
        order = start + rng.permutation(end - start)
        matrix.indices[start:end], matrix.data[start:end] = matrix.indices[order], matrix.data[order]
    matrix.has_sorted_indices = False


def _duplicate(matrix, draw):
    """Entries in two parts that add up to them exactly."""
    half = matrix.data / 2 if matrix.dtype.kind == "f" else matrix.data
    exact = matrix.dtype.kind == "f" and (half + half == matrix.data)
    first, second = np.where(exact, half, matrix.data), np.where(exact, half, 0)
    data = np.stack([first, second], axis=1).astype(matrix.dtype).ravel()
    _set(matrix, data=data, indices=np.repeat(matrix.indices, 2), indptr=matrix.indptr * 2)
    matrix.has_canonical_format = False


def _store_zeros(matrix, draw):
    """One more entry in every row, a zero."""
    if matrix.shape[1]:
        at = matrix.indptr[1:]
        column = np.full(matrix.shape[0], draw(st.integers(0, matrix.shape[1] - 1)))
        data, indices = np.insert(matrix.data, at, 0), np.insert(matrix.indices, at, column)
        _set(matrix, data=data, indices=indices, indptr=matrix.indptr + np.arange(matrix.shape[0] + 1))
        matrix.has_canonical_format = False


def _widen(matrix, draw):
    _set(matrix, indices=matrix.indices.astype(np.int64), indptr=matrix.indptr.astype(np.int64))


def _unsign(matrix, draw):
    _set(matrix, indices=matrix.indices.astype(np.uint32), indptr=matrix.indptr.astype(np.uint32))


def _leave_room(matrix, draw):
    """Arrays that are longer than what is stored; what lies behind does not count."""
    junk = np.array([1 if matrix.dtype.kind in "iub" else np.nan], dtype=matrix.dtype)
    _set(matrix, data=np.append(matrix.data, junk), indices=np.append(matrix.indices, 10**6).astype(np.int32))


def _lie(matrix, draw):
    """Say that the format is canonical, whatever it is."""
    matrix.has_canonical_format = True


def _turn_bytes(matrix, draw):
    matrix.data = matrix.data.astype(matrix.dtype.newbyteorder(">"))


def _protect(matrix, draw):
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False


def _arrays(change):
    return lambda matrix, draw: _set(
        matrix, data=change(matrix.data), indices=change(matrix.indices), indptr=change(matrix.indptr)
    )


QUIRKS = {
    "zeros": _store_zeros,
    "duplicates": _duplicate,
    "unsorted": _unsort,
    "room": _leave_room,
    "int64": _widen,
    "unsigned": _unsign,
    "misaligned": _arrays(_misaligned),
    "every other": _arrays(_every_other),
    "big-endian": _turn_bytes,
    "read-only": _protect,
    "said to be canonical": _lie,
}


def _spoil(name, change):
    """A fault of one array of a CSR matrix that has an entry."""

    def fault(matrix, draw):
        setattr(matrix, name, change(getattr(matrix, name).copy(), matrix))
        return matrix

    return fault


def _with(at, value):
    def change(array, matrix):
        array[at] = value(matrix) if callable(value) else value
        return array

    return change


def _in_format(kind, name, change):
    """A fault of a matrix in another format: it must not be followed when that is made CSR."""

    def fault(matrix, draw):
        matrix = in_format(matrix, kind)
        setattr(matrix, name, change(getattr(matrix, name), matrix))
        return matrix

    return fault


def _coo_row(coords, matrix):
    return (np.full_like(coords[0], matrix.shape[0]), coords[1])


def _coo_column(coords, matrix):
    return (coords[0], np.full_like(coords[1], -1))


def _lil_row(rows, matrix):
    rows = rows.copy()
    rows[:] = [[matrix.shape[1]] * len(row) for row in rows]
    return rows


def _longer_lists(lists, matrix):
    lists = lists.copy()
    lists[:] = [[*each, 1.0] for each in lists]
    return lists


def _there_and_back(indptr, matrix):
    """Row offsets that end at 0: as if nothing were stored, though rows have entries."""
    return np.append(np.where(np.arange(len(indptr) - 1) > 0, matrix.nnz, 0), [0] if len(indptr) > 2 else [-1])


FAULTS = {
    "index too large": _spoil("indices", _with(-1, lambda matrix: matrix.shape[1])),
    "index far too large": _spoil("indices", _with(-1, np.iinfo(np.int32).max)),
    "negative index": _spoil("indices", _with(0, -1)),
    "indices that are no integers": _spoil("indices", lambda array, _: array + 0.5),
    "fewer indices": _spoil("indices", lambda array, _: array[:-1]),
    "fewer numbers": _spoil("data", lambda array, _: array[:-1]),
    "numbers as objects": _spoil("data", lambda array, _: array.astype(object)),
    "numbers as text": _spoil("data", lambda array, _: array.astype(str)),
    "rows that run back": _spoil("indptr", _with(0, 1)),
    "rows that begin before the first": _spoil("indptr", _with(0, -1)),
    "rows past the end": _spoil("indptr", _with(-1, lambda matrix: matrix.nnz + 1)),
    "rows far past the end": _spoil("indptr", _with(-1, np.iinfo(np.int32).max)),
    "rows that end at 0": _spoil("indptr", _there_and_back),
    "rows that end before the first": _spoil("indptr", _with(-1, -1)),
    "decreasing rows": _spoil("indptr", lambda array, _: array[::-1].copy()),
    "a row too few": _spoil("indptr", lambda array, _: array[:-1]),
    "a row too many": _spoil("indptr", lambda array, _: np.append(array, array[-1])),
    "row offsets that are no integers": _spoil("indptr", lambda array, _: array + 0.5),
    "csc, row too large": _in_format("csc", "indices", _with(-1, lambda matrix: 10**6)),
    "csc, negative row": _in_format("csc", "indices", _with(0, -(10**6))),
    "csc, columns past the end": _in_format("csc", "indptr", _with(-1, 10**6)),
    "csc, a column too few": _in_format("csc", "indptr", lambda array, _: array[:-1]),
    "bsr, index too large": _in_format("bsr", "indices", _with(-1, 10**6)),
    "coo, row too large": _in_format("coo", "coords", _coo_row),
    "coo, negative column": _in_format("coo", "coords", _coo_column),
    "coo, fewer numbers": _in_format("coo", "data", lambda array, _: array[:-1]),
    "lil, column too large": _in_format("lil", "rows", _lil_row),
    "lil, longer lists of numbers": _in_format("lil", "data", _longer_lists),
    "dia, more offsets": _in_format("dia", "offsets", lambda array, _: np.append(array, array[-1] + 1)),
    "dia, fewer offsets": _in_format("dia", "offsets", lambda array, _: array[:-1]),
}
