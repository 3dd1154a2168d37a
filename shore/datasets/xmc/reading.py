"""Files to matrices, as a whole or block by block."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._validation import check_positive, float_dtype
from shore.datasets.xmc.text import Text, opened

__all__ = ["XmcReader", "load_xmc"]

Pair = tuple[sparse.csr_array, sparse.csr_array]


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
    with opened(path) as (file, name):
        return _load(Text(file, name, kind, index_base))


def _check_base(index_base: Any) -> None:
    if isinstance(index_base, bool) or not isinstance(index_base, numbers.Real) or index_base not in (0, 1):
        raise ValueError(f"index_base must be 0 or 1, got {index_base!r}")


def _load(text: Text) -> Pair:
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
            self._text = Text(*self._open.enter_context(opened(path)), kind, index_base)
        except BaseException:
            self._open.close()
            raise
        self.name = self._text.name
        self.n_rows, self.n_features, self.n_outputs, _ = self._text.header
        self._begun = False
        self._blocks = _reblocked(self._pairs(), self._rows)

    def _pairs(self) -> Iterator[Pair]:
        for piece in self._text.pieces():
            X, Y = self._text.arrays()
            self._text.parse(piece, X, Y)
            if X.n_rows:  # blank lines at the end have none
                yield X.to_csr(self.n_features), Y.to_csr(self.n_outputs)

    def read(self) -> Pair:
        """All rows at once, as `load_xmc` gives them; only once, and only before the first block."""
        if self._begun:
            raise ValueError(f"{self.name}: read gives all rows, but some or all were given already: open it again")
        self._begun, self._blocks = True, iter(())
        return _load(self._text)

    def __iter__(self) -> XmcReader:
        return self

    def __next__(self) -> Pair:
        self._begun = True
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
