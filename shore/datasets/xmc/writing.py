"""Matrices to files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core import xmc as _core
from shore._files import replacing
from shore._validation import check_rows, is_sparse, working_dtype

__all__ = ["format_rows", "save_xmc"]

# Files are written in blocks of rows with about this many entries.
_BLOCK_ENTRIES = 1 << 18


def save_xmc(path: Any, X: Any, Y: Any) -> None:
    """Write a file of the Extreme Classification Repository.

    If all values of Y are 1, the file is as every reader of the format expects it. Else the header gets a fourth
    word, ``n d K values``, and labels are written ``label:value``; `load_xmc` reads this, other tools do not. Zeros
    are not written.

    Parameters
    ----------
    path : str, os.PathLike or binary file
        A name that ends in ``.gz`` is written with gzip. A file of that name is replaced only once the new one is
        complete.
    X : array-like or SciPy sparse matrix of shape (n, d)
        Features. Values are written with as few digits as bring them back to the bit, in their dtype.
    Y : array-like or SciPy sparse matrix of shape (n, K)
        Outputs.

    Examples
    --------
    >>> import io, numpy as np
    >>> from shore.datasets import save_xmc
    >>> file = io.BytesIO()
    >>> save_xmc(file, np.float32([[0, 0.1], [3, 0]]), [[1, 0, 1], [0, 0, 0]])
    >>> print(file.getvalue().decode(), end="")
    2 2 3
    0,2 1:0.1
     0:3
    """
    X, Y = check_rows(X, "X"), check_rows(Y, "Y")
    n = X.shape[0]
    if Y.shape[0] != n:
        raise ValueError(f"X and Y must have the same number of rows, got {n} and {Y.shape[0]}")
    entries = sum(rows.nnz if is_sparse(rows) else rows.size for rows in (X, Y))
    step = max(1, _BLOCK_ENTRIES * max(1, n) // max(1, entries))
    starts = range(0, n, step)
    plain = all(bool((_block(Y, start, start + step, "Y").data == 1).all()) for start in starts)
    if hasattr(path, "write"):
        _require_binary(path)
        _write(path, X, Y, starts, plain)
    elif isinstance(path, str | os.PathLike):
        with replacing(path) as file:
            _write(file, X, Y, starts, plain)
    else:
        raise TypeError(f"path must be a str, os.PathLike or binary file, got {path!r} of type {type(path).__name__}")


def _require_binary(file: Any) -> None:
    try:
        file.write(b"")
    except TypeError:
        raise TypeError("path must be a file opened in binary mode, but its write takes no bytes") from None


def _write(file: Any, X: Any, Y: Any, starts: range, plain: bool) -> None:
    file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}{'' if plain else ' values'}\n".encode())
    for start in starts:
        x, y = (_block(rows, start, start + starts.step, name) for rows, name in ((X, "X"), (Y, "Y")))
        file.write(format_rows(x, y, plain=plain))


def _block(rows: Any, start: int, stop: int, name: str) -> sparse.csr_array:
    """Rows as CSR of float32 or float64 without zeros; finite."""
    part = rows[start:stop]
    csr = sparse.csr_array(part, dtype=working_dtype(rows.dtype, name), copy=is_sparse(part))
    if not np.isfinite(csr.data).all():
        wrong = int(np.flatnonzero(~np.isfinite(csr.data))[0])
        row = start + int(np.searchsorted(csr.indptr, wrong, side="right")) - 1
        raise ValueError(f"{name} must be finite, but row {row} holds NaN or infinity")
    csr.eliminate_zeros()
    csr.sort_indices()
    return csr


def format_rows(x: Any, y: Any, *, plain: bool) -> memoryview:
    """Lines of canonical CSR rows; `plain` leaves out the values of outputs.

    Parameters
    ----------
    x, y : csr_array of shape (n, d) and (n, K)
    plain : bool
    """
    x_text = _as_text(x.data)
    y_text = np.empty((y.nnz, 0), dtype=np.uint8) if plain else _as_text(y.data)
    room = x.nnz * (21 + x_text.shape[1]) + y.nnz * (21 + y_text.shape[1]) + 2 * x.shape[0]
    out = np.empty(room, dtype=np.uint8)
    x_indptr, y_indptr = (rows.indptr.astype(np.int64, copy=False) for rows in (x, y))
    x_indices, y_indices = (rows.indices.astype(np.int64, copy=False) for rows in (x, y))
    size = _core.format_rows(x_indices, x_text, x_indptr, y_indices, y_text, y_indptr, out)
    return out[:size].data


def _as_text(data: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The shortest decimal of each value that reads back as the same value, (n, width) bytes."""
    if (data == 1).all():
        return np.full((data.size, 1), ord("1"), dtype=np.uint8)
    return np.asarray(data.astype("S32").view(np.uint8).reshape(data.size, 32))
