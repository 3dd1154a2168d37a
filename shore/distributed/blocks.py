"""Blocks of rows: what users give, as things that workers can compute one by one."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import distributed
import numpy as np
import numpy.typing as npt
from dask.delayed import Delayed, delayed

from shore._statistics import weighted_sum
from shore._validation import check_finite_rows, check_outputs, check_rows, is_sparse
from shore.compression import Compression
from shore.datasets.files import load_npz
from shore.datasets.xmc import load_xmc

__all__ = [
    "Block",
    "Context",
    "Facts",
    "check_chunks",
    "facts_of",
    "input_blocks",
    "split_pair",
    "sum_of_rows",
    "training_blocks",
]

_MAGIC = re.compile(r"[*?\[]")
_KINDS = (
    "Dask arrays, lists of delayed values or futures, or names of files with wildcards; for arrays in memory there is "
    "ShoreRegressor"
)


class Block(NamedTuple):
    """A block of rows that is not here.

    Attributes
    ----------
    number : int
        For errors.
    x : Delayed or Future
        Of X, or of (X, Y) where `y` is None.
    y : Delayed, Future or None
    """

    number: int
    x: Any
    y: Any


# ------------------------------------------------------------ on the workers


@dataclass(frozen=True)
class Context:
    """What all tasks of a fit need to know.

    Attributes
    ----------
    compression : Compression or None
        Φ, pickled as its specification.
    dtype : dtype
        Of the model.
    n_features, n_outputs : int
        d and K.
    centre : float64 array of shape (d,) or None
        What is subtracted from the rows; None without an intercept.
    """

    compression: Compression | None
    dtype: np.dtype[Any]
    n_features: int
    n_outputs: int
    centre: npt.NDArray[np.float64] | None = None

    def read(self, number: int, x: Any, y: Any) -> tuple[Any, Any]:
        """X and Y of a block, checked as `fit` does; it may have no rows."""
        X, Y = split_pair(number, x, y)
        try:
            rows = check_finite_rows(X, self.dtype)
            outputs = check_rows(Y, "Y")
            for name, given, width in (("X", rows, self.n_features), ("Y", outputs, self.n_outputs)):
                if given.shape[1] != width:
                    raise ValueError(f"{name} has {given.shape[1]} columns, and other blocks have {width}")
            if rows.shape[0] == outputs.shape[0] == 0:
                return rows, outputs
            return rows, check_outputs(outputs, rows)
        except (ValueError, TypeError) as error:
            raise _of_block(number, error) from None


def _of_block(number: int, error: ValueError | TypeError) -> ValueError | TypeError:
    """The same error, with the number of the block that it is about."""
    return (TypeError if isinstance(error, TypeError) else ValueError)(f"block {number}: {error}")


def split_pair(number: int, x: Any, y: Any = None) -> tuple[Any, Any]:
    """X and Y of a block that may have come as a pair."""
    if y is not None:
        return x, y
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise TypeError(f"block {number}: without Y a block must be a pair (X, Y), got {type(x).__name__}")
    return x[0], x[1]


def sum_of_rows(X: Any) -> npt.NDArray[np.float64]:
    """The sum of dense or CSR rows, in float64."""
    ones = np.ones(X.shape[0])
    return np.asarray(X.T @ ones if is_sparse(X) else weighted_sum(X, ones), dtype=np.float64)


class Facts(NamedTuple):
    """Sizes of a block; `nnz` is None of dense rows."""

    n_rows: int
    n_features: int
    n_outputs: int
    nnz: int | None


def facts_of(number: int, x: Any, y: Any) -> Facts:
    """What a block looks like."""
    X, Y = split_pair(number, x, y)
    try:
        rows, outputs = check_rows(X, "X"), check_rows(Y, "Y")
    except (ValueError, TypeError) as error:
        raise _of_block(number, error) from None
    return Facts(rows.shape[0], rows.shape[1], outputs.shape[1], int(rows.nnz) if is_sparse(rows) else None)


def read_matrix(path: str, dtype: np.dtype[Any]) -> Any:
    """A file ``.npz`` of `scipy.sparse.save_npz`, or a dense one, ``.npy``, which is mapped."""
    if path.lower().endswith(".npy"):
        return np.load(path, mmap_mode="r", allow_pickle=False)
    return load_npz(Path(path), dtype)


def read_pair(x_path: str, y_path: str | None, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """X and Y of files: a matrix in each, or XMC text with both."""
    if y_path is None:
        return load_xmc(x_path, dtype=dtype)
    return read_matrix(x_path, dtype), read_matrix(y_path, dtype)


def read_inputs(path: str, dtype: np.dtype[Any]) -> Any:
    """X of a file."""
    return read_matrix(path, dtype) if _is_matrix(path) else load_xmc(path, dtype=dtype)[0]


def _matching(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))


# ------------------------------------------------------------ what users give


def training_blocks(client: Any, X: Any, Y: Any, dtype: np.dtype[Any]) -> list[Block]:
    """Blocks of X and Y, in the order of the rows; at least one."""
    if isinstance(X, da.Array):
        return _of_arrays(X, Y)
    if isinstance(X, str | os.PathLike):
        return _of_files(client, X, Y, dtype)
    if isinstance(X, Sequence):
        xs = _lazy_items(X, "X")
        if Y is None:
            return [Block(number, x, None) for number, x in enumerate(xs)]
        ys = _lazy_items(Y, "Y")
        if len(xs) != len(ys):
            raise ValueError(f"X and Y must have the same number of blocks, got {len(xs)} and {len(ys)}")
        return [Block(number, x, y) for number, (x, y) in enumerate(zip(xs, ys, strict=True))]
    raise TypeError(f"X and Y must be {_KINDS}.fit. Got X of type {type(X).__name__}")


def input_blocks(client: Any, X: Any, dtype: np.dtype[Any]) -> tuple[list[Any], list[str] | None]:
    """Blocks of X alone, and the names of their files if they are files."""
    if isinstance(X, da.Array):
        check_chunks(X, "X")
        return list(X.to_delayed().ravel()), None
    if isinstance(X, str | os.PathLike):
        names = file_names(client, X, "X")
        read = delayed(read_inputs, pure=False)
        return [read(name, dtype) for name in names], names
    if isinstance(X, Sequence):
        return _lazy_items(X, "X"), None
    raise TypeError(f"X must be one of {_KINDS}.predict. Got {type(X).__name__}")


def check_chunks(array: Any, name: str) -> None:
    """Refuse a Dask array whose chunks are not blocks of rows."""
    if array.ndim != 2:
        raise ValueError(f"{name} must be 2-D with one row a sample, got shape {array.shape}")
    if array.numblocks[1] != 1:
        raise ValueError(
            f"{name} must be chunked by rows alone, but it has {array.numblocks[1]} chunks across its columns: call "
            f"{name}.rechunk({{1: -1}}) first"
        )
    if array.numblocks[0] == 0:
        raise ValueError(f"{name} has no chunks")


def _of_arrays(X: Any, Y: Any) -> list[Block]:
    if not isinstance(Y, da.Array):
        raise TypeError(f"Y must be a Dask array as X is, got {type(Y).__name__}")
    check_chunks(X, "X")
    check_chunks(Y, "Y")
    if X.chunks[0] != Y.chunks[0]:  # also where sizes are not known: NaN is no size
        known = not np.isnan(sum(X.chunks[0]) + sum(Y.chunks[0]))
        if known and X.shape[0] != Y.shape[0]:
            raise ValueError(f"X and Y must have the same number of rows, got {X.shape[0]} and {Y.shape[0]}")
        if known:
            Y = Y.rechunk({0: X.chunks[0]})
        elif X.numblocks[0] != Y.numblocks[0]:
            raise ValueError(
                f"X and Y have {X.numblocks[0]} and {Y.numblocks[0]} chunks of unknown sizes: they must have the same"
            )
    pairs = zip(X.to_delayed().ravel(), Y.to_delayed().ravel(), strict=True)
    return [Block(number, x, y) for number, (x, y) in enumerate(pairs)]


def _lazy_items(given: Any, name: str) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"{name} must be a list of delayed values or futures, got {type(given).__name__}")
    items = list(given)
    if not items:
        raise ValueError(f"{name} has no blocks")
    for number, item in enumerate(items):
        if not isinstance(item, Delayed | distributed.Future):
            raise TypeError(
                f"{name} must be a list of delayed values or futures, but its item {number} is a {type(item).__name__}"
            )
    return items


# ------------------------------------------------------------ files


def _is_matrix(path: str) -> bool:
    return path.lower().endswith((".npz", ".npy"))


def file_names(client: Any, pattern: Any, name: str) -> list[str]:
    """The files of a pattern as the workers see them, sorted."""
    absolute = os.path.abspath(os.fspath(pattern))
    found: list[str] = client.submit(_matching, absolute, pure=False).result()
    if not found:
        raise ValueError(f"{name}: the workers see no file {absolute}")
    return found


def _of_files(client: Any, X: Any, Y: Any, dtype: np.dtype[Any]) -> list[Block]:
    x_names = file_names(client, X, "X")
    y_names: Sequence[str | None] = [None] * len(x_names)
    if _is_matrix(x_names[0]):
        if not isinstance(Y, str | os.PathLike):
            raise TypeError(f"Y must be the name of files as X is, with wildcards, got {type(Y).__name__}")
        y_names = file_names(client, Y, "Y")
        parts = [[_wild(os.fspath(given), name) for name in names] for given, names in ((X, x_names), (Y, y_names))]
        if parts[0] != parts[1]:
            alone = sorted(set(parts[0]) ^ set(parts[1]))
            raise ValueError(
                f"X and Y must be files of the same parts, {X} and {Y}, but the part {alone[0]!r} is in one alone"
                if alone else f"X and Y must be files of the same parts in the same order, {X} and {Y}"
            )  # fmt: skip
    elif Y is not None:
        raise ValueError("Y must be None where X are files of XMC text, which hold both")
    read = delayed(read_pair, pure=False)
    return [Block(number, read(x, y, dtype), None) for number, (x, y) in enumerate(zip(x_names, y_names, strict=True))]


def _wild(pattern: str, path: str) -> str:
    """What the wildcards of a pattern stand for in a path: all between the first and the last."""
    pattern = os.path.abspath(pattern)
    found = list(_MAGIC.finditer(pattern))
    if not found:
        return ""
    tail = re.split(r"[*?\]]", pattern)[-1]
    return path[found[0].start() : len(path) - len(tail)]
