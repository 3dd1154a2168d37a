"""Theorems 1, 2 and 4 evaluated on a fitted model and its data."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._validation import check_number
from shore.compression import Compression, GaussianCompression
from shore.decoders import decode
from shore.projection import project
from shore.theory._data import Array, blocks, check_pair, row_norms2
from shore.theory.bounds import contraction, delta_for
from shore.theory.rip import RipEstimate, rip_estimate

if TYPE_CHECKING:  # the estimator itself imports this package
    from shore.estimator import ShoreRegressor

__all__ = ["Report", "Statement", "report"]

# Theorem 2 is evaluated after 1, 2, 4, ... steps up to the model's, and no more than these: it is long settled then.
_MOST_STEPS = 64
# A norm may be off by this many units of rounding of the numbers it was computed from.
_ROUNDING = 200
_WIDTH = 96


@dataclass(frozen=True)
class Statement:
    """One inequality, evaluated.

    Attributes
    ----------
    theorem : int
        Its number in the paper.
    text : str
        left ≤ right, in the paper's symbols.
    left, right : float
        An infinite `right` means that the theorem says nothing here; `note` says why. NaN: not evaluated for that.
    holds : bool
        left ≤ right, up to rounding; True where the theorem says nothing.
    note : str
        What else one should know.
    """

    theorem: int
    text: str
    left: float
    right: float
    holds: bool
    note: str


@dataclass(frozen=True)
class Report:
    """What `report` found; printed, a table.

    Attributes
    ----------
    statements : tuple of Statement
        Theorems 1, 2 and 4.
    delta : float
        The RIP constant of order 3s that was used for Theorems 2 and 4.
    rip : RipEstimate or None
        Where `delta` comes from; None if it was given.
    """

    statements: tuple[Statement, ...]
    delta: float
    rip: RipEstimate | None

    def __str__(self) -> str:
        source = "as given"
        if self.rip is not None:
            which = "all" if self.rip.share == 0 else "random"
            source = f"the largest over {self.rip.n_supports} {which} supports of {self.rip.sparsity} columns"
        lines = [f"δ = {self.delta:.4g}, {source}", ""]
        lines.append(f"{'':2} {'inequality':62} {'left':>10} {'right':>10} {'holds':>6}")
        for each in self.statements:
            holds = ("yes" if each.holds else "NO") if each.right < math.inf else "-"
            lines.append(f"{each.theorem:<2} {each.text:62} {each.left:10.4g} {each.right:10.4g} {holds:>6}")
            lines += textwrap.wrap(each.note, _WIDTH, initial_indent=" " * 3, subsequent_indent=" " * 3)
        return "\n".join(lines)


@dataclass
class _Sums:
    """What one pass over the rows collects."""

    training: float = 0.0  # ‖ΦYᵀ - WXᵀ‖²
    energy: float = 0.0  # ‖ΦYᵀ‖², the scale of its rounding
    difference: float = 0.0  # ‖Vᵀ - Yᵀ‖²
    optimal: int = 0  # rows with ‖Φv - Wx‖ ≤ ‖Φy - Wx‖
    outside: int = 0  # rows with y not in V_s ∩ F
    restarted: int = 0  # rows that diverged, and went on with another step
    worst: float = -math.inf  # of Theorem 2: left/right, and which
    left: float = math.nan
    right: float = math.inf
    row: int = -1
    t: int = 0


def _steps(max_iter: int) -> list[int]:
    most = min(max_iter, _MOST_STEPS)
    return [*(1 << i for i in range(most.bit_length()) if 1 << i < most), most]


def _convergence(
    sums: _Sums, B: Array, target: sparse.csr_array, compression: Compression, model: ShoreRegressor,
    constants: tuple[float, float], start: int, n_threads: int,
) -> None:  # fmt: skip
    """Theorem 2 on a block of rows, with ŷ the projected outputs: its proof asks no more of ŷ than to be feasible."""
    c1, c2 = constants
    size = np.sqrt(row_norms2(target))
    noise = np.linalg.norm(compression.compress(target, n_threads=n_threads) - B, axis=1)
    rounding = _ROUNDING * float(np.finfo(compression.dtype).eps) * (size + np.linalg.norm(B, axis=1))
    restarted = np.zeros(len(B), dtype=np.bool_)
    for t in reversed(_steps(model.max_iter)):  # the longest first: it knows every row that restarts
        found, info = decode(
            B, compression, model.sparsity, constraint=model.constraint, step=model.step, max_iter=t, tol=0,
            n_threads=n_threads, return_info=True,
        )  # fmt: skip
        restarted |= info.step != float(model.step)
        left = np.sqrt(row_norms2(sparse.csr_array(target - found)))
        right = c1**t * size + c2 / (1 - c1) * noise
        floor = right + rounding
        ratio = np.where(restarted | (floor == 0), -math.inf, left / np.where(floor == 0, 1, floor))
        i = int(np.argmax(ratio))
        if ratio[i] > sums.worst:
            sums.worst, sums.left, sums.right = float(ratio[i]), float(left[i]), float(right[i])
            sums.row, sums.t = start + i, t
    sums.restarted += int(restarted.sum())


def _uncompressed_loss(model: ShoreRegressor, X: Any, Y: sparse.csr_array, n_threads: int) -> tuple[float, float]:
    """‖Yᵀ - ẐXᵀ‖² and ‖Ẑ‖² of the uncompressed model with the same options on the same rows."""
    from shore.estimator import ShoreRegressor

    options = {"compression": None, "alpha": model.alpha_, "n_threads": n_threads, "verbose": 0}
    plain = ShoreRegressor(**{**model.get_params(), **options}).fit(X, Y)
    Z, intercept = plain.coef_.T, plain.intercept_.astype(np.float64)
    loss = 0.0
    for here in blocks(X.shape[0], Y.shape[1]):
        # R := X Zᵀ - Y for some rows, dense, but never all of them
        R = np.asarray(X[here] @ Z, dtype=np.float64) + intercept
        part = Y[here]
        R[np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices] -= part.data
        loss += float(np.sum(R**2))
    return loss, float(np.sum(np.square(Z, dtype=np.float64)))


def _theorem_1(
    model: ShoreRegressor,
    compression: Compression,
    X: Any,
    Y: sparse.csr_array,
    sums: _Sums,
    tau: float,
    n_threads: int,
) -> Statement:
    alpha = float(model.alpha_)
    left, text = sums.training, "‖ΦYᵀ - WXᵀ‖² ≤ (1 + δ₁)·‖Yᵀ - ẐXᵀ‖²"
    loss, weight = _uncompressed_loss(model, X, Y, n_threads)
    if alpha > 0:
        # Ridge is least squares on X and Y with rows √alpha·I and 0 added, and the theorem holds for those.
        left += alpha * float(np.sum(np.square(model.coef_, dtype=np.float64)))
        loss += alpha * weight
        text = "‖ΦYᵀ - WXᵀ‖² + α‖W‖² ≤ (1 + δ₁)·(‖Yᵀ - ẐXᵀ‖² + α‖Ẑ‖²)"
    delta = delta_for(compression.n_components, model.sparsity, compression.n_outputs, tau=tau, form="jl")
    proven = math.isfinite(delta)
    right = (1 + delta) * loss if proven else math.inf
    notes = [f"δ₁ = {delta:.3g}" if proven else f"says nothing: m = {compression.n_components} proves no δ₁ < 1"]
    if loss > 0:
        notes.append(f"the compressed loss is {left / loss:.4g} times the uncompressed one")
    if alpha > 0:
        notes.append(f"the paper has alpha=0, here it is {alpha:g}")
    if not isinstance(compression, GaussianCompression):
        notes.append(f"δ₁ is proven for a Gaussian Φ, not for a {type(compression).__name__}")
    rounding = _squared_rounding(model.coef_.dtype) * (sums.energy + float(np.sum(Y.data**2)))
    return Statement(1, text, left, right, left <= right * (1 + 1e-6) + rounding, "; ".join(notes))


def _theorem_2(model: ShoreRegressor, sums: _Sums, delta: float, n: int) -> Statement:
    c1, c2 = contraction(model.step, delta)
    text = "‖ŷ - v⁽ᵗ⁾‖ ≤ c₁ᵗ·‖ŷ‖ + c₂/(1 - c₁)·‖Φŷ - Wx‖"
    if not _applies(model.step, c1):
        why = f"c₁ = {c1:.3g} ≥ 1" if c1 >= 1 else f"step = {model.step:g} is not below 1"
        return Statement(2, text, math.nan, math.inf, True, f"says nothing: {why}")
    notes = [f"c₁ = {c1:.3g}, c₂ = {c2:.3g}"]
    if sums.row < 0:
        notes.append("no row to look at")
    else:
        notes.append(f"worst of all rows and of t = {', '.join(map(str, _steps(model.max_iter)))}")
        notes.append(f"row {sums.row}, t = {sums.t}")
    if sums.outside:
        notes.append(f"ŷ is y projected, in {sums.outside} of {n} rows another than y")
    if sums.restarted:
        notes.append(f"left out: {sums.restarted} of {n} rows that went on with a smaller step")
    if model.decoder != "pgd":
        notes.append(f"of projected gradient descent, not of the model's decoder {model.decoder!r}")
    return Statement(2, text, sums.left, sums.right, sums.worst <= 1, "; ".join(notes))


def _theorem_4(sums: _Sums, delta: float, dtype: np.dtype[Any], n: int) -> Statement:
    left = sums.difference / n
    right = 4 / (1 - delta) * sums.training / n if delta < 1 else math.inf
    notes = [f"‖Φv - Wx‖ ≤ ‖Φy - Wx‖, which the proof asks for, in {sums.optimal} of {n} rows"]
    if delta >= 1:
        notes.insert(0, f"says nothing: δ = {delta:.3g} ≥ 1")
    if sums.outside:
        notes.append(f"outside the theorem: {sums.outside} of {n} rows, whose y is not s-sparse and feasible")
    rounding = _squared_rounding(dtype) * sums.energy / n
    text = "mean ‖v - y‖² ≤ 4/(1 - δ)·mean ‖Φy - Wx‖²"
    return Statement(4, text, left, right, left <= right * (1 + 1e-6) + rounding, "; ".join(notes))


def _squared_rounding(dtype: np.dtype[Any]) -> float:
    return (_ROUNDING * float(np.finfo(dtype).eps)) ** 2


def _applies(step: float, c1: float) -> bool:
    return c1 < 1 and step < 1


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused, not warned of
def report(
    model: ShoreRegressor,
    X: Any,
    Y: Any,
    *,
    delta: float | None = None,
    tau: float = 0.05,
    n_supports: int = 1000,
    seed: int = 0,
    n_threads: int | None = None,
) -> Report:
    """Evaluate the inequalities of Theorems 1, 2 and 4 on a fitted model and its data.

    - Theorem 1: the training loss against (1 + δ₁) times that of the uncompressed model Ẑ, which is fitted here with
      the model's options; δ₁ is `delta_for` of ``form="jl"``. With a penalty, alpha·‖W‖² and alpha·‖Ẑ‖² are added:
      ridge is least squares on more rows, so the theorem covers it. It can only hold for the rows that the model was
      fitted on, all with the same weight.
    - Theorem 2: the distance of the iterates from ŷ after t = 1, 2, 4, ... steps, the worst row and t. ŷ is y
      projected onto the s-sparse feasible vectors: the proof asks no more of it.
    - Theorem 4: the mean squared distance of the predictions from y.

    Where a theorem says nothing (no contraction, δ ≥ 1), the right side is infinite and the note says why. If δ is
    the estimate of `rip_estimate`, it is a lower bound on the RIP constant: then an inequality that holds is evidence,
    and one that fails can be due to δ. With ``refine=True`` there it comes nearer to the constant; pass it as `delta`.

    Parameters
    ----------
    model : ShoreRegressor
        Fitted, with a compression.
    X : array-like or SciPy sparse matrix of shape (n, d)
    Y : array-like or SciPy sparse matrix of shape (n, K)
    delta : float, optional
        The RIP constant of order 3s, at least 0. None estimates it: the largest δ_S of `rip_estimate`.
    tau : float, default 0.05
        The probability with which Theorem 1 may fail.
    n_supports, seed
        Of `rip_estimate`.
    n_threads : int, optional
        None for the model's.

    Returns
    -------
    Report
        Print it for a table.

    Examples
    --------
    >>> import shore
    >>> from shore.datasets import make_synthetic
    >>> from shore.theory import report
    >>> problem = make_synthetic(500, 20, 200)
    >>> model = shore.ShoreRegressor(3, n_components=150, compression="gaussian").fit(problem.X, problem.Y)
    >>> [(each.theorem, each.holds) for each in report(model, problem.X, problem.Y).statements]
    [(1, True), (2, True), (4, True)]
    """
    from shore.estimator import ShoreRegressor

    if not isinstance(model, ShoreRegressor):
        raise TypeError(f"model must be a fitted ShoreRegressor, got {type(model).__name__}")
    W, intercept = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)  # says so if not fitted
    compression = model.compression_
    if compression is None:
        raise ValueError("model must have a compression, got one fitted with compression=None: there is no Φ")
    tau = check_number(tau, "tau", "a number between 0 and 1", 0, 1)
    if delta is not None:
        delta = check_number(delta, "delta", "a number of at least 0, or None", 0, math.inf, closed=True)
    rows, outputs = check_pair(X, Y)
    if outputs.shape[1] != compression.n_outputs:
        raise ValueError(f"Y has {outputs.shape[1]} outputs, but the model has {compression.n_outputs}")
    threads = resolve_n_threads(model.n_threads if n_threads is None else n_threads)
    V = model.predict(X, n_threads=threads)
    rip = None
    if delta is None:
        rip = rip_estimate(compression, 3 * model.sparsity, n_supports=n_supports, seed=seed, n_threads=threads)
        delta = rip.delta
    constants = contraction(model.step, delta)
    target = project(outputs, model.sparsity, model.constraint, n_threads=threads)

    n, sums = rows.shape[0], _Sums()
    moved, size = row_norms2(sparse.csr_array(outputs - target)), row_norms2(outputs)
    sums.outside = int(np.sum(moved > 1e-12 * size))
    sums.difference = float(row_norms2(sparse.csr_array(V - outputs)).sum())
    eps = float(np.finfo(compression.dtype).eps)
    with limit_blas(threads):
        for here in blocks(n, max(compression.n_components, rows.shape[1])):
            B = np.asarray(rows[here].astype(np.float64) @ W.T) + intercept
            of_y, of_v = (
                compression.compress(part[here], n_threads=threads).astype(np.float64) for part in (outputs, V)
            )
            residual = np.linalg.norm(of_y - B, axis=1)
            sums.training += float(np.sum(residual**2))
            sums.energy += float(np.sum(of_y**2))
            rounding = _ROUNDING * eps * (np.linalg.norm(B, axis=1) + np.linalg.norm(of_y, axis=1))
            sums.optimal += int(np.sum(np.linalg.norm(of_v - B, axis=1) <= residual + rounding))
            if _applies(model.step, constants[0]):
                _convergence(sums, B, target[here], compression, model, constants, here.start, threads)
        statements = (
            _theorem_1(model, compression, rows, outputs, sums, tau, threads),
            _theorem_2(model, sums, delta, n),
            _theorem_4(sums, delta, compression.dtype, n),
        )
    if not all(math.isfinite(number) for number in (sums.training, sums.energy, sums.difference)):
        raise ValueError("X or Y is too large: sums of squares leave the range of float64")
    return Report(statements=statements, delta=delta, rip=rip)
