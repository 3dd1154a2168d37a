"""Which input features spoke for and against a predicted output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """A tidy table: one line per predicted output and feature, largest contributions first.

    ``pandas.DataFrame(explanation.to_dict())`` makes it a data frame.

    Attributes
    ----------
    row : ndarray of int64
        Row of X.
    output : ndarray of int64
        Predicted output j.
    value : ndarray
        Its predicted value.
    feature : ndarray of int64
        Input feature f; -1 stands for the intercept.
    contribution : ndarray
        (φ_jᵀW)_f · x_f; negative where the feature spoke against the output.
    score : ndarray
        φ_jᵀWx, the correlation score of the output: the sum of *all* its contributions, listed or not.
    """

    row: npt.NDArray[np.int64]
    output: npt.NDArray[np.int64]
    value: npt.NDArray[Any]
    feature: npt.NDArray[np.int64]
    contribution: npt.NDArray[Any]
    score: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.row)

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """The columns by name."""
        return {
            "row": self.row,
            "output": self.output,
            "value": self.value,
            "feature": self.feature,
            "contribution": self.contribution,
            "score": self.score,
        }
