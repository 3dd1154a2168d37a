"""Data: the paper's synthetic problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._validation import check_positive
from shore.constraints import Constraint
from shore.projection import project

__all__ = ["SyntheticProblem", "make_synthetic"]

# Outputs are made in blocks of rows of about this size.
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
    """

    X: npt.NDArray[Any]
    Y: sparse.csr_array
    Z: npt.NDArray[Any]


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
) -> SyntheticProblem:
    """The synthetic data of the paper, section 4 and appendix.

    Inputs are Gaussian with mean ``abs(N(0, I))`` and covariance AᵀA/d + I/2, where A has standard Gaussian entries.
    Outputs are y = Π(Z* x + ε), the noise with variance SNR⁻² ‖Z* x‖_∞. The paper leaves Z* open; here its
    entries are N(0, 1).

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
        Same seed, same problem.
    dtype : float32 or float64, default float32

    Returns
    -------
    SyntheticProblem
        With attributes X, Y and Z.

    Examples
    --------
    >>> from shore.datasets import make_synthetic
    >>> problem = make_synthetic(100, 20, 500, sparsity=3)
    >>> problem.X.shape, problem.Y.shape, problem.Y.nnz
    ((100, 20), (100, 500), 300)
    """
    for name, size in (("n_samples", n_samples), ("n_features", n_features), ("n_outputs", n_outputs)):
        if size != 0 or name != "n_samples":  # no rows are a problem too
            check_positive(size, name)
    check_positive(sparsity, "sparsity")
    if np.isnan(snr_db):
        raise ValueError(f"snr_db must be a number, got {snr_db!r}")
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    rng = np.random.default_rng(seed)
    kind: Any = np.dtype(dtype).type
    noise = 0.0 if np.isposinf(snr_db) else 10 ** (-snr_db / 20)

    # x = μ + Aᵀg/√d + h/√2 has the covariance AᵀA/d + I/2 without a factorisation.
    mean = np.abs(rng.standard_normal(n_features, dtype=kind))
    mixing = rng.standard_normal((n_features, n_features), dtype=kind) / kind(np.sqrt(max(1, n_features)))
    X = rng.standard_normal((n_samples, n_features), dtype=kind) @ mixing
    X += mean
    X += kind(np.sqrt(0.5)) * rng.standard_normal((n_samples, n_features), dtype=kind)
    del mixing

    Z = rng.standard_normal((n_outputs, n_features), dtype=kind)
    blocks = []
    step = max(1, _BLOCK_BYTES // max(1, n_outputs * kind().itemsize))
    for start in range(0, n_samples, step):
        scores = X[start : start + step] @ Z.T
        spread = noise * np.sqrt(np.abs(scores).max(axis=1, initial=0, keepdims=True))
        scores += spread.astype(kind) * rng.standard_normal(scores.shape, dtype=kind)
        blocks.append(project(scores, sparsity, constraint))
    empty = sparse.csr_array((0, n_outputs), dtype=kind)
    Y = sparse.csr_array(sparse.vstack(blocks, format="csr")) if blocks else empty
    return SyntheticProblem(X=X, Y=Y, Z=Z)
