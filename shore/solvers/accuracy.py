"""When a solution W is good enough to go without a warning, and the warning for when it is not.

A solution is good if its forward error ‖W - W*‖ / ‖W*‖, against the exact W* for the numbers given, is at most 1e-4 in
float32 and 2⁻²⁶, half of the digits, in float64. Conjugate gradients are asked for a residual of `tol` and no more:
theirs is good up to √tol, if that is larger.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

__all__ = ["good_error", "require_range", "require_solution", "warn_inaccurate", "warn_rank"]


def good_error(dtype: np.dtype[Any], tol: float = 0.0) -> float:
    """The forward error up to which W needs no warning; `tol` is that of conjugate gradients."""
    return max(1e-4 if dtype == np.float32 else 2.0**-26, math.sqrt(tol))


def require_range(triangle: npt.NDArray[Any]) -> None:
    """Refuse what was made of X if it is not finite."""
    if not np.isfinite(triangle).all():
        raise ValueError("X is too large: products of its rows or columns leave the range of float64")


def require_solution(dtype: npt.DTypeLike, *parts: npt.NDArray[Any]) -> None:
    """Refuse W, and an intercept, that are not finite."""
    if not all(np.isfinite(part).all() for part in parts):
        range_of = f"the solution leaves the range of {np.dtype(dtype)}"
        raise ValueError(f"X or Y is too large, or X or alpha too small: {range_of}")


def warn_inaccurate(error: float, cause: str, remedy: str, stacklevel: int = 4, about: str = "about") -> None:
    """Say how far W may be off."""
    size = f"{about} {error:.0e} of its size" if error < 1 else "its size or more"
    warnings.warn(f"{cause}: W may be off by {size}; {remedy}", linalg.LinAlgWarning, stacklevel=stacklevel + 1)


def warn_rank(rank: int, full_rank: int, alpha: float, stacklevel: int = 4) -> None:
    """Say that directions of X were left out."""
    penalty = "alpha is 0" if alpha == 0 else f"alpha={alpha:g} is lost in the rounding of X"
    warnings.warn(
        f"X has rank {rank} of {full_rank} and {penalty}: the solution of minimum norm is returned",
        linalg.LinAlgWarning,
        stacklevel=stacklevel + 1,
    )
