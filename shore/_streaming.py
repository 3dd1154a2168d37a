"""Stage 1 batch by batch: sums over the rows so far, and W, solved from them when it is first needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore import solvers
from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._model import Model, without_fit
from shore._preparation import prepare_rows
from shore._statistics import HeadTail, Statistics
from shore._validation import check_weights, float_dtype, is_sparse
from shore.compression import Compression, same_compression

__all__ = ["Streaming"]

Array = npt.NDArray[Any]
# Parameters that Φ and the sums follow from.
_LASTING = ("n_components", "compression", "random_state", "dtype")
_Model = TypeVar("_Model", bound=Model)


class Streaming(Model):
    """A model that takes rows batch by batch, and solves for W when it is asked for."""

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

        Raises
        ------
        ValueError
            `n_components`, `compression`, `random_state` or `dtype` is not what it was at the first call.
        RuntimeError
            Another thread changed the model meanwhile: these rows were not added.
        """
        dtype = self._check_parameters()
        if self.alpha == "auto":
            raise ValueError("alpha='auto' needs all rows at once: call fit, or give partial_fit a number")
        rows, outputs = self._check_pair(X, Y, dtype)
        shift = check_weights(sample_weight, rows.shape[0])
        state = self.__dict__
        before = state.get("_statistics")
        compression, later = None, None
        if before is not None:
            begun = _view(self, state)
            begun._check_unchanged()
            begun._check_names(X)
            begun._check_widths(rows, outputs)
            compression, later = state["_compression"], before.later
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
        changes = {"_compression": compression, "_statistics": total, "_stale": True}
        if before is None:
            m = len(fresh.b_sum) if later is None else later.n_components
            W, intercept = np.zeros((rows.shape[1], m), dtype=dtype), np.zeros(m, dtype=dtype)
            changes = self._left_by_fit(
                X, W, intercept, compression, outputs.shape[1], float(self.alpha), "cholesky", 0,
                _begun_with={name: getattr(self, name) for name in _LASTING},
            ) | changes  # fmt: skip
        self._take_sums(before, changes)
        return self

    def _check_unchanged(self) -> None:
        """Refuse rows for sums of another shape than parameters ask for by now."""
        for name, before in (self.__dict__.get("_begun_with") or {}).items():
            now = getattr(self, name)
            same = float_dtype(now) == float_dtype(before) if name == "dtype" else now is before or now == before
            if not same and not (name == "compression" and same_compression(now, before)):
                raise ValueError(
                    f"{name} was changed since the first partial_fit, from {before!r} to {now!r}, which the sums do "
                    "not follow: set it back, or start anew with fit or fit_batches"
                )

    def _take_sums(self, before: Statistics | None, changes: dict[str, Any]) -> None:
        """Change these attributes of a model whose sums are `before` still: none that another thread added are lost."""
        while True:
            now = self.__dict__
            if now.get("_statistics") is not before:
                raise RuntimeError(
                    "the model was changed by another thread meanwhile, and these rows were not added: "
                    "partial_fit and merge are for one thread at a time"
                )
            kept = now if before is not None else without_fit(now)
            if self._become({**kept, **changes}, instead_of=now):  # else W was solved for meanwhile: once more
                return

    def fit_batches(self, batches: Iterable[tuple[Any, Any]]) -> Self:
        """Fit from an iterator of (X, Y) batches that need not fit into memory together.

        Parameters
        ----------
        batches : iterable of (X, Y)
            At least one.
        """
        try:
            each: Iterator[Any] = iter(batches)
        except TypeError:
            raise TypeError(f"batches must be an iterable of (X, Y) pairs, got {type(batches).__name__}") from None
        model = type(self)(**self.get_params())
        for batch in each:
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                what = f"{len(batch)} items" if isinstance(batch, tuple | list) else type(batch).__name__
                raise TypeError(f"batches must be an iterable of (X, Y) pairs, but one of them is {what}")
            model.partial_fit(*batch)
        if not model.__sklearn_is_fitted__():
            raise ValueError("batches must hold at least one (X, Y) pair, got none")
        fitted = {name: value for name, value in model.__dict__.items() if name not in self.get_params()}
        self._become({**without_fit(self.__dict__), **fitted})
        return self

    @np.errstate(over="ignore", invalid="ignore")
    def merge(self, other: Self) -> Self:
        """Add the rows that another model has seen by `partial_fit` to this one.

        Parameters
        ----------
        other : ShoreRegressor
            With the same parameters, features and outputs.

        Raises
        ------
        RuntimeError
            Another thread changed this model meanwhile: it is as that thread left it.
        """
        if not isinstance(other, Streaming):
            raise TypeError(f"other must be a ShoreRegressor, got {type(other).__name__}")
        mine, its = _view(self, self._require_fitted()), _view(other, other._require_fitted("other"))
        before, compression = mine._statistics, mine._compression
        if before is None or its._statistics is None:
            which = "this one" if before is None else "other"
            raise ValueError(f"merge needs two models that were fitted by partial_fit, but {which} was not")
        if (mine.n_features_in_, mine.n_outputs_) != (its.n_features_in_, its.n_outputs_):
            raise ValueError(
                f"other has {its.n_features_in_} features and {its.n_outputs_} outputs, but this model has "
                f"{mine.n_features_in_} and {mine.n_outputs_}"
            )
        names = [model.__dict__.get("feature_names_in_") for model in (mine, its)]
        if names[0] is not None and names[1] is not None and list(names[0]) != list(names[1]):
            raise ValueError("other has other feature names, or in another order, than this model")
        one, two = before, its._statistics
        if one.later is None and two.later is not None and two.later.may_be(compression):
            two = two.compressed(compression)
        elif one.later is not None and two.later is None and one.later.may_be(its._compression):
            one, compression = one.compressed(its._compression), its._compression
        elif one.later != two.later or (one.later is None and not same_compression(compression, its._compression)):
            there, here = two.later or its._compression, one.later or compression
            raise ValueError(f"merge needs models with the same compression, but other has {there!r}, not {here!r}")
        total = one.plus(two)
        total.require_finite()
        self._take_sums(before, {"_compression": compression, "_statistics": total, "_stale": True})
        return self

    def _now(self) -> Self:
        """The model of this moment, W solved for: what fits in other threads make of this one does not change it.

        All that reads a fitted model reads it here, once, so that W, Φ and sizes are of the same fit.
        """
        return _view(self, self._solved())

    def _solved(self) -> dict[str, Any]:
        """The attributes of a fitted model; solves for W if rows were added since."""
        state = self._require_fitted()
        return state if state["_statistics"] is None or not state["_stale"] else self._solve_sums(state)

    @np.errstate(over="ignore", invalid="ignore")
    def _solve_sums(self, state: dict[str, Any]) -> dict[str, Any]:
        """These attributes with W for their sums; the model takes them unless it has others by then."""
        statistics = state["_statistics"]
        dtype = self._check_parameters()
        if self.alpha == "auto":
            raise ValueError("alpha='auto' needs all rows at once: call fit, or give partial_fit a number")
        alpha, compression, known = float(self.alpha), state["_compression"], statistics
        if statistics.later is not None:
            compression = statistics.compression()
            known = statistics.compressed(compression)
        with limit_blas(resolve_n_threads(self.n_threads)):
            W, intercept = known.solve(alpha, bool(self.fit_intercept), dtype)
        solvers.require_solution(dtype, W, intercept)
        found = {"_feature_major": W, "_intercept": intercept, "_compression": compression, "alpha_": alpha}
        solved = {**state, **found, "_stale": False}
        self._become(solved, instead_of=state)  # a model that has changed meanwhile has a W of its own to come
        return solved

    def _weights(self) -> tuple[Array, Array, Compression | None]:
        """W, feature-major, the intercept, and Φ, all of one fit."""
        state = self._solved()
        return state["_feature_major"], state["_intercept"], state["_compression"]

    @property
    def coef_(self) -> Array:
        """W of shape (m, d); float16 of a model file is expanded, at every call, to float32."""
        W = self._weights()[0]
        return (W.astype(np.float32) if W.dtype == np.float16 else W).T

    @property
    def intercept_(self) -> Array:
        """Of shape (m,); zeros without `fit_intercept`."""
        return self._weights()[1]

    @property
    def compression_(self) -> Compression | None:
        """Φ; None of the uncompressed model."""
        return self._weights()[2]


def _view(model: _Model, attributes: dict[str, Any]) -> _Model:
    """Another object with these attributes, not a copy of them."""
    view = object.__new__(type(model))
    view.__dict__ = attributes
    return view


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
