"""Anything as something that can be compared to the bit."""

import numpy as np
from scipy import sparse


def bits(thing):
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return "array", thing.dtype.str, thing.shape, thing.tobytes()
    if sparse.issparse(thing):
        csr = thing.tocsr()
        return "sparse", csr.shape, *map(bits, (csr.data, csr.indices, csr.indptr))
    if isinstance(thing, dict):
        return {name: bits(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple | np.ndarray):
        return [bits(value) for value in thing]
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | type | np.generic | np.dtype):
        return repr(thing)
    return type(thing).__name__, bits(getattr(thing, "__dict__", {}))


def folder_bits(folder):
    """Names and contents of all files in a folder: what was lost, changed or left behind shows."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
