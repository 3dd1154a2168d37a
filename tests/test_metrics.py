import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from shore.metrics import precision_at_k


def precision_slowly(Y_true, Y_pred, k):
    total = 0.0
    for true, predicted in zip(Y_true, Y_pred, strict=True):
        best = [j for j in sorted(range(len(predicted)), key=lambda j: (-predicted[j], j)) if predicted[j] != 0][:k]
        total += sum(true[j] != 0 for j in best) / k
    return total / len(Y_true)


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_precision_equals_a_plain_loop(seed, k):
    rng = np.random.default_rng(seed)
    Y_true, Y_pred = (rng.integers(-1, 3, (9, 12)) * (rng.random((9, 12)) < 0.4) for _ in range(2))
    expected = pytest.approx(precision_slowly(Y_true, Y_pred, k))
    assert precision_at_k(Y_true, Y_pred, k) == expected
    assert precision_at_k(sparse.csc_array(Y_true), sparse.coo_array(Y_pred), k) == expected


def test_what_counts_as_predicted():
    stored_zero = sparse.csr_array((np.array([0.0, -1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert precision_at_k([[0, 1]], stored_zero, 1) == 1.0
    assert precision_at_k([[True, False]], [[True, False]], 1) == 1.0
    assert precision_at_k([[0, 1]], np.array([[-128, 5]], dtype=np.int8), 1) == 1.0
    with pytest.raises(ValueError, match="Y_pred must be 2-D"):
        precision_at_k([[1]], [1], 1)
    with pytest.raises(ValueError, match="Y_pred must not hold NaN"):
        precision_at_k([[1]], [[np.nan]], 1)


def test_precision_at_the_edges():
    assert precision_at_k([[1, 1]], [[0, 0]], 1) == 0.0
    assert np.isnan(precision_at_k(np.zeros((0, 3)), np.zeros((0, 3)), 1))
    with pytest.raises(ValueError, match=r"same shape, got \(1, 2\) and \(1, 3\)"):
        precision_at_k([[1, 1]], [[0, 0, 1]], 1)
    with pytest.raises(ValueError, match="k must be a positive integer, got 0"):
        precision_at_k([[1]], [[1]], 0)
