import numpy as np
import pytest

import shore


@pytest.mark.parametrize(("low", "high"), [(0.1, 1), (-2, -1), (1, -1)])
def test_box_must_hold_zero(low, high):
    with pytest.raises(ValueError, match="Box needs low <= 0 <= high, got low="):
        shore.Box(low, high)


@pytest.mark.parametrize("total", [0, -1, np.inf])
def test_simplex_total_must_be_positive(total):
    with pytest.raises(ValueError, match="Simplex needs a positive, finite total"):
        shore.Simplex(total)


def test_bounds_must_be_numbers():
    with pytest.raises(TypeError, match="low must be a real number, got '0'"):
        shore.Box("0", 1)
    with pytest.raises(ValueError, match="high must be a number, got nan"):
        shore.Box(0, float("nan"))
    with pytest.raises(ValueError, match="high must be in the range of float64"):
        shore.Box(0, 10**400)
    with pytest.raises(TypeError, match="total"):
        shore.Simplex(None)


def test_constraints_are_values():
    assert shore.Box(-1, np.float32(1)) == shore.Box(-1.0, 1.0)
    assert hash(shore.Simplex(2)) == hash(shore.Simplex(2.0))
    assert repr(shore.Simplex(2)) == "Simplex(total=2.0)"
    with pytest.raises(AttributeError):
        shore.Box(0, 1).low = 2
