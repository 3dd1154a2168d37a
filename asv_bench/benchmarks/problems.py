"""Compressed outputs to decode: sparse y, b = Φy plus noise as in the paper's synthetic data."""

import numpy as np
from scipy import sparse

import shore

KINDS = {"gaussian": shore.GaussianCompression, "sparse_sign": shore.SparseSignCompression}


def sparse_outputs(n, n_outputs, sparsity, seed=0):
    """Rows with `sparsity` outputs each, values uniform in [0.5, 1.5]."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_outputs, (n, sparsity))
    while True:  # draw again where a row drew an output twice
        ranked = np.sort(columns, axis=1)
        twice = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
        if not twice.any():
            break
        columns[twice] = rng.integers(0, n_outputs, (int(twice.sum()), sparsity))
    values = rng.uniform(0.5, 1.5, (n, sparsity))
    return sparse.csr_array((values.ravel(), ranked.ravel(), np.arange(n + 1) * sparsity), shape=(n, n_outputs))


def compressed(phi, Y, snr_db=10.0, seed=1):
    """Y Φᵀ with Gaussian noise of the given signal-to-noise ratio in every row."""
    B = phi.compress(Y)
    noise = np.random.default_rng(seed).standard_normal(B.shape)
    noise *= (
        10 ** (-snr_db / 20) * np.linalg.norm(B, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
    )
    return (B + noise).astype(phi.dtype)
