"""What stage 1 needs to know of the rows it has seen, batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore import solvers
from shore._validation import is_sparse
from shore.compression import HeadTailCompression, OutputEnergy

__all__ = ["FEW_ENTRIES", "HeadTail", "Statistics", "sparse_cross", "weighted_sum"]

Array = npt.NDArray[Any]

# Dense rows are summed in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 25
# Smaller products lose digits.
_LEAST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)
# An XᵀY of no more entries may be larger than XᵀB: some 200 MB.
FEW_ENTRIES = 1 << 24


@dataclass(frozen=True)
class HeadTail:
    """A head-and-tail Φ whose head is not known yet: it takes the energy of all rows."""

    n_components: int
    seed: int
    dtype: np.dtype[Any]

    def may_be(self, phi: Any) -> bool:
        """Whether other rows would have given that Φ."""
        if type(phi) is not HeadTailCompression:
            return False
        return (phi.n_components, phi.seed, phi.dtype) == (self.n_components, self.seed, self.dtype)


class Statistics:
    """XᵀX, XᵀB and the sums for an intercept, in float64: what `partial_fit` adds up and `merge` adds.

    Where Φ depends on the rows, `later` says how, and XᵀY is added up instead, which is sparse, with the energy of the
    outputs: B = YΦᵀ, so that XᵀB = (XᵀY)Φᵀ whenever Φ is made.
    """

    def __init__(self, n_features: int, n_targets: int, later: HeadTail | None = None) -> None:
        shape = n_features, n_targets
        self.later = later
        self.gram = np.zeros((n_features, n_features), order="F")
        self.cross: Any = np.zeros(shape) if later is None else sparse.csr_array(shape)
        self.energy = OutputEnergy(np.zeros(0 if later is None else n_targets))
        self.x_sum, self.b_sum, self.weight = np.zeros(n_features), np.zeros(n_targets), 0.0
        self.n_rows = 0

    def add_rows(self, rows: solvers.Rows, B: Any, n_threads: int) -> None:
        """Rows that are weighted but not centred, with dense or (for Y itself) sparse targets."""
        self.gram += solvers.gram(rows, n_threads)
        if is_sparse(B):
            product = sparse_cross(rows, B)
            self.cross += product if self.later is not None else product.toarray()
        else:
            self.cross += solvers.cross(rows, B, n_threads)
        if self.later is not None:
            self.energy += OutputEnergy.of(B)
        ones = rows.ones().astype(np.float64)
        self.x_sum += np.asarray(rows.X.T @ ones) if is_sparse(rows.X) else weighted_sum(rows.X, ones**2)
        self.b_sum += np.asarray(ones @ B)
        self.weight += float(np.sum(ones**2))
        self.n_rows += int(np.count_nonzero(ones))

    def plus(self, other: Statistics) -> Statistics:
        """The statistics of both, which are of the same kind; neither changes."""
        total = object.__new__(Statistics)
        total.later = self.later
        for name in ("gram", "cross", "energy", "x_sum", "b_sum", "weight", "n_rows"):
            setattr(total, name, getattr(self, name) + getattr(other, name))
        return total

    def require_finite(self) -> None:
        """Refuse sums that have overflowed."""
        cross = self.cross.data if is_sparse(self.cross) else self.cross
        if not all(np.isfinite(part).all() for part in (self.gram, cross, self.energy.weights, self.x_sum, self.b_sum)):
            raise ValueError("X or Y is too large: sums of their products leave the range of float64")

    def is_large(self) -> bool:
        """Whether XᵀY has more entries than XᵀX and XᵀB together, and than would not matter."""
        d = self.gram.shape[0]
        return self.later is not None and self.cross.nnz > max(FEW_ENTRIES, d * (d + self.later.n_components))

    def compression(self) -> HeadTailCompression:
        """Φ for the rows so far."""
        assert self.later is not None
        options = self.later
        return HeadTailCompression(options.n_components, self.energy.weights, seed=options.seed, dtype=options.dtype)

    def compressed(self, phi: Any) -> Statistics:
        """The same with XᵀB for the Φ given."""
        known = object.__new__(Statistics)
        double = phi.astype(np.float64)
        known.later, known.energy = None, OutputEnergy(np.zeros(0))
        known.cross, known.b_sum = double.compress(self.cross), double.compress(self.b_sum[None])[0]
        known.gram, known.x_sum, known.weight, known.n_rows = self.gram, self.x_sum, self.weight, self.n_rows
        return known

    def solve(
        self, alpha: float, fit_intercept: bool, dtype: np.dtype[Any], products: npt.DTypeLike = np.float64
    ) -> tuple[Array, Array]:
        """W of shape (d, m), feature-major, and the intercept; `products` as in `solve_normal_equations`."""
        G, mean, b_mean, magnitude = self.gram.copy(order="F"), None, np.zeros_like(self.b_sum), 1.0
        if fit_intercept:
            mean, b_mean = self.x_sum / self.weight, self.b_sum / self.weight
            before = float(np.diagonal(G).max())
            G -= np.outer(mean * self.weight, mean)
            after = max(float(np.diagonal(G).max()), before * 2.0**-53, np.finfo(np.float64).tiny)
            magnitude = max(1.0, before / after)

        def cross_of(start: int, stop: int) -> Array:
            C: Array = self.cross[:, start:stop]
            return C if mean is None else C - np.outer(mean, self.b_sum[start:stop])

        self._warn_of_vanishing(alpha)
        size, m = self.n_rows - fit_intercept, self.cross.shape[1]
        W = solvers.solve_normal_equations(G, cross_of, m, alpha, dtype, size, magnitude, products)
        intercept = b_mean - (mean @ W if mean is not None else 0.0)
        return W, intercept.astype(dtype)

    def _warn_of_vanishing(self, alpha: float) -> None:
        """Say so where products that are added up are too small for their digits."""
        squares, products = float(np.diagonal(self.gram).max()), float(np.abs(self.cross).max())
        size = float(np.abs(self.b_sum).max())
        of_x = self.x_sum.any() and squares + alpha < _LEAST
        of_y = 0 < products < _LEAST or (products == 0 and squares > 0 and 0 < size < math.sqrt(_LEAST))
        if of_x or of_y:
            cause = f"{'X' if of_x else 'X or Y'} is so small that products vanish from the sums"
            solvers.warn_inaccurate(1.0, cause, "scale it up, or use fit on all rows, which does that itself")


def sparse_cross(rows: solvers.Rows, Y: sparse.csr_array) -> sparse.csr_array:
    """XᵀY of shape (d, K), with weighted Y, as CSR."""
    if is_sparse(rows.X):
        return sparse.csr_array(rows.X.T @ Y)
    X = rows.X if rows.shift is None else rows.X * rows.shift[:, None]
    seen = np.unique(Y.indices)
    product = sparse.csc_array(Y)[:, seen].T @ X
    d = X.shape[1]
    entries = np.ascontiguousarray(product.T, dtype=np.float64).ravel(), np.tile(seen, d), np.arange(d + 1) * len(seen)
    return sparse.csr_array(entries, shape=(d, Y.shape[1]))


def weighted_sum(X: Array, weights: Array) -> Array:
    """Σ_i weight_i x_i in float64, in the same order for rows of any layout, without a copy of X."""
    total, step = np.zeros(X.shape[1]), max(1, _BLOCK_BYTES // max(1, 8 * X.shape[1]))
    for start in range(0, X.shape[0], step):
        here = slice(start, start + step)
        total += weights[here] @ np.require(X[here], np.float64, ["C", "A"])
    return total
