"""What commands read: rows of data block by block, names, and lists of outputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from shore._validation import is_sparse
from shore.datasets.files import find_files, load_files, load_npz, load_pair, split_rows
from shore.datasets.xmc import XmcReader

__all__ = ["Limits", "Rows", "open_rows", "read_limits", "read_names"]

# Rows of a block of matrices that are in memory anyway.
_BLOCK_ROWS = 1 << 13
# How load_dataset splits what is not split yet.
_TEST_SHARE, _SEED = 0.2, 0


@dataclass(frozen=True)
class Rows:
    """Rows of data that are read once, from the first to the last.

    Attributes
    ----------
    name : str
        The file, for errors.
    n_rows, n_features : int
    n_outputs : int or None
        None if there are inputs alone.
    source : XmcReader or (X, Y)
    block_rows : int or None
    """

    name: str
    n_rows: int
    n_features: int
    n_outputs: int | None
    source: Any
    block_rows: int | None

    @property
    def header(self) -> str:
        """Where the sizes stand, for errors."""
        return f"{self.name}:1" if isinstance(self.source, XmcReader) else self.name

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """X and Y of block after block; Y is None if there are inputs alone."""
        if isinstance(self.source, XmcReader):
            yield from self.source
            return
        X, Y = self.source
        step = self.block_rows or _BLOCK_ROWS
        for start in range(0, self.n_rows, step):
            yield X[start : start + step], None if Y is None else Y[start : start + step]

    def whole(self) -> tuple[Any, Any]:
        """All X and Y."""
        return self.source.read() if isinstance(self.source, XmcReader) else self.source


class _StandardInput:
    """Standard input that gives what is there, so that rows are worked on while others are still to come."""

    name = "<stdin>"

    def read(self, size: int) -> bytes:
        """At most that many bytes; none at the end."""
        buffer: Any = sys.stdin.buffer
        return bytes(buffer.read1(size))


def _is_zip(path: Path) -> bool:
    if not path.is_file():  # nothing is taken out of a pipe
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _of_matrices(name: str, X: Any, Y: Any, block_rows: int | None) -> Rows:
    return Rows(name, X.shape[0], X.shape[1], None if Y is None else Y.shape[1], (X, Y), block_rows)


@contextmanager
def _of_text(file: Any, dtype: np.dtype[Any], block_rows: int | None) -> Iterator[Rows]:
    with XmcReader(file, rows=block_rows, dtype=dtype) as reader:
        yield Rows(reader.name, reader.n_rows, reader.n_features, reader.n_outputs, reader, block_rows)


@contextmanager
def open_rows(
    path: str | None, part: str, dtype: np.dtype[Any], block_rows: int | None = None, *, x: str | None = None,
    y: str | None = None, inputs_alone: bool = False,
) -> Iterator[Rows]:  # fmt: skip
    """The rows that a user named.

    Parameters
    ----------
    path : str or None
        A file of XMC text, ``-`` for standard input, a folder as `load_dataset` reads it, or with `inputs_alone` also
        a file ``.npz``.
    part : {'train', 'test'}
        Which part of a folder.
    dtype : dtype
    block_rows : int, optional
        Rows of a block; None for a size that suits.
    x, y : str, optional
        Files ``.npz`` instead of `path`.
    inputs_alone : bool
        Whether outputs are of no use.
    """
    if (x is None) != (y is None):
        raise ValueError("--x and --y belong together: give both or none")
    if (path is None) == (x is None):
        raise ValueError("give either a file or folder, or --x and --y")
    if x is not None and y is not None:
        X, Y = load_pair(Path(x), Path(y), dtype)
        yield _of_matrices(x, X, Y, block_rows)
        return
    place = Path(str(path))
    if str(path) == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed, and '-' reads it")
        with _of_text(_StandardInput(), dtype, block_rows) as rows:
            yield rows
    elif place.is_dir():
        train, test = find_files(place)
        files = train if part == "train" or test is None else test
        if test is not None and len(files) == 1:
            with _of_text(files[0], dtype, block_rows) as rows:
                yield rows
            return
        pair = load_files(files, dtype)
        if test is None:
            pair = split_rows(*pair, _TEST_SHARE, _SEED)[0 if part == "train" else 1]
        yield _of_matrices(str(place), *pair, block_rows)
    elif _is_zip(place):
        if not inputs_alone:
            raise ValueError(f"{place}: a file .npz holds inputs or outputs alone: give both, as --x X.npz --y Y.npz")
        yield _of_matrices(str(place), load_npz(place, dtype), None, block_rows)
    else:
        with _of_text(place, dtype, block_rows) as rows:
            yield rows


def _lines(path: str) -> list[str]:
    """The lines of a text file in UTF-8, without their ends."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line}: not UTF-8: {error.reason}") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_names(path: str | None, n: int, what: str) -> list[str] | None:
    """Names of outputs or features, one a line; the line number is the index, from 0 on.

    Parameters
    ----------
    path : str or None
    n : int
        How many there must be.
    what : str
        Of what they are the names, for errors.
    """
    if path is None:
        return None
    names = _lines(path)
    if len(names) != n:
        raise ValueError(f"{path}: {len(names)} names, but there are {n} {what}")
    return names


class Limits:
    """Outputs that may be used, or may not be: the same for all rows, or a pattern for each.

    Parameters
    ----------
    which : ndarray of bool, csr_array or None
    """

    def __init__(self, which: Any) -> None:
        self._which = which

    def of(self, start: int, stop: int) -> Any:
        """For rows start to stop - 1, as `predict` takes them."""
        return self._which[start:stop] if is_sparse(self._which) else self._which


def read_limits(path: str | None, shape: tuple[int, int], names: list[str] | None) -> Limits:
    """The outputs that a file lists.

    Parameters
    ----------
    path : str or None
        Text with an output a line, its index or else its name; or a file ``.npz`` with a row for every row of the
        input.
    shape : (int, int)
        Rows of the input, and outputs.
    names : list of str or None
    """
    if path is None:
        return Limits(None)
    if _is_zip(Path(path)):
        pattern: sparse.csr_array = load_npz(Path(path), np.dtype(np.float32))
        if pattern.shape != shape:
            raise ValueError(f"{path}: a matrix of shape {pattern.shape}, but a row for every input needs {shape}")
        return Limits(pattern)
    mask = np.zeros(shape[1], dtype=np.bool_)
    index_of: dict[str, list[int]] = {}
    for index, name in enumerate(names or []):
        index_of.setdefault(name, []).append(index)
    for number, line in enumerate(_lines(path), start=1):
        word = line.strip()
        if not word:
            continue
        if word.isascii() and word.isdigit():
            if int(word) >= shape[1]:
                raise ValueError(f"{path}:{number}: output {word} is out of range: the model has {shape[1]}")
            mask[int(word)] = True
        elif word in index_of or line in index_of:
            mask[index_of.get(word) or index_of[line]] = True
        elif names is None:
            raise ValueError(f"{path}:{number}: expected the index of an output, got {word!r} (names need --labels)")
        else:
            raise ValueError(f"{path}:{number}: {word!r} is neither an index nor a name of an output")
    return Limits(mask)
