"""Stage 1 batch by batch: sums over the rows so far, and W, solved from them when it is first needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._model import Model
from shore._preparation import prepare_rows
from shore._statistics import HeadTail, Statistics
from shore._validation import check_weights, is_sparse
from shore.compression import Compression, same_compression

__all__ = ["Streaming"]

Array = npt.NDArray[Any]


class Streaming(Model):
    """A model that takes rows batch by batch, and solves for W when it is asked for."""

    _stale: bool

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is refused, not warned of
    def partial_fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Add rows to the model: the same model as one `fit` on all rows so far, in any order of batches.

        Keeps XᵀX and XᵀB, d·(d + m) numbers, and solves for W when it is first needed. Starts anew after a `fit`.

        With ``compression="head_tail"`` Φ depends on how often outputs occur in all rows, so XᵀY is kept instead of
        XᵀB, which is sparse. Should it grow past 2²⁴ and past d·(d + m) entries, Φ is made for the rows until then
        and stays: rows that come later do not change it. A `HeadTailCompression` of frequencies that are known stays
        from the start.

        Parameters
        ----------
        X, Y, sample_weight
            As in `fit`.
        """
        dtype = self._check_parameters()
        if self.alpha == "auto":
            raise ValueError("alpha='auto' needs all rows at once: call fit, or give partial_fit a number")
        rows, outputs = self._check_pair(X, Y, dtype)
        shift = check_weights(sample_weight, rows.shape[0])
        before = self.__dict__.get("_statistics")
        compression, later = None, None
        if before is not None:
            self._check_widths(rows, outputs)
            compression, later = self._compression, before.later
        elif self.compression == "head_tail":
            later = HeadTail(self._components(outputs.shape[1]), self.random_state, dtype)
        else:
            compression = self._make_compression(outputs, shift, dtype)
        fresh = _batch_sums(rows, outputs, shift, compression, later, resolve_n_threads(self.n_threads))
        total = fresh if before is None else before.plus(fresh)
        total.require_finite()
        if total.is_large():
            compression = total.compression()
            total = total.compressed(compression)
        if before is None:
            m = len(fresh.b_sum) if later is None else later.n_components
            W, intercept = np.zeros((rows.shape[1], m), dtype=dtype), np.zeros(m, dtype=dtype)
            self._keep(
                X, W, intercept, compression, outputs.shape[1], float(self.alpha), "cholesky", 0, _statistics=total,
                _stale=True,
            )  # fmt: skip
        else:
            self._become({**self.__dict__, "_compression": compression, "_statistics": total, "_stale": True})
        return self

    def fit_batches(self, batches: Iterable[tuple[Any, Any]]) -> Self:
        """Fit from an iterator of (X, Y) batches that need not fit into memory together.

        Parameters
        ----------
        batches : iterable of (X, Y)
        """
        model = type(self)(**self.get_params())
        for X, Y in batches:
            model.partial_fit(X, Y)
        model._require_fitted()
        fitted = {name: value for name, value in model.__dict__.items() if name not in self.get_params()}
        self._become({**self._without_fit(), **fitted})
        return self

    @np.errstate(over="ignore", invalid="ignore")
    def merge(self, other: Self) -> Self:
        """Add the rows that another model has seen by `partial_fit` to this one.

        Parameters
        ----------
        other : ShoreRegressor
            With the same parameters, features and outputs.
        """
        if not isinstance(other, Streaming):
            raise TypeError(f"other must be a ShoreRegressor, got {type(other).__name__}")
        for model in (self, other):
            model._require_fitted()
        mine, its, compression = self._statistics, other._statistics, self._compression
        if mine is None or its is None:
            raise ValueError("merge needs two models that were fitted by partial_fit")
        if (self.n_features_in_, self.n_outputs_) != (other.n_features_in_, other.n_outputs_):
            raise ValueError("merge needs models with the same numbers of features and outputs")
        if mine.later is None and its.later is not None and its.later.may_be(self._compression):
            its = its.compressed(self._compression)
        elif mine.later is not None and its.later is None and mine.later.may_be(other._compression):
            mine, compression = mine.compressed(other._compression), other._compression
        elif mine.later != its.later or (
            mine.later is None and not same_compression(self._compression, other._compression)
        ):
            raise ValueError(
                f"merge needs models with the same compression, got {self.compression_!r} and {other.compression_!r}"
            )
        total = mine.plus(its)
        total.require_finite()
        self._become({**self.__dict__, "_compression": compression, "_statistics": total, "_stale": True})
        return self

    @np.errstate(over="ignore", invalid="ignore")
    def _weights(self) -> tuple[Array, Array, Compression | None]:
        """W, feature-major, the intercept, and Φ; solves if rows were added since."""
        statistics = self._statistics
        if statistics is not None and self._stale:
            dtype = self._check_parameters()
            if self.alpha == "auto":
                raise ValueError("alpha='auto' needs all rows at once: call fit, or give partial_fit a number")
            compression, known = self._compression, statistics
            if statistics.later is not None:
                compression = statistics.compression()
                known = statistics.compressed(compression)
            with limit_blas(resolve_n_threads(self.n_threads)):
                W, intercept = known.solve(float(self.alpha), bool(self.fit_intercept), dtype)
            if not (np.isfinite(W).all() and np.isfinite(intercept).all()):
                raise ValueError(f"X or Y is too large: the solution leaves the range of {dtype}")
            self._feature_major, self._intercept, self._compression = W, intercept, compression
            self.alpha_ = float(self.alpha)
            if statistics is self._statistics:  # no rows came in meanwhile
                self._stale = False
            return W, intercept, compression
        return self._feature_major, self._intercept, self._compression

    @property
    def coef_(self) -> Array:
        """W of shape (m, d); float16 of a model file is expanded, at every call, to float32."""
        self._require_fitted()
        W = self._weights()[0]
        return (W.astype(np.float32) if W.dtype == np.float16 else W).T

    @property
    def intercept_(self) -> Array:
        """Of shape (m,); zeros without `fit_intercept`."""
        self._require_fitted()
        return self._weights()[1]

    @property
    def compression_(self) -> Compression | None:
        """Φ; None of the uncompressed model."""
        self._require_fitted()
        return self._weights()[2]

    @compression_.setter
    def compression_(self, compression: Compression | None) -> None:
        self._compression = compression


def _batch_sums(
    rows: Any, outputs: sparse.csr_array, shift: Array | None, compression: Compression | None, later: HeadTail | None,
    n_threads: int,
) -> Statistics:  # fmt: skip
    """Statistics of one batch: of B, or of the outputs themselves where there is no Φ or it is made `later`."""
    B: Any = outputs
    if compression is not None and later is None:
        B = compression.compress(outputs, n_threads=n_threads)
    B = B.astype(np.float64)
    if shift is not None:
        B = sparse.csr_array(sparse.diags_array(shift) @ B) if is_sparse(B) else B * shift[:, None]
    double = rows.astype(np.float64) if is_sparse(rows) else rows
    prepared = prepare_rows(double, shift, np.dtype(np.float64), centre=False)  # the sums do that
    fresh = Statistics(rows.shape[1], B.shape[1], later)
    fresh.add_rows(prepared, B, n_threads)
    return fresh
