"""Φ in the document, without its numbers, and as tensors with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from shore._validation import check_positive, check_seed, float_dtype
from shore.compression import (
    Compression,
    GaussianCompression,
    HeadTailCompression,
    MatrixCompression,
    SparseSignCompression,
)
from shore.modelfile.checks import ModelFileError, count, record
from shore.modelfile.tensors import Array, all_finite

__all__ = ["INDEX_TENSORS", "decode_compression", "encode_compression", "read_description"]

# What kernels go by to find their place in memory: what is checked must be what is used.
INDEX_TENSORS = {"tables", "head"}

_SIGNS, _HEAD_TAIL, _GAUSSIAN, _MATRIX = "sparse_sign", "head_tail", "gaussian", "matrix"


def encode_compression(phi: Compression | None) -> tuple[dict[str, Any] | None, dict[str, Array]]:
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


def read_description(given: Any) -> tuple[dict[str, Any], set[str]]:
    """A description of Φ with the keys that its kind has, and the names of its tensors."""
    kind = given.get("kind") if isinstance(given, dict) else None
    keys = {"kind", "n_components", "n_outputs", "dtype"}
    more: dict[Any, set[str]] = {
        _SIGNS: {"nnz_per_output", "seed"}, _HEAD_TAIL: {"nnz_per_output", "seed", "n_head"}, _GAUSSIAN: {"seed"},
        _MATRIX: set(),
    }  # fmt: skip
    if not isinstance(kind, str) or kind not in more:
        raise ModelFileError("compression is of an unknown kind")
    phi = record(given, keys | more[kind], "compression")
    if kind in (_GAUSSIAN, _MATRIX):
        return phi, {"columns"}
    if kind == _SIGNS:
        return phi, {"tables"}
    n_head = count(phi["n_head"], "n_head", 0)
    return phi, ({"head"} if n_head else set()) | ({"tables"} if n_head != phi["n_outputs"] else set())


def decode_compression(phi: dict[str, Any], shape: tuple[int, int], tensors: dict[str, Array]) -> Compression:
    """Φ of a shape, from its description and its tensors."""
    if (count(phi["n_components"], "n_components"), count(phi["n_outputs"], "n_outputs")) != shape:
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
    if not all_finite(tensor):  # always: a copy in 8 bits is made of them here, so they are read anyway
        raise ModelFileError("columns hold NaN or infinity")
    if phi["kind"] == _GAUSSIAN:
        return GaussianCompression._from_columns(tensor, seed=phi["seed"])
    return MatrixCompression._from_columns(tensor)
