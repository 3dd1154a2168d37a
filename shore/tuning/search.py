"""The search: all Φ are fitted on the same rows, so that most of the work is done once.

Their compressed outputs are one block of right-hand sides: an eigendecomposition, or conjugate gradients that go from
penalty to penalty, serve every one of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shore import solvers
from shore._core.threads import resolve_n_threads
from shore._preparation import prepare_rows, prepare_targets, split_rows
from shore._progress import Progress
from shore._validation import check_number, check_positive, check_verbose, float_dtype
from shore.compression import COMPRESSIONS, Compression, compression_for
from shore.estimator import ShoreRegressor
from shore.metrics import precision_at_k
from shore.tuning.candidates import Sizes, candidates
from shore.tuning.result import Trial, Tuning, pick

__all__ = ["tune"]

Array = npt.NDArray[Any]

_ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
# Compressed outputs of Φ that are fitted together take about this many bytes at most.
_GROUP_BYTES = 1 << 29
# Held-out rows that times are measured on, at most.
_TIMED_ROWS = 2000


def _check_list(given: Any, name: str, check: Any) -> tuple[Any, ...]:
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given[()]  # the number itself
    values = tuple(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else (given,)
    if not values:
        raise ValueError(f"{name} must hold at least one value")
    for value in values:
        check(value)
    return tuple(dict.fromkeys(values))


def _check_alpha(alpha: Any) -> None:
    if isinstance(alpha, str) and alpha == "auto":
        raise ValueError("alphas must hold numbers, got 'auto'")
    check_number(alpha, "alphas", "numbers of at least 0", closed=True)


def _check_compression(name: Any) -> None:
    if name is not None and (not isinstance(name, str) or name not in COMPRESSIONS):
        names = ", ".join(map(repr, COMPRESSIONS))
        raise ValueError(f"compressions must be among {names} and None, got {name!r}")


def _groups(found: Sequence[tuple[str | None, int]], n_rows: int, itemsize: int) -> list[list[tuple[str | None, int]]]:
    """Neighbours that are fitted together."""
    groups: list[list[tuple[str | None, int]]] = [[]]
    for at in found:
        if groups[-1] and (sum(m for _, m in groups[-1]) + at[1]) * n_rows * itemsize > _GROUP_BYTES:
            groups.append([])
        groups[-1].append(at)
    return groups


def _joined(parts: Sequence[solvers.Targets], widths: Sequence[int]) -> solvers.Targets:
    """The columns of all, side by side."""
    starts = np.concatenate([[0], np.cumsum(widths)])

    def block(start: int, stop: int) -> Array:
        pieces = []
        for part, first, last in zip(parts, starts, starts[1:], strict=False):
            if start < last and stop > first:
                pieces.append(part(max(start, int(first)) - int(first), min(stop, int(last)) - int(first)))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)

    return block


def _seconds(call: Any, turns: int = 3) -> float:
    """The median of a few calls."""
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def tune(
    X: Any,
    Y: Any,
    *,
    sparsity: int = 5,
    n_components: Any = None,
    alphas: Any = None,
    compressions: Any = ("head_tail", "sparse_sign"),
    max_bytes: float | None = None,
    max_microseconds: float | None = None,
    held_out: float = 0.1,
    validation: tuple[Any, Any] | None = None,
    weights: str | None = None,
    random_state: int = 0,
    n_threads: int | None = None,
    verbose: int = 0,
    **parameters: Any,
) -> Tuning:
    """Try m, alpha and compressions on held-out rows, and pick a model for a budget.

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (n, d)
    Y : array-like or SciPy sparse matrix of shape (n, K)
    sparsity : int, default 5
        Outputs that a prediction holds at most, s.
    n_components : int or sequence of int, optional
        The m to try; None for a half, one, two and four times what `shore.theory.components_for` says, and with
        `max_bytes` the largest that fits.
    alphas : float or sequence of float, optional
        The penalties to try; None for 0.1, 0.3, 1, 3, 10, 30 and 100.
    compressions : sequence of str or None, default ('head_tail', 'sparse_sign')
        Names of compressions to try; None among them is the uncompressed model.
    max_bytes : float, optional
        The budget for the model file. What does not fit is not tried.
    max_microseconds : float, optional
        The budget for the time per row, predicted in blocks on the threads given, on this machine.
    held_out : float, default 0.1
        The share of the rows that models are judged on, drawn at random.
    validation : (X, Y), optional
        Rows to judge on instead, e.g. later ones of a time series.
    weights : 'float16', optional
        Count files with W in half precision, as `ShoreRegressor.save` writes them.
    random_state : int, default 0
        Seed of Φ and of the rows that are held out.
    n_threads : int, optional
        Threads to run on; None for the cores this process may use.
    verbose : int, default 0
        1 shows progress.
    **parameters
        Other parameters of `ShoreRegressor`, the same for all.

    Returns
    -------
    Tuning
        `trials`, the pick `best`, and `model()` to fit.

    Raises
    ------
    ValueError
        Also where not even the smallest model is within the budget; it says what that would take.

    Examples
    --------
    >>> import shore
    >>> from shore.datasets import make_synthetic
    >>> problem = make_synthetic(2000, 50, 1000, sparsity=3, snr_db=30)
    >>> tuning = shore.tune(problem.X, problem.Y, sparsity=3, n_components=[64, 128], max_bytes=60_000)
    >>> tuning.best.n_components
    64
    >>> model = tuning.model().fit(problem.X, problem.Y)
    """
    for name in ("n_components", "alpha", "compression"):
        if name in parameters:
            raise TypeError(f"{name} is what tune varies: give {name.removesuffix('s')}s, or leave it out")
    if weights is not None and (not isinstance(weights, str) or weights != "float16"):
        raise ValueError(f"weights must be None or 'float16', got {weights!r}")
    for name, budget in (("max_bytes", max_bytes), ("max_microseconds", max_microseconds)):
        if budget is not None:
            check_number(budget, name, "a positive number or None")
    given = None if n_components is None else _check_list(
        n_components, "n_components", lambda m: check_positive(m, "n_components")
    )  # fmt: skip
    penalties = _check_list(_ALPHAS if alphas is None else alphas, "alphas", _check_alpha)
    names = _check_list(compressions, "compressions", _check_compression)
    resolve_n_threads(n_threads)
    show = check_verbose(verbose)
    template = ShoreRegressor(sparsity, random_state=random_state, n_threads=n_threads, **parameters)
    dtype = template._check_parameters()
    if weights is not None and dtype != np.float32:
        raise ValueError(f"weights='float16' is for float32 models, but dtype is {dtype}")
    rows, outputs = template._check_pair(X, Y, dtype)
    if validation is None:
        kept, held = split_rows(rows.shape[0], held_out, random_state)
        X_held, Y_held, rows, outputs = rows[held], outputs[held], rows[kept], outputs[kept]
    else:
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X, Y), got {type(validation).__name__}")
        try:
            X_held, Y_held = template._check_pair(*validation, dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(f"validation: {error}") from None
        if X_held.shape[1] != rows.shape[1] or Y_held.shape[1] != outputs.shape[1]:
            raise ValueError(
                f"validation must have {rows.shape[1]} features and {outputs.shape[1]} outputs, got {X_held.shape[1]} "
                f"and {Y_held.shape[1]}"
            )
    sizes = Sizes(rows.shape[1], outputs.shape[1], dtype, weights)
    found = candidates(sizes, names, given, sparsity, outputs.shape[1], max_bytes)

    trials: list[Trial] = []
    with Progress("tune", len(found) * len(penalties), show=show) as progress:
        for group in _groups(found, rows.shape[0], dtype.itemsize):
            for trial in _try_group(template, group, penalties, (rows, outputs), (X_held, Y_held), sizes, weights):
                trials.append(trial)
                progress.advance(1)
    trials.sort(key=lambda trial: (trial.compression, trial.n_components, trial.alpha))
    best = pick(trials, max_bytes, max_microseconds)
    return Tuning(tuple(trials), best, max_bytes, max_microseconds, template)


def _try_group(
    template: ShoreRegressor, group: Sequence[tuple[str | None, int]], penalties: tuple[float, ...],
    fitted_on: tuple[Any, Any], held: tuple[Any, Any], sizes: Sizes, weights: str | None,
) -> Iterator[Trial]:  # fmt: skip
    """Trials of some compressions, fitted together."""
    (X, Y), (X_held, Y_held) = fitted_on, held
    dtype, n_threads, s = float_dtype(template.dtype), resolve_n_threads(template.n_threads), template.sparsity
    centre = bool(template.fit_intercept)
    phis: list[Compression | None] = [
        None if name is None else compression_for(Y, name, m, seed=template.random_state, dtype=dtype)
        for name, m in group
    ]
    parts = [prepare_targets(phi, Y, None, dtype, centre, n_threads) for phi in phis]
    widths = [width for _, width, _ in parts]
    ends = np.cumsum(widths)
    timed = X_held[:_TIMED_ROWS]
    products = [_product_seconds(timed, width, dtype, weights, n_threads) for width in widths]
    for alpha, scores in solvers.path(
        prepare_rows(X, None, dtype, centre), _joined([part for part, _, _ in parts], widths), sum(widths), penalties,
        X_held, solver=template.solver, tol=float(template.solver_tol), n_threads=n_threads,
    ):  # fmt: skip
        for i, (name, m) in enumerate(group):
            B = np.ascontiguousarray(scores[:, ends[i] - widths[i] : ends[i]])
            B += parts[i][2].astype(dtype)

            def decode(B: Array = B, phi: Compression | None = phis[i]) -> Any:
                return template._decode(B, phi, s, n_threads)[0]

            predicted, few = decode(), B[: timed.shape[0]]
            seconds = products[i] + _seconds(lambda few=few, decode=decode: decode(few))
            at_s, at_1 = (precision_at_k(Y_held, predicted, k) for k in (s, 1))
            yield Trial(name or "none", m, alpha, at_s, at_1, sizes.of(phis[i]), 1e6 * seconds / timed.shape[0])


def _product_seconds(X: Any, width: int, dtype: np.dtype[Any], weights: str | None, n_threads: int) -> float:
    """The time of X W, for a W of that many columns."""
    W = np.full((X.shape[1], width), 0.01, dtype=np.float16 if weights else dtype)
    return _seconds(lambda: solvers.times(X, W, n_threads))
