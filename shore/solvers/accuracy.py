"""When a solution W is good enough to go without a warning, and the warning for when it is not.

A solution is good if its forward error ‖W - W*‖ / ‖W*‖, against the exact W* for the numbers given, is at most 1e-4 in
float32 and 2⁻²⁶, half of the digits, in float64. Conjugate gradients are asked for a residual of `tol` and no more:
theirs is good up to √tol, if that is larger.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

__all__ = ["good_error", "norm", "require_range", "require_solution", "warn", "warn_inaccurate", "warn_rank"]

# Where files lie that a warning is not about.
_INSIDE = tuple(str(Path(file).parents[depth]) + os.sep for file, depth in ((__file__, 1), (np.__file__, 0)))


def good_error(dtype: np.dtype[Any], tol: float = 0.0) -> float:
    """The forward error up to which W needs no warning; `tol` is that of conjugate gradients."""
    return max(1e-4 if dtype == np.float32 else 2.0**-26, math.sqrt(tol))


def norm(x: npt.NDArray[Any]) -> float:
    """‖x‖, where squares would vanish or overflow too."""
    size = float(np.linalg.norm(x))
    if 1e-15 < size < 1e15 or x.size == 0:
        return size
    largest = max(float(x.max()), -float(x.min()))
    return largest * float(np.linalg.norm(x / x.dtype.type(largest))) if 0 < largest < math.inf else largest


def require_range(triangle: npt.NDArray[Any]) -> None:
    """Refuse what was made of X if it is not finite."""
    if not np.isfinite(triangle).all():
        raise ValueError("X is too large: products of its rows or columns leave the range of float64")


def require_solution(dtype: npt.DTypeLike, *parts: npt.NDArray[Any]) -> None:
    """Refuse W, and an intercept, that are not finite."""
    if not all(np.isfinite(part).all() for part in parts):
        range_of = f"the solution leaves the range of {np.dtype(dtype)}"
        raise ValueError(f"X or Y is too large, or X or alpha too small: {range_of}")


def warn(words: str, category: type[Warning]) -> None:
    """Warn at the line that called shore, however deep it is in there; NumPy's decorators do not count either."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, category, stacklevel=level)


def warn_inaccurate(error: float, cause: str, remedy: str, about: str = "about") -> None:
    """Say how far W may be off."""
    size = f"{about} {error:.0e} of its size" if error < 1 else "its size or more"
    warn(f"{cause}: W may be off by {size}; {remedy}", linalg.LinAlgWarning)


def warn_rank(rank: int, full_rank: int, alpha: float) -> None:
    """Say that directions of X were left out."""
    penalty = "alpha is 0" if alpha == 0 else f"alpha={alpha:g} is lost in the rounding of X"
    words = f"X has rank {rank} of {full_rank} and {penalty}: the solution of minimum norm is returned"
    warn(words, linalg.LinAlgWarning)
