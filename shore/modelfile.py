"""The model file: a fitted `ShoreRegressor` in the safetensors format.

::

    8 bytes     length of the header
    header      JSON: what safetensors says of every tensor (dtype, shape, place), and `__metadata__`
                    format           "shore model"
                    format_version   "1"
                    shore_version    who wrote it
                    model            JSON: parameters, what fit found, Φ without its numbers, and every tensor's
                                     dtype, shape and SHA-256
                    sha256           of the four above
    tensors     W                    (d, m) float16, float32 or float64, feature-major
                intercept            (m,)
                tables | columns     Φ: sparse signs as compression.h lays them out | (K, m)
                head                 (H,) int64, outputs that own a row, if any do; if all do there are no tables
                feature_names        bytes: a JSON array, if the model has names

Nothing that is read is trusted. The header is parsed here and not by safetensors, so that what is accepted is written
down in one place; sizes are Python's integers; every array that is made is as long as bytes of the file that are
there.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import math
import mmap as _mmap
import numbers
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import save_file

from shore import solvers
from shore._core.threads import resolve_n_threads
from shore._validation import check_number, check_positive, check_seed, float_dtype
from shore._version import __version__
from shore.compression import (
    COMPRESSIONS,
    Compression,
    GaussianCompression,
    HeadTailCompression,
    MatrixCompression,
    SparseSignCompression,
    same_compression,
)
from shore.constraints import Box, Simplex
from shore.estimator import ShoreRegressor

__all__ = ["ModelFileError", "inspect", "load", "model_bytes", "save"]

_T = TypeVar("_T")

Array = npt.NDArray[Any]

_FORMAT, _VERSION = "shore model", 1
# What is written takes two or three thousand bytes. A bound keeps what JSON of a hostile file can grow to small.
_MAX_HEADER, _USUAL_HEADER = 1 << 18, 4096
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "U16": "<u2", "U32": "<u4", "U8": "|u1", "I64": "<i8"}
_CODES = {np.dtype(spelled).newbyteorder("="): code for code, spelled in _DTYPES.items()}
_SIGNS, _HEAD_TAIL, _GAUSSIAN, _MATRIX = "sparse_sign", "head_tail", "gaussian", "matrix"
_NAMES = tuple(COMPRESSIONS)  # what `compression` may be called
_HALF_MAX = float(np.finfo(np.float16).max)
# Numbers are looked at in blocks of that many.
_BLOCK = 1 << 20
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', flags=re.DOTALL)


class ModelFileError(ValueError):
    """The file is no model file that this version can read, or it is damaged.

    Examples
    --------
    >>> import shore
    >>> try:
    ...     shore.load(shore.__file__)
    ... except shore.ModelFileError as error:
    ...     print("refused:", str(error).partition(": ")[2])
    refused: not a model file, or cut short: its header would end behind its end
    """


# ------------------------------------------------------------ JSON


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError("JSON with a key that is there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(f"JSON with the number {name}")


def _parse(text: str, what: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ModelFileError(f"{what} is nested too deeply") from None
    except ModelFileError:
        raise
    except ValueError as error:  # also an integer of too many digits
        raise ModelFileError(f"{what} is not JSON: {error}") from None


def _record(value: Any, keys: set[str], what: str) -> dict[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict) or set(value) != keys:
        raise ModelFileError(f"{what} must be an object with the keys {', '.join(sorted(keys))}")
    return value


def _count(value: Any, what: str, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise ModelFileError(f"{what} must be an integer of at least {least}")
    return value


def _sha256(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


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


def _encode_parameters(model: ShoreRegressor) -> dict[str, Any]:
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


def _decode_parameters(given: Any) -> ShoreRegressor:
    """An unfitted model, its parameters checked as `fit` does; `compression` of an instance is left out."""
    parameters = dict(_record(given, set(ShoreRegressor._parameter_names()), "parameters"))
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
    return model


# ------------------------------------------------------------ what fit found


def _encode_fitted(model: ShoreRegressor) -> dict[str, Any]:
    path = model.__dict__.get("alpha_path_")
    return {
        "n_features_in": model.n_features_in_,
        "n_outputs": model.n_outputs_,
        "solver": model.solver_,
        "n_iter": int(model.n_iter_),
        "alpha": float(model.alpha_),
        "alpha_path": None if path is None else {name: path[name].tolist() for name in ("alpha", "precision")},
    }


def _decode_fitted(given: Any) -> dict[str, Any]:
    keys = {"n_features_in", "n_outputs", "solver", "n_iter", "alpha", "alpha_path"}
    fitted = dict(_record(given, keys, "fitted"))
    for name, least in (("n_features_in", 1), ("n_outputs", 1), ("n_iter", 0)):
        _count(fitted[name], name, least)
    if not isinstance(fitted["solver"], str) or fitted["solver"] not in solvers.SOLVERS or fitted["solver"] == "auto":
        raise ModelFileError("fitted: unknown solver")
    fitted["alpha"] = check_number(fitted["alpha"], "alpha", "a number of at least 0", closed=True)
    if fitted["alpha_path"] is not None:
        path = _record(fitted["alpha_path"], {"alpha", "precision"}, "alpha_path")
        for name, values in path.items():
            if not isinstance(values, list) or len(values) != len(path["alpha"]):
                raise ModelFileError("alpha_path must hold two lists of one length")
            numbers_ = [check_number(value, name, "a number of at least 0", closed=True) for value in values]
            path[name] = np.array(numbers_, dtype=np.float64)
    return fitted


# ------------------------------------------------------------ Φ


def _encode_compression(phi: Compression | None) -> tuple[dict[str, Any] | None, dict[str, Array]]:
    """Its description, and its tensors."""
    if phi is None:
        return None, {}
    common = {"n_components": phi.n_components, "n_outputs": phi.n_outputs, "dtype": phi.dtype.name}
    if type(phi) is SparseSignCompression:
        extra = {"kind": _SIGNS, "nnz_per_output": phi.nnz_per_output, "seed": phi.seed}
        return common | extra, {"tables": phi._tables}
    if type(phi) is HeadTailCompression:
        extra = {"kind": _HEAD_TAIL, "nnz_per_output": phi.nnz_per_output, "seed": phi.seed}
        extra["n_head"] = len(phi.head_outputs)
        tensors = {"tables": phi._tables, "head": phi.head_outputs}
        return common | extra, {name: array for name, array in tensors.items() if array.size}
    if type(phi) is GaussianCompression:
        return common | {"kind": _GAUSSIAN, "seed": phi.seed}, {"columns": phi._columns}
    if type(phi) is MatrixCompression:
        return common | {"kind": _MATRIX}, {"columns": phi._columns}
    raise TypeError(f"a model file cannot hold a compression of type {type(phi).__name__}")


def _read_description(given: Any) -> tuple[dict[str, Any], set[str]]:
    """A description of Φ with the keys that its kind has, and the names of its tensors."""
    kind = given.get("kind") if isinstance(given, dict) else None
    keys = {"kind", "n_components", "n_outputs", "dtype"}
    more: dict[Any, set[str]] = {
        _SIGNS: {"nnz_per_output", "seed"}, _HEAD_TAIL: {"nnz_per_output", "seed", "n_head"}, _GAUSSIAN: {"seed"},
        _MATRIX: set(),
    }  # fmt: skip
    if not isinstance(kind, str) or kind not in more:
        raise ModelFileError("compression is of an unknown kind")
    phi = _record(given, keys | more[kind], "compression")
    if kind in (_GAUSSIAN, _MATRIX):
        return phi, {"columns"}
    if kind == _SIGNS:
        return phi, {"tables"}
    n_head = _count(phi["n_head"], "n_head", 0)
    return phi, ({"head"} if n_head else set()) | ({"tables"} if n_head != phi["n_outputs"] else set())


def _decode_compression(phi: dict[str, Any], shape: tuple[int, int], tensors: dict[str, Array]) -> Compression:
    """Φ of a shape, from its description and its tensors."""
    if (_count(phi["n_components"], "n_components"), _count(phi["n_outputs"], "n_outputs")) != shape:
        raise ModelFileError(f"compression is not of the shape {shape} that W and n_outputs ask for")
    dtype = float_dtype(phi["dtype"])
    if "seed" in phi:
        check_seed(phi["seed"], "seed")
    if phi["kind"] in (_SIGNS, _HEAD_TAIL):
        sizes = {"n_components": shape[0], "n_outputs": shape[1], "seed": phi["seed"], "dtype": dtype}
        sizes["nnz_per_output"] = check_positive(phi["nnz_per_output"], "nnz_per_output")
        if phi["kind"] == _SIGNS:
            return SparseSignCompression._from_tables(tensors["tables"], **sizes)
        head = tensors.get("head", np.empty(0, np.int64))
        if head.dtype != np.int64 or head.shape != (phi["n_head"],):
            raise ModelFileError(f"head must be {phi['n_head']} integers")
        return HeadTailCompression._from_tables(tensors.get("tables", np.empty(0, np.uint16)), head, **sizes)
    tensor = tensors["columns"]
    if tensor.shape != shape[::-1] or tensor.dtype != dtype:
        raise ModelFileError(f"columns must be of shape {shape[::-1]} and {dtype}")
    if not _all_finite(tensor):  # always: a copy in 8 bits is made of them here, so they are read anyway
        raise ModelFileError("columns hold NaN or infinity")
    if phi["kind"] == _GAUSSIAN:
        return GaussianCompression._from_columns(tensor, seed=phi["seed"])
    return MatrixCompression._from_columns(tensor)


def _all_finite(array: Array) -> bool:
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        if block.dtype == np.float16:  # NumPy's own look at these is slow
            if int((block.view(np.uint16) & 0x7C00).max()) == 0x7C00:
                return False
        elif not np.isfinite(block).all():
            return False
    return True


# ------------------------------------------------------------ writing


def _stored_weights(W: Array, dtype: np.dtype[Any], weights: str | None) -> Array:
    """W as it is to be stored."""
    if weights is not None and dtype != np.float32:
        raise ValueError(f"weights='float16' is for float32 models, but this one is {dtype}")
    if not _all_finite(W):
        raise ValueError("W holds NaN or infinity: a model file would be refused")
    if weights is not None and W.dtype != np.float16:
        largest = max(float(W.max()), -float(W.min()))
        if largest > _HALF_MAX:
            raise ValueError(
                f"weights='float16' cannot hold W: its largest entry is {largest:g}, and float16 ends at {_HALF_MAX:g}"
            )
        W = W.astype(np.float16)
    return np.ascontiguousarray(W)


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
    of_phi = sum(array.nbytes for array in _encode_compression(compression)[1].values())
    return _USUAL_HEADER + m * (n_features * (2 if weights else dtype.itemsize) + dtype.itemsize) + of_phi


def save(model: ShoreRegressor, path: str | os.PathLike[str], weights: str | None = None) -> None:
    """Write a fitted model to one file, atomically; see `ShoreRegressor.save`."""
    if not isinstance(model, ShoreRegressor):
        raise TypeError(f"model must be a ShoreRegressor, got {type(model).__name__}")
    if weights not in (None, "float16"):
        raise ValueError(f"weights must be None or 'float16', got {weights!r}")
    model._require_fitted()
    W, intercept, phi = model._weights()
    compression, tensors = _encode_compression(phi)
    parameters = _encode_parameters(model)
    tensors |= {"W": _stored_weights(W, intercept.dtype, weights), "intercept": np.ascontiguousarray(intercept)}
    names = model.__dict__.get("feature_names_in_")
    if names is not None:
        tensors["feature_names"] = np.frombuffer(_canonical(list(map(str, names))).encode(), dtype=np.uint8)
    document = {
        "parameters": parameters,
        "fitted": _encode_fitted(model),
        "compression": compression,
        "tensors": {
            name: {"dtype": _CODES[array.dtype], "shape": list(array.shape), "sha256": _sha256(array)}
            for name, array in tensors.items()
        },
    }
    metadata = {
        "format": _FORMAT,
        "format_version": str(_VERSION),
        "shore_version": __version__,
        "model": _canonical(document),
    }
    metadata["sha256"] = _sha256(_canonical(metadata).encode())
    _replace(path, lambda temporary: save_file(tensors, temporary, metadata))


def _replace(path: str | os.PathLike[str], write: Callable[[Path], None]) -> None:
    """Let `write` make a file that takes the place of `path` once it is on the disk, or not at all."""
    target = Path(os.path.realpath(os.fsdecode(path)))  # a link stays one
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.exists() and not target.is_file():
        raise ValueError(f"path must be a regular file or a new name, but {path!r} is a device or a pipe")
    temporary = target.with_name(f".{secrets.token_hex(8)}.shore.tmp")
    try:
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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
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


# ------------------------------------------------------------ reading


class _Tensors:
    """The tensors of an open file, as its header describes them."""

    def __init__(self, file: BinaryIO, size: int, mmap: bool) -> None:
        self._file = file
        self._start, header = _read_header(file, size)
        self.metadata = header.pop("__metadata__", None)
        self.document = _read_metadata(self.metadata)
        self._places = _read_places(header, size - self._start)
        described = self.document["tensors"]
        if not isinstance(described, dict) or set(described) != set(self._places):
            raise ModelFileError("the tensors are not those that the metadata lists")
        self._sums: dict[str, str] = {}
        for name, (_, code, shape) in self._places.items():
            entry = _record(described[name], {"dtype", "shape", "sha256"}, f"tensor {name}")
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
        return set(self._places)

    def describe(self, name: str, *, verify: bool) -> dict[str, Any]:
        """dtype, shape, bytes and checksum of a tensor, and whether that is right (None if it was not compared)."""
        _, code, shape = self._places[name]
        dtype, ok = np.dtype(_DTYPES[code]), None
        if verify:
            try:
                self.read(name, verify=True)
                ok = True
            except ModelFileError:
                ok = False
        size = math.prod(shape) * dtype.itemsize
        return {"dtype": dtype.name, "shape": list(shape), "bytes": size, "sha256": str(self._sums[name]), "ok": ok}

    def read(self, name: str, *, verify: bool) -> Array:
        """A tensor, read-only; of the mapping if there is one and the kernels can read it as it lies there."""
        begin, code, shape = self._places[name]
        dtype = np.dtype(_DTYPES[code])
        array: Array
        if self._mapping is not None:
            start = self._start + begin
            array = np.frombuffer(self._mapping, dtype, math.prod(shape), start).reshape(shape)
            if not array.flags.aligned:
                array = array.copy()
        else:
            array = np.empty(shape, dtype)
            self._file.seek(self._start + begin)
            if self._file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
                raise ModelFileError("the file changed while it was read")
        if verify and _sha256(array) != self._sums[name]:
            raise ModelFileError(f"tensor {name} is damaged: its checksum does not match")
        array = array.astype(dtype.newbyteorder("="), copy=False)
        array.flags.writeable = False
        return array


def _read_header(file: BinaryIO, size: int) -> tuple[int, dict[str, Any]]:
    """Where the tensors begin, and the header."""
    if size < 8:
        raise ModelFileError("not a model file: it is empty" if size == 0 else "not a model file: it is too short")
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise ModelFileError("not a model file, or cut short: its header would end behind its end")
    if length > _MAX_HEADER:
        raise ModelFileError(f"not a model file: its header has {length} bytes, and those have at most {_MAX_HEADER}")
    data = file.read(length)
    if len(data) != length:
        raise ModelFileError("the file changed while it was read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelFileError("not a model file: its header is not UTF-8") from None
    header = _parse(text, "the header")
    if not text.startswith("{") or not isinstance(header, dict):
        raise ModelFileError("not a model file: its header is no JSON object")
    return 8 + length, header


def _read_metadata(metadata: Any) -> dict[str, Any]:
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
    if not all(isinstance(value, str) for value in _record(metadata, keys, "the metadata").values()):
        raise ModelFileError("the metadata must hold strings")
    rest = {name: value for name, value in metadata.items() if name != "sha256"}
    if _sha256(_canonical(rest).encode()) != metadata["sha256"]:
        raise ModelFileError("the metadata is damaged: its checksum does not match")
    document = _parse(metadata["model"], "the description of the model")
    return _record(document, {"parameters", "fitted", "compression", "tensors"}, "the description of the model")


def _read_places(header: dict[str, Any], n_bytes: int) -> dict[str, tuple[int, str, tuple[int, ...]]]:
    """Begin, dtype and shape of every tensor; together they are all `n_bytes` behind the header, each byte once."""
    places: dict[str, tuple[int, str, tuple[int, ...]]] = {}
    ranges = []
    for name, given in header.items():
        what = f"tensor {name[:40]!r}"
        entry = _record(given, {"dtype", "shape", "data_offsets"}, what)
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(code, str) or code not in _DTYPES:
            raise ModelFileError(f"{what} has an unknown dtype")
        if not isinstance(shape, list) or not 1 <= len(shape) <= 2:
            raise ModelFileError(f"{what} must have one or two dimensions")
        if not isinstance(offsets, list) or len(offsets) != 2:
            raise ModelFileError(f"{what} must have two offsets")
        begin, end = (_count(offset, f"{what}: an offset", 0) for offset in offsets)
        size = math.prod(_count(length, f"{what}: a length") for length in shape) * np.dtype(_DTYPES[code]).itemsize
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


def _read_names(data: Array, n_features: int) -> Array:
    """Names of features from a JSON array of strings."""
    text = data.tobytes()
    # What is left without the strings says, before anything is made of them, that they are strings and how many.
    if _STRING.sub(b"", text) != b"[" + b"," * (n_features - 1) + b"]":
        raise ModelFileError(f"feature_names must be a JSON array of {n_features} strings")
    try:
        names = _parse(text.decode("ascii"), "feature_names")
    except UnicodeDecodeError:
        raise ModelFileError("feature_names must be ASCII, with escapes") from None
    return np.array(names, dtype=object)


def _read_model(tensors: _Tensors, verify: bool) -> ShoreRegressor:
    document = tensors.document
    model, fitted = _decode_parameters(document["parameters"]), _decode_fitted(document["fitted"])
    described = document["compression"]
    expected, of_phi = {"W", "intercept"}, set[str]()
    if described is not None:
        described, of_phi = _read_description(described)
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
            if not _all_finite(array):
                raise ModelFileError(f"{name} holds NaN or infinity")
    compression = None
    if described is not None:
        parts = {name: tensors.read(name, verify=verify) for name in of_phi}
        compression = _decode_compression(described, (W.shape[1], n_outputs), parts)
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


def load(path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> ShoreRegressor:
    """Read a model that `ShoreRegressor.save` wrote.

    Parameters
    ----------
    path : str or path
    mmap : bool, default True
        Map the file: W is not copied, only what is used of it is read, and processes share its pages. The file may be
        replaced, by `save` too, but must not be written to in place. False reads all of it into memory.
    verify : bool, default True
        Compare the checksums of all tensors, and look for NaN and infinity in W; this reads the whole file. With
        False the header and the tables of Φ are still checked in full, so that no file can make a kernel read out of
        bounds.

    Returns
    -------
    ShoreRegressor
        Its predictions are those of the saved model to the bit. `partial_fit` starts anew.

    Raises
    ------
    ModelFileError
        The file is truncated, damaged, foreign, or written by a newer version.
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
    return _opened(path, lambda file, size: _read_model(_Tensors(file, size, mmap), verify))


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

    def read(file: BinaryIO, size: int) -> dict[str, Any]:
        tensors = _Tensors(file, size, mmap=True)
        document = tensors.document
        _decode_parameters(document["parameters"])
        _decode_fitted(copy.deepcopy(document["fitted"]))
        if document["compression"] is not None:
            _read_description(document["compression"])
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


def _opened(path: str | os.PathLike[str], read: Callable[[BinaryIO, int], _T]) -> _T:
    """What `read` makes of the file and its size; whatever it finds wrong is a ModelFileError with the name."""
    name = os.fsdecode(path)
    with open(name, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{name}: not a regular file")
        try:
            return read(file, status.st_size)
        except (ValueError, TypeError, OverflowError) as error:  # of the checks that fit makes, too
            raise ModelFileError(f"{name}: {error}") from None
