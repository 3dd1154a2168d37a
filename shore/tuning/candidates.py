"""What to try."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shore.compression import Compression
from shore.modelfile import model_bytes
from shore.theory import components_for

__all__ = ["Sizes", "candidates"]

_STEP = 16  # m is tried in multiples of it


class Sizes:
    """How long model files are, by compression and m."""

    def __init__(self, n_features: int, n_outputs: int, dtype: np.dtype[Any], weights: str | None) -> None:
        self._n_features, self._n_outputs, self._dtype, self._weights = n_features, n_outputs, dtype, weights

    def of(self, phi: Compression | None) -> int:
        """With that Φ."""
        return model_bytes(self._n_features, self._n_outputs, phi, self._dtype, self._weights)

    def named(self, name: str | None, m: int) -> int:
        """An estimate from above: no Φ is made for it."""
        K, itemsize = self._n_outputs, self._dtype.itemsize
        if name is None:
            return self.of(None)
        per_row = self._n_features * (2 if self._weights else itemsize) + itemsize
        if name == "gaussian":
            of_phi = K * m * itemsize
        else:  # tables of the whole, and 8 bytes for an output of the head
            of_phi = -(-K // 16) * 16 * min(m, 16) * (2 if m <= 32_768 else 4) + (8 * m if name == "head_tail" else 0)
        return m * per_row + of_phi + model_bytes(0, 0, None, self._dtype, self._weights)

    def largest(self, name: str, max_bytes: float) -> int:
        """The largest m, a multiple of _STEP, whose file is within a number of bytes; 0 if there is none."""
        low, high = 0, max(1, int(max_bytes) // _STEP)
        while low < high:
            middle = (low + high + 1) // 2
            if self.named(name, middle * _STEP) <= max_bytes:
                low = middle
            else:
                high = middle - 1
        return low * _STEP


def candidates(
    sizes: Sizes, names: tuple[str | None, ...], given: tuple[int, ...] | None, sparsity: int, n_outputs: int,
    max_bytes: float | None,
) -> list[tuple[str | None, int]]:  # fmt: skip
    """Names and m to try, the smallest files first."""
    rule = components_for(sparsity, n_outputs)
    most = _STEP * math.ceil(n_outputs / _STEP)
    found: dict[tuple[str | None, int], int] = {}
    tried: dict[tuple[str | None, int], int] = {}
    for name in names:
        if name is None:
            ms: Sequence[int] = (n_outputs,)
        elif given is not None:
            ms = given
        else:
            ms = [min(most, max(_STEP, round(rule * f / _STEP) * _STEP)) for f in (0.5, 1, 2, 4)]
            if max_bytes is not None:
                ms = [*ms, min(max(ms), max(_STEP, sizes.largest(name, max_bytes)))]
        for m in ms:
            tried[name, m] = sizes.named(name, m)
    for at, size in tried.items():
        if max_bytes is None or size <= max_bytes:
            found[at] = size
    if not found:
        name, m = min(tried, key=lambda at: tried[at])
        raise ValueError(
            f"max_bytes={max_bytes:g} is too small: the smallest model to try, {name or 'none'!r} with "
            f"n_components={m}, takes {tried[name, m]:,} bytes"
        )
    return sorted(found, key=lambda at: found[at])
