import numpy as np
import pytest
import reference

import shore
from shore.datasets import make_synthetic


@pytest.mark.parametrize("constraint", ["real", "nonneg", "binary", shore.Simplex()], ids=str)
def test_outputs_are_sparse_and_feasible(constraint):
    problem = make_synthetic(40, 15, 200, sparsity=4, constraint=constraint, dtype=np.float64)
    reference.assert_canonical(problem.Y, (40, 200), 4, np.float64)
    np.testing.assert_array_equal(problem.Y.toarray(), reference.project(problem.Y.toarray(), 4, constraint))


def test_without_noise_outputs_are_the_projected_scores():
    problem = make_synthetic(30, 10, 100, snr_db=np.inf, dtype=np.float64)
    np.testing.assert_allclose(problem.Y.toarray(), reference.project(problem.X @ problem.Z.T, 3, "nonneg"), rtol=1e-12)


def test_inputs_have_the_paper_s_moments():
    d = 4
    X = make_synthetic(200_000, d, 2, seed=3, dtype=np.float64).X
    rng = np.random.default_rng(3)
    mean = np.abs(rng.standard_normal(d))
    A = rng.standard_normal((d, d))
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(X.T), A.T @ A / d + np.eye(d) / 2, atol=0.04)


def test_noise_follows_the_signal_to_noise_ratio():
    problem = make_synthetic(3000, 5, 50, sparsity=50, snr_db=20, constraint="real", dtype=np.float64)
    scores = problem.X @ problem.Z.T
    noise = (problem.Y.toarray() - scores) / np.sqrt(np.abs(scores).max(axis=1, keepdims=True))
    assert noise.std() == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_samples": -1}, "n_samples"),
        ({"n_features": 0}, "n_features"),
        ({"sparsity": -4}, "sparsity"),
        ({"snr_db": np.nan}, "snr_db"),
        ({"dtype": np.int64}, "dtype"),
    ],
    ids=str,
)
def test_bad_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        make_synthetic(**{"n_samples": 5, "n_features": 3, "n_outputs": 4, **options})


def test_same_seed_same_problem_in_any_blocks(monkeypatch):
    first = make_synthetic(20, 6, 30)
    monkeypatch.setattr("shore.datasets.synthetic._BLOCK_BYTES", 7 * 30 * 4)
    second = make_synthetic(20, 6, 30)
    np.testing.assert_array_equal(first.X, second.X)
    assert first.Y.nnz == second.Y.nnz
    assert make_synthetic(0, 6, 30).Y.shape == (0, 30)
