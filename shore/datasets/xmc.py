"""The text format of the Extreme Classification Repository."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core import xmc as _core
from shore._files import replacing
from shore._validation import check_positive, check_rows, float_dtype, is_sparse, working_dtype

__all__ = ["XmcReader", "format_rows", "load_xmc", "save_xmc"]

Pair = tuple[sparse.csr_array, sparse.csr_array]

# Files are read in pieces of this size and written in blocks of rows with about this many entries.
_CHUNK_BYTES = 1 << 22
_BLOCK_ENTRIES = 1 << 18

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(values))?[ \t]*\r?\n")
_INT32_MAX = np.iinfo(np.int32).max


class _Header(NamedTuple):
    n_rows: int
    n_features: int
    n_outputs: int
    with_values: bool


# ---- reading ----


class _WithHead:
    """A file whose first bytes were taken already."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        return head or self._file.read(size) or b""


def _unpacked(file: Any) -> Any:
    """The file's bytes, unpacked if they are gzip."""
    head = file.read(2)
    if not isinstance(head, bytes):
        raise TypeError(f"path must be a file opened in binary mode, but its read gives {type(head).__name__}")
    if len(head) == 1:  # a pipe may give one byte at a time
        head += file.read(1) or b""
    whole = _WithHead(head, file)
    return gzip.GzipFile(fileobj=whole, mode="rb") if head == b"\x1f\x8b" else whole  # type: ignore[call-overload]


@contextmanager
def _opened(path: Any) -> Iterator[tuple[Any, str]]:
    """A binary file to read from, and what to call it in errors."""
    if hasattr(path, "read"):
        yield _unpacked(path), str(getattr(path, "name", "<file>"))
    elif isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            yield _unpacked(file), str(os.fspath(path))
    else:
        raise TypeError(f"path must be a str, os.PathLike or binary file, got {path!r} of type {type(path).__name__}")


def _whole_lines(file: Any) -> Iterator[bytes | memoryview]:
    """Pieces of the file that end where a line ends; only lines across two reads are copied."""
    rest: list[bytes] = []
    while piece := file.read(_CHUNK_BYTES):
        end = piece.rfind(b"\n") + 1
        start = piece.find(b"\n") + 1 if rest else 0
        if end == 0:
            rest.append(piece)
            continue
        if rest:
            yield b"".join([*rest, piece[:start]])
        if start < end:
            yield memoryview(piece)[start:end]
        rest = [piece[end:]] if end < len(piece) else []
    if rest:
        yield b"".join([*rest, b"\n"])


def _short(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    return repr(shown if len(shown) <= 40 else shown[:40] + "...")


def _read_header(line: bytes, name: str) -> _Header:
    found = _HEADER.fullmatch(line)
    if found is None:
        if not line.strip():
            raise ValueError(f"{name}:1: expected the header 'n d K', got an empty {'line' if line else 'file'}")
        raise ValueError(
            f"{name}:1: expected the header 'n d K' of three non-negative integers (rows, features, outputs), "
            f"and behind them 'values' if outputs have values, got {_short(line.strip())}"
        )
    n_rows, n_features, n_outputs, word = found.groups()
    return _Header(int(n_rows), int(n_features), int(n_outputs), word is not None)


def _complaint(status: int, number: int, text: bytes, header: _Header, index_base: int, dtype: np.dtype[Any]) -> str:
    """What is wrong with a line, in words; `text` begins at the token that is wrong."""
    token = (re.split(rb"[ \t\r\n]", text, maxsplit=1) or [b""])[0]
    shown = _short(token) if token else "a blank"
    if b"\0" in token:
        return f"a NUL byte in {shown}"
    if status in (_core.RANGE_LABEL, _core.RANGE_FEATURE):
        kind, size = ("label", header.n_outputs) if status == _core.RANGE_LABEL else ("feature", header.n_features)
        index = re.match(rb"\d+", token)
        words = f"{kind} {index.group().decode() if index else number} is out of range: the header says {size} of them"
        if size:
            words += f", {index_base} to {size - 1 + index_base}"
        if index_base == 0 and number == size:
            words += ". The file looks 1-based, which index_base=1 reads"
        elif index_base == 1 and number == 0:
            words += ". The file looks 0-based, which index_base=0 reads"
        return words
    if status in (_core.TWICE_LABEL, _core.TWICE_FEATURE):
        return f"{'label' if status == _core.TWICE_LABEL else 'feature'} {number} is there twice"
    if status == _core.INDEX:
        if re.match(rb"-\d", token):
            return f"a negative index in {shown}"
        return f"expected an index (digits), got {shown}"
    if status == _core.LABELS:
        return f"expected ',' or a blank behind label {number}, got {shown}"
    if status == _core.COLON:
        return f"expected 'index:value', got {shown}"
    if status == _core.NO_VALUE:
        return f"a value is missing behind ':' in {shown}"
    if status == _core.OVERFLOW:
        return f"the value of {number} is too large for {dtype}"
    if status == _core.VALUE and re.search(rb":[+-]?(nan|inf|infinity)(,|$)", token, re.IGNORECASE):
        return f"values must be finite, got {shown}"
    if status == _core.VALUE:
        return f"expected a decimal number behind ':', got {shown}"
    return f"the header says {header.n_rows} rows, but more follow"


class _Rows:
    """The arrays of a CSR matrix as they grow."""

    def __init__(self, index_dtype: type, dtype: np.dtype[Any]) -> None:
        self.indices: npt.NDArray[Any] = np.empty(0, dtype=index_dtype)
        self.data: npt.NDArray[Any] = np.empty(0, dtype=dtype)
        self.indptr: npt.NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.n_rows = 0

    def reserve(self, n_rows: int, n_entries: int, share: float) -> None:
        """Make room for so many more rows and entries; `share` of all rows have been read so far."""
        used = int(self.indptr[self.n_rows])
        self.indptr = _grown(self.indptr, self.n_rows + 1, n_rows, share)
        self.indices = _grown(self.indices, used, n_entries, share)
        self.data = _grown(self.data, used, n_entries, share)

    def to_csr(self, n_columns: int) -> sparse.csr_array:
        """The canonical matrix; this object is of no use afterwards."""
        nnz = int(self.indptr[self.n_rows])
        for array, size in ((self.indptr, self.n_rows + 1), (self.indices, nnz), (self.data, nnz)):
            array.resize(size, refcheck=False)  # gives memory back without a copy
        wide = max(self.n_rows, n_columns, nnz) > _INT32_MAX
        index_dtype = np.int64 if wide else np.int32
        indices, indptr = (array.astype(index_dtype, copy=False) for array in (self.indices, self.indptr))
        matrix = sparse.csr_array((self.data, indices, indptr), shape=(self.n_rows, n_columns))
        matrix.has_canonical_format = True
        return matrix


def _grown(array: npt.NDArray[Any], used: int, more: int, share: float) -> npt.NDArray[Any]:
    """The array with room for `more` behind what is used; as much at once as the whole file seems to need."""
    needed = used + more
    if needed <= array.size:
        return array
    expected = 1.05 * used / share if share > 0 else 0
    larger = np.empty(max(needed, int(min(2.0 * used, expected)), array.size + array.size // 4), dtype=array.dtype)
    larger[:used] = array[:used]
    return larger


def load_xmc(path: Any, *, dtype: npt.DTypeLike = np.float32, index_base: int = 0) -> Pair:
    r"""Read a file of the Extreme Classification Repository.

    The first line is ``n d K``; each of the n lines after it is a row, ``label,label,... feature:value
    feature:value ...``. A row may have no labels (its line begins with a blank, or at once with ``feature:value``), no
    features, or neither. Blanks are spaces and tabs, lines end in LF or CR LF, indices may come in any order, and blank
    lines may follow the last row.

    Outputs with values are an extension that `save_xmc` writes: the header is ``n d K values``, and labels are
    ``label:value``.

    Parameters
    ----------
    path : str, os.PathLike or binary file
        Plain text or gzip, whatever its name.
    dtype : float32 or float64, default float32
        Of both results. Values are rounded once, to the nearest number of this type.
    index_base : {0, 1}, default 0
        The first index of labels and features in the file.

    Returns
    -------
    X : csr_array of shape (n, d)
    Y : csr_array of shape (n, K)
        Its values are 1 unless the file has others. Both are in canonical form, zeros are not stored, and indices are
        int32 where these suffice.

    Raises
    ------
    ValueError
        For anything else in the file, as ``path:line: what is wrong``: also an index that is out of range or twice in a
        row, a value that is not finite, and another number of rows than the header says.

    Examples
    --------
    >>> import io
    >>> from shore.datasets import load_xmc
    >>> X, Y = load_xmc(io.BytesIO(b"2 3 4\n0,3 1:0.5 2:1e-1\n 0:2\n"))
    >>> X.toarray()
    array([[0. , 0.5, 0.1],
           [2. , 0. , 0. ]], dtype=float32)
    >>> Y.toarray()
    array([[1., 0., 0., 1.],
           [0., 0., 0., 0.]], dtype=float32)
    """
    kind = float_dtype(dtype)
    _check_base(index_base)
    with _opened(path) as (file, name):
        return _load(_Text(file, name, kind, index_base))


def _check_base(index_base: Any) -> None:
    if isinstance(index_base, bool) or index_base not in (0, 1):
        raise ValueError(f"index_base must be 0 or 1, got {index_base!r}")


class _Text:
    """A file from its header to its last row, a piece of text at a time."""

    def __init__(self, file: Any, name: str, dtype: np.dtype[Any], index_base: int) -> None:
        self.name, self.n_read = name, 0
        self._dtype, self._index_base, self._n_lines = dtype, index_base, 0
        self._pieces = _whole_lines(file)
        first = self._next()
        begin = bytes(first).find(b"\n") + 1
        self.header = _read_header(bytes(first[:begin]), name)
        self._first, self._n_lines = memoryview(first)[begin:], 1
        self._workspace: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def _next(self) -> bytes | memoryview:
        try:
            return next(self._pieces, b"")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            line = self._n_lines + 1
            raise ValueError(f"{self.name}:{line}: the gzip data is damaged or cut short here: {error}") from None

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Whole lines behind the header; at the end, whether all rows were there."""
        if self._first:
            yield self._first
        while piece := self._next():
            yield piece
        if self.n_read < self.header.n_rows:
            raise ValueError(
                f"{self.name}:{self._n_lines}: the header says {self.header.n_rows} rows, but the file ends after "
                f"{self.n_read}"
            )

    def arrays(self) -> tuple[_Rows, _Rows]:
        """X and Y without rows."""
        wide = max(self.header.n_features, self.header.n_outputs) > _INT32_MAX
        index_dtype = np.int64 if wide else np.int32
        return _Rows(index_dtype, self._dtype), _Rows(index_dtype, self._dtype)

    def parse(self, text: bytes | memoryview, X: _Rows, Y: _Rows) -> None:
        """Add the rows of a piece to X and Y."""
        header, size = self.header, len(text)
        share = X.n_rows / max(1, header.n_rows)
        X.reserve(size, size // 4, share)  # as '0:1 ' is the shortest feature
        Y.reserve(size, size // 2, share)  # and '0,' the shortest label
        if self._workspace.size < size * _core.entry_bytes():
            self._workspace = np.empty(size * _core.entry_bytes(), dtype=np.uint8)
        status, lines, rows, offset, number = _core.parse_rows(
            text, header.n_features, header.n_outputs, self._index_base, header.with_values,
            header.n_rows - self.n_read, self._workspace, X.indices, X.data, X.indptr[X.n_rows :], Y.indices, Y.data,
            Y.indptr[Y.n_rows :],
        )  # fmt: skip
        self._n_lines += lines
        if status != _core.DONE:
            wrong = bytes(text[offset : offset + 200])
            words = _complaint(status, number, wrong, header, self._index_base, self._dtype)
            raise ValueError(f"{self.name}:{self._n_lines + 1}: {words}")
        self.n_read += rows
        X.n_rows += rows
        Y.n_rows += rows


def _load(text: _Text) -> Pair:
    X, Y = text.arrays()
    for piece in text.pieces():
        text.parse(piece, X, Y)
    return X.to_csr(text.header.n_features), Y.to_csr(text.header.n_outputs)


class XmcReader:
    r"""Read a file of the Extreme Classification Repository block by block, in memory that does not grow with it.

    A context manager, and an iterator of blocks (X, Y) in the order of the file: what `load_xmc` reads, and refused
    where it refuses, though only when the block comes.

    Parameters
    ----------
    path : str, os.PathLike or binary file
        Plain text or gzip, whatever its name.
    rows : int, optional
        Rows of a block; the last one may have fewer. None for as many as 4 MB of text hold.
    dtype, index_base
        As in `load_xmc`.

    Attributes
    ----------
    name : str
        What the file is called in errors.
    n_rows, n_features, n_outputs : int
        n, d and K, as the header says.

    Examples
    --------
    >>> import io
    >>> from shore.datasets import XmcReader
    >>> with XmcReader(io.BytesIO(b"3 2 4\n0,3 1:0.5\n 0:2\n2 0:1\n"), rows=2) as reader:
    ...     print(reader.n_rows, reader.n_features, reader.n_outputs)
    ...     for X, Y in reader:
    ...         print(X.shape, Y.shape, Y.indices)
    3 2 4
    (2, 2) (2, 4) [0 3]
    (1, 2) (1, 4) [2]
    """

    def __init__(
        self, path: Any, *, rows: int | None = None, dtype: npt.DTypeLike = np.float32, index_base: int = 0
    ) -> None:
        self._rows = None if rows is None else check_positive(rows, "rows")
        kind = float_dtype(dtype)
        _check_base(index_base)
        self._open = ExitStack()
        try:
            self._text = _Text(*self._open.enter_context(_opened(path)), kind, index_base)
        except BaseException:
            self._open.close()
            raise
        self.name = self._text.name
        self.n_rows, self.n_features, self.n_outputs, _ = self._text.header
        self._blocks = _reblocked(self._pairs(), self._rows)

    def _pairs(self) -> Iterator[Pair]:
        for piece in self._text.pieces():
            X, Y = self._text.arrays()
            self._text.parse(piece, X, Y)
            if X.n_rows:  # blank lines at the end have none
                yield X.to_csr(self.n_features), Y.to_csr(self.n_outputs)

    def read(self) -> Pair:
        """All rows at once, as `load_xmc` gives them; only before the first block."""
        return _load(self._text)

    def __iter__(self) -> XmcReader:
        return self

    def __next__(self) -> Pair:
        return next(self._blocks)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self._open.close()

    def __enter__(self) -> XmcReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reblocked(pairs: Iterator[Pair], rows: int | None) -> Iterator[Pair]:
    """The same rows in blocks of that many."""
    if rows is None:
        yield from pairs
        return
    waiting: list[Pair] = []
    n = 0
    for pair in pairs:
        waiting.append(pair)
        n += pair[0].shape[0]
        if n < rows:
            continue
        X, Y = _stacked(waiting)
        end = n - n % rows
        for start in range(0, end, rows):
            yield X[start : start + rows], Y[start : start + rows]
        waiting, n = ([(X[end:], Y[end:])], n - end) if end < n else ([], 0)
    if waiting:
        yield _stacked(waiting)


def _stacked(pairs: list[Pair]) -> Pair:
    if len(pairs) == 1:
        return pairs[0]
    X, Y = (sparse.csr_array(sparse.vstack(parts, format="csr")) for parts in zip(*pairs, strict=True))
    X.has_canonical_format = Y.has_canonical_format = True
    return X, Y


# ---- writing ----


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


def _as_text(data: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The shortest decimal of each value that reads back as the same value, (n, width) bytes."""
    if (data == 1).all():
        return np.full((data.size, 1), ord("1"), dtype=np.uint8)
    return np.asarray(data.astype("S32").view(np.uint8).reshape(data.size, 32))


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
        _write(path, X, Y, starts, plain)
    elif isinstance(path, str | os.PathLike):
        with replacing(path) as file:
            _write(file, X, Y, starts, plain)
    else:
        raise TypeError(f"path must be a str, os.PathLike or binary file, got {path!r} of type {type(path).__name__}")


def _write(file: Any, X: Any, Y: Any, starts: range, plain: bool) -> None:
    file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}{'' if plain else ' values'}\n".encode())
    for start in starts:
        x, y = (_block(rows, start, start + starts.step, name) for rows, name in ((X, "X"), (Y, "Y")))
        file.write(format_rows(x, y, plain=plain))


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
