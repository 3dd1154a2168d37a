import numpy as np
import reference
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, matrices, sizes, which_outputs
from oracle import Refusal, assert_at_most, compared, outcome_of, plainly, tried

import shore

CONSTRAINTS = [
    "real", "nonneg", "binary", shore.Box(-1, 2), shore.Box(0, 0.75), shore.Box(-0.5, 0), shore.Box(-np.inf, 1),
    shore.Box(0, 0), shore.Simplex(), shore.Simplex(3.5),
]  # fmt: skip


def sparsities():
    return st.one_of(st.integers(1, 8), st.sampled_from([64, 65, 200, 2**40, np.int8(3), np.uint64(2)]))


def permitted_outputs(allowed, denied, shape):
    """Both as one mask of shape (n, K)."""
    mask = np.ones(shape, dtype=bool)
    if allowed.given is not None:
        mask &= allowed.plain
    if denied.given is not None:
        mask &= ~denied.plain
    return mask


def assert_projected(result, V, sparsity, constraint, permitted):
    """The reference's result: exactly; gains of a box and the simplex to a few units in the last place."""
    V = V.toarray() if not isinstance(V, np.ndarray) else V
    expected = reference.project(V, int(min(sparsity, V.shape[1])), constraint, permitted)
    got = result.toarray()
    if isinstance(constraint, shore.Simplex):
        eps = float(np.finfo(V.dtype).eps)
        # the threshold is a mean of numbers of the size of V, and is subtracted from them
        scale = np.abs(V).max(initial=0) + constraint.total
        np.testing.assert_allclose(got, expected, rtol=0, atol=16 * eps * scale)
    elif isinstance(constraint, shore.Box):
        for v, row, want in zip(V, got, expected.astype(V.dtype), strict=True):
            gains = [sum(reference.gain(x, constraint) for x in v[w != 0]) for w in (row, want)]
            assert abs(gains[0] - gains[1]) * 2**50 <= gains[1]
    else:
        np.testing.assert_array_equal(got, expected.astype(V.dtype))


@given(st.data())
def test_any_presentation_is_projected_as_the_plain_one(data):
    shape = data.draw(sizes(0, 4, (33,))), data.draw(sizes(1, 9, (65, 70)))
    constraint, s = data.draw(st.sampled_from(CONSTRAINTS)), data.draw(sparsities())
    V = data.draw(any_matrix(shape, extremes=not isinstance(constraint, shore.Simplex)))
    result = compared(lambda V: shore.project(V, s, constraint, n_threads=1), {"V": V})
    if not V.is_wrong:
        assert not isinstance(result, Refusal), f"{V.how}: {result!r}"
        assert result.dtype == V.plain.dtype
        assert_at_most(result, s)
        assert_projected(result, V.plain, s, constraint, None)


@given(st.data())
def test_allowed_and_denied_in_any_form(data):
    shape = n, K = data.draw(sizes(0, 3)), data.draw(sizes(1, 6, (70,)))
    V = data.draw(matrices(shape, extremes=False))
    limits = {name: data.draw(which_outputs(n, K)) for name in ("allowed", "denied")}
    constraint, s = data.draw(st.sampled_from(CONSTRAINTS)), data.draw(sparsities())
    wrong = [name for name, each in limits.items() if each.is_wrong]
    result = tried(
        lambda: shore.project(V.given, s, constraint, **{name: each.given for name, each in limits.items()}),
        *(wrong or ["constraint"]), inputs=[V, *limits.values()],
    )  # fmt: skip
    if wrong:
        assert isinstance(result, Refusal), limits
        return
    permitted = permitted_outputs(**limits, shape=shape)
    if isinstance(constraint, shore.Simplex) and not permitted.any(axis=1).all():
        assert isinstance(result, Refusal)
        return
    assert not isinstance(result, Refusal), result
    assert_projected(result, V.plain, s, constraint, permitted)


@given(st.data())
def test_other_arguments_are_checked(data):
    given = data.draw(wrong_options())
    ((name, value),) = given.items()
    options = {"sparsity": 2, "constraint": "real", "n_threads": 1, **given}
    V = np.ones((2, 3))
    result = tried(lambda: shore.project(V, **options), name, inputs=[plainly(V)])
    assert isinstance(result, Refusal), f"{name}={value!r}"


@st.composite
def wrong_options(draw):
    integers = st.sampled_from(
        [0, -1, 1.5, 2.0, np.nan, None, "2", True, np.True_, [2], -(2**70), 1j, np.array([1, 2])]
    )
    return draw(
        st.one_of(
            st.builds(dict, sparsity=integers),
            st.builds(dict, n_threads=integers.filter(lambda value: value is not None)),
            st.builds(dict, constraint=st.sampled_from(["", "Real", None, 3, object, b"real", shore.Box, ["real"]])),
        )
    )


NUMBERS = st.one_of(
    st.floats(), st.integers(), st.sampled_from([None, "1", True, 1j, [1.0], np.float32(1), np.int8(-1), 10**400, b"1"])
)


@given(low=NUMBERS, high=NUMBERS)
def test_box_takes_bounds_around_zero(low, high):
    box = tried(lambda: shore.Box(low, high), "low", "high")
    if isinstance(box, Refusal):
        right = [isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in (low, high)]
        assert not (all(right) and low <= 0 <= high and abs(low) != 10**400 != abs(high))
        return
    assert box.low <= 0 <= box.high
    assert (box.low, box.high) == (float(low), float(high))
    V = np.array([[-5.0, 0.5, 7.0]], dtype=np.float32)
    result = shore.project(V, 3, box)
    assert np.all((result.data >= np.float32(max(box.low, -1e38))) & (result.data <= np.float32(min(box.high, 1e38))))


@given(total=NUMBERS)
def test_simplex_takes_a_positive_total(total):
    simplex = tried(lambda: shore.Simplex(total), "total")
    if isinstance(simplex, Refusal):
        is_number = isinstance(total, int | float | np.number) and not isinstance(total, bool)
        assert not (is_number and 0 < total < 1e300)
        return
    result = outcome_of(lambda: shore.project(np.array([[1.0, 2.0, 3.0]]), 2, simplex))
    if isinstance(result, Refusal):  # out of the range in which sums are exact enough
        assert result.names("constraint")
        assert not 1e-300 < simplex.total < 1e150
    else:
        assert np.isclose(result.sum(), simplex.total, rtol=1e-12)
