"""Files that are written as a whole or not at all."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["path_name", "removed_on_failure", "replacing"]


def path_name(path: Any) -> str:
    """The name of a file, as text."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path must be a str or os.PathLike, got {path!r} of type {type(path).__name__}") from None
    if "\0" in name:
        raise ValueError(f"path must not hold NUL characters, got {name!r}")
    return name


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A binary file to write to that takes the place of `path` when all is written, or not at all.

    Parameters
    ----------
    path : str or os.PathLike
        A name that ends in ``.gz`` is written with gzip. What is there but no regular file, a device or a pipe, is
        written to and stays.
    """
    target = Path(os.path.realpath(path_name(path)))  # a link stays one
    if target.is_dir() or (target.exists() and not target.is_file()):
        with open(path, "wb") as raw, _packed(raw, target) as file:
            yield file
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")  # short: the name may be as long as names can be
    with removed_on_failure(temporary, path):
        with open(temporary, "xb") as raw:
            with _packed(raw, target) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, target)


@contextmanager
def removed_on_failure(temporary: Path, path: str | os.PathLike[str]) -> Iterator[None]:
    """Remove a temporary file that did not become `path`; errors are then of that name, which the caller knows.

    Parameters
    ----------
    temporary : Path
    path : str or os.PathLike
    """
    try:
        yield
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is not None and os.fspath(error.filename) == str(temporary):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


@contextmanager
def _packed(raw: Any, target: Path) -> Iterator[Any]:
    if target.suffix.lower() == ".gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
            yield packed
    else:
        yield raw
