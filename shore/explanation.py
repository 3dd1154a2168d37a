"""Which input features spoke for and against a predicted output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore.compression import Compression

__all__ = ["Explanation"]

Array = npt.NDArray[Any]


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


def explain(
    rows: sparse.csr_array,
    found: sparse.csr_array,
    W: Array,
    intercept: Array,
    compression: Compression | None,
    top_features: int,
) -> Explanation:
    """The largest contributions to every predicted output.

    Parameters
    ----------
    rows : csr_array of shape (n, d)
    found : csr_array of shape (n, K)
        What was predicted for them.
    W : ndarray of shape (d, m)
        Feature-major.
    intercept : ndarray of shape (m,)
    compression : Compression or None
        Φ; None for the uncompressed model.
    top_features : int
        How many to list per predicted output.
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in ("row", "output", "value", "feature", "contribution", "score")
    }
    for i in np.flatnonzero(np.diff(found.indptr)):
        outputs = found.indices[found.indptr[i] : found.indptr[i + 1]]
        features = rows.indices[rows.indptr[i] : rows.indptr[i + 1]].astype(np.int64)
        x = rows.data[rows.indptr[i] : rows.indptr[i + 1]].astype(np.float64)
        contributions = x[:, None] * _of_outputs(W[features], outputs, compression)
        if np.any(intercept):
            features = np.append(features, -1)
            contributions = np.vstack([contributions, _of_outputs(intercept[None], outputs, compression)])
        for e, j in enumerate(outputs):
            best = np.lexsort((features, -np.abs(contributions[:, e])))[:top_features]
            columns["row"].append(np.full(len(best), i, dtype=np.int64))
            columns["output"].append(np.full(len(best), j, dtype=np.int64))
            columns["value"].append(np.full(len(best), found.data[found.indptr[i] + e]))
            columns["feature"].append(features[best])
            columns["contribution"].append(contributions[best, e])
            columns["score"].append(np.full(len(best), contributions[:, e].sum()))
    kinds = {"row": np.int64, "output": np.int64, "feature": np.int64}
    return Explanation(
        **{name: np.concatenate(parts or [np.empty(0, kinds.get(name, np.float64))]) for name, parts in columns.items()}
    )


def _of_outputs(scores: Array, outputs: Array, compression: Compression | None) -> Array:
    """φ_jᵀ of rows of scores for a few outputs j, in float64."""
    if compression is None:
        return scores[:, outputs].astype(np.float64)
    ones, rows = np.ones(len(outputs)), np.arange(len(outputs))
    pick = sparse.csr_array((ones, (rows, outputs)), shape=(len(outputs), compression.n_outputs))
    phi = compression.compress(pick, n_threads=1).astype(np.float64)
    return np.asarray(scores.astype(np.float64) @ phi.T)
