"""The feasible sets F, and what `constraint`, `allowed` and `denied` mean for the kernels."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core.feasible import FeasibleSet
from shore._validation import as_array, canonical_csr, is_sparse

__all__ = ["Box", "Constraint", "Simplex", "feasible_set"]


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be in the range of float64") from None
    if math.isnan(number):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return number


@dataclass(frozen=True)
class Box:
    """Outputs between two bounds: ``low <= y_j <= high``.

    Parameters
    ----------
    low, high : float
        Bounds with ``low <= 0 <= high``, so that an output that is not kept, 0, is inside. Either may be
        infinite.

    Examples
    --------
    >>> import numpy as np, shore
    >>> shore.project(np.array([[0.2, 3.0, -5.0]]), 2, shore.Box(-1, 1)).toarray()
    array([[ 0.,  1., -1.]])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _number(self.low, "low"))
        object.__setattr__(self, "high", _number(self.high, "high"))
        if not self.low <= 0 <= self.high:
            raise ValueError(f"Box needs low <= 0 <= high, got low={self.low:g}, high={self.high:g}")


@dataclass(frozen=True)
class Simplex:
    """Non-negative outputs that sum to a total, e.g. the weights of a portfolio.

    Parameters
    ----------
    total : float, default 1.0
        The sum, positive and finite.

    Examples
    --------
    >>> import numpy as np, shore
    >>> shore.project(np.array([[0.5, 0.1, 0.9]]), 2, shore.Simplex()).toarray().round(2)
    array([[0.3, 0. , 0.7]])
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _number(self.total, "total"))
        if not 0 < self.total < math.inf:
            raise ValueError(f"Simplex needs a positive, finite total, got total={self.total:g}")


Constraint = str | Box | Simplex

# The enum of constraint.h.
_NAMED = {"real": 0, "nonneg": 1, "binary": 2}
_BOX, _SIMPLEX = 3, 4


def _constraint_code(constraint: Any, dtype: np.dtype[Any]) -> tuple[int, float, float, float]:
    """(kind, low, high, total) for the kernels, bounds rounded to the dtype of the values."""
    if isinstance(constraint, Box):
        with np.errstate(over="ignore"):  # a bound past the range of the dtype is none
            return _BOX, float(dtype.type(constraint.low)), float(dtype.type(constraint.high)), 0.0
    if isinstance(constraint, Simplex):
        info = np.finfo(dtype)
        if not float(info.tiny) <= constraint.total <= float(info.max) ** 0.5:
            raise ValueError(f"constraint {constraint!r}: its total is out of the range of {dtype}")
        return _SIMPLEX, 0.0, 0.0, constraint.total
    accepted = "'real', 'nonneg', 'binary', shore.Box(low, high) or shore.Simplex(total)"
    if not isinstance(constraint, str):
        raise TypeError(f"constraint must be {accepted}, got {constraint!r}")
    if constraint not in _NAMED:
        raise ValueError(f"constraint must be {accepted}, got {constraint!r}")
    return _NAMED[constraint], 0.0, 0.0, 0.0


def _mask_for_all(which: Any, name: str, n_outputs: int) -> npt.NDArray[np.bool_]:
    """An index array or a boolean mask, as a boolean mask."""
    if isinstance(which, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; pass indices or a boolean mask")
    outputs = as_array(which, name, "an array of indices or booleans, or a SciPy sparse matrix")
    if outputs.ndim != 1:
        raise ValueError(
            f"{name} must be 1-D (indices, or a boolean mask of length {n_outputs}), or a SciPy sparse matrix "
            f"with a pattern for every row; got shape {outputs.shape}"
        )
    if outputs.dtype == np.bool_:
        if outputs.shape[0] != n_outputs:
            raise ValueError(f"{name} is a mask of length {outputs.shape[0]}, but there are {n_outputs} outputs")
        return outputs
    mask = np.zeros(n_outputs, dtype=np.bool_)
    if outputs.size == 0:
        return mask
    if outputs.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integer indices or booleans, got dtype {outputs.dtype}")
    if outputs.min() < 0 or outputs.max() >= n_outputs:
        raise ValueError(f"{name} must hold indices from 0 to {n_outputs - 1}, got {outputs.min()} to {outputs.max()}")
    mask[outputs] = True
    return mask


def _pattern_per_row(which: Any, name: str, shape: tuple[int, int]) -> sparse.csr_array:
    """The non-zero entries of a sparse matrix, as a CSR of ones."""
    if which.shape != shape:
        raise ValueError(f"{name} has shape {which.shape}, but a pattern per row needs {shape}")
    pattern = canonical_csr(which, name).astype(np.bool_)
    pattern.eliminate_zeros()
    return pattern


def _lists(pattern: sparse.csr_array) -> dict[str, Any]:
    return {
        "indptr": np.ascontiguousarray(pattern.indptr, dtype=np.int64),
        "indices": np.ascontiguousarray(pattern.indices, dtype=np.int64),
    }


def _permitted_outputs(allowed: Any, denied: Any, shape: tuple[int, int]) -> dict[str, Any]:
    """`allowed` and `denied` as arguments of FeasibleSet: a mask for all rows, lists per row, or both."""
    n_outputs = shape[1]
    forbidden = np.zeros(n_outputs, dtype=np.bool_)
    allowed_rows = denied_rows = None
    if is_sparse(allowed):
        allowed_rows = _pattern_per_row(allowed, "allowed", shape)
    elif allowed is not None:
        forbidden |= ~_mask_for_all(allowed, "allowed", n_outputs)
    if is_sparse(denied):
        denied_rows = _pattern_per_row(denied, "denied", shape)
    elif denied is not None:
        forbidden |= _mask_for_all(denied, "denied", n_outputs)

    if allowed_rows is not None:  # all that is denied is taken out of the lists
        keep = allowed_rows.astype(np.int8)
        keep.data[forbidden[keep.indices]] = 0
        if denied_rows is not None:
            keep = sparse.csr_array(keep - keep.multiply(denied_rows.astype(np.int8)))
        keep.eliminate_zeros()
        keep.sort_indices()
        return {**_lists(keep), "list_allows": True}

    options: dict[str, Any] = {}
    if forbidden.any():
        options["forbidden"] = forbidden.view(np.uint8)
    if denied_rows is not None:
        return {**options, **_lists(denied_rows), "list_allows": False}
    permitted = np.flatnonzero(~forbidden).astype(np.int64)
    if permitted.size <= n_outputs // 4:  # few enough to visit one by one
        shared = {"indptr": np.array([0, permitted.size], dtype=np.int64), "indices": permitted}
        options |= {**shared, "list_allows": True, "shared": True}
    return options


def _first_row_with_nothing(options: dict[str, Any], shape: tuple[int, int]) -> int | None:
    """The first row that may not use any output."""
    n, n_outputs = shape
    forbidden = options.get("forbidden")
    n_forbidden = 0 if forbidden is None else int(forbidden.sum())
    if "indptr" not in options:
        nothing = np.full(n, n_forbidden == n_outputs)
    else:
        lengths = np.diff(options["indptr"])
        if options.get("shared"):
            lengths = np.broadcast_to(lengths, (n,))
        if options["list_allows"]:
            nothing = lengths == 0
        else:
            if forbidden is not None:  # listed outputs that are forbidden for all anyway count once
                new = (forbidden[options["indices"]] == 0).astype(np.int64)
                lengths = np.diff(np.concatenate([[0], np.cumsum(new)])[options["indptr"]])
            nothing = lengths + n_forbidden == n_outputs
    rows = np.flatnonzero(nothing)
    return int(rows[0]) if rows.size else None


def feasible_set(
    constraint: Constraint, allowed: Any, denied: Any, shape: tuple[int, int], dtype: np.dtype[Any]
) -> FeasibleSet:
    """F and the permitted outputs of every row, checked, as the kernels read them.

    Parameters
    ----------
    constraint : {'real', 'nonneg', 'binary'}, Box or Simplex
    allowed, denied : 1-D indices, 1-D boolean mask, sparse (n, K) pattern or None
    shape : (int, int)
        Number of rows and of outputs.
    dtype : dtype
        Of the values.
    """
    code = _constraint_code(constraint, dtype)
    options = {} if allowed is None and denied is None else _permitted_outputs(allowed, denied, shape)
    if code[0] == _SIMPLEX:
        row = _first_row_with_nothing(options, shape)
        if row is not None:
            raise ValueError(
                f"constraint {constraint!r} needs at least one output, but allowed and denied leave none for row {row}"
            )
    return FeasibleSet(*code, **options)
