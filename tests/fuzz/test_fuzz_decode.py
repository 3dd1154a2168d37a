import numpy as np
import reference
from compressions import compressions
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, matrices, not_finite, numbers, sizes, which_outputs
from nearest import assert_is_step
from oracle import Refusal, assert_at_most, compared, outcome_of, plainly, tried
from test_fuzz_projection import CONSTRAINTS, permitted_outputs, sparsities

import shore

METHODS = ["pgd", "cd", "omp", "fista"]


@st.composite
def options(draw):
    """Of the decoder."""
    return {
        "method": draw(st.sampled_from(METHODS)),
        "constraint": draw(st.sampled_from(CONSTRAINTS)),
        "step": draw(st.sampled_from([0.9, 0.5, 1.0, 3.0, 1e-3])),
        "max_iter": draw(st.sampled_from([1, 2, 7, 60])),
        "tol": draw(st.sampled_from([0, 1e-3, 0.5])),
        "l1": draw(st.sampled_from([0, 0.1, 1, 2.5])),
        "decode_sparsity": draw(st.sampled_from([None, 1, 4, 100])),
        "n_threads": 1,
    }


def is_in_range(B, dtype):
    """Whether B is finite in the dtype of Φ, and its norms are below the limit that errors speak of."""
    with np.errstate(over="ignore"):
        rows = (B if isinstance(B, np.ndarray) else B.toarray()).astype(dtype).astype(np.float64)
        return bool(np.isfinite(rows).all() and np.all(np.sqrt(np.sum((rows / 1e150) ** 2, axis=1)) <= 1))


def assert_info(info, n, max_iter):
    for name in ("n_iter", "converged", "residual", "full_passes", "step"):
        assert getattr(info, name).shape == (n,)
    assert np.all((info.n_iter >= 0) & (info.n_iter <= max_iter))
    assert np.isfinite(info.residual).all()
    assert np.all(info.full_passes >= 0)


@given(st.data())
def test_any_presentation_is_decoded_as_the_plain_one(data):
    phi = data.draw(compressions(data.draw(sizes(1, 9, (1, 70))), extremes=data.draw(st.booleans())))
    B = data.draw(any_matrix((data.draw(sizes(0, 4, (33,))), phi.n_components)))
    s, how = data.draw(sparsities()), data.draw(options())
    result = compared(lambda B: shore.decode(B, phi, s, return_info=True, **how), {"B": B})
    if not B.is_wrong:
        assert isinstance(result, Refusal) != is_in_range(B.plain, phi.dtype), result
    if not isinstance(result, Refusal):
        found, info = result
        assert found.dtype == phi.dtype
        assert found.shape == (B.plain.shape[0], phi.n_outputs)
        assert_at_most(found, s)
        assert_info(info, B.plain.shape[0], max(how["max_iter"], phi.n_components))


@given(st.data())
def test_a_row_does_not_depend_on_its_neighbours(data):
    phi = data.draw(compressions(data.draw(sizes(1, 9, (70,)))))
    B = data.draw(numbers((data.draw(st.integers(2, 5)), phi.n_components), ("float32", "float64"), extremes=False))
    s, how = data.draw(sparsities()), data.draw(options())
    together = tried(lambda: shore.decode(B, phi, s, **how))
    for i in range(len(B)):
        reference.assert_same_bits(together[[i]], shore.decode(B[i : i + 1], phi, s, **how))


@given(st.data())
def test_rows_that_are_not_finite_come_out_empty_unchecked(data):
    phi = data.draw(compressions(data.draw(sizes(1, 9))))
    B = data.draw(not_finite((data.draw(st.integers(1, 4)), phi.n_components)))
    s, how = data.draw(sparsities()), data.draw(options())
    result = tried(lambda: shore.decode(B.given, phi, s, check_input=False, **how), inputs=[B])
    dense = B.given.toarray() if hasattr(B.given, "toarray") else np.asarray(B.given)
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(dense.astype(phi.dtype)).all(axis=1)
    assert np.all(np.diff(result.indptr)[bad] == 0)


@given(st.data())
def test_every_step_is_that_of_the_algorithm(data):
    """v⁽ᵗ⁾ is a projection of v⁽ᵗ⁻¹⁾ - step·Φᵀ(Φv⁽ᵗ⁻¹⁾ - b): no other is nearer, but for rounding."""
    phi = data.draw(compressions(data.draw(sizes(1, 9, (70,)))))
    B = data.draw(numbers((data.draw(st.integers(1, 4)), phi.n_components), ("float32", "float64"), extremes=False))
    B = B.astype(phi.dtype)
    K, s = phi.n_outputs, min(data.draw(st.integers(1, 8)), phi.n_outputs)
    limits = {name: data.draw(which_outputs(len(B), K)) for name in ("allowed", "denied")}
    constraint, step = data.draw(st.sampled_from(CONSTRAINTS)), data.draw(st.sampled_from([0.9, 0.5, 1.0]))
    t = data.draw(st.integers(1, 4))
    call = {"constraint": constraint, "step": step, "tol": 0, "return_info": True, "n_threads": 1}
    call |= {name: each.given for name, each in limits.items()}
    wrong = [name for name, each in limits.items() if each.is_wrong]
    result = tried(lambda: shore.decode(B, phi, s, max_iter=t, **call), *(wrong or ["constraint"]))
    if wrong:
        assert isinstance(result, Refusal), limits
        return
    permitted = permitted_outputs(**limits, shape=(len(B), K))
    if isinstance(constraint, shore.Simplex) and not permitted.any(axis=1).all():
        assert isinstance(result, Refusal)
        return
    after, info = result
    if t > 1:
        before, info_before = shore.decode(B, phi, s, max_iter=t - 1, **call)
        before, comparable = before.toarray().astype(np.float64), info.step == info_before.step
    else:
        before, comparable = np.zeros((len(B), K)), np.ones(len(B), dtype=bool)
    Phi = phi.toarray().astype(np.float64)
    for i in np.flatnonzero(comparable):  # a restart has other iterates before it
        assert info.n_iter[i] == t
        b, v = B[i].astype(np.float64), after.toarray()[i].astype(np.float64)
        assert_is_step(before[i], v, b, Phi, s, constraint, info.step[i], permitted[i], phi.dtype)


@given(st.data())
def test_other_arguments_are_checked(data):
    wrongs = {
        "sparsity": [0, -1, 1.5, None, "2", True, [2]],
        "compression": [None, "gaussian", np.eye(3), shore.SparseSignCompression],
        "method": ["PGD", None, 3, ["pgd"], b"pgd"],
        "constraint": ["positive", None, 3, ["real"]],
        "step": [0, -1, np.nan, np.inf, None, "1", True, 1j, 10**400],
        "max_iter": [0, -1, 1.5, None, "2", True],
        "tol": [-1e-9, np.nan, np.inf, None, "1", True],
        "l1": [-1e-9, np.nan, np.inf, None, "1", True],
        "decode_sparsity": [0, -1, 1.5, "2", True],
        "n_threads": [0, -1, 1.5, "2", True],
    }
    name = data.draw(st.sampled_from(tuple(wrongs)))
    value = data.draw(st.sampled_from(wrongs[name]))
    given = {"compression": shore.SparseSignCompression(3, 5), "sparsity": 2, "n_threads": 1, name: value}
    B = np.ones((2, 3))
    result = tried(lambda: shore.decode(B, **given), name, inputs=[plainly(B)])
    assert isinstance(result, Refusal), f"{name}={value!r}"


@given(st.data())
def test_b_of_another_width_is_refused(data):
    phi = data.draw(compressions(4, m=3))
    B = data.draw(matrices((data.draw(sizes(0, 3)), data.draw(st.sampled_from([0, 1, 2, 4, 70])))))
    assert isinstance(tried(lambda: shore.decode(B.given, phi, 2), "B", inputs=[B]), Refusal)
    assert isinstance(outcome_of(lambda: shore.capi.phi(B.given)), Refusal)
