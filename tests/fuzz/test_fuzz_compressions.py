import pickle

import numpy as np
from compressions import compressions
from hypothesis import given
from hypothesis import strategies as st
from inputs import FLOATS, INTEGERS, any_matrix, dense, matrices, mostly, not_finite, sizes
from oracle import Refusal, assert_same, compared, tried

import shore

# What may stand for a size, and what may not.
WRONG_COUNTS = [0, -1, 2.0, np.nan, None, "3", True, [3], 2**58, 2**62, 2**64, -(2**70)]
COUNTS = mostly(
    st.one_of(st.integers(1, 40), st.integers(1, 9), st.sampled_from([1, 33, np.int8(7), np.uint64(3), np.array(5)])),
    WRONG_COUNTS,
)
SEEDS = mostly(
    st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([np.uint64(2**64 - 1)])), [-1, 2**64, 1.0, None, "0"]
)
ACCEPTED = ["float32", "float64", np.float32, np.dtype("f8"), float]
DTYPES = mostly(ACCEPTED, [">f4", "float16", int, None, "banana", object(), [1]])


def is_count(value):
    return (isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )  # fmt: skip


def is_seed(value):
    return isinstance(value, int | np.integer) and 0 <= value < 2**64


def is_float_dtype(value):
    return any(value is each for each in ACCEPTED)


@given(st.data())
def test_constructors_make_a_matrix_or_name_what_is_wrong(data):
    make = data.draw(st.sampled_from([shore.GaussianCompression, shore.SparseSignCompression]))
    given = {
        "n_components": data.draw(COUNTS), "n_outputs": data.draw(COUNTS), "seed": data.draw(SEEDS),
        "dtype": data.draw(DTYPES),
    }  # fmt: skip
    if make is shore.SparseSignCompression:
        given["nnz_per_output"] = data.draw(COUNTS)
    try:
        phi = tried(lambda: make(**given), *given)
    except MemoryError:  # sizes that no machine has room for
        assert max(value for value in given.values() if isinstance(value, int))
        return
    right = [is_count(given[name]) for name in ("n_components", "n_outputs")]
    right += [is_seed(given["seed"]), is_float_dtype(given["dtype"]), is_count(given.get("nnz_per_output", 1))]
    if isinstance(phi, Refusal):
        large = any(isinstance(value, int) and value >= 2**58 for name, value in given.items() if name[0] == "n")
        assert large or not all(right), phi
        return
    assert all(right)
    Phi = phi.toarray()
    assert Phi.shape == (given["n_components"], given["n_outputs"]) == (phi.n_components, phi.n_outputs)
    assert Phi.dtype == phi.dtype == np.dtype(given["dtype"])
    assert np.isfinite(Phi).all()
    if make is shore.SparseSignCompression:
        nnz = min(int(given["nnz_per_output"]), Phi.shape[0])
        np.testing.assert_array_equal(np.count_nonzero(Phi, axis=0), nnz)
        np.testing.assert_array_equal(np.abs(Phi[Phi != 0]), np.ones((), Phi.dtype) / Phi.dtype.type(np.sqrt(nnz)))
    assert_same(pickle.loads(pickle.dumps(phi)).toarray(), Phi)
    assert_same(make(**given).toarray(), Phi)


@given(st.data())
def test_head_tail_from_any_weights(data):
    K = data.draw(sizes(0, 9, (70,)))
    wrong = not_finite((K,)) if K else dense((K,))
    weights = data.draw(st.one_of(dense((K,)), dense((K,), extremes=False), wrong, matrices((2, 3))))
    given = {"n_components": data.draw(COUNTS), "nnz_per_output": data.draw(COUNTS)}
    if not weights.is_wrong and weights.plain.ndim == 2:
        weights.plain = None  # is no vector
    try:
        phi = compared(
            lambda output_weights: phi_as_array(shore.HeadTailCompression(output_weights=output_weights, **given)),
            {"output_weights": weights}, also=("n_components", "nnz_per_output"),
        )  # fmt: skip
    except MemoryError:
        assert max(value for value in given.values() if isinstance(value, int))
        return
    if isinstance(phi, Refusal):
        large = any(isinstance(value, int) and value >= 2**58 for value in given.values())
        wrong = weights.is_wrong or len(weights.plain) == 0 or weights.plain.min() < 0
        assert large or wrong or not all(map(is_count, given.values())), phi
        return
    Phi, head = phi
    assert Phi.shape == (given["n_components"], K)
    np.testing.assert_array_equal(Phi[: len(head), head], np.eye(len(head)))
    size = shore.theory.head_size(given["n_components"], weights.given)
    assert len(head) == size
    heaviest = np.argsort(-weights.plain.astype(np.float64), kind="stable")[:size]
    np.testing.assert_array_equal(head, np.sort(heaviest))


def phi_as_array(phi):
    return phi.toarray(), phi.head_outputs


@given(st.data())
def test_any_matrix_can_be_phi(data):
    matrix = data.draw(any_matrix((data.draw(sizes(0, 5)), data.draw(sizes(0, 5, (70,))))))
    result = compared(lambda matrix: shore.MatrixCompression(matrix).toarray(), {"matrix": matrix})
    if not matrix.is_wrong:
        plain = matrix.plain if isinstance(matrix.plain, np.ndarray) else matrix.plain.toarray()
        assert isinstance(result, Refusal) == (0 in plain.shape)
        if not isinstance(result, Refusal):
            np.testing.assert_array_equal(result, plain)


def assert_product(result, left, right, dtype):
    """left @ right to the rounding of sums of that many terms."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    size = np.abs(left) @ np.abs(right)
    # numbers below the smallest normal one are rounded to whole units of the smallest
    tiny = float(np.finfo(dtype).tiny)
    bound = (left.shape[1] + 4) * float(np.finfo(dtype).eps) * (size + tiny)
    assert np.all(np.abs(result.astype(np.float64) - left @ right) <= bound)


@given(st.data())
def test_products_with_any_presentation(data):
    extremes = data.draw(st.booleans())
    phi = data.draw(compressions(data.draw(sizes(1, 9, (70,))), extremes=extremes))
    name, method, width = data.draw(
        st.sampled_from([("Y", phi.compress, phi.n_outputs), ("R", phi.correlate, phi.n_components)])
    )
    rows = data.draw(any_matrix((data.draw(sizes(0, 4)), width), FLOATS + INTEGERS, extremes))
    result = compared(lambda **rows: method(rows[name], n_threads=1), {name: rows})
    if rows.is_wrong:
        return
    plain = rows.plain if isinstance(rows.plain, np.ndarray) else rows.plain.toarray()
    with np.errstate(all="ignore"):
        Phi = phi.toarray().astype(np.float64)
        Phi = Phi.T if name == "Y" else Phi
        most = np.abs(plain.astype(phi.dtype).astype(np.float64)) @ np.abs(Phi)
        in_range = bool(np.all(most < np.finfo(phi.dtype).max / 4))
    if in_range:
        assert not isinstance(result, Refusal), result
        assert_product(result, plain.astype(phi.dtype), Phi, phi.dtype)
    if not isinstance(result, Refusal):
        assert result.dtype == phi.dtype
        assert np.isfinite(result).all()


@given(st.data())
def test_norms_of_any_phi(data):
    phi = data.draw(compressions(data.draw(sizes(1, 9, (70,))), extremes=data.draw(st.booleans())))
    norm = tried(phi.squared_norm)
    expected = np.linalg.norm(phi.toarray().astype(np.float64) / 1e100, 2)  # whose square would overflow too
    assert norm >= 0
    if 1e-220 < expected < 1e20:  # else squares leave the range
        np.testing.assert_allclose(norm / 1e200, expected**2, rtol=0.03)


@given(st.data())
def test_rows_of_another_width_are_refused(data):
    phi = data.draw(compressions(4, m=3))
    rows = data.draw(matrices((data.draw(sizes(0, 3)), data.draw(st.sampled_from([0, 1, 5, 70])))))
    assert isinstance(tried(lambda: phi.compress(rows.given), "Y", inputs=[rows]), Refusal)
    assert isinstance(tried(lambda: phi.correlate(rows.given), "R", inputs=[rows]), Refusal)
