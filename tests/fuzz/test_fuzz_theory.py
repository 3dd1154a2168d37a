import math

import numpy as np
import pytest
from arguments import as_array, is_count, is_number
from compressions import compressions
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, dense, mostly, options, row_major, sizes
from models import fitted
from oracle import Refusal, compared, tried

import shore
from shore import theory

# A warning that W is not exact is part of the answer: what is compared then is compared all the same.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")

NUMBERS = mostly(
    st.one_of(
        st.floats(0, 1, exclude_min=True, exclude_max=True), st.sampled_from([0.25, np.float32(0.5), 5e-324, 1e-9])
    ),
    st.one_of(st.floats(), st.sampled_from([0, 1, 1e308, None, "1", True, 1j, [0.1], 10**400])),
)
# Of rows and columns.
MOST = 2**59
COUNTS = mostly(
    st.one_of(st.integers(1, 10**6), st.sampled_from([1, 2**31, 2**59, np.uint64(5)])),
    [0, -1, 2.0, None, "3", True, [3], 2**64, 10**400],
)


@given(s=COUNTS, K=COUNTS, delta=st.one_of(st.none(), NUMBERS), tau=NUMBERS, form=mostly(["rip", "jl"], ["", None]))
def test_components_for_anything(s, K, delta, tau, form):
    arguments = {"sparsity": s, "n_outputs": K, "delta": delta, "tau": tau, "form": form}
    m = tried(lambda: theory.components_for(s, K, delta=delta, tau=tau, form=form), *arguments)
    right = is_count(s) and is_count(K, most=MOST) and is_number(tau, 0, 1) and form in ("rip", "jl")
    right = right and (delta is None or is_number(delta, 0, 1))
    if isinstance(m, Refusal):
        assert not right or (delta is not None and delta < 1e-100), m
        return
    assert right
    assert type(m) is int
    assert m >= 1
    if delta is None:
        assert m <= 16 * math.ceil(int(K) / 16)
    elif m < 2**53:  # and back: no more rows are needed for what they give
        assert theory.delta_for(m, s, K, tau=tau, form=form) <= delta * (1 + 1e-6)


@given(m=COUNTS, s=COUNTS, K=COUNTS, tau=NUMBERS, form=mostly(["rip", "jl"], ["x"]))
def test_delta_for_anything(m, s, K, tau, form):
    delta = tried(
        lambda: theory.delta_for(m, s, K, tau=tau, form=form), "n_components", "sparsity", "n_outputs", "tau", "form"
    )
    right = (
        is_count(m, most=MOST)
        and is_count(s)
        and is_count(K, most=MOST)
        and is_number(tau, 0, 1)
        and form in ("rip", "jl")
    )
    assert isinstance(delta, Refusal) != right
    if not isinstance(delta, Refusal):
        assert 0 < delta < 1 or delta == math.inf


@given(step=NUMBERS, delta=NUMBERS, start=NUMBERS, noise=NUMBERS)
def test_steps_for_anything(step, delta, start, noise):
    interval = tried(lambda: theory.step_range(delta), "delta")
    assert isinstance(interval, Refusal) != (is_number(delta, 0, 0.5, closed=True))
    constants = tried(lambda: theory.contraction(step, delta), "step", "delta")
    right = is_number(step) and is_number(delta, closed=True)
    assert isinstance(constants, Refusal) != right or (right and max(float(step), float(delta)) > 1e150)
    if not isinstance(constants, Refusal):
        assert all(map(math.isfinite, constants))
    steps = tried(lambda: theory.iterations_for(step, delta, start, noise), "step", "delta", "start", "noise")
    if not isinstance(steps, Refusal):
        low, high = interval
        assert low < step < high
        assert steps >= 0
        c1 = constants[0]
        if steps and c1 < 1 - 1e-9:  # the start is forgotten then, and not much before
            log = math.log(start) - math.log(noise)
            assert steps * -math.log(c1) >= log * (1 - 1e-9)
            assert (steps - 1) * -math.log(c1) <= log * (1 + 1e-9)
    elif not isinstance(interval, Refusal):
        right = is_number(start, closed=True) and is_number(noise) and is_number(step, *interval)
        assert not right or constants[0] >= 1, steps


@given(st.data())
def test_rip_estimates_of_any_phi(data):
    extremes = data.draw(st.booleans())
    given, wrong = data.draw(
        options(
            compression=(compressions(data.draw(sizes(1, 7, (30,))), extremes=extremes), ["x"]),
            sparsity=(st.sampled_from([1, 2, 3, 5, 9, 65]), [0, None, True]),
            n_supports=([1, 5, 40], [0, 1.5]),
            confidence=([0.95, 0.5, 1e-9], [0, 1, None]),
            refine=([True, False],),
            seed=([0, 1, 2**64 - 1], [-1, None]),
            n_threads=([1, 2], [0]),
        )
    )
    result = tried(lambda: theory.rip_estimate(**given), "compression", *wrong)
    phi = given["compression"]
    if isinstance(result, Refusal):
        assert wrong or np.abs(phi.toarray()).max() > 1e15, result
        return
    assert not wrong
    assert all(math.isfinite(getattr(result, name)) for name in ("delta", "mean", "median", "quantile_95", "share"))
    columns = phi.toarray().astype(np.float64)[:, result.worst_support]
    eigenvalues = np.linalg.eigvalsh(columns.T @ columns)
    expected = max(eigenvalues[-1] - 1, 1 - eigenvalues[0])
    # entries of Φ are rounded, and 1 is taken from an eigenvalue near it
    atol = 16 * len(eigenvalues) * float(np.finfo(phi.dtype).eps) * max(1, eigenvalues[-1])
    np.testing.assert_allclose(result.delta, expected, rtol=0, atol=atol)
    assert result.mean <= result.delta * (1 + 1e-12) + 1e-12


@given(st.data())
def test_head_sizes_of_any_weights(data):
    weights = data.draw(dense((data.draw(sizes(0, 9, (70,))),), extremes=data.draw(st.booleans())))
    m = data.draw(mostly(st.integers(1, 80), [0, None, 2**59, 2**64]))
    size = compared(
        lambda output_weights: theory.head_size(m, output_weights), {"output_weights": weights}, also=("n_components",)
    )
    right = is_count(m, most=MOST) and len(weights.plain) > 0 and weights.plain.min(initial=0) >= 0
    assert isinstance(size, Refusal) != right
    if right:
        assert 0 <= size <= min(m, len(weights.plain))


@given(st.data())
def test_moments_and_sample_sizes_of_any_presentation(data):
    n, d, K = data.draw(sizes(0, 6)), data.draw(sizes(0, 4)), data.draw(sizes(1, 5))
    phi = data.draw(compressions(K))
    extremes = data.draw(st.integers(0, 3)) == 3
    inputs = {
        "X": row_major(data.draw(any_matrix((n, d), extremes=extremes))),
        "Y": data.draw(any_matrix((n, K), extremes=extremes)),
    }
    sigma = data.draw(mostly([None, 1.0], [0, math.nan, "1"]))
    result = compared(
        lambda **pair: theory.Moments.from_data(**pair, compression=phi, sigma=sigma, n_threads=1), inputs,
        also=("sigma", *(["X", "Y"] if 0 in (n, d) else [])),
    )  # fmt: skip
    right = not any(each.is_wrong for each in inputs.values()) and 0 not in (n, d) and sigma in (None, 1.0)
    if isinstance(result, Refusal):
        assert not right or extremes, result
        return
    assert right
    numbers = [getattr(result, name) for name in ("sigma", "mean_x", "lambda_min", "z_norm2", "w_norm2", "phi_norm2")]
    assert all(math.isfinite(number) and number >= 0 for number in numbers), result
    if not extremes:
        X = as_array(inputs["X"].plain)
        np.testing.assert_allclose(result.mean_x, np.linalg.norm(X.mean(axis=0)), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(result.phi_norm2, np.sum(phi.toarray().astype(np.float64) ** 2), rtol=1e-6)
    given = {name: data.draw(NUMBERS) for name in ("epsilon", "tau", "C")}
    sizes_ = tried(lambda: theory.sample_sizes(result, **given), *given)
    right = is_number(given["epsilon"]) and is_number(given["tau"], 0, 1 / 3) and is_number(given["C"])
    if isinstance(sizes_, Refusal):
        assert not right or given["C"] > 1e100, sizes_
    else:
        assert right
        assert sizes_.uncompressed >= 0
        assert sizes_.compressed >= 0


@given(value=st.sampled_from([None, 3, "x", {}]))
def test_sample_sizes_need_moments(value):
    assert isinstance(tried(lambda: theory.sample_sizes(value, epsilon=1.0), "moments"), Refusal)
    assert isinstance(tried(lambda: theory.rip_estimate(value, 2), "compression"), Refusal)
    assert isinstance(tried(lambda: theory.report(value, np.ones((2, 2)), np.ones((2, 2))), "model"), Refusal)
    data = np.ones((2, 2))
    assert isinstance(tried(lambda: theory.Moments.from_data(data, data, value), "compression"), Refusal)


@pytest.mark.parametrize("kind", ["head_tail", "gaussian"])
@given(st.data())
def test_reports_of_any_presentation(kind, data):
    model = fitted(kind, data.draw(st.sampled_from(["pgd", "omp"])), data.draw(st.sampled_from(["float32", "float64"])),
                   data.draw(st.booleans()), 4, 7)  # fmt: skip
    n = data.draw(sizes(0, 5))
    extremes = data.draw(st.integers(0, 3)) == 3
    inputs = {name: row_major(data.draw(any_matrix((n, k), extremes=extremes))) for name, k in (("X", 4), ("Y", 7))}
    delta = data.draw(mostly([None, 0.1, 0, 2.0], [-1, math.nan, "x"]))
    result = compared(
        lambda **pair: theory.report(model, **pair, delta=delta, n_supports=20, n_threads=1), inputs,
        also=("delta", *(["X", "Y"] if n == 0 else [])),
    )  # fmt: skip
    right = not any(each.is_wrong for each in inputs.values()) and n > 0 and delta in (None, 0.1, 0, 2.0)
    assert isinstance(result, Refusal) != right or (extremes and right), result
    if not isinstance(result, Refusal):
        assert [each.theorem for each in result.statements] == [1, 2, 4]
        assert not any(math.isnan(each.right) for each in result.statements)
        assert "inequality" in str(result)


def test_theory_is_of_the_package():
    assert shore.theory is theory
