"""Compressions by name, made for the outputs at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shore.compression.base import Compression
from shore.compression.dense import GaussianCompression
from shore.compression.signs import HeadTailCompression, SparseSignCompression

__all__ = ["COMPRESSIONS", "OutputEnergy", "compression_for"]

COMPRESSIONS: dict[str, type[SparseSignCompression | HeadTailCompression | GaussianCompression]] = {
    "sparse_sign": SparseSignCompression,
    "head_tail": HeadTailCompression,
    "gaussian": GaussianCompression,
}


@dataclass(frozen=True)
class OutputEnergy:
    """Σ_i w_i y_ij² of every output, as `weights`·4**exponent; sums of it are those of more rows.

    The exponent is 0 but where numbers are past 2**256 or all below 2**-256, whose squares would overflow or vanish.
    """

    weights: npt.NDArray[np.float64]
    exponent: int = 0

    @classmethod
    def of(cls, Y: Any, shift: npt.NDArray[Any] | None = None) -> OutputEnergy:
        """That of CSR rows; `shift` holds the square roots of their weights, None stands for ones."""
        exponent = math.frexp(float(np.abs(Y.data).max(initial=0)))[1]
        exponent -= max(-256, min(exponent, 256))
        energy = np.ldexp(Y.data.astype(np.float64), -exponent) ** 2
        if shift is not None:
            energy *= np.repeat(shift.astype(np.float64) ** 2, np.diff(Y.indptr))
        return cls(np.asarray(np.bincount(Y.indices, energy, minlength=Y.shape[1]), dtype=np.float64), exponent)

    def __add__(self, other: OutputEnergy) -> OutputEnergy:
        common = max((each.exponent for each in (self, other) if each.weights.any()), default=0)
        mine, its = (np.ldexp(each.weights, -2 * (common - each.exponent)) for each in (self, other))
        return OutputEnergy(mine + its, common)


def compression_for(
    Y: Any,
    name: str,
    n_components: int,
    *,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float32,
    shift: npt.NDArray[Any] | None = None,
) -> Compression:
    """Φ of a name for CSR outputs Y, whose weights count with 'head_tail'; `shift` as of `OutputEnergy`."""
    of: Any = OutputEnergy.of(Y, shift).weights if name == "head_tail" else Y.shape[1]
    return COMPRESSIONS[name](n_components, of, seed=seed, dtype=dtype)
