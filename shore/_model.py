"""What the fits and predictions of `ShoreRegressor` share: checks of parameters and data, Φ, and what a fit leaves."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore import solvers
from shore._parameters import Parameters
from shore._statistics import Statistics
from shore._validation import (
    check_alpha,
    check_finite_rows,
    check_flag,
    check_outputs,
    check_positive,
    check_seed,
    check_share,
    check_size,
    check_verbose,
    float_dtype,
)
from shore.compression import COMPRESSIONS, Compression, compression_for
from shore.constraints import Constraint
from shore.decoders import DecodeOptions, check_decoding
from shore.theory import components_for

__all__ = ["Model", "NotFittedError", "without_fit"]

Array = npt.NDArray[Any]


_COMPRESSIONS_WORDS = f"compression must be {', '.join(map(repr, COMPRESSIONS))}, a compression or None"


class NotFittedError(ValueError, AttributeError):
    """The estimator was used before `fit`."""

    def __reduce__(self) -> Any:
        return NotFittedError, self.args


class Model(Parameters):
    """A regressor without ways to fit or to predict, which `ShoreRegressor` has by way of `Streaming`."""

    # Parameters, as the constructor of `ShoreRegressor` sets them.
    sparsity: int
    n_components: int | str
    compression: str | Compression | None
    constraint: Constraint
    alpha: float | str
    fit_intercept: bool
    solver: str
    solver_tol: float
    decoder: str
    step: float
    max_iter: int
    tol: float
    l1: float
    decode_sparsity: int | None
    dtype: npt.DTypeLike
    random_state: int
    n_threads: int | None
    verbose: int

    # What a fit leaves.
    n_features_in_: int
    n_outputs_: int
    alpha_: float
    alpha_path_: dict[str, Array]
    solver_: str
    n_iter_: int
    feature_names_in_: Array
    _fitted: bool
    _feature_major: Array
    _intercept: Array
    _compression: Compression | None
    _statistics: Statistics | None
    _stale: bool  # whether rows were added since W was solved for
    _begun_with: dict[str, Any] | None  # parameters that Φ and the sums are made with

    # ------------------------------------------------------------ checks

    def _check_parameters(self) -> np.dtype[Any]:
        """Everything that can be checked before data is there; returns the dtype."""
        check_positive(self.sparsity, "sparsity")
        dtype = float_dtype(self.dtype)
        self._decode_options(dtype)
        check_seed(self.random_state, "random_state")
        check_alpha(self.alpha)
        if not isinstance(self.solver, str) or self.solver not in solvers.SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(map(repr, solvers.SOLVERS))}, got {self.solver!r}")
        check_share(self.solver_tol, "solver_tol")
        m: Any = self.n_components
        if not (isinstance(m, str) and m == "auto"):
            check_size(m, "n_components")
        if isinstance(self.compression, str):
            if self.compression not in COMPRESSIONS:
                raise ValueError(_COMPRESSIONS_WORDS + f", got {self.compression!r}")
        elif self.compression is not None and not isinstance(self.compression, Compression):
            raise TypeError(_COMPRESSIONS_WORDS + f", got {self.compression!r}")
        check_flag(self.fit_intercept, "fit_intercept")
        check_verbose(self.verbose)
        return dtype

    def _decode_options(self, dtype: np.dtype[Any]) -> DecodeOptions:
        return check_decoding(
            "decoder", self.decoder, self.step, self.max_iter, self.tol, self.l1, self.decode_sparsity, self.constraint,
            dtype,
        )  # fmt: skip

    def _check_inputs(self, X: Any, dtype: np.dtype[Any]) -> Any:
        """Rows of finite numbers, refused if they name other features than in `fit`."""
        rows = check_finite_rows(X, dtype)
        self._check_names(X)
        return rows

    def _check_names(self, X: Any) -> None:
        names, known = _columns(X), self.__dict__.get("feature_names_in_")
        if names is None or known is None:
            return
        if not all(isinstance(name, str) for name in names) or names != list(known):
            raise ValueError("X has other feature names, or in another order, than in fit")

    def _check_pair(self, X: Any, Y: Any, dtype: np.dtype[Any]) -> tuple[Any, sparse.csr_array]:
        if Y is None:
            raise ValueError("ShoreRegressor requires y to be passed, but the target y is None: call fit(X, Y)")
        rows = check_finite_rows(X, dtype)
        _feature_names(X, rows.shape[1])
        return rows, check_outputs(Y, rows)

    def _check_widths(self, rows: Any, outputs: Any = None) -> None:
        n_features = self._feature_major.shape[0]
        if rows.shape[1] != n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but ShoreRegressor is expecting {n_features} features as input"
            )
        if outputs is not None and outputs.shape[1] != self.n_outputs_:
            raise ValueError(f"Y has {outputs.shape[1]} outputs, but the model has {self.n_outputs_}")

    # ------------------------------------------------------------ Φ

    def _components(self, n_outputs: int) -> int:
        """Rows of Φ, m."""
        return components_for(self.sparsity, n_outputs) if self.n_components == "auto" else int(self.n_components)

    def _make_compression(self, Y: sparse.csr_array, shift: Array | None, dtype: np.dtype[Any]) -> Compression | None:
        n_outputs = Y.shape[1]
        if self.compression is None:
            return None
        if isinstance(self.compression, Compression):
            if self.compression.n_outputs != n_outputs:
                raise ValueError(
                    f"compression is for {self.compression.n_outputs} outputs, but Y has {n_outputs} columns"
                )
            return self.compression
        return compression_for(
            Y, self.compression, self._components(n_outputs), seed=self.random_state, dtype=dtype, shift=shift
        )

    # ------------------------------------------------------------ what a fit leaves

    def _keep(
        self, X: Any, W: Array, intercept: Array, compression: Compression | None, n_outputs: int, alpha: float,
        solver: str, n_iter: int, **more: Any,
    ) -> None:  # fmt: skip
        """All of a fit at once; `more` are further attributes."""
        left = self._left_by_fit(X, W, intercept, compression, n_outputs, alpha, solver, n_iter, **more)
        self._become({**without_fit(self.__dict__), **left})

    def _left_by_fit(
        self, X: Any, W: Array, intercept: Array, compression: Compression | None, n_outputs: int, alpha: float,
        solver: str, n_iter: int, **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        names = _feature_names(X, W.shape[0])
        if names is not None:
            more["feature_names_in_"] = names
        return {
            "_fitted": True, "_feature_major": W, "_intercept": intercept, "_compression": compression,
            "_statistics": None, "_stale": False, "_begun_with": None,
            "n_features_in_": int(W.shape[0]), "n_outputs_": int(n_outputs),
            "alpha_": alpha, "solver_": solver, "n_iter_": n_iter, **more,
        }  # fmt: skip

    def _become(self, attributes: dict[str, Any], instead_of: dict[str, Any] | None = None) -> bool:
        """Take these attributes for all that were: at no moment, Ctrl-C or not, is there half of them.

        With `instead_of`, only if those are the attributes still, and no other thread has given the model new ones.
        Nothing is called between the question and the deed: with a GIL no other thread runs there.
        """
        if instead_of is not None and self.__dict__ is not instead_of:
            return False
        self.__dict__ = attributes
        return True

    def __getstate__(self) -> dict[str, Any]:
        """The attributes of one moment, whatever other threads do while they are pickled or copied."""
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What was pickled. Buffers that came beside it may lie anywhere, and the kernels read aligned numbers."""
        arrays = {name: part for name, part in state.items() if isinstance(part, np.ndarray)}
        self.__dict__ = state | {name: np.require(part, requirements="A") for name, part in arrays.items()}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` or `partial_fit` was called."""
        return "_fitted" in self.__dict__

    def _require_fitted(self, name: str = "this ShoreRegressor") -> dict[str, Any]:
        """The attributes of a fitted model; whoever needs several of them reads them here, from one fit."""
        state = self.__dict__
        if "_fitted" not in state:
            kind: Any = NotFittedError
            if "sklearn.exceptions" in sys.modules:  # whoever uses scikit-learn catches its error of this name
                kind = type("NotFittedError", (kind, sys.modules["sklearn.exceptions"].NotFittedError), {})
            raise kind(f"{name} is not fitted yet; call fit or partial_fit first")
        return state


def _columns(X: Any) -> list[Any] | None:
    """What a data frame calls its columns."""
    columns = getattr(X, "columns", None)
    return list(columns) if columns is not None and isinstance(columns, Collection) else None


def _feature_names(X: Any, n_features: int) -> Array | None:
    """Names of the features of X, if they are strings; one for each."""
    names = _columns(X)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    if len(names) != n_features:
        raise ValueError(f"X has {n_features} features, but {len(names)} names in X.columns")
    return np.array(names, dtype=object)


def without_fit(attributes: dict[str, Any]) -> dict[str, Any]:
    """All attributes but those of a fit."""
    return {name: v for name, v in attributes.items() if not name.endswith("_") and name != "_fitted"}
