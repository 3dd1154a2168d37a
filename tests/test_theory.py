import pytest

from shore.theory import components_for


def test_components_for():
    assert components_for(5, 20_000) == 416
    assert components_for(1, 1) == 16
    assert components_for(50, 60) == 64  # never more than K, rounded up
    for sparsity in (1, 3, 10):
        for n_outputs in (100, 5000, 10**6):
            m = components_for(sparsity, n_outputs)
            assert m % 16 == 0
            assert m <= components_for(sparsity, 10 * n_outputs)
    with pytest.raises(ValueError, match="n_outputs"):
        components_for(3, 0)
