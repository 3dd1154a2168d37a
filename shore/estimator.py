"""ShoreRegressor: both stages as one scikit-learn style estimator.

::

    estimator.py         the constructor, `fit`, `predict` and what else there is to ask a model
      └─► _streaming.py     `partial_fit`, `fit_batches`, `merge`; W, solved for when it is needed
            └─► _model.py       checks of parameters and data, Φ, and what a fit leaves
                  └─► _parameters.py    get_params and set_params, as scikit-learn has them

Data is made ready for the solvers in _preparation.py, and summed up in _statistics.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore import solvers
from shore._core.blas import limit_blas
from shore._core.decode import METHODS
from shore._core.threads import resolve_n_threads
from shore._model import NotFittedError
from shore._preparation import check_factorisation, prepare_rows, prepare_targets, split_rows
from shore._streaming import Streaming
from shore._validation import (
    canonical_csr,
    check_finite_rows,
    check_positive,
    check_weights,
    is_sparse,
    require_some,
)
from shore.compression import Compression
from shore.constraints import Constraint
from shore.decoders import DecodeInfo, decode, join_infos
from shore.explanation import Explanation, explain
from shore.metrics import non_zeros, precision_at_k
from shore.predictor import Predictor
from shore.projection import project

__all__ = ["NotFittedError", "ShoreRegressor"]

Array = npt.NDArray[Any]

# Rows are predicted in blocks whose scores take about this many bytes.
_BLOCK_BYTES = 1 << 25
# alpha="auto": the grid, and the share of the rows that is held out to pick from it.
_ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 7))
_HELD_OUT = 0.1


class ShoreRegressor(Streaming):
    """Sparse and high-dimensional-output regression by compression.

    Stage 1 compresses the outputs with a random matrix Φ of shape (m, K) and fits
    ``min ‖ΦYᵀ - WXᵀ‖² + alpha·‖W‖²``. Stage 2 finds, for an input x, the s-sparse y in a feasible set with
    Φy ≈ Wx by projected gradient descent.

    Parameters
    ----------
    sparsity : int, default 5
        Outputs that a prediction holds at most, s.
    n_components : int or 'auto', default 'auto'
        m; 'auto' is `shore.theory.components_for(sparsity, K)`.
    compression : {'head_tail', 'sparse_sign', 'gaussian'}, a compression, or None, default 'head_tail'
        Φ. 'head_tail' lets frequent outputs own a row, with frequencies from Y: the most precise where some outputs are
        far more frequent than others, and 'sparse_sign' where none are. None is the uncompressed model: W has a
        column for every output.
    constraint : {'real', 'nonneg', 'binary'} or Box or Simplex, default 'nonneg'
        The feasible set F.
    alpha : float or 'auto', default 1.0
        Weight of the ridge penalty. 0 is the paper's closed form. 'auto' picks from a grid by precision at s on
        held-out rows, weighted as they are; the curve is kept in `alpha_path_`.
    fit_intercept : bool, default False
    solver : {'auto', 'cholesky', 'dual', 'cg'}, default 'auto'
        `solver_` says which one 'auto' picked.
    solver_tol : float, default 1e-3
        'cg' stops when every column's residual is at most this share of its start.
    decoder : {'pgd', 'cd', 'omp', 'fista'}, default 'pgd'
        The method of stage 2.
    step, max_iter, tol, l1, decode_sparsity
        Of the decoder; see `shore.decode`.
    dtype : float32 or float64, default float32
    random_state : int, default 0
        Seed of Φ.
    n_threads : int, optional
        Threads to run on; None for the cores this process may use.
    verbose : int, default 0
        1 shows the progress of long fits.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        W.
    intercept_ : ndarray of shape (m,)
    compression_ : Compression or None
        Φ.
    n_features_in_, n_outputs_ : int
        d and K.
    solver_ : str
    n_iter_ : int
        Steps of 'cg'; 0 for direct solvers.
    alpha_ : float
        The penalty used.
    alpha_path_ : dict
        With ``alpha="auto"``: arrays 'alpha' and 'precision'.

    Examples
    --------
    >>> import numpy as np, shore
    >>> from shore.datasets import make_synthetic
    >>> problem = make_synthetic(2000, 50, 1000, sparsity=3, snr_db=30)
    >>> model = shore.ShoreRegressor(sparsity=3, n_components=200).fit(problem.X, problem.Y)
    >>> model.predict(problem.X[:2]).shape
    (2, 1000)
    >>> model.coef_.shape
    (200, 50)
    """

    def __init__(
        self,
        sparsity: int = 5,
        *,
        n_components: int | str = "auto",
        compression: str | Compression | None = "head_tail",
        constraint: Constraint = "nonneg",
        alpha: float | str = 1.0,
        fit_intercept: bool = False,
        solver: str = "auto",
        solver_tol: float = 1e-3,
        decoder: str = "pgd",
        step: float = 0.9,
        max_iter: int = 60,
        tol: float = 1e-3,
        l1: float = 0.1,
        decode_sparsity: int | None = None,
        dtype: npt.DTypeLike = np.float32,
        random_state: int = 0,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.sparsity = sparsity
        self.n_components = n_components
        self.compression = compression
        self.constraint = constraint
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_tol = solver_tol
        self.decoder = decoder
        self.step = step
        self.max_iter = max_iter
        self.tol = tol
        self.l1 = l1
        self.decode_sparsity = decode_sparsity
        self.dtype = dtype
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # ------------------------------------------------------------ stage 1

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is refused, not warned of
    def factorise(self, X: Any, sample_weight: Any = None) -> solvers.Factorisation:
        """XᵀX + alpha factorised, to fit several Φ on the same X: pass it to `fit`.

        Parameters
        ----------
        X, sample_weight
            As in `fit`, and the same as there.

        Examples
        --------
        >>> import numpy as np, shore
        >>> from shore.datasets import make_synthetic
        >>> problem = make_synthetic(200, 20, 500)
        >>> factorisation = shore.ShoreRegressor().factorise(problem.X)
        >>> models = [
        ...     shore.ShoreRegressor(random_state=seed).fit(problem.X, problem.Y, factorisation=factorisation)
        ...     for seed in range(3)
        ... ]
        """
        dtype = self._check_parameters()
        if self.alpha == "auto":
            raise ValueError("a factorisation is for one alpha, got alpha='auto'")
        rows = check_finite_rows(X, dtype)
        require_some(rows, "X", "feature")
        shift = check_weights(sample_weight, rows.shape[0])
        prepared = prepare_rows(rows, shift, dtype, bool(self.fit_intercept))
        prepared.checksum()  # of X as it is now: `fit` compares
        solver = self.solver if self.solver in ("cholesky", "dual") else None
        if solver is None:
            solver = "cholesky" if rows.shape[1] <= rows.shape[0] else "dual"
        return solvers.Factorisation(prepared, float(self.alpha), solver, resolve_n_threads(self.n_threads))

    @np.errstate(over="ignore", invalid="ignore")
    def fit(
        self, X: Any, Y: Any, sample_weight: Any = None, *, factorisation: solvers.Factorisation | None = None
    ) -> Self:
        """Fit W.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n, d)
            Inputs; sparse ones are not made dense.
        Y : array-like or SciPy sparse matrix of shape (n, K)
            Outputs; best sparse.
        sample_weight : array-like of shape (n,), optional
            Not negative; a row of weight w counts as w rows.
        factorisation : Factorisation, optional
            What `factorise` gave for the same X and weights: saves doing it again.

        Returns
        -------
        self
            As it was before if anything goes wrong.
        """
        dtype = self._check_parameters()
        rows, outputs = self._check_pair(X, Y, dtype)
        shift = check_weights(sample_weight, rows.shape[0])
        if factorisation is not None:
            check_factorisation(factorisation, rows, shift, dtype, self.alpha, bool(self.fit_intercept))
        compression = self._make_compression(outputs, shift, dtype)
        alpha, path = self._pick_alpha(rows, outputs, shift, compression, dtype)
        W, intercept, solver, n_iter = self._solve(rows, outputs, shift, compression, alpha, dtype, factorisation)
        more = {} if path is None else {"alpha_path_": path}
        self._keep(X, W, intercept, compression, outputs.shape[1], alpha, solver, n_iter, **more)
        return self

    def _solve(
        self, X: Any, Y: sparse.csr_array, shift: Array | None, compression: Compression | None, alpha: float,
        dtype: np.dtype[Any], factorisation: solvers.Factorisation | None,
    ) -> tuple[Array, Array, str, int]:  # fmt: skip
        n_threads = resolve_n_threads(self.n_threads)
        centre = bool(self.fit_intercept)
        targets, m, means = prepare_targets(compression, Y, shift, dtype, centre, n_threads)
        prepared = prepare_rows(X, shift, dtype, centre) if factorisation is None else factorisation.rows
        W, solver, n_iter = solvers.solve(
            prepared, targets, m, alpha, solver=self.solver, tol=float(self.solver_tol), n_threads=n_threads,
            verbose=bool(self.verbose), factorisation=factorisation,
        )  # fmt: skip
        intercept = np.zeros(m, dtype=dtype)
        if prepared.mean is not None:
            with limit_blas(n_threads):
                intercept = (means - prepared.mean @ W).astype(dtype)
            solvers.require_solution(dtype, intercept)
        return W, intercept, solver, n_iter

    def _pick_alpha(
        self, X: Any, Y: sparse.csr_array, shift: Array | None, compression: Compression | None, dtype: np.dtype[Any]
    ) -> tuple[float, dict[str, Array] | None]:
        """The penalty, and for 'auto' the precision at s of every penalty of the grid on held-out rows."""
        if self.alpha != "auto":
            return float(self.alpha), None
        if shift is not None and not shift.all():  # rows that do not count are not to judge by either
            counted = np.flatnonzero(shift)
            X, Y, shift = X[counted], Y[counted], shift[counted]
        if X.shape[0] < 2:
            which = "" if shift is None else " whose sample_weight is not 0"
            raise ValueError(f"alpha='auto' needs at least 2 rows{which}, to hold some out, got {X.shape[0]}")
        kept, held = split_rows(X.shape[0], _HELD_OUT, self.random_state)
        part = None if shift is None else shift[kept]
        n_threads = resolve_n_threads(self.n_threads)
        centre = bool(self.fit_intercept)
        targets, m, means = prepare_targets(compression, Y[kept], part, dtype, centre, n_threads)
        rows = prepare_rows(X[kept], part, dtype, centre)
        tried: list[tuple[float, float]] = []
        for alpha, B in solvers.path(
            rows, targets, m, _ALPHAS, X[held], solver=self.solver, tol=float(self.solver_tol), n_threads=n_threads
        ):
            B += means.astype(dtype)
            found, _ = self._decode(B, compression, self.sparsity, n_threads, large="X or Y")
            tried.append((alpha, _precision(Y[held], found, self.sparsity, None if shift is None else shift[held])))
            if len(tried) > 3 and max(p for _, p in tried[-3:]) < max(p for _, p in tried):
                break  # past the peak, and smaller penalties only cost more
        tried.sort()
        path = {"alpha": np.array([a for a, _ in tried]), "precision": np.array([p for _, p in tried])}
        return float(path["alpha"][int(np.argmax(path["precision"]))]), path

    # ------------------------------------------------------------ stage 2

    def _blocks(self, X: Any) -> Iterable[slice]:
        step = max(1, _BLOCK_BYTES // self._intercept.nbytes)  # as long as a row of scores
        # one block at least: other arguments are looked at even where there are no rows
        return (slice(start, min(X.shape[0], start + step)) for start in range(0, max(1, X.shape[0]), step))

    def _decode(
        self,
        B: Array,
        compression: Compression | None,
        sparsity: int,
        n_threads: int,
        *,
        large: str = "X",
        **limits: Any,
    ) -> tuple[sparse.csr_array, DecodeInfo | None]:
        """Sparse outputs from the scores Wx of a block of rows; `large` is what to blame if they overflow."""
        if not isinstance(self.decoder, str) or self.decoder not in METHODS:
            self._decode_options(B.dtype)  # says what may be
        try:
            if compression is None:
                return project(B, sparsity, self.constraint, n_threads=n_threads, **limits), None
            found, info = decode(
                B, compression, sparsity, method=self.decoder, constraint=self.constraint, step=self.step,
                max_iter=self.max_iter, tol=self.tol, l1=self.l1, decode_sparsity=self.decode_sparsity,
                n_threads=n_threads, return_info=True, **limits,
            )  # fmt: skip
        except ValueError as error:
            if str(error).startswith(("B ", "V ")):  # the names that decoding and projection have for scores
                raise ValueError(f"{large} is too large: scores Wx leave the range of {B.dtype}") from None
            raise
        return found, info

    @overload
    def predict(
        self,
        X: Any,
        *,
        sparsity: int | None = None,
        allowed: Any = None,
        denied: Any = None,
        n_threads: int | None = None,
        return_info: Literal[False] = False,
    ) -> sparse.csr_array: ...
    @overload
    def predict(
        self,
        X: Any,
        *,
        sparsity: int | None = None,
        allowed: Any = None,
        denied: Any = None,
        n_threads: int | None = None,
        return_info: Literal[True],
    ) -> tuple[sparse.csr_array, DecodeInfo]: ...
    @overload
    def predict(
        self,
        X: Any,
        *,
        sparsity: int | None = None,
        allowed: Any = None,
        denied: Any = None,
        n_threads: int | None = None,
        return_info: bool,
    ) -> sparse.csr_array | tuple[sparse.csr_array, DecodeInfo]: ...
    def predict(
        self,
        X: Any,
        *,
        sparsity: int | None = None,
        allowed: Any = None,
        denied: Any = None,
        n_threads: int | None = None,
        return_info: bool = False,
    ) -> sparse.csr_array | tuple[sparse.csr_array, DecodeInfo]:
        """Sparse outputs for every row.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n, d)
        sparsity : int, optional
            Outputs to keep at most; None for the model's.
        allowed, denied : 1-D array of indices or booleans, or sparse matrix of shape (n, K), optional
            As in `shore.decode`.
        n_threads : int, optional
            None for the model's.
        return_info : bool, default False

        Returns
        -------
        csr_array of shape (n, K)
        DecodeInfo
            Only with ``return_info=True``.
        """
        model = self._now()
        W, intercept, compression = model._feature_major, model._intercept, model._compression
        rows = model._check_inputs(X, intercept.dtype)
        model._check_widths(rows)
        n_outputs = model.n_outputs_
        threads = resolve_n_threads(model.n_threads if n_threads is None else n_threads)
        s = check_positive(model.sparsity if sparsity is None else sparsity, "sparsity")
        limits_for_all = {
            name: canonical_csr(which, name) if is_sparse(which) else which  # rows of it can be taken
            for name, which in (("allowed", allowed), ("denied", denied))
        }
        for name, which in limits_for_all.items():
            if is_sparse(which) and which.shape != (rows.shape[0], n_outputs):
                raise ValueError(
                    f"{name} has shape {which.shape}, but a pattern per row needs {(rows.shape[0], n_outputs)}"
                )
        if return_info and compression is None:
            raise ValueError("return_info needs a compression: the uncompressed model does not iterate")
        results: list[Any] = []
        for here in model._blocks(rows):
            B = _compressed(rows[here], W, intercept, threads)
            limits: dict[str, Any] = {
                name: which[here] if is_sparse(which) else which for name, which in limits_for_all.items()
            }
            results.append(model._decode(B, compression, s, threads, **limits))
        found = _stack([found for found, _ in results], (rows.shape[0], n_outputs), intercept.dtype)
        if not return_info:
            return found
        return found, join_infos([info for _, info in results])

    def predictor(self, n_threads: int | None = 1) -> Predictor:
        """A callable that predicts one row, of the model as it is now: for serving.

        Parameters
        ----------
        n_threads : int, optional
            One row always runs on one thread, the caller's, so this is only checked.

        Returns
        -------
        Predictor
            ``predictor(indices, values)`` or ``predictor(dense_row)`` gives ``(indices, values)``.
        """
        W, intercept, compression = self._weights()
        resolve_n_threads(n_threads)
        options = self._decode_options(intercept.dtype)
        return Predictor(W, intercept, compression, self.sparsity, self.constraint, options)

    def predict_compressed(self, X: Any, *, n_threads: int | None = None) -> Array:
        """Wx + intercept for every row: what the decoder is given.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n, d)
        n_threads : int, optional
            None for the model's.

        Returns
        -------
        ndarray of shape (n, m)
            Of the uncompressed model (n, K): mind its size.
        """
        model = self._now()
        rows = model._check_inputs(X, model._intercept.dtype)
        model._check_widths(rows)
        threads = resolve_n_threads(model.n_threads if n_threads is None else n_threads)
        B = _compressed(rows, model._feature_major, model._intercept, threads)
        if not np.isfinite(B).all():
            raise ValueError(f"X is too large: scores Wx leave the range of {B.dtype}")
        return B

    def score(self, X: Any, Y: Any) -> float:
        """Precision at s of the predictions, `shore.metrics.precision_at_k`."""
        true, predicted = non_zeros(Y, "Y"), self.predict(X)
        if true.shape != predicted.shape:
            raise ValueError(f"Y must have shape {predicted.shape}, like the predictions for X, got {true.shape}")
        return precision_at_k(true, predicted, self.sparsity)

    def explain(
        self,
        X: Any,
        top_features: int = 10,
        *,
        sparsity: int | None = None,
        allowed: Any = None,
        denied: Any = None,
        n_threads: int | None = None,
    ) -> Explanation:
        """For every predicted output, the features that spoke for and against it.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n, d)
        top_features : int, default 10
            How many to list per predicted output, the largest in size first.
        sparsity, allowed, denied, n_threads
            As in `predict`: what is explained is what `predict` gives with them.

        Returns
        -------
        Explanation
            Contributions (φ_jᵀW)_f·x_f; over all features they sum to the correlation score φ_jᵀWx.
        """
        model = self._now()
        top = check_positive(top_features, "top_features")
        W, intercept, compression = model._weights()
        given = model._check_inputs(X, intercept.dtype)
        model._check_widths(given)
        rows = sparse.csr_array(given.copy() if is_sparse(given) else np.asarray(given, dtype=intercept.dtype))
        rows.eliminate_zeros()  # which contribute nothing
        found = model.predict(rows, sparsity=sparsity, allowed=allowed, denied=denied, n_threads=n_threads)
        return explain(rows, found, W, intercept, compression, top)

    # ------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str], *, weights: str | None = None) -> None:
        """Write the model to one file, which `shore.load` reads; no pickle.

        A file of that name is replaced only once the new one is complete. The sums of `partial_fit` are not saved:
        W is solved for, and a loaded model starts anew.

        Parameters
        ----------
        path : str or path
        weights : 'float16', optional
            Store W in half precision, of a float32 model only: the file is about half as long, and predictions are
            those of the rounded W. None stores W as it is.

        Examples
        --------
        >>> import shore, tempfile
        >>> from pathlib import Path
        >>> from shore.datasets import make_synthetic
        >>> problem = make_synthetic(200, 20, 500)
        >>> model = shore.ShoreRegressor(3, n_components=64).fit(problem.X, problem.Y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(Path(folder, "m.shore"))
        ...     again = shore.load(Path(folder, "m.shore"))
        >>> abs(again.predict(problem.X) - model.predict(problem.X)).max().item()
        0.0
        """
        from shore import modelfile  # which imports this module

        modelfile.save(self, path, weights)


def _compressed(rows: Any, W: Array, intercept: Array, n_threads: int) -> Array:
    B = solvers.times(rows, W, n_threads)
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN of a file that nobody looked at, too
        if intercept.any():  # a pass over B that most models need not make
            B += intercept
    return B


def _precision(true: Any, found: sparse.csr_array, sparsity: int, shift: Array | None) -> float:
    """Precision at s of predictions of at most s outputs, weighted; `shift` as of the solvers."""
    if shift is None:
        return precision_at_k(true, found, sparsity)
    hits = abs(non_zeros(true, "Y").sign()).multiply(abs(non_zeros(found, "Y").sign())).sum(axis=1)
    weights = (shift / shift.max()) ** 2
    return float(weights @ hits / (weights.sum() * sparsity))


def _stack(parts: list[Any], shape: tuple[int, int], dtype: np.dtype[Any]) -> sparse.csr_array:
    if not parts:
        return sparse.csr_array(shape, dtype=dtype)
    whole = parts[0] if len(parts) == 1 else sparse.csr_array(sparse.vstack(parts, format="csr"))
    whole.has_canonical_format = True
    return whole
