import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shore.theory import components_for, contraction, delta_for, iterations_for, step_range


def test_practical_rule():
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


def test_proven_rows_by_hand():
    # ln(2·1000/0.1) = 9.9035, 0.04/4 - 0.008/6 = 0.0086667
    assert components_for(3, 1000, delta=0.2, tau=0.1, form="jl") == math.ceil(9.903487552536127 / 0.008666666666666666)
    # k = 3, C(10, 3) = 120: (√3 + √(2 ln(240/0.05)))² / (√1.5 - 1)²
    by_hand = (1.7320508075688772 + math.sqrt(2 * math.log(4800))) ** 2 / (1.224744871391589 - 1) ** 2
    assert components_for(1, 10, delta=0.5) == math.ceil(by_hand) == 678
    # all K columns are one support
    assert components_for(4, 5, delta=0.5) == math.ceil(
        (math.sqrt(5) + math.sqrt(2 * math.log(40))) ** 2 / 0.2247448714**2
    )
    assert components_for(3, 100, delta=0.1) > 100  # the honest answer, not K


SIZES = {
    "s": st.integers(1, 50),
    "K": st.integers(1, 10**7),
    "tau": st.floats(1e-9, 0.999),
    "form": st.sampled_from(["rip", "jl"]),
}


@given(delta=st.floats(1e-3, 0.999), **SIZES)
def test_rows_and_delta_are_inverse(delta, s, K, tau, form):
    m = components_for(s, K, delta=delta, tau=tau, form=form)
    assert delta_for(m, s, K, tau=tau, form=form) <= delta * (1 + 1e-12)
    if m > 1:
        assert delta_for(m - 1, s, K, tau=tau, form=form) > delta * (1 - 1e-12)


@given(delta=st.floats(1e-3, 0.99), **SIZES)
def test_more_is_asked_for_more(delta, s, K, tau, form):
    m = components_for(s, K, delta=delta, tau=tau, form=form)
    assert components_for(s, 2 * K, delta=delta, tau=tau, form=form) >= m
    assert components_for(s, K, delta=delta / 2, tau=tau, form=form) > m
    assert components_for(s, K, delta=delta, tau=tau / 2, form=form) >= m
    assert components_for(s, K, delta=delta, tau=tau, form="jl") <= components_for(s, K, delta=delta, tau=tau)


def test_too_few_rows_prove_nothing():
    assert delta_for(10, 3, 1000) == math.inf
    assert delta_for(10, 3, 1000, form="jl") == math.inf
    least = math.ceil(12 * math.log(2 * 1000 / 0.05))
    assert delta_for(least, 3, 1000, form="jl") < 1
    assert delta_for(least - 1, 3, 1000, form="jl") == math.inf


def test_the_upper_end_binds():
    """√(1+δ) - 1 is the smaller of the two distances from 1 to √(1±δ)."""
    delta = np.linspace(1e-6, 1 - 1e-6, 1000)
    assert np.all(np.sqrt(1 + delta) - 1 < 1 - np.sqrt(1 - delta))


def _failures(m, K, delta, worst, n=200):
    rng = np.random.default_rng(m)
    return np.mean([worst(rng.standard_normal((m, K)) / np.sqrt(m)) > delta for _ in range(n)])


def _worst_column(Phi):
    return np.abs((Phi**2).sum(axis=0) - 1).max()


def _worst_triple(Phi):
    gram = Phi.T @ Phi
    eigenvalues = [np.linalg.eigvalsh(gram[np.ix_(S, S)]) for S in combinations(range(Phi.shape[1]), 3)]
    return max(max(values[-1] - 1, 1 - values[0]) for values in eigenvalues)


@pytest.mark.parametrize(
    ("form", "K", "delta", "worst"), [("jl", 60, 0.5, _worst_column), ("rip", 6, 0.9, _worst_triple)]
)
def test_so_many_rows_are_enough_and_a_tenth_is_not(form, K, delta, worst):
    m = components_for(1, K, delta=delta, tau=0.05, form=form)
    assert _failures(m, K, delta, worst) <= 0.05
    assert _failures(m // 10, K, delta, worst) > 0.05


def test_steps_by_hand():
    assert step_range(0.0) == (0.5, 1.0)
    assert step_range(0.25) == (1 / 1.5, 1.0)
    c1, c2 = contraction(0.8, 0.21)
    assert c1 == pytest.approx(2 - 1.6 + 0.336)
    assert c2 == pytest.approx(1.6 * 1.1)
    # c1 = 1/2 at step 3/4 and delta 0: 8 halves three times
    assert iterations_for(0.75, 0.0, 8.0, 1.0) == 3
    assert iterations_for(0.75, 0.0, 8.001, 1.0) == 4
    assert iterations_for(0.75, 0.0, 1.0, 1.0) == 0
    assert iterations_for(0.75, 0.0, 0.0, 1.0) == 0


@given(
    delta=st.floats(0, 0.499), share=st.floats(0.01, 0.99), start=st.floats(0, 1e300), noise=st.floats(1e-300, 1e300)
)
def test_iterations_are_the_fewest_that_will_do(delta, share, start, noise):
    low, high = step_range(delta)
    step = low + share * (high - low)
    c1, _ = contraction(step, delta)
    assert 0 < c1 < 1
    t = iterations_for(step, delta, start, noise)
    if t == 0:
        assert start <= noise * (1 + 1e-9)
    else:
        excess = math.log(start) - math.log(noise)
        assert t * math.log(c1) + excess <= 1e-9 * excess
        assert (t - 1) * math.log(c1) + excess > -1e-9 * excess


def test_contraction_has_no_error_where_the_theorem_says_nothing():
    assert contraction(0.9, 0.7)[0] > 1
    assert contraction(3.0, 0.0)[0] < 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: components_for(3, 100, delta=1.0), ValueError, "delta must be a number between 0 and 1, or None, got"),
        (lambda: components_for(3, 100, delta="a"), TypeError, "delta"),
        (lambda: components_for(3, 100, delta=True), TypeError, "delta"),
        (lambda: components_for(3, 100, tau=0), ValueError, "tau"),
        (lambda: components_for(3, 100, form="RIP"), ValueError, "form must be one of 'rip', 'jl', got 'RIP'"),
        (lambda: components_for(0, 100, delta=0.5), ValueError, "sparsity"),
        (lambda: delta_for(0, 3, 100), ValueError, "n_components"),
        (lambda: delta_for(3.0, 3, 100), TypeError, "n_components"),
        (lambda: step_range(0.5), ValueError, "no step satisfies"),
        (lambda: step_range(-0.1), ValueError, "delta"),
        (lambda: step_range(math.nan), ValueError, "delta"),
        (lambda: contraction(0.0, 0.1), ValueError, "step"),
        (lambda: contraction(0.5, math.inf), ValueError, "delta"),
        (lambda: iterations_for(0.9, 0.5, 1.0, 0.1), ValueError, "no step satisfies"),
        (lambda: iterations_for(0.55, 0.2, 1.0, 0.1), ValueError, "step must be between 0.625 and 1"),
        (lambda: iterations_for(1.0, 0.2, 1.0, 0.1), ValueError, "step must be between 0.625 and 1"),
        (lambda: iterations_for(0.9, 0.2, 1.0, 0.0), ValueError, "noise must be a positive number"),
        (lambda: iterations_for(0.9, 0.2, -1.0, 0.1), ValueError, "start"),
        (lambda: iterations_for(0.9, 0.2, 10**400, 0.1), ValueError, "start"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()
