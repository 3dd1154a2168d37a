"""What stage 1 needs to know of the rows it has seen, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shore import solvers
from shore._validation import is_sparse

__all__ = ["Statistics", "weighted_sum"]

Array = npt.NDArray[Any]

# Dense rows are summed in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 25


class Statistics:
    """XᵀX, XᵀB and the sums for an intercept, in float64: what `partial_fit` adds up and `merge` adds."""

    def __init__(self, n_features: int, n_components: int) -> None:
        self.gram = np.zeros((n_features, n_features), order="F")
        self.cross = np.zeros((n_features, n_components))
        self.x_sum, self.b_sum, self.weight = np.zeros(n_features), np.zeros(n_components), 0.0

    def add_rows(self, rows: solvers.Rows, B: Any, n_threads: int) -> None:
        """Rows that are weighted but not centred, with dense or (for the uncompressed model) sparse targets."""
        self.gram += solvers.gram(rows, n_threads)
        if is_sparse(B):
            X = rows.X if is_sparse(rows.X) or rows.shift is None else rows.X * rows.shift[:, None]
            product = B.T @ X
            self.cross += (product.toarray() if is_sparse(product) else product).T
        else:
            self.cross += solvers.cross(rows, B, n_threads)
        ones = rows.ones().astype(np.float64)
        self.x_sum += np.asarray(rows.X.T @ ones) if is_sparse(rows.X) else weighted_sum(rows.X, ones**2)
        self.b_sum += np.asarray(ones @ B)
        self.weight += float(np.sum(ones**2))

    def plus(self, other: Statistics) -> Statistics:
        """The statistics of both; neither changes."""
        total = object.__new__(Statistics)
        for name in ("gram", "cross", "x_sum", "b_sum", "weight"):
            setattr(total, name, getattr(self, name) + getattr(other, name))
        return total

    def solve(self, alpha: float, fit_intercept: bool, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """W of shape (d, m), feature-major, and the intercept."""
        G, mean, b_mean = self.gram.copy(order="F"), None, np.zeros_like(self.b_sum)
        if fit_intercept:
            mean, b_mean = self.x_sum / self.weight, self.b_sum / self.weight
            G -= np.outer(mean * self.weight, mean)

        def cross_of(start: int, stop: int) -> Array:
            C = self.cross[:, start:stop]
            return C if mean is None else C - np.outer(mean, self.b_sum[start:stop])

        size = int(min(max(self.weight, 1.0), 2.0**40))
        W = solvers.solve_normal_equations(G, cross_of, self.cross.shape[1], alpha, dtype, size)
        intercept = b_mean - (mean @ W if mean is not None else 0.0)
        return W, intercept.astype(dtype)


def weighted_sum(X: Array, weights: Array) -> Array:
    """Σ_i weight_i x_i in float64, without a copy of X in it."""
    total, step = np.zeros(X.shape[1]), max(1, _BLOCK_BYTES // max(1, 8 * X.shape[1]))
    for start in range(0, X.shape[0], step):
        total += weights[start : start + step] @ X[start : start + step]
    return total
