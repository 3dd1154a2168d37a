"""Compressions by name, made for the outputs at hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from shore.compression.base import Compression
from shore.compression.dense import GaussianCompression
from shore.compression.signs import HeadTailCompression, SparseSignCompression

__all__ = ["COMPRESSIONS", "compression_for", "output_weights"]

COMPRESSIONS: dict[str, type[SparseSignCompression | HeadTailCompression | GaussianCompression]] = {
    "sparse_sign": SparseSignCompression,
    "head_tail": HeadTailCompression,
    "gaussian": GaussianCompression,
}


def output_weights(Y: Any, shift: npt.NDArray[Any] | None = None) -> npt.NDArray[np.float64]:
    """The energy Σ_i w_i y_ij² of every output of CSR rows, up to a power of 2 that keeps squares in range.

    `shift` holds the square roots of the weights of the rows; None stands for ones.
    """
    exponent = max(0, math.frexp(float(np.abs(Y.data).max(initial=0)))[1] - 256)  # 0 for all but enormous numbers
    energy = np.ldexp(Y.data.astype(np.float64), -exponent) ** 2
    if shift is not None:
        energy *= np.repeat(shift.astype(np.float64) ** 2, np.diff(Y.indptr))
    return np.asarray(np.bincount(Y.indices, energy, minlength=Y.shape[1]), dtype=np.float64)


def compression_for(
    Y: Any,
    name: str,
    n_components: int,
    *,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float32,
    shift: npt.NDArray[Any] | None = None,
) -> Compression:
    """Φ of a name for CSR outputs Y, whose weights count with 'head_tail'; `shift` as of `output_weights`."""
    of: Any = output_weights(Y, shift) if name == "head_tail" else Y.shape[1]
    return COMPRESSIONS[name](n_components, of, seed=seed, dtype=dtype)
