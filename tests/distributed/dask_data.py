"""Rows that tests share, and comparisons."""

import itertools

import numpy as np
from dask import delayed
from scipy import sparse

import shore
from shore.datasets import make_synthetic

DATA = make_synthetic(900, 20, 150, sparsity=3, snr_db=30, seed=1)
X, Y = DATA.X, DATA.Y
CUTS = (0, 200, 200, 450, 451, 800, 900)  # one block without rows, and one with a single one
OPTIONS = {"sparsity": 3, "n_components": 48}


def cut(matrix, cuts=CUTS):
    return [matrix[a:b] for a, b in itertools.pairwise(cuts)]


def lazy(matrix, cuts=CUTS):
    return [delayed(part) for part in cut(matrix, cuts)]


def fitted(rows=X, outputs=Y, **options):
    return shore.ShoreRegressor(**{**OPTIONS, **options}).fit(rows, outputs)


def assert_same_model(model, expected, rtol):
    """W and intercept to a share of their largest entry, on the same Φ."""
    assert model.compression_ is None if expected.compression_ is None else (
        np.array_equal(model.compression_.toarray(), expected.compression_.toarray())
    )  # fmt: skip
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=rtol * scale)
    reach = np.abs(expected.intercept_).max()
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=0, atol=rtol * max(reach, scale))
    assert model.coef_.dtype == expected.coef_.dtype
    assert model.intercept_.dtype == expected.intercept_.dtype


def long_tailed(n=900, d=20, K=150, seed=0):
    """Binary outputs of which the first few occur in most rows."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, K + 1) ** 1.2
    outputs = sparse.csr_array(rng.random((n, K)) < np.minimum(0.9, 3 * share / share.sum())).astype(np.float32)
    return rng.normal(size=(n, d)).astype(np.float32), outputs
