import pickle

import numpy as np
import pytest
from scipy import sparse, stats

import shore
from shore._core import compression as core


def long_tail(K, seed=0):
    return np.random.default_rng(seed).permutation(1 / np.arange(1.0, K + 1) ** 1.2)


KINDS = {
    "gaussian": shore.GaussianCompression,
    "sparse_sign": shore.SparseSignCompression,
    "head_tail": lambda m, K, **options: shore.HeadTailCompression(m, long_tail(K), **options),
    "matrix": lambda m, K, dtype=np.float32: shore.MatrixCompression(
        np.random.default_rng(0).normal(size=(m, K)).astype(dtype)
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random_outputs(n, K, density=0.1, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(rng.normal(size=(n, K)) * (rng.random((n, K)) < density))


@kinds
@dtypes
@pytest.mark.parametrize(("m", "K"), [(1, 1), (7, 3), (16, 50), (33, 100), (100, 333), (600, 40)])
def test_products_are_those_of_the_matrix(kind, dtype, m, K):
    phi = kind(m, K, dtype=dtype)
    Phi = phi.toarray()
    assert Phi.shape == (m, K) == (phi.n_components, phi.n_outputs)
    assert Phi.dtype == dtype
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype is np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    Y = random_outputs(9, K).astype(np.float32).astype(np.float64)
    dense = Y.toarray()
    for given in (Y, dense, Y.tocsc(), Y.astype(np.float32), dense.astype(">f4"), np.asfortranarray(dense)):
        compressed = phi.compress(given, n_threads=2)
        assert compressed.dtype == dtype
        np.testing.assert_allclose(compressed, Y.toarray() @ Phi.T, **tolerance)
    R = np.random.default_rng(1).normal(size=(5, m))
    np.testing.assert_allclose(phi.correlate(R, n_threads=2), R @ Phi, **tolerance)
    assert phi.compress(Y[:0]).shape == (0, m)
    assert phi.correlate(R[:0]).shape == (0, K)


@pytest.mark.parametrize("nnz", [1, 2, 5, 16, 32])
def test_sparse_signs(nnz):
    m, K = 160, 3000  # a multiple of every nnz: all rows are as likely
    Phi = shore.SparseSignCompression(m, K, nnz_per_output=nnz, dtype=np.float64).toarray()
    np.testing.assert_allclose(np.abs(Phi).sum(axis=0), np.sqrt(nnz))
    assert np.all(np.count_nonzero(Phi, axis=0) == nnz)
    np.testing.assert_allclose(np.linalg.norm(Phi, axis=0), 1)
    assert abs(np.mean(Phi[Phi != 0] > 0) - 0.5) < 4 * 0.5 / np.sqrt(nnz * K)
    per_row = np.count_nonzero(Phi, axis=1)
    assert stats.chisquare(per_row).pvalue > 1e-4
    # columns are as good as independent: inner products average 0 with variance 1/m
    products = (Phi.T @ Phi)[np.triu_indices(K, 1)]
    assert abs(products.mean()) < 5e-4
    assert products.var() == pytest.approx(1 / m, rel=0.05)


def test_gaussian_entries_are_normal():
    m, K = 50, 4000
    Phi = shore.GaussianCompression(m, K, seed=3, dtype=np.float64).toarray() * np.sqrt(m)
    assert stats.kstest(Phi.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(Phi[:, :-1].ravel(), Phi[:, 1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(Phi[:-1].ravel(), Phi[1:].ravel())[0, 1]) < 0.01
    assert np.unique(Phi).size == Phi.size


def test_same_seed_same_matrix():
    for kind in (shore.GaussianCompression, shore.SparseSignCompression):
        first = kind(40, 90, seed=5).toarray()
        np.testing.assert_array_equal(first, kind(40, 90, seed=5).toarray())
        assert np.any(first != kind(40, 90, seed=6).toarray())
        # a column does not depend on how many there are, nor the values on the dtype
        np.testing.assert_array_equal(first[:, :60], kind(40, 60, seed=5).toarray())
        np.testing.assert_allclose(first, kind(40, 90, seed=5, dtype=np.float64).toarray(), rtol=1e-7)


def test_known_numbers():
    """The matrices are part of what is promised: they must not change between versions."""
    Phi = shore.GaussianCompression(4, 3, seed=1, dtype=np.float64).toarray()
    signs = shore.SparseSignCompression(8, 4, nnz_per_output=4, seed=1, dtype=np.float64).toarray()
    assert Phi[:, 0].tolist() == [0.6139538028722473, 0.10828202597883187, -0.9598157217278797, -0.3813946187531274]
    assert (2 * signs[:, 0]).astype(int).tolist() == [0, 1, 0, 1, 0, 1, 0, -1]


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_threads_do_not_change_the_tables(n_threads):
    columns = np.empty((101, 33))
    core.make_gaussian(columns, 9, n_threads)
    np.testing.assert_array_equal(columns.T, shore.GaussianCompression(33, 101, seed=9, dtype=np.float64).toarray())
    phi = shore.SparseSignCompression(100, 101, seed=9)
    tables = np.empty_like(phi._tables)
    core.make_sign_tables(phi._phi, tables, 9, n_threads)
    np.testing.assert_array_equal(tables, phi._tables)


@pytest.mark.parametrize("n_outputs", [1, 16, 17, 10_001])
@pytest.mark.parametrize("n_head", [0, 1])
def test_pieces_do_not_change_the_tables(n_outputs, n_head, monkeypatch):
    """A signal is heard between two of them, when tables are made and when they are checked."""
    weights = np.r_[np.ones(n_head), np.zeros(n_outputs)]
    whole = shore.HeadTailCompression(100, weights, seed=9)
    calls = []
    for name in ("make_sign_tables", "illegal_sign_places"):
        kernel = getattr(core, name)
        monkeypatch.setattr(core, name, lambda *given, kernel=kernel, name=name: calls.append(name) or kernel(*given))
    monkeypatch.setattr("shore._pieces._GOAL", 1e-9)
    phi = shore.HeadTailCompression(100, weights, seed=9)
    np.testing.assert_array_equal(phi._tables, whole._tables)
    assert core.illegal_sign_places(phi._phi, 1) == 0
    np.testing.assert_array_equal(phi.astype(np.float64).toarray(), whole.toarray())
    least = 100 if n_outputs > 1000 else 1
    assert min(calls.count(name) for name in ("make_sign_tables", "illegal_sign_places")) >= least


def test_tables_are_16_bit_while_they_can_be():
    assert shore.SparseSignCompression(20_000, 10)._tables.dtype == np.uint16
    assert shore.SparseSignCompression(100_000, 10)._tables.dtype == np.uint32


@kinds
def test_pickle(kind):
    phi = kind(20, 60)
    again = pickle.loads(pickle.dumps(phi))
    assert type(again) is type(phi)
    assert repr(again) == repr(phi)
    np.testing.assert_array_equal(again.toarray(), phi.toarray())


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: shore.GaussianCompression(0, 5), ValueError, "n_components must be a positive integer, got 0"),
        (lambda: shore.GaussianCompression(5, -1), ValueError, "n_outputs must be a positive integer, got -1"),
        (lambda: shore.GaussianCompression(5.0, 5), TypeError, "n_components.*5.0 of type float"),
        (lambda: shore.SparseSignCompression(5, 5, nnz_per_output=0), ValueError, "nnz_per_output"),
        (lambda: shore.SparseSignCompression(5, 5, seed=-1), ValueError, "seed must be from 0"),
        (lambda: shore.SparseSignCompression(5, 5, seed="x"), TypeError, "seed must be an integer"),
        (lambda: shore.SparseSignCompression(5, 5, dtype=np.int32), ValueError, "dtype must be float32 or float64"),
        (lambda: shore.MatrixCompression([[1.0, np.nan]]), ValueError, "matrix must be finite"),
        (lambda: shore.MatrixCompression([1.0]), ValueError, "matrix must be 2-D"),
        (lambda: shore.MatrixCompression(np.ones((0, 4))), ValueError, "matrix must have at least one row"),
        (lambda: shore.SparseSignCompression(5, 7).compress(np.ones((2, 5))), ValueError, "Y must have 7 columns"),
        (lambda: shore.SparseSignCompression(5, 7).compress([[np.nan] * 7]), ValueError, "Y must be finite"),
        (lambda: shore.SparseSignCompression(5, 7).correlate(np.ones((2, 7))), ValueError, "R must have 5 columns"),
        (lambda: shore.SparseSignCompression(5, 7).correlate([[np.nan] * 5]), ValueError, "R must be finite"),
        (lambda: shore.GaussianCompression(5, 7).compress([[3e38] * 7]), ValueError, "Y is too large"),
        (lambda: shore.SparseSignCompression(5, 7, dtype=None), ValueError, "dtype must be float32 or float64"),
        (lambda: shore.SparseSignCompression(2**31 + 1, 7, nnz_per_output=1), ValueError, "n_components.*too large"),
    ],
)
def test_bad_arguments(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_products_with_large_entries_of_phi_are_refused_too():
    phi = shore.MatrixCompression(np.full((1, 2), 3e38, dtype=np.float32))
    with pytest.raises(ValueError, match="Y is too large: its compression leaves the range of float32"):
        phi.compress([[1.5, 0]])
    with pytest.raises(ValueError, match="R is too large: its correlation leaves the range of float32"):
        phi.correlate([[1.5]])


def test_norm_is_not_that_of_another_eigenvalue():
    """The start of the Lanczos steps has little of the vector of the largest eigenvalue here."""
    phi = shore.GaussianCompression(6, 2)
    assert phi.squared_norm() == pytest.approx(np.linalg.norm(phi.toarray(), 2) ** 2, rel=0.02)
