"""Data as the solvers take it: weighted, centred where there is an intercept, outputs compressed.

Weights come as `shift`, their square roots in float64; None stands for ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore import solvers
from shore._statistics import weighted_sum
from shore._validation import check_share, is_sparse
from shore.compression import Compression

__all__ = ["check_factorisation", "prepare_rows", "prepare_targets", "split_rows"]

Array = npt.NDArray[Any]


def prepare_rows(X: Any, shift: Array | None, dtype: np.dtype[Any], centre: bool) -> solvers.Rows:
    """X weighted and perhaps centred, as the solvers see it."""
    mean = None
    if centre:
        weights = np.ones(X.shape[0]) if shift is None else _relative(shift)
        total = np.asarray(X.T @ weights) if is_sparse(X) else weighted_sum(X, weights)
        mean = np.asarray(total, dtype=np.float64) / weights.sum()
    if shift is not None and is_sparse(X):
        return solvers.Rows(solvers.weighted_csr(X, shift, dtype), dtype, mean, shift, unweighted=X)
    return solvers.Rows(X, dtype, mean, shift)


def split_rows(n: int, share: Any, seed: int) -> tuple[Array, Array]:
    """Rows to fit on, and a random share of them to judge by, at least one of each; both sorted."""
    check_share(share, "held_out")
    if n < 2:
        raise ValueError(f"X must have at least 2 rows, to hold some out, got {n}")
    order = np.random.default_rng(seed).permutation(n)
    n_held = min(n - 1, max(1, int(n * share)))
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def check_factorisation(
    given: solvers.Factorisation, X: Any, shift: Array | None, dtype: np.dtype[Any], alpha: Any, centre: bool
) -> None:
    """Refuse a factorisation that is not of these rows, weights and options."""
    if not isinstance(given, solvers.Factorisation):
        raise TypeError(f"factorisation must be what factorise returned, got {type(given).__name__}")
    weights = (None if part is None else part.tolist() for part in (given.rows.shift, shift))
    mine = solvers.Rows(prepare_rows(X, shift, dtype, centre=False).X, dtype)
    same = {
        "shape of X": (given.rows.shape, tuple(X.shape)),
        "alpha": (given.alpha, alpha),
        "dtype": (given.rows.dtype, dtype),
        "fit_intercept": (given.rows.mean is not None, centre),
    }
    for name, (there, here) in same.items():
        if there != here:
            raise ValueError(f"factorisation is for another {name}: {there}, not {here}")
    if next(weights) != next(weights):
        raise ValueError("factorisation is for another sample_weight")
    # X may have been written to since, and solutions take products with the rows that the factorisation refers to
    now = mine if given.rows.X is mine.X else solvers.Rows(given.rows.X, dtype)
    if not given.rows.checksum() == now.checksum() == mine.checksum():
        raise ValueError("factorisation is for another X")


def prepare_targets(
    compression: Compression | None,
    Y: sparse.csr_array,
    shift: Array | None,
    dtype: np.dtype[Any],
    centre: bool,
    n_threads: int,
) -> tuple[solvers.Targets, int, Array]:
    """Blocks of compressed outputs, weighted and perhaps centred; how many columns; their means.

    Blocks that are weighted or centred come in float64: rounded, they would not be the targets of an ill-conditioned X.
    """
    weights = None if shift is None else _relative(shift)
    total = Y.shape[0] if weights is None else weights.sum()
    means = np.zeros(Y.shape[1] if compression is None else compression.n_components)
    if compression is not None:
        B = compression.compress(Y, n_threads=n_threads).astype(dtype, copy=False)
        if centre:
            means = weighted_sum(B, np.ones(len(B)) if weights is None else weights) / total
        if not centre and shift is None:
            return lambda start, stop: B[:, start:stop], B.shape[1], means
        return lambda start, stop: _prepared(B[:, start:stop], means[start:stop], shift), B.shape[1], means

    columns = sparse.csc_array(_in_range(Y, dtype))
    if centre:
        ones = np.ones(Y.shape[0]) if weights is None else weights
        means = np.asarray(columns.T @ ones) / total

    def block(start: int, stop: int) -> Array:
        dense = columns[:, start:stop].toarray(order="C")
        return dense if not centre and shift is None else _prepared(dense, means[start:stop], shift)

    return block, Y.shape[1], means


def _relative(shift: Array) -> Array:
    """Weights to take means with, as shares of the largest: tiny ones would lose digits, or vanish."""
    return np.asarray((shift / shift.max()) ** 2)


def _prepared(B: Array, means: Array, shift: Array | None) -> Array:
    """Targets centred and weighted, in float64."""
    block = B - means
    if shift is not None:
        block *= shift[:, None]
    return block


def _in_range(Y: Any, dtype: np.dtype[Any]) -> Any:
    """Sparse outputs in the dtype, refused if they leave its range."""
    with np.errstate(over="ignore"):
        converted = Y.astype(dtype)
    if not np.isfinite(converted.data).all():
        raise ValueError(f"Y is too large for {dtype}")
    return converted
