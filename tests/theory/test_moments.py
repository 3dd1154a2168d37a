import math
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import sparse

import shore
from shore.datasets import make_synthetic
from shore.theory import Moments, sample_sizes


def plain_moments(X, Y, Phi):
    """The definitions, on dense arrays."""
    X, Y, Phi = (np.asarray(part, dtype=np.float64) for part in (X, Y, Phi))
    n = len(X)
    M_xx, M_yx = X.T @ X / n, Y.T @ X / n
    Z = M_yx @ np.linalg.inv(M_xx)
    W = Phi @ Z
    mean_x, mean_y = X.mean(axis=0), Y.mean(axis=0)
    return Moments(
        n_features=X.shape[1],
        n_outputs=Y.shape[1],
        n_components=Phi.shape[0],
        sigma=math.sqrt(np.linalg.eigvalsh(np.cov(np.hstack([X, Y]).T, bias=True))[-1]),
        mean_x=np.linalg.norm(mean_x),
        lambda_min=np.linalg.eigvalsh(M_xx)[0],
        z_norm2=np.sum(Z**2),
        w_norm2=np.sum(W**2),
        phi_norm2=np.sum(Phi**2),
        bias2=np.sum((mean_y - Z @ mean_x) ** 2),
        compressed_bias2=np.sum((Phi @ mean_y - W @ mean_x) ** 2),
    )


def assert_close(actual, expected, rtol):
    for field in fields(Moments):
        assert getattr(actual, field.name) == pytest.approx(getattr(expected, field.name), rel=rtol), field.name


@pytest.mark.parametrize("kind", ["dense", "float32", "fortran", "csr", "dense Y"])
def test_against_dense_numpy(monkeypatch, kind):
    problem = make_synthetic(200, 12, 90, dtype=np.float64)
    X, Y = problem.X, problem.Y
    if kind == "csr":
        X = sparse.csr_array(X * (np.random.default_rng(1).random(X.shape) < 0.3))
    plain = X.toarray() if kind == "csr" else X
    if kind == "float32":
        X = plain = X.astype(np.float32)
    given_X = np.asfortranarray(X) if kind == "fortran" else X
    given_Y = Y.toarray() if kind == "dense Y" else Y
    for phi in (
        shore.GaussianCompression(20, 90, dtype=np.float64),
        shore.SparseSignCompression(20, 90, dtype=np.float64),
    ):
        expected = plain_moments(plain, Y.toarray(), phi.toarray())
        assert_close(Moments.from_data(given_X, given_Y, phi), expected, 1e-8)
        with monkeypatch.context() as patch:
            patch.setattr("shore.theory._data._BLOCK_BYTES", 8 * 12 * 7)  # blocks of few rows and outputs
            assert_close(Moments.from_data(given_X, given_Y, phi, n_threads=1), expected, 1e-8)


def test_float32_compression():
    problem = make_synthetic(300, 8, 50)
    phi = shore.GaussianCompression(20, 50)
    expected = plain_moments(problem.X, problem.Y.toarray(), phi.toarray())
    assert_close(Moments.from_data(problem.X, problem.Y, phi), expected, 1e-4)


def test_large_samples_have_the_distribution_s_moments():
    """y = Z x without noise: Z* is Z, and the covariance of (x, y) is (I; Z) Σ (I; Z)ᵀ."""
    d, K, seed = 4, 6, 3
    problem = make_synthetic(
        200_000, d, K, sparsity=K, constraint="real", snr_db=np.inf, seed=seed, dtype=np.float64
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    mean, A = np.abs(rng.standard_normal(d)), rng.standard_normal((d, d))
    covariance = A.T @ A / d + np.eye(d) / 2
    phi = shore.GaussianCompression(3, K, dtype=np.float64)
    moments = Moments.from_data(problem.X, problem.Y, phi)
    both = np.vstack([np.eye(d), problem.Z])
    assert moments.sigma == pytest.approx(math.sqrt(np.linalg.eigvalsh(both @ covariance @ both.T)[-1]), rel=0.01)
    assert moments.mean_x == pytest.approx(np.linalg.norm(mean), rel=0.01)
    assert moments.lambda_min == pytest.approx(np.linalg.eigvalsh(covariance + np.outer(mean, mean))[0], rel=0.02)
    assert moments.z_norm2 == pytest.approx(np.sum(problem.Z**2), rel=1e-6)
    assert moments.w_norm2 == pytest.approx(np.sum((phi.toarray() @ problem.Z) ** 2), rel=1e-6)
    assert moments.bias2 == pytest.approx(0, abs=1e-12)
    assert moments.compressed_bias2 == pytest.approx(0, abs=1e-12)
    noisy = make_synthetic(200_000, d, K, sparsity=K, constraint="real", snr_db=10, seed=seed, dtype=np.float64)
    assert Moments.from_data(noisy.X, noisy.Y, phi).z_norm2 == pytest.approx(np.sum(noisy.Z**2), rel=0.01)


def test_small_and_degenerate_data():
    phi = shore.MatrixCompression(np.ones((1, 1)))
    moments = Moments.from_data([[1.0], [3.0]], [[2.0], [6.0]], phi)
    assert_close(moments, plain_moments([[1.0], [3.0]], [[2.0], [6.0]], [[1.0]]), 1e-9)
    assert Moments.from_data([[1.0]], [[2.0]], phi).sigma == 0  # one row has no spread
    assert Moments.from_data([[1.0], [3.0]], [[2.0], [6.0]], phi, sigma=7).sigma == 7
    nothing = Moments.from_data([[0.0], [0.0]], [[0.0], [0.0]], phi)
    assert (nothing.sigma, nothing.lambda_min, nothing.z_norm2, nothing.bias2) == (0, 0, 0, 0)


def test_a_singular_second_moment_asks_for_infinitely_many():
    problem = make_synthetic(10, 12, 30, dtype=np.float64)  # fewer rows than features
    moments = Moments.from_data(problem.X, problem.Y, shore.GaussianCompression(8, 30))
    assert moments.lambda_min == 0
    Z = np.linalg.lstsq(problem.X, problem.Y.toarray(), rcond=None)[0]
    assert moments.z_norm2 == pytest.approx(np.sum(Z**2))  # the least of all that are best
    sizes = sample_sizes(moments, epsilon=1.0)
    assert (sizes.n1, sizes.n2, sizes.n2_compressed, sizes.uncompressed, sizes.compressed) == (math.inf,) * 5


MOMENTS = Moments(
    n_features=9, n_outputs=100, n_components=20, sigma=2.0, mean_x=3.0, lambda_min=0.5, z_norm2=40.0, w_norm2=30.0,
    phi_norm2=99.0, bias2=7.0, compressed_bias2=6.0,
)  # fmt: skip


def test_sample_sizes_by_hand():
    sizes = sample_sizes(MOMENTS, epsilon=0.1, tau=0.2, C=1.5)
    first = 64 * 1.5**2 * 16 / (9 * 0.25) * (9 + math.log(10))
    second = 32**2 * 9 * 4 / 0.25 * (6 + math.sqrt(math.log(5))) ** 2
    assert sizes.n1 == pytest.approx(max(first, second))
    log = math.log(500)
    assert sizes.n2 == pytest.approx(4 * 140 * (9 + 2 * math.sqrt(9 * log) + 2 * log) / 0.1)
    log = math.log(100)
    assert sizes.n2_compressed == pytest.approx(4 * 129 * (9 + 2 * math.sqrt(9 * log) + 2 * log) / 0.1)
    assert sizes.uncompressed == sizes.n1
    fewer = sample_sizes(replace(MOMENTS, mean_x=0.0, lambda_min=100.0, bias2=1e6, compressed_bias2=1e7), epsilon=2.0)
    assert fewer.n1 == pytest.approx(64 * 16 / (9 * 1e4) * (9 + math.log(40)))
    assert fewer.n2 == fewer.uncompressed == pytest.approx(4 * 1e6 * 9 / 2)
    assert fewer.n2_compressed == fewer.compressed == pytest.approx(4 * 1e7 * 9 / 2)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"moments": (1, 2)}, TypeError, "Moments.from_data"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"tau": 1 / 3}, ValueError, "tau must be a number between 0 and 1/3"),
        ({"C": -1}, ValueError, "C must"),
        ({"moments": replace(MOMENTS, n_features=-1)}, ValueError, "moments.n_features must be a positive integer"),
        ({"moments": replace(MOMENTS, n_outputs=2.5)}, TypeError, "moments.n_outputs must be a positive integer"),
        (
            {"moments": replace(MOMENTS, n_components=2**70)},
            ValueError,
            r"moments.n_components must be at most 2\*\*59",
        ),
        ({"moments": replace(MOMENTS, sigma=-1.0)}, ValueError, "moments.sigma must be a number of at least 0"),
        ({"moments": replace(MOMENTS, lambda_min=np.nan)}, ValueError, "moments.lambda_min must be a number"),
        ({"moments": replace(MOMENTS, mean_x="x")}, TypeError, "moments.mean_x must be a number of at least 0"),
    ],
    ids=str,
)
def test_bad_sizes(options, error, words):
    with pytest.raises(error, match=words):
        sample_sizes(**{"moments": MOMENTS, "epsilon": 1.0, **options})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"X": [[1.0]]}, ValueError, "same number of rows"),
        ({"X": [[np.nan], [1.0]]}, ValueError, "X must be finite"),
        ({"Y": sparse.csr_array([[np.inf, 1.0], [0.0, 1.0]])}, ValueError, "Y must be finite"),
        ({"Y": [[1.0], [2.0]]}, ValueError, "compression is for 2 outputs, but Y has 1"),
        ({"X": np.empty((2, 0))}, ValueError, "at least one"),
        ({"compression": np.eye(2)}, TypeError, "compression"),
        ({"sigma": 0.0}, ValueError, "sigma"),
    ],
    ids=str,
)
def test_bad_data(options, error, words):
    given = {"X": [[1.0], [2.0]], "Y": [[1.0, 0.0], [0.0, 1.0]], "compression": shore.GaussianCompression(2, 2)}
    with pytest.raises(error, match=words):
        Moments.from_data(**{**given, **options})


def test_moments_do_not_depend_on_the_layout():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), sparse.csr_array(rng.normal(size=(40, 5)))
    phi = shore.GaussianCompression(3, 5, seed=3)
    expected = Moments.from_data(X, Y, compression=phi, n_threads=1)
    turned = X[::-1, ::-1].copy()[::-1, ::-1]
    for given in (turned, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        assert Moments.from_data(given, Y, compression=phi, n_threads=1) == expected
