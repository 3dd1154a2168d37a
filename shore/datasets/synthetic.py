"""The paper's synthetic problems."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._progress import Progress
from shore._validation import (
    check_entries,
    check_number,
    check_positive,
    check_seed,
    check_size,
    check_verbose,
    float_dtype,
)
from shore.constraints import Constraint, feasible_set
from shore.projection import project

__all__ = ["SyntheticProblem", "make_synthetic"]

# Rows are made in blocks of about this size.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class SyntheticProblem:
    """What `make_synthetic` returns.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    Y : csr_array of shape (n, K)
        Outputs, at most s non-zeros a row.
    Z : ndarray of shape (K, d)
        The true regressor Z*.
    mean : ndarray of shape (d,)
        The inputs' mean μ.
    """

    X: npt.NDArray[Any]
    Y: sparse.csr_array
    Z: npt.NDArray[Any]
    mean: npt.NDArray[Any]


def _noise_level(snr_db: Any) -> float:
    """1/SNR, of decibels."""
    if isinstance(snr_db, numbers.Real) and snr_db == math.inf:
        return 0.0
    # below -300 the noise would overflow
    accepted = "a number of at least -300, or infinity for no noise"
    return float(10 ** (-check_number(snr_db, "snr_db", accepted, -300, closed=True) / 20))


def _blocks(label: str, n_rows: int, row_bytes: int, show: bool) -> Iterator[slice]:
    """Blocks of rows in their order."""
    step = max(1, _BLOCK_BYTES // row_bytes)
    with Progress(f"make_synthetic: {label}", n_rows, show=show) as progress:
        for start in range(0, n_rows, step):
            stop = min(n_rows, start + step)
            yield slice(start, stop)
            progress.advance(stop - start)


def make_synthetic(
    n_samples: int,
    n_features: int,
    n_outputs: int,
    *,
    sparsity: int = 3,
    snr_db: float = 10.0,
    constraint: Constraint = "nonneg",
    seed: int = 0,
    dtype: npt.DTypeLike = np.float32,
    n_threads: int | None = None,
    verbose: int = 0,
) -> SyntheticProblem:
    """The synthetic data of the paper, section 4 and appendix.

    Inputs are Gaussian with mean ``abs(N(0, I))`` and covariance AᵀA/d + I/2, where A has standard Gaussian entries.
    Outputs are y = Π(Z* x + ε), the noise with variance SNR⁻² ‖Z* x‖_∞. The paper leaves Z* open; here its
    entries are N(0, 1). Beside X, Y and Z*, at most a (d, d) matrix and a few blocks of rows are held: the paper's
    d = 10,000, K = 20,000 and n = 30,000 take 2.3 GB in float32.

    Parameters
    ----------
    n_samples, n_features, n_outputs : int
        n, d and K.
    sparsity : int, default 3
        Non-zeros per output vector at most, s.
    snr_db : float, default 10
        Signal-to-noise ratio in decibels, 10·log₁₀(SNR²); infinity for no noise.
    constraint : {'real', 'nonneg', 'binary'} or Box or Simplex, default 'nonneg'
        The feasible set F.
    seed : int, default 0
        Same seed, same problem (to the rounding of the BLAS in use).
    dtype : float32 or float64, default float32
    n_threads : int, optional
        Threads to run on; None for the cores this process may use.
    verbose : int, default 0
        Show progress on standard error.

    Returns
    -------
    SyntheticProblem
        With attributes X, Y, Z and mean.

    Examples
    --------
    >>> from shore.datasets import make_synthetic
    >>> problem = make_synthetic(100, 20, 500, sparsity=3)
    >>> problem.X.shape, problem.Y.shape, problem.Y.nnz
    ((100, 20), (100, 500), 300)
    """
    sizes = {"n_features": check_size(n_features, "n_features"), "n_outputs": check_size(n_outputs, "n_outputs")}
    check_entries(**sizes)
    if type(n_samples) is not int or n_samples != 0:  # no rows are a problem too
        check_size(n_samples, "n_samples")
    for name, size in sizes.items():
        check_entries(n_samples=n_samples, **{name: size})
    check_positive(sparsity, "sparsity")
    noise, show = _noise_level(snr_db), check_verbose(verbose)
    kind: Any = float_dtype(dtype).type
    feasible_set(constraint, None, None, (0, 1), np.dtype(kind))
    itemsize = kind().itemsize
    threads = resolve_n_threads(n_threads)
    rng = np.random.default_rng(check_seed(seed, "seed"))

    def blocks(label: str, n_columns: int) -> Iterator[slice]:
        return _blocks(label, n_samples, n_columns * itemsize, show)

    # x = μ + Aᵀg/√d + h/√2 has the covariance AᵀA/d + I/2 without a factorisation. All g are drawn before any h:
    # the numbers do not depend on the blocks.
    mean = np.abs(rng.standard_normal(n_features, dtype=kind))
    mixing = rng.standard_normal((n_features, n_features), dtype=kind)
    mixing /= kind(np.sqrt(n_features))
    X = np.empty((n_samples, n_features), dtype=kind)
    found = []
    with limit_blas(threads):
        for here in blocks("inputs", n_features):
            np.matmul(rng.standard_normal(X[here].shape, dtype=kind), mixing, out=X[here])
            X[here] += mean
        del mixing
        for here in blocks("their own noise", n_features):
            own = rng.standard_normal(X[here].shape, dtype=kind)
            own *= kind(np.sqrt(0.5))
            X[here] += own

        Z = rng.standard_normal((n_outputs, n_features), dtype=kind)
        for here in blocks("outputs", n_outputs):
            scores = X[here] @ Z.T
            largest = np.maximum(scores.max(axis=1, keepdims=True), -scores.min(axis=1, keepdims=True))
            draws = rng.standard_normal(scores.shape, dtype=kind)
            draws *= (noise * np.sqrt(largest)).astype(kind)
            scores += draws
            found.append(project(scores, sparsity, constraint, n_threads=threads))
    empty = sparse.csr_array((0, n_outputs), dtype=kind)
    Y = sparse.csr_array(sparse.vstack(found, format="csr")) if found else empty
    return SyntheticProblem(X=X, Y=Y, Z=Z, mean=mean)
