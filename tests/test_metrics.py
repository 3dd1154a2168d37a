import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import shore
from shore.metrics import (
    ndcg_at_k,
    output_difference,
    precision_at_k,
    prediction_loss,
    propensities,
    propensity_scored_precision_at_k,
    recall_at_k,
    training_loss,
)


def best_of(predicted, k):
    return [j for j in sorted(range(len(predicted)), key=lambda j: (-predicted[j], j)) if predicted[j] != 0][:k]


def slowly(Y_true, Y_pred, k, propensity):
    """Precision, recall, nDCG and propensity-scored precision, row by row."""
    precision, recall, ndcg, scored, reachable = [], [], [], 0.0, 0.0
    for true, predicted in zip(Y_true != 0, Y_pred, strict=True):
        hits = [bool(true[j]) for j in best_of(predicted, k)]
        n_true = int(true.sum())
        precision.append(sum(hits) / k)
        recall.append(sum(hits) / n_true if n_true else 0.0)
        gained = sum(1 / np.log2(rank + 2) for rank, hit in enumerate(hits) if hit)
        most = sum(1 / np.log2(rank + 2) for rank in range(min(k, n_true)))
        ndcg.append(gained / most if n_true else 0.0)
        scored += sum(1 / propensity[j] for j in best_of(predicted, k) if true[j])
        reachable += sum(sorted(1 / propensity[true])[::-1][:k])
    return np.mean(precision), np.mean(recall), np.mean(ndcg), scored / reachable if reachable else np.nan


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_ranking_metrics_equal_a_plain_loop(seed, k):
    rng = np.random.default_rng(seed)
    Y_true, Y_pred = (rng.integers(-1, 3, (9, 12)) * (rng.random((9, 12)) < 0.4) for _ in range(2))
    propensity = rng.uniform(0.1, 1, 12)
    expected = slowly(Y_true, Y_pred, k, propensity)
    for true, predicted in ((Y_true, Y_pred), (sparse.csc_array(Y_true), sparse.coo_array(Y_pred))):
        got = [metric(true, predicted, k) for metric in (precision_at_k, recall_at_k, ndcg_at_k)]
        got.append(propensity_scored_precision_at_k(true, predicted, k, propensity))
        np.testing.assert_allclose(got, expected)


def test_ranking_metrics_equal_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    Y_true, Y_pred = rng.integers(0, 2, (50, 30)), rng.random((50, 30)) + 0.1
    for k in (1, 3, 30):
        assert ndcg_at_k(Y_true, Y_pred, k) == pytest.approx(metrics.ndcg_score(Y_true, Y_pred, k=k))
    best = shore.project(Y_pred, 4).toarray() > 0
    assert recall_at_k(Y_true, Y_pred, 4) == pytest.approx(metrics.recall_score(Y_true, best, average="samples"))


def test_propensities_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    Y = sparse.csr_array(rng.integers(0, 2, (100, 7)) * [1, 1, 1, 1, 1, 1, 0])
    counts = np.asarray((Y != 0).sum(axis=0)).ravel()
    c = (np.log(100) - 1) * 2.5**0.55
    np.testing.assert_allclose(propensities(Y), 1 / (1 + c * np.exp(-0.55 * np.log(counts + 1.5))))
    assert np.all(propensities(Y[:1]) == 1)
    with pytest.raises(ValueError, match="Y_train must have at least one row"):
        propensities(np.zeros((0, 3)))
    for wrong, error, words in (
        ({"b": -2.0}, ValueError, "b must be a positive number, got -2.0"),
        ({"a": "x"}, TypeError, "a must be a positive number, got 'x'"),
    ):
        with pytest.raises(error, match=words):
            propensities(Y, **wrong)


def test_perfect_and_useless_predictions():
    rng = np.random.default_rng(0)
    Y = (rng.random((20, 15)) < 0.3) | np.eye(20, 15, dtype=bool)
    Y[:, 14] = True
    p = propensities(Y)
    for metric in (recall_at_k, ndcg_at_k):
        assert metric(Y, Y, 15) == pytest.approx(1.0)
        assert metric(Y, ~Y, 15) == 0
    perfect = Y / p
    assert propensity_scored_precision_at_k(Y, perfect, 3, p) == pytest.approx(1.0)
    assert np.isnan(propensity_scored_precision_at_k(np.zeros((2, 3)), np.ones((2, 3)), 1, [1, 1, 1]))
    for wrong, error, words in (
        ([1.0], ValueError, r"propensity must have shape \(15,\), got \(1,\)"),
        (np.zeros(15), ValueError, "propensity must be positive"),
        (["x"] * 15, TypeError, "propensity must hold real numbers"),
        (["0.5"] * 15, TypeError, "propensity must hold real numbers"),
        (np.ones(15) + 1j, TypeError, "propensity must hold real numbers"),
        (np.ones(15, dtype="m8[s]"), TypeError, "propensity must hold real numbers"),
        (np.ma.masked_array(np.ones(15), True), TypeError, "propensity is a masked array"),
        (sparse.csr_array(np.ones((1, 15))), TypeError, "propensity must be a 1-D array, got a sparse matrix"),
        (np.full(15, 3e-308), ValueError, "propensity is too small: sums of its reciprocals leave the range"),
    ):
        with pytest.raises(error, match=words):
            propensity_scored_precision_at_k(Y, Y, 1, wrong)


@pytest.mark.parametrize("kind", [shore.GaussianCompression, shore.SparseSignCompression])
def test_losses_equal_dense_arithmetic(kind, monkeypatch):
    rng = np.random.default_rng(0)
    Y, V = (rng.normal(size=(31, 40)) * (rng.random((31, 40)) < 0.2) for _ in range(2))
    phi = kind(16, 40, dtype=np.float64)
    B, scores = rng.normal(size=(31, 16)), rng.normal(size=(31, 40))
    for block in (1 << 26, 8 * 16 * 7):
        monkeypatch.setattr("shore.metrics._BLOCK_BYTES", block)
        assert output_difference(Y, sparse.coo_array(V)) == pytest.approx(np.mean(np.sum((Y - V) ** 2, axis=1)))
        expected = np.mean(np.sum((Y @ phi.toarray().T - B) ** 2, axis=1))
        assert prediction_loss(sparse.csr_array(Y), B, phi) == pytest.approx(expected)
        assert training_loss(Y, sparse.csr_array(B), phi) == pytest.approx(expected)
        assert training_loss(Y, scores) == pytest.approx(np.mean(np.sum((Y - scores) ** 2, axis=1)))
    assert np.isnan(output_difference(np.zeros((0, 3)), np.zeros((0, 3))))
    assert np.isnan(training_loss(np.zeros((0, 40)), np.zeros((0, 16)), phi))
    for arguments, words in (
        ((Y, B), "Y must have 16 columns, got 40"),
        ((Y, scores, phi), "B must have 16 columns, got 40"),
        ((Y[:3], B, phi), "Y and B must have the same number of rows, got 3 and 31"),
        ((Y, np.full_like(B, np.nan), phi), "B must not hold NaN or infinity"),
        ((Y, sparse.csr_array(np.full_like(B, -np.inf)), phi), "B must not hold NaN or infinity"),
        ((np.full_like(scores, np.inf), scores), "Y must not hold NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=words):
            training_loss(*arguments)
    small = kind(16, 40)
    for huge in (1e300, 3e38):
        for loss, name in ((training_loss, "Y"), (prediction_loss, "Y_pred")):
            with pytest.raises(ValueError, match=f"{name} (must be finite in float32|is too large: its compression)"):
                loss(np.full_like(Y, huge), B, small)
    with pytest.raises(TypeError, match="compression must be a compression or None, got ndarray"):
        prediction_loss(Y, B, phi.toarray())


def test_more_entries_than_numbers_of_64_bits():
    K = 1 << 58  # where row 64 begins, 64·K + j is j: that of row 0
    rows, columns = np.arange(128), np.arange(128) % 64
    true, predicted = (
        sparse.csr_array((np.ones(128), (rows, at)), shape=(128, K)) for at in (columns, (columns + (rows >= 64)) % 64)
    )
    for metric in (precision_at_k, recall_at_k, ndcg_at_k):
        assert metric(true, predicted, 1) == 0.5
        assert metric(true, predicted, K) == (0.5 if metric is not precision_at_k else 0.5 / K)
    assert ndcg_at_k(np.eye(3), np.eye(3), 10**30) == 1
    with pytest.raises(ValueError, match=r"Y_train has .* columns, and at most 2\*\*59 can be worked with"):
        propensities(sparse.csr_array((128, 4 * K)))
    first, other = (sparse.csr_array(([1.0], ([row], [7])), shape=(128, K)) for row in (0, 64))
    assert precision_at_k(first, other, 1) == 0


def test_what_counts_as_predicted():
    stored_zero = sparse.csr_array((np.array([0.0, -1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert precision_at_k([[0, 1]], stored_zero, 1) == 1.0
    assert precision_at_k([[True, False]], [[True, False]], 1) == 1.0
    assert precision_at_k([[0, 1]], np.array([[-128, 5]], dtype=np.int8), 1) == 1.0
    with pytest.raises(ValueError, match="Y_pred must be 2-D"):
        precision_at_k([[1]], [1], 1)
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="Y_pred must not hold NaN or infinity"):
            precision_at_k([[1]], [[value]], 1)
    with pytest.raises(ValueError, match="Y_true must not hold NaN or infinity"):
        output_difference([[np.inf]], [[np.inf]])


def test_precision_at_the_edges():
    assert precision_at_k([[1, 1]], [[0, 0]], 1) == 0.0
    assert np.isnan(precision_at_k(np.zeros((0, 3)), np.zeros((0, 3)), 1))
    with pytest.raises(ValueError, match=r"same shape, got \(1, 2\) and \(1, 3\)"):
        precision_at_k([[1, 1]], [[0, 0, 1]], 1)
    with pytest.raises(ValueError, match="k must be a positive integer, got 0"):
        precision_at_k([[1]], [[1]], 0)
