import math
import tracemalloc
from itertools import combinations

import numpy as np
import pytest

import shore
from shore.theory import rip_estimate


def brute_force(Phi, k):
    """δ_S of every support, by singular values."""
    Phi = np.asarray(Phi, dtype=np.float64)
    supports = list(combinations(range(Phi.shape[1]), k))
    squares = [np.linalg.svd(Phi[:, list(S)], compute_uv=False) ** 2 for S in supports]
    smallest = [s[-1] if k <= Phi.shape[0] else 0.0 for s in squares]
    return supports, np.array([max(s[0] - 1, 1 - low) for s, low in zip(squares, smallest, strict=True)])


COMPRESSIONS = [
    shore.GaussianCompression(12, 9, seed=1),
    shore.GaussianCompression(3, 9, seed=1, dtype=np.float64),
    shore.SparseSignCompression(12, 9, nnz_per_output=4, seed=1),
    shore.MatrixCompression(np.random.default_rng(0).standard_normal((8, 9)) / 3),
]


@pytest.mark.parametrize("k", [1, 2, 4, 9])
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=repr)
def test_all_supports_give_the_constant_itself(compression, k):
    estimate = rip_estimate(compression, k, n_supports=126)
    supports, spreads = brute_force(compression.toarray(), k)
    assert estimate.n_supports == len(supports)
    assert estimate.share == 0
    assert estimate.delta == pytest.approx(spreads.max(), rel=1e-9, abs=1e-9)
    assert spreads[supports.index(tuple(estimate.worst_support))] == pytest.approx(estimate.delta, rel=1e-9, abs=1e-9)
    assert estimate.mean == pytest.approx(spreads.mean(), rel=1e-9, abs=1e-9)
    assert estimate.median == pytest.approx(np.median(spreads), rel=1e-9, abs=1e-9)
    assert estimate.quantile_95 == pytest.approx(np.quantile(spreads, 0.95), rel=1e-9, abs=1e-9)
    assert rip_estimate(compression, k + 100, n_supports=126).sparsity == 9  # more than K means K


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=repr)
def test_drawn_supports_bound_it_from_below(compression, refine):
    estimate = rip_estimate(compression, 4, n_supports=30, refine=refine)
    supports, spreads = brute_force(compression.toarray(), 4)
    assert estimate.n_supports == 30
    assert estimate.delta <= spreads.max() * (1 + 1e-9)
    assert spreads[supports.index(tuple(estimate.worst_support))] == pytest.approx(estimate.delta, rel=1e-9)
    assert 0 < estimate.mean < estimate.delta


def test_refining_finds_worse_supports():
    phi = shore.GaussianCompression(150, 3000)
    drawn, refined = rip_estimate(phi, 6), rip_estimate(phi, 6, refine=True)
    assert refined.delta > 1.2 * drawn.delta
    assert (refined.mean, refined.share) == (drawn.mean, drawn.share)
    S = phi.toarray()[:, refined.worst_support].astype(np.float64)
    eigenvalues = np.linalg.eigvalsh(S.T @ S)
    assert refined.delta == pytest.approx(max(eigenvalues[-1] - 1, 1 - eigenvalues[0]), rel=1e-9)


def test_refining_looks_at_the_smallest_singular_value_too():
    """No column is longer than 1 here, so that only vectors that Φ shrinks matter."""
    phi = shore.MatrixCompression(0.4 * shore.GaussianCompression(60, 1000, dtype=np.float64).toarray())
    drawn, refined = (rip_estimate(phi, 6, n_supports=200, refine=refine) for refine in (False, True))
    assert 1 - refined.delta < 0.55 * (1 - drawn.delta)  # σ_min²


def test_share_covers_as_often_as_it_says():
    """Over many seeds, the share of supports worse than the worst seen is at most `share` in 90 % of them."""
    phi = shore.GaussianCompression(12, 16, seed=3)
    _, spreads = brute_force(phi.toarray(), 4)
    estimates = [rip_estimate(phi, 4, n_supports=20, confidence=0.9, seed=seed, n_threads=1) for seed in range(400)]
    assert estimates[0].share == pytest.approx(1 - 0.1 ** (1 / 20))
    covered = np.mean([np.mean(spreads > e.delta * (1 + 1e-9)) <= e.share for e in estimates])
    assert 0.9 - 3 * np.sqrt(0.09 / 400) <= covered <= 0.9 + 3 * np.sqrt(0.09 / 400) + 1 / len(spreads)


def test_isometry():
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))
    assert rip_estimate(shore.MatrixCompression(Q), 7, n_supports=50).delta < 1e-12
    assert rip_estimate(shore.MatrixCompression(2 * Q), 7, n_supports=50).delta == pytest.approx(3)


def test_more_columns_than_rows_are_no_isometry():
    assert rip_estimate(shore.GaussianCompression(5, 100), 6, n_supports=20).delta >= 1


@pytest.mark.parametrize("refine", [False, True])
def test_same_seed_same_estimate_on_any_threads(monkeypatch, refine):
    phi = shore.SparseSignCompression(64, 500)
    monkeypatch.setattr("shore.theory._data._BLOCK_BYTES", 5000)  # many blocks
    one, two = (rip_estimate(phi, 6, n_supports=40, seed=5, refine=refine, n_threads=t) for t in (1, 2))
    np.testing.assert_array_equal(one.worst_support, two.worst_support)
    assert (one.delta, one.mean, one.median, one.quantile_95) == (two.delta, two.mean, two.median, two.quantile_95)
    assert rip_estimate(phi, 6, n_supports=40, seed=6).mean != one.mean


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("K", "k", "n_supports"), [(60, 3, 10**30), (400, 8, 30_000)], ids=["all", "drawn"])
def test_supports_are_never_held_all_at_once(K, k, n_supports, n_threads, monkeypatch):
    phi = shore.SparseSignCompression(16, K)
    monkeypatch.setattr("shore.theory._data._BLOCK_BYTES", 1 << 16)
    tracemalloc.start()
    try:
        found = rip_estimate(phi, k, n_supports=n_supports, n_threads=n_threads)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.n_supports == min(n_supports, math.comb(K, k))
    assert most < 40 * found.n_supports  # the numbers themselves, and what the median takes


def test_many_outputs_never_make_phi_dense():
    phi = shore.SparseSignCompression(512, 2_000_000)
    assert 0 < rip_estimate(phi, 15, n_supports=20).delta < 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"compression": np.eye(3)}, TypeError, "shore.MatrixCompression"),
        ({"sparsity": 0}, ValueError, "sparsity"),
        ({"n_supports": 0}, ValueError, "n_supports"),
        (
            {"compression": shore.SparseSignCompression(9, 2_000), "n_supports": 10**20, "sparsity": 9},
            ValueError,
            r"n_supports must be at most 2\*\*59",
        ),
        ({"confidence": 1.0}, ValueError, "confidence must be a number between 0 and 1, got 1.0"),
        ({"seed": -1}, ValueError, "seed"),
        ({"refine": np.ones(2)}, TypeError, "refine must be True or False"),
        ({"refine": "no"}, TypeError, "refine must be True or False, got 'no' of type str"),
        ({"n_threads": 0}, ValueError, "n_threads"),
    ],
    ids=str,
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        rip_estimate(**{"compression": COMPRESSIONS[0], "sparsity": 2, **options})
