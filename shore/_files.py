"""Files that are written as a whole or not at all."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["path_name", "replacing"]


def path_name(path: Any) -> str:
    """The name of a file, as text."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path must be a str or os.PathLike, got {path!r} of type {type(path).__name__}") from None


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
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.tmp")
    try:
        raw = open(temporary, "xb")  # noqa: SIM115
    except OSError as error:  # of the name that was given, not of ours
        error.filename = str(path)
        raise
    try:
        with raw:
            with _packed(raw, target) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _packed(raw: Any, target: Path) -> Iterator[Any]:
    if target.suffix.lower() == ".gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
            yield packed
    else:
        yield raw
