"""The references and comparators are code too."""

import itertools

import numpy as np
import pytest
import reference

import shore


@pytest.mark.parametrize(
    "constraint",
    ["real", "nonneg", "binary", shore.Box(-0.5, 1.5), shore.Box(0, 1), shore.Box(-2, 0), shore.Simplex(1.5)],
    ids=str,
)
def test_projection_is_the_nearest_point(constraint):
    """Against brute force: the best value on every support of size s, by its definition in F."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        v, s = rng.normal(size=5) * 1.5, int(rng.integers(1, 5))
        best = min(
            (nearest_on(v, support, constraint) for support in itertools.combinations(range(5), s)),
            key=lambda w: np.sum((w - v) ** 2),
        )
        found = reference.project_row(v, s, constraint)
        np.testing.assert_allclose(np.sum((found - v) ** 2), np.sum((best - v) ** 2), rtol=1e-12)
        assert np.count_nonzero(found) <= s


def nearest_on(v, support, constraint):
    """The nearest point of F with its non-zeros inside the support."""
    inside = np.zeros(v.size, dtype=bool)
    inside[list(support)] = True
    if isinstance(constraint, shore.Simplex):
        low, high = v.min() - constraint.total, v.max()
        for _ in range(200):  # bisection on the threshold
            theta = (low + high) / 2
            if np.maximum(v[inside] - theta, 0).sum() > constraint.total:
                low = theta
            else:
                high = theta
        return np.where(inside, np.maximum(v - theta, 0), 0)
    inner = {
        "real": lambda: v,
        "nonneg": lambda: np.maximum(v, 0),
        "binary": lambda: (v > 0.5).astype(float),
    }.get(constraint, lambda: np.clip(v, constraint.low, constraint.high))()
    return np.where(inside, inner, 0)


def test_tie_tolerant_comparator_excuses_ties_only():
    same = np.array([[0, 2.0, 0, 1.0]])
    reference.assert_same_rows(same, same, rtol=0)
    reference.assert_same_rows([[0, 2.0, 1.0, 0]], same, rtol=1e-9)  # 1.0 at another place: a tie
    for wrong in ([[0, 2.0, 0.9, 0]], [[0, 2.0, 0, 0]], [[0, 2.1, 0, 1.0]], [[0, 2.0, 1.0, 1.0]]):
        with pytest.raises(AssertionError):
            reference.assert_same_rows(wrong, same, rtol=1e-9)


def test_bit_comparator_sees_one_bit():
    a = shore.project(np.array([[1.0, 2.0]]), 2)
    b = a.copy()
    b.data[0] = np.nextafter(b.data[0], 2)
    reference.assert_same_bits(a, a)
    with pytest.raises(AssertionError):
        reference.assert_same_bits(a, b)
