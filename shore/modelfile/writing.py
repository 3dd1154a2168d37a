"""Models to files: `save`, and how long a file will be."""

from __future__ import annotations

import copy
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from shore._files import path_name, removed_on_failure
from shore.compression import Compression
from shore.estimator import ShoreRegressor
from shore.modelfile.checks import canonical
from shore.modelfile.compression import encode_compression
from shore.modelfile.document import encode_fitted, encode_parameters, signed_metadata
from shore.modelfile.header import USUAL_BYTES
from shore.modelfile.tensors import Array, all_finite, document_entries

__all__ = ["model_bytes", "save"]

_HALF_MAX = float(np.finfo(np.float16).max)


def model_bytes(
    n_features: int, n_outputs: int, compression: Compression | None, dtype: np.dtype[Any], weights: str | None = None
) -> int:
    """How long the file of a model is at most, without names of features.

    Parameters
    ----------
    n_features, n_outputs : int
        d and K.
    compression : Compression or None
    dtype : dtype
    weights : 'float16', optional
        As of `ShoreRegressor.save`.
    """
    m = n_outputs if compression is None else compression.n_components
    of_phi = sum(array.nbytes for array in encode_compression(compression)[1].values())
    return USUAL_BYTES + m * (n_features * (2 if weights else dtype.itemsize) + dtype.itemsize) + of_phi


def save(model: ShoreRegressor, path: str | os.PathLike[str], weights: str | None = None) -> None:
    """Write a fitted model to one file, atomically; see `ShoreRegressor.save`."""
    if not isinstance(model, ShoreRegressor):
        raise TypeError(f"model must be a ShoreRegressor, got {type(model).__name__}")
    if weights not in (None, "float16"):
        raise ValueError(f"weights must be None or 'float16', got {weights!r}")
    model = copy.copy(model._now())  # parameters, too, of one moment
    W, intercept, phi = model._weights()
    compression, tensors = encode_compression(phi)
    parameters = encode_parameters(model)
    tensors |= {"W": _stored_weights(W, intercept.dtype, weights), "intercept": np.ascontiguousarray(intercept)}
    names = model.__dict__.get("feature_names_in_")
    if names is not None:
        tensors["feature_names"] = np.frombuffer(canonical(list(map(str, names))).encode(), dtype=np.uint8)
    document = {
        "parameters": parameters,
        "fitted": encode_fitted(model),
        "compression": compression,
        "tensors": document_entries(tensors),
    }
    metadata = signed_metadata(document)
    _replace(path, lambda temporary: save_file(tensors, temporary, metadata))


def _stored_weights(W: Array, dtype: np.dtype[Any], weights: str | None) -> Array:
    """W as it is to be stored."""
    if weights is not None and dtype != np.float32:
        raise ValueError(f"weights='float16' is for float32 models, but this one is {dtype}")
    if not all_finite(W):
        raise ValueError("W holds NaN or infinity: a model file would be refused")
    if weights is not None and W.dtype != np.float16:
        largest = max(float(W.max()), -float(W.min()))
        if largest > _HALF_MAX:
            raise ValueError(
                f"weights='float16' cannot hold W: its largest entry is {largest:g}, and float16 ends at {_HALF_MAX:g}"
            )
        W = W.astype(np.float16)
    return np.ascontiguousarray(W)


def _replace(path: str | os.PathLike[str], write: Callable[[Path], None]) -> None:
    """Let `write` make a file that takes the place of `path` once it is on the disk, or not at all."""
    target = Path(os.path.realpath(path_name(path)))  # a link stays one
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.exists() and not target.is_file():
        raise ValueError(f"path must be a regular file or a new name, but {path!r} is a device or a pipe")
    temporary = target.with_name(f".{secrets.token_hex(8)}.shore.tmp")
    with removed_on_failure(temporary, path):
        # safetensors may put a file of its own in this one's place, for its owner alone. The mode is the user's.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        try:
            write(temporary)
        except SafetensorError as error:
            raise _as_os_error(error, target) from error
        with open(temporary, "rb+") as file:
            os.chmod(temporary, mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    if os.name == "posix":  # the new name, too, must outlive a power cut
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _as_os_error(error: SafetensorError, target: Path) -> OSError:
    number = re.search(r"(?:os error |Os \{ code: )(\d+)", str(error))  # as new and old versions word it
    if number is None:
        return OSError(f"{target}: {error}")
    return OSError(int(number[1]), os.strerror(int(number[1])), str(target))
