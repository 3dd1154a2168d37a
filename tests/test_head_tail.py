"""Φ with a head: which outputs own a row, and that nothing but Φ is different."""

import pickle

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from test_decoders import assert_same, decode_with, make_b

import shore
from shore.compression import head_size

CONSTRAINTS = ["real", "nonneg", shore.Simplex(2.0)]


def zipf(K, power=1.0, seed=0):
    return np.random.default_rng(seed).permutation(1 / np.arange(1.0, K + 1) ** power)


# ---------------------------------------------------------------- the rule


@given(
    weights=st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0, 1e-3, 1e6, 1e-300, 1e300]), min_size=1, max_size=12),
    m=st.integers(1, 15),
)
def test_rule_is_the_minimum_over_all_sizes(weights, m):
    descending = sorted(weights, reverse=True)
    most = len(weights) if len(weights) <= m else m - 1
    energies = [sum(w / descending[0] for w in descending[h:]) if descending[0] else 0.0 for h in range(most + 1)]
    costs = [energy / max(1, m - h) for h, energy in enumerate(energies)]
    found = head_size(m, weights)
    assert costs[found] == pytest.approx(min(costs), rel=1e-12)
    phi = shore.HeadTailCompression(m, weights)
    assert len(phi.head_outputs) == found
    # the heaviest own a row, of equal ones the first
    ranked = sorted(range(len(weights)), key=lambda j: (-weights[j], j))
    assert phi.head_outputs.tolist() == sorted(ranked[:found])


def test_known_sizes():
    assert head_size(100, np.ones(500)) == 0
    assert head_size(10, [5, 5, 5]) == 3  # all of them: no compression
    assert head_size(3, [5, 5, 5]) == 3
    assert head_size(10, [5, 0, 5]) == 2  # an output that never occurs needs none
    assert head_size(10, np.zeros(20)) == 0
    assert head_size(4, [8, 0, 0, 0, 0, 0]) == 1
    assert head_size(1, [8, 1]) == 0  # a row is left to the others
    assert head_size(40, 1000 * zipf(300)) == head_size(40, zipf(300)) > 0


def test_columns():
    phi = shore.HeadTailCompression(60, zipf(500, 1.3), seed=4, dtype=np.float64)
    head = phi.head_outputs
    Phi, H = phi.toarray(), len(head)
    assert 0 < H < 60
    np.testing.assert_array_equal(Phi[:, head], np.eye(60, H))
    tail = np.delete(Phi, head, axis=1)
    assert not tail[:H].any()
    np.testing.assert_array_equal(
        tail[H:], shore.SparseSignCompression(60 - H, 500 - H, seed=4, dtype=np.float64).toarray()
    )
    assert not head.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_a_head_it_is_sparse_signs(dtype):
    signs = shore.SparseSignCompression(60, 500, seed=3, dtype=dtype)
    phi = shore.HeadTailCompression(60, np.ones(500), seed=3, dtype=dtype)
    np.testing.assert_array_equal(phi.toarray(), signs.toarray())
    B = make_b(signs, 50, 3)
    for method in ("pgd", "cd", "omp", "fista"):
        options = {"method": method, "constraint": "nonneg", "return_info": True}
        assert_same(shore.decode(B, phi, 3, **options), shore.decode(B, signs, 3, **options))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: shore.HeadTailCompression(5, [1, np.nan]), ValueError, "output_weights must be finite"),
        (lambda: shore.HeadTailCompression(5, [1, -1]), ValueError, "output_weights must be finite and not negative"),
        (lambda: shore.HeadTailCompression(5, []), ValueError, "output_weights must be 1-D"),
        (lambda: shore.HeadTailCompression(5, [[1.0, 2.0]]), ValueError, "output_weights must be 1-D.*\\(1, 2\\)"),
        (lambda: shore.HeadTailCompression(5, 7), ValueError, "output_weights must be 1-D"),
        (lambda: shore.HeadTailCompression(5, ["a"]), TypeError, "output_weights must hold real numbers"),
        (lambda: shore.HeadTailCompression(5, [1, [2]]), ValueError, "output_weights must be a 1-D array of numbers"),
        (
            lambda: shore.HeadTailCompression(5, np.ma.masked_array([1.0], [True])),
            TypeError,
            "output_weights is a masked",
        ),
        (lambda: shore.HeadTailCompression(0, [1]), ValueError, "n_components must be a positive integer, got 0"),
        (lambda: shore.HeadTailCompression(5, [1], nnz_per_output=0), ValueError, "nnz_per_output"),
        (lambda: shore.HeadTailCompression(5, [1], seed=-1), ValueError, "seed must be from 0"),
        (lambda: shore.HeadTailCompression(5, [1], dtype=int), ValueError, "dtype must be float32 or float64"),
    ],
)
def test_bad_arguments(make, error, words):
    with pytest.raises(error, match=words):
        make()


# ---------------------------------------------------------------- decoding, where the head is special


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("K", [1, 5, 30, 64, 65])
def test_all_outputs_in_the_head_is_a_projection(constraint, dtype, K):
    phi = shore.HeadTailCompression(65, np.ones(K), dtype=dtype)
    assert len(phi.head_outputs) == K
    B = np.random.default_rng(0).normal(size=(70, 65)).astype(dtype)
    for n in (1, 2, 70):
        for options in ({}, {"allowed": np.arange(0, K, 2)}):
            found = shore.decode(B[:n], phi, 3, constraint=constraint, method="cd", **options)
            reference.assert_same_bits(found, shore.project(B[:n, :K], 3, constraint, **options))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("method", ["pgd", "cd", "omp", "fista"])
def test_residuals_that_are_0_in_the_tail(method, constraint, dtype):
    """A tail without any energy: its numbers are exact zeros beside those of the head."""
    weights = np.zeros(400)
    weights[::50] = 1
    phi = shore.HeadTailCompression(40, weights, dtype=dtype)
    assert phi.head_outputs.tolist() == list(range(0, 400, 50))
    B = np.zeros((40, 40), dtype=dtype)
    B[:, :8] = np.random.default_rng(0).uniform(0.1, 1, (40, 8))
    whole = shore.decode(B, phi, 3, constraint=constraint, method=method, return_info=True)
    plain = decode_with(B, phi, 3, constraint=constraint, method=method, screening=False, max_rows=1)
    assert_same(whole, plain, passes=False)
    matrix = shore.MatrixCompression(phi.toarray())
    np.testing.assert_allclose(
        whole[0].toarray(), shore.decode(B, matrix, 3, constraint=constraint, method=method).toarray(),
        rtol=1e-5, atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limits", ["shared", "rows", "denied"])
def test_allowed_and_denied_heads(limits, dtype):
    K, rng = 700, np.random.default_rng(1)
    phi = shore.HeadTailCompression(50, zipf(K, 1.3), dtype=dtype)
    B = make_b(phi, 60, 4)
    some = np.unique(np.concatenate([phi.head_outputs[::2], rng.choice(K, 60, replace=False)]))
    if limits == "shared":
        options, mask = {"allowed": some}, np.isin(np.arange(K), some)[None].repeat(60, 0)
    elif limits == "denied":
        options, mask = {"denied": some}, ~np.isin(np.arange(K), some)[None].repeat(60, 0)
    else:
        mask = rng.random((60, K)) < 0.2
        options = {"allowed": sparse.csr_array(mask)}
    found = shore.decode(B, phi, 4, constraint="nonneg", **options)
    assert not (found.toarray() != 0)[~mask].any()
    assert_same(
        shore.decode(B, phi, 4, constraint="nonneg", return_info=True, **options),
        decode_with(B, phi, 4, constraint="nonneg", screening=False, max_rows=1, **options),
        passes=False,
    )
    one_step = {"constraint": "nonneg", "method": "cd", **options}
    expected = shore.decode(B, shore.MatrixCompression(phi.toarray()), 4, **one_step).toarray()
    found = shore.decode(B, phi, 4, **one_step).toarray()
    np.testing.assert_array_equal(found != 0, expected != 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@given(
    seed=st.integers(0, 10**6),
    m=st.sampled_from([2, 17, 40, 64, 130]),
    K=st.sampled_from([3, 50, 63, 64, 65, 300]),
    power=st.sampled_from([0.5, 1.0, 2.0, 6.0]),
    method=st.sampled_from(["pgd", "cd", "omp", "fista"]),
    constraint=st.sampled_from(CONSTRAINTS),
    ties=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_same_bits_on_every_path(seed, m, K, power, method, constraint, ties, dtype):
    rng = np.random.default_rng(seed)
    phi = shore.HeadTailCompression(m, zipf(K, power, seed), seed=seed, dtype=dtype)
    B = rng.integers(-2, 3, (40, m)).astype(dtype) if ties else rng.normal(size=(40, m)).astype(dtype)
    s = int(rng.integers(1, 6))
    options = {"method": method, "constraint": constraint, "max_iter": 12}
    whole = shore.decode(B, phi, s, return_info=True, **options)
    assert_same(whole, decode_with(B, phi, s, screening=False, max_rows=1, **options), passes=False)
    assert_same(whole, decode_with(B, phi, s, max_rows=7, **options))
    assert_same(whole, decode_with(B, phi, s, max_rows=1, **options))


def test_pickle_holds_the_head_and_a_seed():
    phi = shore.HeadTailCompression(60, zipf(100_000, 1.3))
    data = pickle.dumps(phi)
    assert len(data) < 2000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.head_outputs, phi.head_outputs)
    np.testing.assert_array_equal(again._tables, phi._tables)
