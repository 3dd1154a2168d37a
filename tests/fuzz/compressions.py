"""Φ of any kind, as a strategy."""

import numpy as np
from hypothesis import strategies as st
from inputs import numbers

import shore

KINDS = ("gaussian", "sparse_sign", "head_tail", "matrix", "hard")


@st.composite
def compressions(draw, K, m=None, extremes=False):
    """A small Φ with K columns."""
    m = draw(st.one_of(st.integers(1, 8), st.sampled_from([1, 33, 70]))) if m is None else m
    kind = "matrix" if extremes else draw(st.sampled_from(KINDS))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    seed, nnz = draw(st.integers(0, 3)), draw(st.sampled_from([1, 2, 5, 16, 100]))
    if kind == "gaussian":
        return shore.GaussianCompression(m, K, seed=seed, dtype=dtype)
    if kind == "sparse_sign":
        return shore.SparseSignCompression(m, K, nnz_per_output=nnz, seed=seed, dtype=dtype)
    if kind == "head_tail":
        weights = draw(st.lists(st.integers(0, 9), min_size=K, max_size=K))
        return shore.HeadTailCompression(m, weights, nnz_per_output=nnz, seed=seed, dtype=dtype)
    if kind == "matrix":
        return shore.MatrixCompression(draw(numbers((m, K), (dtype,), extremes)))
    hard = {  # equal columns, columns that differ in the last bits, and nothing at all
        "ties": np.tile(np.linspace(-1, 1, m)[:, None], K),
        "near-ties": np.ones((m, 1)) * (1 + 1e-7 * np.arange(K)),
        "zeros": np.zeros((m, K)),
    }
    return shore.MatrixCompression(hard[draw(st.sampled_from(tuple(hard)))].astype(dtype))
