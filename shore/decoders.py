"""Stage 2: from compressed outputs b ≈ Φy back to sparse outputs y."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core import decode as _core
from shore._core.threads import resolve_n_threads
from shore._pieces import pieces
from shore._validation import check_flag, check_number, check_positive, check_rows, is_sparse
from shore.compression import Compression
from shore.constraints import Constraint, feasible_set
from shore.projection import csr_from_slots

__all__ = ["DecodeInfo", "decode"]

# Rows are converted, if need be, and decoded in pieces of at most about this size.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class DecodeInfo:
    """What decoding did, row by row: arrays of length n.

    Attributes
    ----------
    n_iter : ndarray of int64
        Steps taken (after the last restart, if the row had to be restarted); with 'omp', outputs chosen.
    converged : ndarray of bool
        Whether the stopping rule was met before `max_iter` ended the row.
    residual : ndarray of float64
        ‖Φv - b‖₂ of the result.
    step : ndarray of float64
        The step size: the one asked for, halved for every time the row had diverged. With 'fista' it is in units of
        1/‖Φ‖₂², with 'cd' it is 1, and with 'omp', which has none, NaN.
    full_passes : ndarray of int64
        How often all K outputs were looked at.
    """

    n_iter: npt.NDArray[np.int64]
    converged: npt.NDArray[np.bool_]
    residual: npt.NDArray[np.float64]
    step: npt.NDArray[np.float64]
    full_passes: npt.NDArray[np.int64]


def join_infos(infos: list[DecodeInfo]) -> DecodeInfo:
    """One `DecodeInfo` of blocks of rows that were decoded one after the other."""
    names = ("n_iter", "converged", "residual", "step", "full_passes")
    kinds = (np.int64, np.bool_, np.float64, np.float64, np.int64)
    return DecodeInfo(
        **{
            name: np.concatenate([getattr(info, name) for info in infos] or [np.empty(0, kind)])
            for name, kind in zip(names, kinds, strict=True)
        }
    )


@dataclass(frozen=True)
class DecodeOptions:
    """The options of a decoder that do not depend on data, as the engine takes them."""

    method: str
    step: float
    max_iter: int
    tol: float
    l1: float
    decode_sparsity: int | None

    def in_work(self, sparsity: int, n_outputs: int) -> int:
        """The sparsity to decode with where `sparsity` outputs are to be kept; correlation decoding ranks but once."""
        if self.decode_sparsity is None or self.method == "cd":
            return sparsity
        return min(max(sparsity, self.decode_sparsity), n_outputs)


def check_decoding(
    name: str,
    method: Any,
    step: Any,
    max_iter: Any,
    tol: Any,
    l1: Any,
    decode_sparsity: Any,
    constraint: Any,
    dtype: np.dtype[Any],
) -> DecodeOptions:
    """Options of a decoder that do not depend on data, checked.

    `name` is what the caller calls the method.
    """
    if not isinstance(method, str) or method not in _core.METHODS:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, _core.METHODS))}, got {method!r}")
    feasible_set(constraint, None, None, (0, 1), dtype)
    return DecodeOptions(
        method,
        check_number(step, "step", "a positive number"),
        check_positive(max_iter, "max_iter", 1 << 62),
        check_number(tol, "tol", "a non-negative number", closed=True),
        check_number(l1, "l1", "a non-negative number", closed=True),
        None if decode_sparsity is None else check_positive(decode_sparsity, "decode_sparsity", 1 << 62),
    )


def engine_step(options: DecodeOptions, compression: Compression) -> tuple[float, float]:
    """The step that the engine takes, and what the caller calls it."""
    if options.method == "cd":  # one step of size 1 from 0 is Π(Φᵀb)
        return 1.0, 1.0
    if options.method == "omp":
        return 1.0, math.nan
    if options.method == "pgd":
        return options.step, options.step
    squared_norm = compression.squared_norm()
    # where 1/‖Φ‖₂² leaves the range of numbers (Φ = 0 above all), no unit is better than another
    unit = 1.0 / squared_norm if sys.float_info.min <= squared_norm <= sys.float_info.max else 1.0
    return min(max(options.step * unit, sys.float_info.min), sys.float_info.max), options.step


def _refuse_not_finite(block: npt.NDArray[Any], residual: npt.NDArray[np.float64], start: int) -> None:
    """Raise for rows of B with NaN or infinity: the kernel gives those, and rows whose norm overflows, no residual."""
    for row in np.flatnonzero(~np.isfinite(residual)):
        if not np.isfinite(block[row]).all():
            raise ValueError(f"B must be finite, but row {start + int(row)} holds NaN or infinity")
        raise ValueError(f"B is too large: the norm of row {start + int(row)} is past 1e150")


@overload
def decode(
    B: Any,
    compression: Compression,
    sparsity: int,
    *,
    method: str = "pgd",
    constraint: Constraint = "real",
    step: float = 0.9,
    max_iter: int = 60,
    tol: float = 1e-3,
    l1: float = 0.1,
    decode_sparsity: int | None = None,
    allowed: Any = None,
    denied: Any = None,
    n_threads: int | None = None,
    check_input: bool = True,
    return_info: Literal[False] = False,
) -> sparse.csr_array: ...
@overload
def decode(
    B: Any,
    compression: Compression,
    sparsity: int,
    *,
    method: str = "pgd",
    constraint: Constraint = "real",
    step: float = 0.9,
    max_iter: int = 60,
    tol: float = 1e-3,
    l1: float = 0.1,
    decode_sparsity: int | None = None,
    allowed: Any = None,
    denied: Any = None,
    n_threads: int | None = None,
    check_input: bool = True,
    return_info: Literal[True],
) -> tuple[sparse.csr_array, DecodeInfo]: ...
@overload
def decode(
    B: Any,
    compression: Compression,
    sparsity: int,
    *,
    method: str = "pgd",
    constraint: Constraint = "real",
    step: float = 0.9,
    max_iter: int = 60,
    tol: float = 1e-3,
    l1: float = 0.1,
    decode_sparsity: int | None = None,
    allowed: Any = None,
    denied: Any = None,
    n_threads: int | None = None,
    check_input: bool = True,
    return_info: bool,
) -> sparse.csr_array | tuple[sparse.csr_array, DecodeInfo]: ...
def decode(
    B: Any,
    compression: Compression,
    sparsity: int,
    *,
    method: str = "pgd",
    constraint: Constraint = "real",
    step: float = 0.9,
    max_iter: int = 60,
    tol: float = 1e-3,
    l1: float = 0.1,
    decode_sparsity: int | None = None,
    allowed: Any = None,
    denied: Any = None,
    n_threads: int | None = None,
    check_input: bool = True,
    return_info: bool = False,
) -> sparse.csr_array | tuple[sparse.csr_array, DecodeInfo]:
    """Sparse outputs y with Φy ≈ b, for every row b of B.

    Projected gradient descent, ``"pgd"`` (Algorithm 2 of the paper): from v = 0,

        v ← Π(v - step·Φᵀ(Φv - b)),

    Π being the projection of `shore.project`, until t ≥ 2 and ‖v⁽ᵗ⁾ - v⁽ᵗ⁻²⁾‖₂ ≤ tol·(0.01 + ‖v⁽ᵗ⁾‖₂), or for
    `max_iter` steps. Every row stops by itself, and its result does not depend on the other rows, their order,
    their number or the number of threads. A row whose residual passes 10·‖b‖₂ (for a Simplex the larger of that and
    10·total·max‖φ_j‖₂) has diverged: it starts again with half the step. Where no step helps, because φ_jᵀb itself
    overflows or Φv does for every v of a Simplex, the result is an empty row that has not converged.

    The paper's baselines, which know the feasible set only from a last projection:

    - ``"cd"``, correlation decoding: Π(Φᵀb).
    - ``"omp"``, orthogonal matching pursuit: s times the output with the largest |φ_jᵀr| joins the support, on which
      the values are those of least squares. It takes memory for s²/2 numbers in float64 for every row in work: as many
      rows as there are threads, and more only where they fit into 64 MB a thread.
    - ``"fista"``: min ½‖Φx - b‖₂² + weight·‖x‖₁ over all x by accelerated proximal gradient steps, until
      ‖x⁽ᵗ⁾ - x⁽ᵗ⁻¹⁾‖₂ ≤ tol·(0.01 + ‖x⁽ᵗ⁾‖₂) or for `max_iter` steps.

    Parameters
    ----------
    B : array-like of shape (n, m)
        Compressed outputs; converted to the dtype of the compression.
    compression : GaussianCompression, SparseSignCompression, HeadTailCompression or MatrixCompression
        Φ.
    sparsity : int
        Non-zeros of a result at most, s. More than K means all.
    method : {'pgd', 'cd', 'omp', 'fista'}, default 'pgd'
    constraint : {'real', 'nonneg', 'binary'} or Box or Simplex, default 'real'
        The feasible set F.
    step : float, default 0.9
        The step size η. Theory asks for 1/(2 - 2δ) < η < 1. With 'fista' in units of 1/‖Φ‖₂², where it must not be
        above 1; 'cd' and 'omp' have none.
    max_iter : int, default 60
        Of 'pgd' and 'fista'.
    tol : float, default 1e-3
        0 runs Algorithm 1: exactly `max_iter` steps.
    l1 : float, default 0.1
        With 'fista': the weight of ‖x‖₁ as a share of max_j |φ_jᵀb|; from 1 on the result is 0.
    decode_sparsity : int, optional
        Decode so many outputs, if that is more than `sparsity`, and keep the best of them: with 'pgd' by a last step in
        which only they take part. Finds more of the outputs where m is small, for more time; None for `sparsity`. No
        matter with 'cd'.
    allowed, denied : 1-D array of indices or booleans, or sparse matrix of shape (n, K), optional
        The only outputs that a result may use, and those that it may not: for all rows, or the non-zeros of a
        sparse matrix for each row.
    n_threads : int, optional
        Threads to run on; None for the cores this process may use.
    check_input : bool, default True
        Refuse NaN and infinity in B. Without the look such rows come out empty.
    return_info : bool, default False

    Returns
    -------
    csr_array of shape (n, K)
        In canonical form.
    DecodeInfo
        Only with ``return_info=True``.

    Examples
    --------
    >>> import numpy as np, shore
    >>> phi = shore.SparseSignCompression(100, 5000)
    >>> y = np.zeros((1, 5000))
    >>> y[0, [3, 14, 1592]] = 1.0, 2.0, 3.0
    >>> found, info = shore.decode(phi.compress(y), phi, 3, constraint="nonneg", return_info=True)
    >>> found.indices.tolist(), found.data.round(2).tolist()
    ([3, 14, 1592], [1.0, 2.0, 3.0])
    >>> bool(info.converged[0])
    True
    """
    if not isinstance(compression, Compression):
        raise TypeError(
            "compression must be a compression such as SparseSignCompression, got "
            f"{type(compression).__name__}; for an array, pass shore.MatrixCompression(array)"
        )
    check_flag(check_input, "check_input")
    check_flag(return_info, "return_info")
    options = check_decoding("method", method, step, max_iter, tol, l1, decode_sparsity, constraint, compression.dtype)
    rows: Any = check_rows(B, "B")
    n, m = rows.shape
    if m != compression.n_components:
        raise ValueError(f"B must have {compression.n_components} columns, one per component, got shape {rows.shape}")
    n_outputs, dtype = compression.n_outputs, compression.dtype
    slots = check_positive(sparsity, "sparsity", n_outputs)
    feasible = feasible_set(constraint, allowed, denied, (n, n_outputs), dtype)
    threads = resolve_n_threads(n_threads)

    index = np.empty((n, slots), dtype=np.int64)
    value = np.empty((n, slots), dtype=dtype)
    count = np.zeros(n, dtype=np.int64)
    outcome = np.zeros(n, dtype=_core.OUTCOME)
    taken_step, asked_step = engine_step(options, compression)
    in_work = options.in_work(slots, n_outputs)
    most = max(1, _BLOCK_BYTES // (m * dtype.itemsize))
    terms = min(m, getattr(compression, "nnz_per_output", m))
    for here in pieces(n, 3e-10 * n_outputs * terms / threads, least=64 * threads, most=most):
        block = rows[here].toarray() if is_sparse(rows) else rows[here]
        with np.errstate(over="ignore"):
            block = np.require(block, dtype=dtype, requirements=["C", "A"])
        _core.decode_rows(
            _core.METHODS[options.method], block, compression._phi, feasible, here.start, in_work, taken_step,
            options.max_iter, options.tol, options.l1, index[here], value[here], count[here],
            outcome[here].view(np.uint8), min(threads, len(block)),
        )  # fmt: skip
        if check_input:
            _refuse_not_finite(block, outcome["residual"][here], here.start)
    result = csr_from_slots(index, value, count, n_outputs)
    if not return_info:
        return result
    return result, DecodeInfo(
        n_iter=outcome["n_iter"].copy(),
        converged=outcome["converged"].astype(np.bool_),
        residual=outcome["residual"].copy(),
        step=asked_step * (outcome["step"] / taken_step),  # the quotient is a power of 2
        full_passes=outcome["full_passes"].copy(),
    )
