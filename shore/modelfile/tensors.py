"""The tensors: what the document says of each, and those of an open file, compared with that."""

from __future__ import annotations

import math
import mmap as _mmap
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from shore.modelfile.checks import ModelFileError, record, sha256
from shore.modelfile.document import read_metadata
from shore.modelfile.header import CODES, DTYPES, read_header, read_places

__all__ = ["Array", "Tensors", "all_finite", "document_entries"]

Array = npt.NDArray[Any]

# Numbers are looked at in blocks of that many.
_BLOCK = 1 << 20


def document_entries(tensors: dict[str, Array]) -> dict[str, Any]:
    """What the document says of tensors that are to be written."""
    return {
        name: {"dtype": CODES[array.dtype], "shape": list(array.shape), "sha256": sha256(array)}
        for name, array in tensors.items()
    }


class Tensors:
    """The tensors of an open file, as its header describes them."""

    def __init__(self, file: BinaryIO, size: int, mmap: bool) -> None:
        self._file = file
        self._start, header = read_header(file, size)
        self.metadata = header.pop("__metadata__", None)
        self.document = read_metadata(self.metadata)
        self._places = read_places(header, size - self._start)
        described = self.document["tensors"]
        if not isinstance(described, dict) or set(described) != set(self._places):
            raise ModelFileError("the tensors are not those that the metadata lists")
        self._sums: dict[str, str] = {}
        for name, (_, code, shape) in self._places.items():
            entry = record(described[name], {"dtype", "shape", "sha256"}, f"tensor {name}")
            if (entry["dtype"], entry["shape"]) != (code, list(shape)):
                raise ModelFileError(f"tensor {name} is not as the metadata describes it")
            self._sums[name] = entry["sha256"]
        self._mapping: Any = None
        if mmap:
            self._mapping = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ)
            if len(self._mapping) != size:
                raise ModelFileError("the file changed while it was read")

    @property
    def names(self) -> set[str]:
        """Of all tensors."""
        return set(self._places)

    def describe(self, name: str, *, verify: bool) -> dict[str, Any]:
        """dtype, shape, bytes and checksum of a tensor, and whether that is right (None if it was not compared)."""
        _, code, shape = self._places[name]
        dtype, ok = np.dtype(DTYPES[code]), None
        if verify:
            try:
                self.read(name, verify=True)
                ok = True
            except ModelFileError:
                ok = False
        size = math.prod(shape) * dtype.itemsize
        return {"dtype": dtype.name, "shape": list(shape), "bytes": size, "sha256": str(self._sums[name]), "ok": ok}

    def read(self, name: str, *, verify: bool, copy: bool = False) -> Array:
        """A tensor, read-only; of the mapping if there is one and the kernels can read it as it lies there.

        With `copy` it is in memory of its own: what was checked there stays as it is, whatever is written to the file.
        """
        begin, code, shape = self._places[name]
        dtype = np.dtype(DTYPES[code])
        array: Array
        if self._mapping is not None:
            start = self._start + begin
            array = np.frombuffer(self._mapping, dtype, math.prod(shape), start).reshape(shape)
            if copy or not array.flags.aligned:
                array = array.copy()
        else:
            array = np.empty(shape, dtype)
            self._file.seek(self._start + begin)
            if self._file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
                raise ModelFileError("the file changed while it was read")
        if verify and sha256(array) != self._sums[name]:
            raise ModelFileError(f"tensor {name} is damaged: its checksum does not match")
        array = array.astype(dtype.newbyteorder("="), copy=False)
        array.flags.writeable = False
        return array


def all_finite(array: Array) -> bool:
    """Whether there is neither NaN nor infinity, in memory that does not grow with the array."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        if block.dtype == np.float16:  # NumPy's own look at these is slow
            if int((block.view(np.uint16) & 0x7C00).max()) == 0x7C00:
                return False
        elif not np.isfinite(block).all():
            return False
    return True
