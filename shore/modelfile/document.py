"""The metadata and the JSON document in it: parameters, and what fit found.

What is read goes through the checks that `fit` makes too; `reading` turns their errors into a `ModelFileError`.
"""

from __future__ import annotations

import math
import numbers
import re
from typing import Any

import numpy as np

from shore import solvers
from shore._core.threads import available_cores, resolve_n_threads
from shore._validation import check_number, float_dtype
from shore._version import __version__
from shore.compression import COMPRESSIONS, Compression, same_compression
from shore.constraints import Box, Simplex
from shore.estimator import ShoreRegressor
from shore.modelfile.checks import ModelFileError, canonical, count, parse, record, sha256

__all__ = [
    "decode_fitted",
    "decode_parameters",
    "encode_fitted",
    "encode_parameters",
    "read_metadata",
    "signed_metadata",
]

_FORMAT, _VERSION = "shore model", 1
_NAMES = tuple(COMPRESSIONS)  # what `compression` may be called


# ------------------------------------------------------------ the metadata around the document


def signed_metadata(document: dict[str, Any]) -> dict[str, str]:
    """The metadata with the document about the model, and a checksum over all of it."""
    metadata = {
        "format": _FORMAT,
        "format_version": str(_VERSION),
        "shore_version": __version__,
        "model": canonical(document),
    }
    return metadata | {"sha256": sha256(canonical(metadata).encode())}


def read_metadata(metadata: Any) -> dict[str, Any]:
    """The document about the model."""
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        raise ModelFileError("not a model file: a safetensors file, but not one of shore")
    version = metadata.get("format_version")
    if not isinstance(version, str) or not re.fullmatch(r"[1-9][0-9]{0,8}", version):
        raise ModelFileError("the metadata has no valid format version")
    if int(version) > _VERSION:
        writer = str(metadata.get("shore_version"))[:40]
        raise ModelFileError(
            f"the file has format version {version}, and this is shore {__version__}, which reads version {_VERSION}: "
            f"shore {writer!r} or newer is needed"
        )
    keys = {"format", "format_version", "shore_version", "model", "sha256"}
    if not all(isinstance(value, str) for value in record(metadata, keys, "the metadata").values()):
        raise ModelFileError("the metadata must hold strings")
    rest = {name: value for name, value in metadata.items() if name != "sha256"}
    if sha256(canonical(rest).encode()) != metadata["sha256"]:
        raise ModelFileError("the metadata is damaged: its checksum does not match")
    document = parse(metadata["model"], "the description of the model")
    return record(document, {"parameters", "fitted", "compression", "tensors"}, "the description of the model")


# ------------------------------------------------------------ parameters


def _encode_number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)  # JSON has no infinity


def _decode_number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf") else value


def _encode_parameter(name: str, value: Any) -> Any:
    if name == "dtype":
        return float_dtype(value).name
    if name == "fit_intercept":
        return bool(value)
    if isinstance(value, Box):
        return {"box": [_encode_number(value.low), _encode_number(value.high)]}
    if isinstance(value, Simplex):
        return {"simplex": value.total}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{name} cannot be written to a model file: {value!r} of type {type(value).__name__}")


def encode_parameters(model: ShoreRegressor) -> dict[str, Any]:
    """Parameters of a fitted model, checked as `fit` does; an instance of a compression is noted as the fitted one."""
    model._check_parameters()
    resolve_n_threads(model.n_threads)
    parameters = {name: getattr(model, name) for name in ShoreRegressor._parameter_names()}
    given = parameters.pop("compression")
    if isinstance(given, Compression):
        if given is not model.compression_ and not same_compression(given, model.compression_):
            raise ValueError(
                f"compression was changed since fit, to {given!r}: fit again, or set it back to {model.compression_!r}"
            )
        given = {"fitted": True}
    elif given is not None and (not isinstance(given, str) or given not in _NAMES):
        raise ValueError(f"compression must be {', '.join(map(repr, _NAMES))}, a compression or None, got {given!r}")
    return {name: _encode_parameter(name, value) for name, value in parameters.items()} | {"compression": given}


def _decode_constraint(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"box"} and isinstance(value["box"], list) and len(value["box"]) == 2:
        return Box(*map(_decode_number, value["box"]))
    if isinstance(value, dict) and set(value) == {"simplex"}:
        return Simplex(value["simplex"])
    return value


def decode_parameters(given: Any) -> ShoreRegressor:
    """An unfitted model, its parameters checked as `fit` does; `compression` of an instance is left out."""
    parameters = dict(record(given, set(ShoreRegressor._parameter_names()), "parameters"))
    compression = parameters.pop("compression")
    if compression not in (None, *_NAMES, {"fitted": True}):
        raise ModelFileError("parameters: unknown compression")
    parameters["constraint"] = _decode_constraint(parameters["constraint"])
    for name, value in parameters.items():
        if value is not None and not isinstance(value, str | int | float | Box | Simplex):
            raise ModelFileError(f"parameters: {name} has a value of a wrong type")
    for name, kind in (("fit_intercept", bool), ("verbose", int)):
        if not isinstance(parameters[name], kind):
            raise ModelFileError(f"parameters: {name} has a value of a wrong type")
    parameters["dtype"] = float_dtype(parameters["dtype"]).type
    named = compression if isinstance(compression, str) else None
    model = ShoreRegressor(**parameters, compression=named)
    model._check_parameters()
    resolve_n_threads(model.n_threads)
    if model.n_threads is not None:  # of the machine that wrote it, or of who means harm
        model.n_threads = min(model.n_threads, available_cores())
    return model


# ------------------------------------------------------------ what fit found


def encode_fitted(model: ShoreRegressor) -> dict[str, Any]:
    """Sizes, solver and penalty of a fitted model."""
    path = model.__dict__.get("alpha_path_")
    return {
        "n_features_in": model.n_features_in_,
        "n_outputs": model.n_outputs_,
        "solver": model.solver_,
        "n_iter": int(model.n_iter_),
        "alpha": float(model.alpha_),
        "alpha_path": None if path is None else {name: path[name].tolist() for name in ("alpha", "precision")},
    }


def decode_fitted(given: Any) -> dict[str, Any]:
    """The same, checked; the lists of `alpha_path` are made arrays in place."""
    keys = {"n_features_in", "n_outputs", "solver", "n_iter", "alpha", "alpha_path"}
    fitted = dict(record(given, keys, "fitted"))
    for name, least in (("n_features_in", 1), ("n_outputs", 1), ("n_iter", 0)):
        count(fitted[name], name, least)
    if not isinstance(fitted["solver"], str) or fitted["solver"] not in solvers.SOLVERS or fitted["solver"] == "auto":
        raise ModelFileError("fitted: unknown solver")
    fitted["alpha"] = check_number(fitted["alpha"], "alpha", "a number of at least 0", closed=True)
    if fitted["alpha_path"] is not None:
        path = record(fitted["alpha_path"], {"alpha", "precision"}, "alpha_path")
        for name, values in path.items():
            if not isinstance(values, list) or len(values) != len(path["alpha"]):
                raise ModelFileError("alpha_path must hold two lists of one length")
            numbers_ = [check_number(value, name, "a number of at least 0", closed=True) for value in values]
            path[name] = np.array(numbers_, dtype=np.float64)
    return fitted
