"""Units in which X, alpha and the targets are of ordinary size.

Products of numbers near the ends of the range vanish or overflow. 2ᵃX, 4ᵃalpha and 2ᵇB have the solution 2ᵇ⁻ᵃW, and
powers of two change no digit. Nearly always all exponents are 0, and nothing is done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from shore._validation import is_sparse
from shore.solvers.accuracy import good_error, norm, warn_inaccurate
from shore.solvers.rows import Array, Rows, Targets, weighted_csr

__all__ = ["RowUnits", "TargetUnits", "rows_in_units"]

# Exponents of products that are far from the ends of the range, by bytes of a number.
_ORDINARY = {4: 80, 8: 400}
# Of numbers that are larger than that on purpose.
_LARGE = {4: 100, 8: 900}
# No power of two that brings a number near 1 overflows itself.
_MOST = 900
# The exponent of 0.
_NONE = -(1 << 20)


def _exponent(largest: float) -> int:
    return math.frexp(largest)[1] if largest > 0 else _NONE


def _unit(exponent: int, itemsize: int, factors: int = 4) -> int:
    """What brings a number near 1; 0 if products of so many like it are of ordinary size already, or it is 0."""
    if exponent == _NONE or abs(exponent) * factors <= _ORDINARY[itemsize]:
        return 0
    return min(-exponent, _MOST)


def _largest(X: Any, shift: Array | None) -> float:
    """The largest |x| of rows, weighted."""
    entries = X.data if is_sparse(X) else X
    if entries.size == 0:
        return 0.0
    if shift is None:
        return max(float(entries.max()), -float(entries.min()))
    if is_sparse(X):
        return float(np.abs(entries * np.repeat(shift, np.diff(X.indptr))).max())
    return float((np.maximum(X.max(axis=1), -X.min(axis=1).astype(np.float64)) * shift).max())


def _scaled(X: Any, unit: int, dtype: np.dtype[Any]) -> Any:
    """2ᵃX, in no narrower dtype than that to compute in."""
    if unit == 0:
        return X
    if is_sparse(X):
        return sparse.csr_array((_scaled(X.data, unit, dtype), X.indices, X.indptr), shape=X.shape)
    return np.ldexp(X.astype(np.promote_types(X.dtype, dtype), copy=False), unit)


@dataclass(frozen=True)
class RowUnits:
    """2ᵃX and 4ᵃalpha, the larger of which is of ordinary size.

    Attributes
    ----------
    rows : Rows
    alpha : float
    exponent : int
        a.
    size : int
        The exponent of 2ᵃX where alpha is so much larger that products with X are no more of ordinary size; else 0.
    largest : float
        The largest |x| of 2ᵃX; infinity if that is not known.
    """

    rows: Rows
    alpha: float
    exponent: int = 0
    size: int = 0
    largest: float = math.inf


def rows_in_units(rows: Rows, alpha: float, factors: int) -> RowUnits:
    """Rows and a penalty in units; products have so many factors X."""
    given, shift, of_weights = (rows.X if rows.unweighted is None else rows.unweighted), rows.shift, 0
    weighted = given is rows.X and is_sparse(given)  # already, or not at all
    if shift is not None and not weighted:
        of_weights = _unit(_exponent(float(shift.max())), 4)
        shift = np.ldexp(shift, of_weights)
    largest, itemsize = _largest(given, None if weighted else shift), rows.dtype.itemsize
    of_alpha = _exponent(math.sqrt(alpha)) + of_weights if alpha > 0 else _NONE
    unit = _unit(max(_exponent(largest), of_alpha), itemsize, factors)
    largest = math.ldexp(largest, unit)
    size = -_unit(_exponent(largest), itemsize, factors)
    if unit == of_weights == 0:
        return RowUnits(rows, alpha, 0, size, largest)
    X, both = _scaled(given, unit, rows.dtype), unit + of_weights
    mean = None if rows.mean is None else np.ldexp(rows.mean, unit)
    if shift is not None and is_sparse(X) and not weighted:
        made = Rows(weighted_csr(X, shift, rows.dtype), rows.dtype, mean, shift, unweighted=X)
    else:
        made = Rows(X, rows.dtype, mean, shift)
    return RowUnits(made, math.ldexp(alpha, 2 * both), both, size, largest)


class TargetUnits:
    """Targets in columns of ordinary size, and W for them as it was meant.

    Parameters
    ----------
    targets : callable
    m : int
    dtype : dtype
        To compute in.
    scale : RowUnits
        Of the rows that W is solved for.
    """

    def __init__(self, targets: Targets, m: int, dtype: np.dtype[Any], scale: RowUnits) -> None:
        self._targets, self._dtype, self._scale = targets, dtype, scale
        self._units, self._largest = np.zeros(m, dtype=np.int32), np.full(m, -1.0)

    def __call__(self, start: int, stop: int) -> Array:
        """Columns [start, stop)."""
        B, here = self._targets(start, stop), slice(start, stop)
        if self._largest[here].min(initial=0) < 0:  # not seen yet
            self._largest[here] = np.maximum(B.max(axis=0, initial=0), -B.min(axis=0, initial=0))
            self._units[here] = [self._unit(float(size)) for size in self._largest[here]]
        return np.ascontiguousarray(np.ldexp(B, self._units[here])) if self._units[here].any() else B

    def _unit(self, largest: float) -> int:
        exponent, itemsize = _exponent(largest), self._dtype.itemsize
        if self._scale.size == 0 or largest == 0:
            return _unit(exponent, itemsize)
        return min(-self._scale.size, _LARGE[itemsize]) - exponent

    def undo(self, W: Array) -> Array:
        """W of shape (d, m) for the targets and rows as they came, in the dtype.

        Warns if that has no digits for it, unless W is so small that scores of rows like these do not notice.
        """
        exponents = self._scale.exponent - self._units
        if not exponents.any():
            return W
        with np.errstate(over="ignore"):  # for the caller to refuse
            meant = np.ldexp(W, exponents).astype(self._dtype)
        if not np.isfinite(meant).all():
            return meant
        lost, good = norm(np.ldexp(meant.astype(np.float64), -exponents) - W), good_error(self._dtype)
        targets = float(np.ldexp(self._largest, self._units).max(initial=0))
        if lost > good * norm(W) and lost * self._scale.largest > good * targets:
            cause = f"W is too small for the digits of {self._dtype}"
            warn_inaccurate(lost / norm(W), cause, "scale X down or Y up, or use a smaller alpha")
        return meant
