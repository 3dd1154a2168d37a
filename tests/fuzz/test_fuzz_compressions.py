import pickle

import numpy as np
from arguments import (
    WRONG_COUNTS,
    as_array,
    is_count,
    needs_much_memory,
)
from compressions import compressions
from hypothesis import given
from hypothesis import strategies as st
from inputs import FLOATS, INTEGERS, any_matrix, dense, matrices, mostly, not_finite, options, sizes
from oracle import Refusal, assert_same, compared, tried

import shore

COUNTS = (
    st.one_of(st.integers(1, 40), st.integers(1, 9), st.sampled_from([1, 33, np.int8(7), np.uint64(3), np.array(5)])),
    [0, 2**58, *WRONG_COUNTS],
)
SEEDS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([np.uint64(2**64 - 1)])), [-1, 2**64, 1.0, None, "0"]
DTYPES = (
    ["float32", "float64", np.float32, np.dtype("f8"), float], [">f4", "float16", int, None, "banana", object(), [1]]
)  # fmt: skip


@given(st.data())
def test_constructors_make_a_matrix_or_name_what_is_wrong(data):
    make = data.draw(st.sampled_from([shore.GaussianCompression, shore.SparseSignCompression]))
    counts = ["n_components", "n_outputs", *(["nnz_per_output"] if make is shore.SparseSignCompression else [])]
    given, wrong = data.draw(options(**dict.fromkeys(counts, COUNTS), seed=SEEDS, dtype=DTYPES))
    # of rows that an output uses, any number is right: no more than all count
    wrong = [name for name in wrong if name != "nnz_per_output" or not is_count(given[name])]
    try:
        phi = tried(lambda: make(**given), *(wrong or counts))
    except MemoryError:  # sizes that no machine has room for
        assert needs_much_memory(given[name] for name in counts), given
        return
    assert isinstance(phi, Refusal) == bool(wrong), phi
    if wrong:
        return
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
    given, _ = data.draw(options(n_components=COUNTS, nnz_per_output=COUNTS))
    if not weights.is_wrong and weights.plain.ndim == 2:
        weights.plain = None  # is no vector
    try:
        phi = compared(
            lambda output_weights: phi_as_array(shore.HeadTailCompression(output_weights=output_weights, **given)),
            {"output_weights": weights}, also=("n_components", "nnz_per_output"),
        )  # fmt: skip
    except MemoryError:
        assert needs_much_memory(given.values()), given
        return
    if isinstance(phi, Refusal):
        wrong = weights.is_wrong or len(weights.plain) == 0 or weights.plain.min() < 0
        assert wrong or needs_much_memory(given.values()) or not all(map(is_count, given.values())), phi
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
        plain = as_array(matrix.plain)
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
    rows = data.draw(any_matrix((data.draw(sizes(0, 4, (33,))), width), FLOATS + INTEGERS, extremes))
    result = compared(lambda **rows: method(rows[name], n_threads=1), {name: rows})
    if rows.is_wrong:
        return
    plain = as_array(rows.plain)
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
def test_signs_in_another_dtype_are_the_same(data):
    m, K = data.draw(sizes(1, 8, (33,))), data.draw(sizes(1, 9, (70,)))
    weights = data.draw(st.lists(st.integers(0, 9), min_size=K, max_size=K))
    phi = data.draw(st.sampled_from([shore.SparseSignCompression(m, K), shore.HeadTailCompression(m, weights)]))
    given, wrong = data.draw(options(dtype=DTYPES))
    other = tried(lambda: phi.astype(**given), "dtype")
    assert isinstance(other, Refusal) == bool(wrong), other
    if not wrong:
        assert other.dtype == np.dtype(given["dtype"])
        assert_same(np.sign(other.toarray()).astype(np.int8), np.sign(phi.toarray()).astype(np.int8))
        np.testing.assert_allclose(other.toarray(), phi.toarray(), rtol=1e-6)


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


@given(st.data())
def test_capsules_are_of_compressions_only(data):
    K = data.draw(sizes(1, 5))
    phi = data.draw(
        mostly(st.just(shore.SparseSignCompression(3, K)), [None, 3, "gaussian", np.eye(3), shore.Box(0, 1)])
    )
    result = tried(lambda: shore.capi.phi(phi), "compression")
    assert isinstance(result, Refusal) != isinstance(phi, shore.SparseSignCompression)
