"""The frame of a safetensors file: its length and header, and where every tensor lies."""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np

from shore.modelfile.checks import ModelFileError, count, parse, record

__all__ = ["CODES", "DTYPES", "USUAL_BYTES", "read_header", "read_places"]

# What is written takes two or three thousand bytes. A bound keeps what JSON of a hostile file can grow to small.
_MAX_BYTES, USUAL_BYTES = 1 << 18, 4096
DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "U16": "<u2", "U32": "<u4", "U8": "|u1", "I64": "<i8"}
CODES = {np.dtype(spelled).newbyteorder("="): code for code, spelled in DTYPES.items()}


def read_header(file: BinaryIO, size: int) -> tuple[int, dict[str, Any]]:
    """Where the tensors begin, and the header."""
    if size < 8:
        raise ModelFileError("not a model file: it is empty" if size == 0 else "not a model file: it is too short")
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise ModelFileError("not a model file, or cut short: its header would end behind its end")
    if length > _MAX_BYTES:
        raise ModelFileError(f"not a model file: its header has {length} bytes, and those have at most {_MAX_BYTES}")
    data = file.read(length)
    if len(data) != length:
        raise ModelFileError("the file changed while it was read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelFileError("not a model file: its header is not UTF-8") from None
    header = parse(text, "the header")
    if not text.startswith("{") or not isinstance(header, dict):
        raise ModelFileError("not a model file: its header is no JSON object")
    return 8 + length, header


def read_places(header: dict[str, Any], n_bytes: int) -> dict[str, tuple[int, str, tuple[int, ...]]]:
    """Begin, dtype and shape of every tensor; together they are all `n_bytes` behind the header, each byte once."""
    places: dict[str, tuple[int, str, tuple[int, ...]]] = {}
    ranges = []
    for name, given in header.items():
        what = f"tensor {name[:40]!r}"
        entry = record(given, {"dtype", "shape", "data_offsets"}, what)
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(code, str) or code not in DTYPES:
            raise ModelFileError(f"{what} has an unknown dtype")
        if not isinstance(shape, list) or not 1 <= len(shape) <= 2:
            raise ModelFileError(f"{what} must have one or two dimensions")
        if not isinstance(offsets, list) or len(offsets) != 2:
            raise ModelFileError(f"{what} must have two offsets")
        begin, end = (count(offset, f"{what}: an offset", 0) for offset in offsets)
        size = math.prod(count(length, f"{what}: a length") for length in shape) * np.dtype(DTYPES[code]).itemsize
        if end - begin != size or end > n_bytes:
            raise ModelFileError(f"{what} has offsets that do not fit its shape, or the file is cut short")
        places[name] = begin, code, tuple(shape)
        ranges.append((begin, end))
    at = 0
    for begin, end in sorted(ranges):
        if begin != at:
            raise ModelFileError("the tensors overlap, or leave bytes between them")
        at = end
    if at != n_bytes:
        raise ModelFileError("there are bytes behind the last tensor")
    return places
