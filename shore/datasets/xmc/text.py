"""A text file from its header to its last row: pieces of whole lines, parsed by the compiled core into arrays."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core import xmc as _core
from shore._files import path_name

__all__ = ["Text", "opened"]

# Files are read in pieces of this size.
_CHUNK_BYTES = 1 << 22

_HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(values))?[ \t]*\r?\n")
_INT32_MAX = np.iinfo(np.int32).max


# ---- files ----


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
def opened(path: Any) -> Iterator[tuple[Any, str]]:
    """A binary file to read from, and what to call it in errors."""
    if hasattr(path, "read"):
        yield _unpacked(path), str(getattr(path, "name", "<file>"))
    elif isinstance(path, str | os.PathLike):
        with open(path_name(path), "rb") as file:
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


# ---- the header, and what is wrong with a line ----


class _Header(NamedTuple):
    n_rows: int
    n_features: int
    n_outputs: int
    with_values: bool


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


def _short(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    return repr(shown if len(shown) <= 40 else shown[:40] + "...")


# ---- rows ----


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


class Text:
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
