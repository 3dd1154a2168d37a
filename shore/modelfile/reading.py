"""Files to models: `load`, and `inspect` for people."""

from __future__ import annotations

import copy
import os
import re
import stat
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import numpy as np

from shore._files import path_name
from shore._validation import check_flag
from shore.estimator import ShoreRegressor
from shore.modelfile.checks import ModelFileError, parse
from shore.modelfile.compression import INDEX_TENSORS, decode_compression, read_description
from shore.modelfile.document import decode_fitted, decode_parameters
from shore.modelfile.tensors import Array, Tensors, all_finite

__all__ = ["inspect", "load"]

_T = TypeVar("_T")

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', flags=re.DOTALL)


def load(path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> ShoreRegressor:
    """Read a model that `ShoreRegressor.save` wrote.

    Parameters
    ----------
    path : str or path
    mmap : bool, default True
        Map the file: W and a dense Φ are not copied, only what is used of them is read, and processes share their
        pages. The file may be replaced, by `save` too, but must not be written to in place: predictions would change,
        and a file that is cut short ends the process. False reads all of it into memory.
    verify : bool, default True
        Compare the checksums of all tensors, and look for NaN and infinity in W; this reads the whole file. With
        False the header and the tables of Φ are still checked in full, so that no file can make a kernel read out of
        bounds.

    Returns
    -------
    ShoreRegressor
        Its predictions are those of the saved model to the bit. `partial_fit` starts anew. `n_threads` is at most the
        number of cores that this process may use.

    Raises
    ------
    ModelFileError
        The file is truncated, damaged, foreign, written by a newer version, or no regular file.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> import shore, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "m.shore")
    ...     shore.ShoreRegressor(1, n_components=8).fit([[1, 0], [0, 1]], [[0, 1, 0], [2, 0, 0]]).save(path)
    ...     shore.load(path)
    ShoreRegressor(sparsity=1, n_components=8)
    """
    check_flag(mmap, "mmap")
    check_flag(verify, "verify")
    return _opened(path, lambda file, size: _read_model(Tensors(file, size, bool(mmap)), bool(verify)))


def inspect(path: str | os.PathLike[str], *, verify: bool = False) -> dict[str, Any]:
    """What a model file says of itself, for people: only its header is read.

    Parameters
    ----------
    path : str or path
    verify : bool, default False
        Compare the checksums, which reads the whole file. Tensors whose checksum is wrong are reported, not refused.

    Returns
    -------
    dict
        path, bytes, format_version, shore_version, parameters, fitted, compression (None, or what it is), and tensors
        by name: dtype, shape, bytes, sha256, and ok, which is None if it was not compared.

    Examples
    --------
    >>> import shore, tempfile
    >>> from pathlib import Path
    >>> from shore.modelfile import inspect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "m.shore")
    ...     shore.ShoreRegressor(1, n_components=8).fit([[1, 0], [0, 1]], [[0, 1, 0], [2, 0, 0]]).save(path)
    ...     found = inspect(path, verify=True)
    >>> found["tensors"]["W"]["shape"], found["tensors"]["W"]["bytes"], found["tensors"]["W"]["ok"]
    ([2, 8], 64, True)
    """
    check_flag(verify, "verify")

    def read(file: BinaryIO, size: int) -> dict[str, Any]:
        tensors = Tensors(file, size, mmap=True)
        document = tensors.document
        decode_parameters(document["parameters"])
        decode_fitted(copy.deepcopy(document["fitted"]))
        if document["compression"] is not None:
            read_description(document["compression"])
        if not {"W", "intercept"} <= tensors.names:
            raise ModelFileError("there must be the tensors W, intercept")
        return {
            "path": os.fsdecode(path),
            "bytes": size,
            "format_version": int(tensors.metadata["format_version"]),
            "shore_version": tensors.metadata["shore_version"],
            **{name: document[name] for name in ("parameters", "fitted", "compression")},
            "tensors": {name: tensors.describe(name, verify=verify) for name in sorted(tensors.names)},
        }

    return _opened(path, read)


def _open_at_once(name: str, flags: int) -> int:
    """Does not wait for who writes to a pipe: that is refused once it is open, when no other can take its place."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _opened(path: str | os.PathLike[str], read: Callable[[BinaryIO, int], _T]) -> _T:
    """What `read` makes of the file and its size; whatever it finds wrong is a ModelFileError with the name."""
    name = path_name(path)
    with open(name, "rb", opener=_open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{name}: not a regular file")
        try:
            return read(file, status.st_size)
        except (ValueError, TypeError, OverflowError) as error:  # of the checks that fit makes, too
            raise ModelFileError(f"{name}: {error}") from None


def _read_model(tensors: Tensors, verify: bool) -> ShoreRegressor:
    document = tensors.document
    model, fitted = decode_parameters(document["parameters"]), decode_fitted(document["fitted"])
    described = document["compression"]
    expected, of_phi = {"W", "intercept"}, set[str]()
    if described is not None:
        described, of_phi = read_description(described)
        expected |= of_phi
    if tensors.names - {"feature_names"} != expected:
        raise ModelFileError(f"there must be the tensors {', '.join(sorted(expected))}")

    W, intercept = (tensors.read(name, verify=verify) for name in ("W", "intercept"))
    n_features, n_outputs = fitted["n_features_in"], fitted["n_outputs"]
    if W.dtype.kind != "f" or W.ndim != 2 or W.shape[0] != n_features:
        raise ModelFileError(f"W must be floating-point numbers of shape ({n_features}, m)")
    if intercept.shape != W.shape[1:] or intercept.dtype != (np.float32 if W.dtype == np.float16 else W.dtype):
        raise ModelFileError("intercept does not fit W")
    if verify:
        for name, array in (("W", W), ("intercept", intercept)):
            if not all_finite(array):
                raise ModelFileError(f"{name} holds NaN or infinity")
    compression = None
    if described is not None:
        parts = {name: tensors.read(name, verify=verify, copy=name in INDEX_TENSORS) for name in of_phi}
        compression = decode_compression(described, (W.shape[1], n_outputs), parts)
    elif W.shape[1] != n_outputs:
        raise ModelFileError("an uncompressed W must have a column for every output")
    names = None
    if "feature_names" in tensors.names:
        data = tensors.read("feature_names", verify=verify)
        if data.dtype != np.uint8 or data.ndim != 1:
            raise ModelFileError("feature_names must be bytes")
        names = _read_names(data, n_features)

    if document["parameters"]["compression"] == {"fitted": True}:
        if compression is None:
            raise ModelFileError("parameters: a compression is named, but there is none")
        model.compression = compression
    model._keep(None, W, intercept, compression, n_outputs, fitted["alpha"], fitted["solver"], fitted["n_iter"])
    if names is not None:
        model.feature_names_in_ = names
    if fitted["alpha_path"] is not None:
        model.alpha_path_ = fitted["alpha_path"]
    return model


def _read_names(data: Array, n_features: int) -> Array:
    """Names of features from a JSON array of strings."""
    text = data.tobytes()
    # What is left without the strings says, before anything is made of them, that they are strings and how many.
    if _STRING.sub(b"", text) != b"[" + b"," * (n_features - 1) + b"]":
        raise ModelFileError(f"feature_names must be a JSON array of {n_features} strings")
    try:
        names = parse(text.decode("ascii"), "feature_names")
    except UnicodeDecodeError:
        raise ModelFileError("feature_names must be ASCII, with escapes") from None
    return np.array(names, dtype=object)
