"""Parameters of the regressor, and fitted models to ask."""

from functools import cache

import numpy as np
from hypothesis import strategies as st

import shore

KINDS = ("head_tail", "sparse_sign", "gaussian", "instance", None)
DECODERS = ("pgd", "cd", "omp", "fista")


def matrix_phi(K, dtype):
    """A Φ that the caller brings."""
    return shore.MatrixCompression(np.random.default_rng(K).normal(size=(5, K)).astype(dtype))


@st.composite
def parameters(draw, K):
    """Right ones, for K outputs."""
    kind, dtype = draw(st.sampled_from(KINDS)), draw(st.sampled_from(["float32", "float64"]))
    return {
        "sparsity": draw(st.sampled_from([1, 2, 3, 65])),
        "n_components": draw(st.sampled_from(["auto", 1, 4, 40])),
        "compression": matrix_phi(K, draw(st.sampled_from(["float32", "float64"]))) if kind == "instance" else kind,
        "constraint": draw(st.sampled_from(["real", "nonneg", "binary", shore.Box(-1, 2), shore.Simplex(2.0)])),
        "alpha": draw(st.sampled_from([0.1, 1, 10.0, np.float32(2)])),
        "fit_intercept": draw(st.booleans()),
        "solver": draw(st.sampled_from(["auto", "cholesky", "dual", "cg"])),
        "solver_tol": 1e-6,
        "decoder": draw(st.sampled_from(DECODERS)),
        "max_iter": draw(st.sampled_from([1, 60])),
        "decode_sparsity": draw(st.sampled_from([None, 4])),
        "dtype": dtype,
        "random_state": draw(st.integers(0, 2)),
        "n_threads": 1,
    }


@cache
def fitted(kind, decoder, dtype, fit_intercept, d, K):
    """A small model of random data."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, d)), np.abs(rng.normal(size=(30, K))) * (rng.random((30, K)) < 0.4)
    compression = matrix_phi(K, dtype) if kind == "instance" else kind
    model = shore.ShoreRegressor(
        2, n_components=6, compression=compression, decoder=decoder, dtype=dtype, fit_intercept=fit_intercept,
        n_threads=1,
    )  # fmt: skip
    return model.fit(X, Y)


@st.composite
def models(draw):
    """A fitted model."""
    return fitted(
        draw(st.sampled_from(KINDS)), draw(st.sampled_from(DECODERS)), draw(st.sampled_from(["float32", "float64"])),
        draw(st.booleans()), draw(st.sampled_from([1, 4])), draw(st.sampled_from([1, 7])),
    )  # fmt: skip
