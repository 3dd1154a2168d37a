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
    problem = make_synthetic(200_000, d, 2, seed=3, dtype=np.float64)
    X = problem.X
    rng = np.random.default_rng(3)
    mean = np.abs(rng.standard_normal(d))
    A = rng.standard_normal((d, d))
    np.testing.assert_array_equal(problem.mean, mean)
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
        ({"snr_db": -np.inf}, "snr_db"),
        ({"snr_db": -1e6}, "snr_db"),
        ({"snr_db": "loud"}, "snr_db must be a number of at least -300.*got 'loud' of type str"),
        ({"snr_db": None}, "snr_db must be a number"),
        ({"snr_db": np.ones(2)}, "snr_db must be a number"),
        ({"verbose": np.ones(2)}, "verbose must be an integer of at least 0"),
        ({"n_samples": 0, "constraint": "x"}, "constraint must be"),
        ({"dtype": np.ones(2)}, "dtype must be float32 or float64"),
        ({"dtype": np.int64}, "dtype"),
        ({"n_threads": 0}, "n_threads"),
        ({"seed": -1}, "seed must be from 0"),
        ({"seed": None}, "seed must be an integer"),
    ],
    ids=str,
)
def test_bad_arguments(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make_synthetic(**{"n_samples": 5, "n_features": 3, "n_outputs": 4, **options})


def test_same_seed_same_problem_in_any_blocks_on_any_threads(monkeypatch):
    first = make_synthetic(20, 6, 30, dtype=np.float64)
    for size in (7 * 30 * 8, 3 * 6 * 8, 1):  # blocks of outputs, of inputs too, of one row
        monkeypatch.setattr("shore.datasets.synthetic._BLOCK_BYTES", size)
        second = make_synthetic(20, 6, 30, dtype=np.float64, n_threads=1)
        np.testing.assert_allclose(second.X, first.X, rtol=1e-12)  # a BLAS may round blocks of other sizes otherwise
        np.testing.assert_array_equal(second.Z, first.Z)
        np.testing.assert_array_equal(second.Y.indices, first.Y.indices)
        np.testing.assert_allclose(second.Y.data, first.Y.data, rtol=1e-12)
    assert make_synthetic(0, 6, 30).Y.shape == (0, 30)


def test_the_draws_are_those_of_whole_matrices():
    problem = make_synthetic(20, 6, 30, seed=5, dtype=np.float64)
    rng = np.random.default_rng(5)
    mean, A = np.abs(rng.standard_normal(6)), rng.standard_normal((6, 6))
    X = mean + rng.standard_normal((20, 6)) @ A / np.sqrt(6)
    X += np.sqrt(0.5) * rng.standard_normal((20, 6))
    np.testing.assert_allclose(problem.X, X, rtol=1e-12)
    np.testing.assert_array_equal(problem.Z, rng.standard_normal((30, 6)))


def test_progress_is_shown_when_asked_for(capsys):
    make_synthetic(20, 6, 30)
    assert capsys.readouterr() == ("", "")
    make_synthetic(20, 6, 30, verbose=1)
    assert "make_synthetic: outputs" in capsys.readouterr().err
