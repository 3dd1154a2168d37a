import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import reference
from engine import decode_with
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import shore
from shore import decoders

CONSTRAINTS = ["real", "nonneg", "binary", shore.Box(-1, 2), shore.Box(0, 0.8), shore.Simplex(2.0)]
constraints = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
KINDS = [
    "gaussian", "sparse_sign", "sparse_sign_5", "sparse_sign_2", "sparse_sign_1", "head_tail", "head_tail_5", "matrix",
]  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)


def make_phi(kind, m, K, dtype=np.float64, seed=0):
    if kind == "gaussian":
        return shore.GaussianCompression(m, K, seed=seed, dtype=dtype)
    if kind == "sparse_sign":
        return shore.SparseSignCompression(m, K, seed=seed, dtype=dtype)
    if kind.startswith("sparse_sign_"):  # the fewer, the longer their segments: past 128 rows no registers hold one
        return shore.SparseSignCompression(m, K, nnz_per_output=int(kind[12:]), seed=seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    if kind in ("head_tail", "head_tail_5"):  # with some outputs of a row of their own, here and there among the others
        weights = rng.permutation(1 / np.arange(1.0, K + 1) ** (1.2 if kind == "head_tail" else 3))
        nnz = 16 if kind == "head_tail" else 5
        return shore.HeadTailCompression(m, weights, nnz_per_output=nnz, seed=seed, dtype=dtype)
    return shore.MatrixCompression((rng.normal(size=(m, K)) / np.sqrt(m) * rng.uniform(0.5, 1.1, K)).astype(dtype))


HARD_KINDS = [*KINDS, "duplicates", "constant", "ties"]


def make_hard_phi(kind, m, K, dtype, seed):
    """As make_phi, and matrices made to break what decides between outputs."""
    rng = np.random.default_rng(seed)
    if kind == "duplicates":  # pairs of equal columns: ties in every pass
        half = rng.normal(size=(m, -(-K // 2))) / np.sqrt(m)
        return shore.MatrixCompression(np.concatenate([half, half], axis=1).astype(dtype))
    if kind == "constant":  # nothing but ties
        return shore.MatrixCompression(np.full((m, K), 1 / np.sqrt(m), dtype=dtype))
    if kind == "ties":  # near-ties: columns that differ in the last bits
        column = rng.normal(size=(m, 1)) / np.sqrt(m)
        return shore.MatrixCompression((column * (1 + 1e-7 * rng.normal(size=(1, K)))).astype(dtype))
    return make_phi(kind, m, K, dtype, seed)


def make_b(phi, n, sparsity, noise=0.1, seed=0, constraint="nonneg"):
    rng = np.random.default_rng(seed)
    K = phi.n_outputs
    outputs = np.array([rng.choice(K, min(sparsity, K), replace=False) for _ in range(n)])
    values = np.ones(outputs.shape) if constraint == "binary" else rng.uniform(0.5, 1.5, outputs.shape)
    if constraint == "real":
        values *= rng.choice([-1, 1], outputs.shape)
    if isinstance(constraint, shore.Simplex):
        values *= constraint.total / values.sum(axis=1, keepdims=True)
    Y = sparse.csr_array((values.ravel(), outputs.ravel(), np.arange(n + 1) * outputs.shape[1]), shape=(n, K))
    B = phi.compress(Y).astype(np.float64)
    scale = np.linalg.norm(B, axis=1, keepdims=True) / np.sqrt(phi.n_components)
    return (B + noise * scale * rng.normal(size=B.shape)).astype(phi.dtype)


def assert_same(a, b, passes=True):
    """Results and information, bit for bit."""
    reference.assert_same_bits(a[0], b[0])
    for name in ("n_iter", "converged", "residual", "step") + (("full_passes",) if passes else ()):
        np.testing.assert_array_equal(getattr(a[1], name), getattr(b[1], name), err_msg=name)


# ---------------------------------------------------------------- against the float64 reference


@kinds
@constraints
@dtypes
def test_equals_reference(kind, constraint, dtype):
    phi = make_phi(kind, 60, 800, dtype)
    B = make_b(phi, 100, 3, constraint=constraint)
    found, info = shore.decode(B, phi, 3, constraint=constraint, return_info=True)
    expected, n_iter, step = reference.decode(B, phi.toarray(), 3, constraint=constraint)
    reference.assert_canonical(found, (100, 800), 3, dtype)
    np.testing.assert_array_equal(info.step, step)
    same = (info.n_iter == n_iter) & ((found.toarray() != 0) == (expected != 0)).all(axis=1)
    if dtype is np.float64:
        assert same.mean() >= 0.99
        reference.assert_same_rows(found[same], expected[same], rtol=1e-10, atol=1e-10)
    else:  # rounding may move a row's last step across the stopping rule
        assert same.mean() >= 0.9
        np.testing.assert_allclose(found.toarray()[same], expected[same], rtol=1e-4, atol=1e-6)
    residual = np.linalg.norm(found.toarray() @ phi.toarray().T.astype(np.float64) - B, axis=1)
    np.testing.assert_allclose(info.residual, residual, rtol=1e-4 if dtype is np.float32 else 1e-10, atol=1e-5)


@kinds
@constraints
def test_decoding_more_than_is_kept(kind, constraint):
    """The best of the larger support by a last step in which only it takes part; nothing changes where it is small."""
    phi = make_phi(kind, 60, 800)
    B, Phi = make_b(phi, 60, 3, noise=0.3, constraint=constraint), phi.toarray()
    found, info = shore.decode(B, phi, 3, constraint=constraint, decode_sparsity=8, return_info=True)
    more, before = shore.decode(B, phi, 8, constraint=constraint, return_info=True)
    for name in ("n_iter", "converged", "full_passes", "step"):
        np.testing.assert_array_equal(getattr(info, name), getattr(before, name))
    V = more.toarray()
    offers = np.where(V != 0, V + before.step[:, None] * ((B - V @ Phi.T) @ Phi), 0)
    expected = np.zeros_like(V)
    for row in np.flatnonzero((V != 0).sum(axis=1) > 3):  # not even a zero of the others may take part
        support = np.flatnonzero(V[row])
        expected[row, support] = reference.project(offers[row : row + 1, support], 3, constraint)[0]
    small = (V != 0).sum(axis=1) <= 3
    expected[small] = V[small]
    np.testing.assert_array_equal(found.toarray() != 0, expected != 0)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-9, atol=1e-12)
    residual = np.linalg.norm(B - found.toarray() @ Phi.T, axis=1)
    np.testing.assert_allclose(info.residual, residual, rtol=1e-9, atol=1e-12)
    plain = decode_with(B, phi, 3, constraint=constraint, decode_sparsity=8, screening=False, max_rows=1)
    assert_same((found, info), plain, passes=False)


@pytest.mark.parametrize("method", ["pgd", "cd", "omp", "fista"])
def test_decoding_more_with_other_methods(method):
    phi = make_phi("head_tail", 40, 300)
    B = make_b(phi, 30, 3, noise=0.3)
    plain = shore.decode(B, phi, 3, method=method, constraint="nonneg")
    for fewer in (None, 1, 3):
        reference.assert_same_bits(
            shore.decode(B, phi, 3, method=method, constraint="nonneg", decode_sparsity=fewer), plain
        )
    found = shore.decode(B, phi, 3, method=method, constraint="nonneg", decode_sparsity=10**9)
    assert found.shape == (30, 300)
    if method == "cd":
        reference.assert_same_bits(found, plain)
    if method in ("omp", "fista"):  # both project only once, at the end
        for more in (9, 40):
            found = shore.decode(B, phi, 3, method=method, constraint="nonneg", decode_sparsity=more)
            whole = shore.decode(B, phi, 300 if method == "fista" else more, method=method)
            reference.assert_same_bits(found, shore.project(whole, 3, "nonneg"))


@kinds
def test_algorithm_1_takes_exactly_max_iter_steps(kind):
    phi = make_phi(kind, 50, 300)
    B = make_b(phi, 20, 3, noise=0.3)
    for max_iter in (1, 2, 7, 40):
        found, info = shore.decode(B, phi, 3, constraint="nonneg", tol=0, max_iter=max_iter, return_info=True)
        expected, _, _ = reference.decode(B, phi.toarray(), 3, constraint="nonneg", tol=0, max_iter=max_iter)
        assert np.all(info.n_iter == max_iter)
        reference.assert_same_rows(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sparsity", [1, 10, 33, 50, 200, 1000])
@pytest.mark.parametrize("kind", ["gaussian", "sparse_sign"])
def test_other_sparsities(kind, sparsity):
    phi = make_phi(kind, 300, 500)
    B = make_b(phi, 12, min(sparsity, 40), noise=0.05)
    found, info = shore.decode(B, phi, sparsity, step=0.5, max_iter=30, return_info=True)
    expected, n_iter, step = reference.decode(B, phi.toarray(), min(sparsity, 500), step=0.5, max_iter=30)
    np.testing.assert_array_equal(info.step, step)
    same = info.n_iter == n_iter
    assert same.mean() > 0.8
    reference.assert_same_rows(found[same], expected[same], rtol=1e-7, atol=1e-8)


@constraints
@kinds
def test_allowed_and_denied(kind, constraint):
    phi = make_phi(kind, 60, 300)
    n, K = 40, 300
    B = make_b(phi, n, 3, constraint=constraint, noise=0.2)
    rng = np.random.default_rng(1)
    few, many = rng.random(K) < 0.1, rng.random(K) < 0.7
    rows = rng.random((n, K)) < 0.2
    for options, permitted in (
        ({"allowed": few}, few),
        ({"allowed": np.flatnonzero(many)}, many),
        ({"denied": many}, ~many),
        ({"allowed": sparse.csr_array(rows)}, rows),
        ({"denied": sparse.csr_array(rows)}, ~rows),
        ({"allowed": many, "denied": sparse.csr_array(rows)}, many & ~rows),
        ({"allowed": sparse.csr_array(rows), "denied": few}, rows & ~few),
    ):
        found, info = shore.decode(B, phi, 3, constraint=constraint, return_info=True, **options)
        expected, n_iter, _ = reference.decode(B, phi.toarray(), 3, constraint=constraint, permitted=permitted)
        assert not (found.toarray() != 0)[~np.broadcast_to(permitted, (n, K))].any()
        same = (info.n_iter == n_iter) & ((found.toarray() != 0) == (expected != 0)).all(axis=1)
        assert same.mean() >= 0.95
        np.testing.assert_allclose(found.toarray()[same], expected[same], rtol=1e-8, atol=1e-9)
        one_by_one = decode_with(B, phi, 3, max_rows=1, constraint=constraint, **options)
        assert_same((found, info), one_by_one)


# ---------------------------------------------------------------- the same bits, whatever the path


@kinds
@dtypes
@pytest.mark.parametrize("constraint", ["real", "nonneg", shore.Simplex(2.0)], ids=str)
def test_bits_do_not_depend_on_threads_batches_or_order(kind, dtype, constraint):
    phi = make_phi(kind, 80, 700, dtype)
    B = make_b(phi, 1000, 4, noise=0.5, constraint=constraint)
    whole = shore.decode(B, phi, 4, constraint=constraint, n_threads=1, return_info=True)
    for n_threads in (2, 3, 7):
        assert_same(shore.decode(B, phi, 4, constraint=constraint, n_threads=n_threads, return_info=True), whole)
    for size in (1, 7, 64):
        parts = [
            shore.decode(B[i : i + size], phi, 4, constraint=constraint, n_threads=2, return_info=True)
            for i in range(0, 210, size)
        ]
        n = sum(part[0].shape[0] for part in parts)
        reference.assert_same_bits(sparse.csr_array(sparse.vstack([part[0] for part in parts])), whole[0][:n])
        for name in ("n_iter", "residual", "full_passes"):
            values = np.concatenate([getattr(part[1], name) for part in parts])
            np.testing.assert_array_equal(values, getattr(whole[1], name)[:n])
    order = np.random.default_rng(0).permutation(1000)
    permuted = shore.decode(B[order], phi, 4, constraint=constraint, n_threads=2)
    reference.assert_same_bits(permuted, sparse.csr_array(whole[0][order]))


def test_bits_do_not_depend_on_the_layout(tmp_path, monkeypatch):
    phi = make_phi("sparse_sign", 50, 300, np.float32)
    B = make_b(phi, 40, 3)
    expected = shore.decode(B, phi, 3)
    np.save(tmp_path / "b.npy", B)
    mapped = np.load(tmp_path / "b.npy", mmap_mode="r")
    for given_b in (
        np.asfortranarray(B),
        B.astype(np.float64),
        B[::-1].copy()[::-1],
        mapped,
        sparse.csr_array(B),
        B.tolist(),
    ):
        reference.assert_same_bits(shore.decode(given_b, phi, 3), expected)
    monkeypatch.setattr(decoders, "_BLOCK_BYTES", 7 * 50 * 4)
    reference.assert_same_bits(shore.decode(B, phi, 3), expected)


@given(st.data())
def test_screening_never_changes_a_result(data):
    """Bits with and without screening, and one by one, on problems made to break it."""
    seed = data.draw(st.integers(0, 10**6))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    kind = data.draw(st.sampled_from(HARD_KINDS))
    constraint = data.draw(st.sampled_from(CONSTRAINTS))
    sparsity = data.draw(st.sampled_from([1, 2, 3, 5, 12, 40]))
    m, K = data.draw(st.sampled_from([(3, 40), (20, 200), (40, 1500), (64, 333), (150, 600), (300, 500)]))
    noise = data.draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    step = data.draw(st.sampled_from([0.9, 0.3, 1.7]))
    phi = make_hard_phi(kind, m, K, dtype, seed)
    B = make_b(phi, 40, sparsity, noise=noise, seed=seed)
    B[0] = 0
    B[1] = np.round(B[1])
    options = {"constraint": constraint, "step": step, "max_iter": 25}
    plain = decode_with(B, phi, sparsity, screening=False, max_rows=1, n_threads=1, **options)
    for screening in (True, False):
        for max_rows in (0, 1, 5):
            result = decode_with(B, phi, sparsity, screening=screening, max_rows=max_rows, **options)
            assert_same(result, plain, passes=False)
            assert np.all(result[1].full_passes <= plain[1].full_passes)


def test_screening_saves_passes():
    phi = shore.SparseSignCompression(300, 5000)
    B = make_b(phi, 200, 3)
    screened, plain = decode_with(B, phi, 3), decode_with(B, phi, 3, screening=False)
    np.testing.assert_array_equal(plain[1].full_passes, plain[1].n_iter)
    assert screened[1].full_passes.mean() < 2.5


# ---------------------------------------------------------------- divergence and strange numbers


@kinds
def test_divergence_halves_the_step(kind):
    phi = make_phi(kind, 40, 400)
    B = make_b(phi, 50, 4, constraint="real")
    found, info = shore.decode(B, phi, 4, step=30.0, return_info=True)
    expected, n_iter, step = reference.decode(B, phi.toarray(), 4, step=30.0)
    assert np.all(info.step < 30)
    agree = info.step == step
    assert agree.mean() > 0.9
    same = agree & (info.n_iter == n_iter) & ((found.toarray() != 0) == (expected != 0)).all(axis=1)
    assert same.mean() > 0.8
    np.testing.assert_allclose(found.toarray()[same], expected[same], rtol=1e-6, atol=1e-8)
    assert np.all(info.residual <= 10 * np.linalg.norm(B, axis=1))


@kinds
@dtypes
@constraints
def test_no_result_holds_nan_or_infinity(kind, dtype, constraint):
    phi = make_phi(kind, 30, 200, dtype)
    rng = np.random.default_rng(0)
    B = rng.normal(size=(12, 30))
    B[0] = 0
    big, small = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    B[1:6] *= [[big / 8], [big / 1e3], [1e30], [1e-30], [1e-20]]
    B[6:8] = [[big], [-big]]
    B[8:10] = [[small], [-small]]
    B = B.astype(dtype)
    for max_rows in (0, 1):
        found, info = decode_with(B, phi, 3, max_rows=max_rows, constraint=constraint, step=2.5, check_input=False)
        reference.assert_canonical(found, (12, 200), 3, dtype)
        assert np.all(np.isfinite(info.step))
    if constraint in ("real", "nonneg"):
        assert found[[0]].nnz == 0


def test_coarse_pass_knows_its_error():
    """Two outputs whose order the rounding to 16 bits turns round: 2047 units at most, half a unit lost per entry."""
    phi = shore.SparseSignCompression(500, 400)
    Phi = phi.toarray()
    rows = [set(np.flatnonzero(column)) for column in Phi.T]
    first = 0
    second = next(j for j in range(1, 400) if not rows[first] & rows[j])
    b = np.zeros(500)
    b[next(i for i in range(500) if i not in rows[first] | rows[second])] = 2047
    b[sorted(rows[first])] = [100.51] * 8 + [100.48] * 8  # 1607.92, rounds to 1608
    b[sorted(rows[second])] = 100.499  # 1607.98, rounds to 1600
    b[Phi[:, first] < 0] *= -1
    b[Phi[:, second] < 0] *= -1
    options = {"allowed": [first, second], "max_iter": 1, "tol": 0}
    block = decode_with(np.tile(b, (40, 1)), phi, 1, **options)
    assert set(block[0].indices) == {second}
    assert_same(block, decode_with(np.tile(b, (40, 1)), phi, 1, max_rows=1, **options))


def test_certificate_with_negative_offers():
    """On a simplex the s-th best offer, and with it the bound of screening, may be negative and large."""
    rng = np.random.default_rng(0)
    M = rng.normal(size=(20, 200)) / np.sqrt(20)
    M[0] = 1
    phi = shore.MatrixCompression(M)
    for size in (1e5, 1e7, 1e9):
        B = np.abs(rng.normal(size=(100, 20)))
        B[:, 0] = -size
        options = {"constraint": shore.Simplex(), "step": 0.3, "tol": 1e-8}
        for sparsity in (2, 4):
            plain = decode_with(B, phi, sparsity, screening=False, max_rows=1, **options)
            assert_same(decode_with(B, phi, sparsity, **options), plain, passes=False)


def test_numbers_below_the_normal_range():
    rng = np.random.default_rng(0)
    phi = shore.MatrixCompression((rng.normal(size=(64, 300)) * 1e-12).astype(np.float32))
    for scale in (1e-34, 1e-33, 1e-30):
        B = (rng.normal(size=(40, 64)) * scale).astype(np.float32)
        plain = decode_with(B, phi, 3, screening=False, max_rows=1, max_iter=5)
        assert_same(decode_with(B, phi, 3, max_iter=5), plain, passes=False)


def test_more_signs_than_16_bits_can_add():
    phi = shore.SparseSignCompression(32768, 50, nnz_per_output=32768)
    Y = sparse.csr_array(np.eye(8, 50, dtype=np.float32))
    found = shore.decode(phi.compress(Y), phi, 1)
    np.testing.assert_allclose(found.toarray(), Y.toarray(), atol=0.02)


def test_steps_are_halved_for_as_long_as_it_takes():
    phi = shore.MatrixCompression(1e10 * shore.GaussianCompression(40, 100, dtype=np.float64).toarray())
    B = make_b(phi, 5, 2, noise=0.0)
    found, info = shore.decode(B, phi, 2, constraint="nonneg", return_info=True)
    _, _, step = reference.decode(B, phi.toarray(), 2, constraint="nonneg")
    np.testing.assert_array_equal(info.step, step)
    assert np.all(info.step < 1e-18)
    assert np.all(np.diff(found.indptr) > 0)
    assert np.all(info.residual <= 10 * np.linalg.norm(B, axis=1))
    assert np.all(shore.decode(B, phi, 2, step=1e25, return_info=True)[1].step < 1)


@pytest.mark.parametrize("method", ["pgd", "cd", "omp", "fista"])
@pytest.mark.parametrize("size", [1e308, 1.7e308])
def test_a_simplex_whose_points_are_out_of_reach_leaves_rows_empty(method, size):
    """‖Φv‖₂ overflows for every v that sums to the total: that is no fault of B."""
    phi = shore.MatrixCompression(np.full((3, 4), size))
    options = {"method": method, "constraint": shore.Simplex(2.0), "return_info": True}
    found, info = shore.decode(np.array([[0.0, 0, 0], [3, 0, 4]]), phi, 2, **options)
    assert found.nnz == 0
    assert not info.converged.any()
    np.testing.assert_array_equal(info.residual, [0, 5])


def test_rows_whose_norm_overflows_are_refused():
    phi = make_phi("gaussian", 30, 200)
    with pytest.raises(ValueError, match="B is too large: the norm of row 1"):
        shore.decode(np.array([[1.0] * 30, [1e160] * 30]), phi, 3)


def test_algorithm_1_on_tiny_numbers():
    phi = make_phi("gaussian", 30, 200)
    B = make_b(phi, 6, 3)
    normal = shore.decode(B, phi, 3, tol=0, max_iter=20)
    tiny = shore.decode(B * 2.0**-570, phi, 3, tol=0, max_iter=20)  # squares of these vanish
    np.testing.assert_allclose(tiny.toarray() * 2.0**570, normal.toarray(), rtol=1e-12)


def test_nan_without_the_look_gives_empty_rows():
    phi = make_phi("sparse_sign", 30, 200)
    B = make_b(phi, 3, 2)
    clean = shore.decode(B, phi, 2)
    B[1, 4] = np.nan
    found = shore.decode(B, phi, 2, check_input=False)
    assert found[[1]].nnz == 0
    reference.assert_same_bits(sparse.csr_array(found[[0, 2]]), sparse.csr_array(clean[[0, 2]]))


# ---------------------------------------------------------------- shapes and arguments


@kinds
def test_small_shapes(kind):
    for m, K in ((1, 1), (1, 20), (20, 1), (3, 17)):
        phi = make_phi(kind, m, K)
        B = np.random.default_rng(0).normal(size=(5, m))
        for constraint in CONSTRAINTS:
            found = shore.decode(B, phi, 4, constraint=constraint)
            reference.assert_canonical(found, (5, K), min(4, K), np.float64)
        assert shore.decode(B[:0], phi, 4).shape == (0, K)


def test_wide_tables():
    phi = shore.SparseSignCompression(70_000, 500, dtype=np.float64)
    assert phi._tables.dtype == np.uint32
    B = make_b(phi, 40, 3, noise=0)
    found = shore.decode(B, phi, 3, constraint="nonneg")
    one_by_one = decode_with(B, phi, 3, max_rows=1, constraint="nonneg")[0]
    reference.assert_same_bits(found, one_by_one)
    np.testing.assert_allclose(phi.compress(found), B, atol=2e-3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"B": np.ones((2, 5))}, ValueError, r"B must have 6 columns.*\(2, 5\)"),
        ({"B": np.ones(6)}, ValueError, "B must be 2-D"),
        ({"B": np.full((2, 6), np.nan)}, ValueError, "B must be finite, but row 0"),
        ({"B": np.array([[1.0] * 6, [1.0] * 5 + [1e39]])}, ValueError, "B must be finite, but row 1"),
        ({"decode_sparsity": 0}, ValueError, "decode_sparsity must be a positive integer, got 0"),
        ({"decode_sparsity": 2.5}, TypeError, "decode_sparsity must be a positive integer, got 2.5"),
        ({"compression": np.ones((6, 9))}, TypeError, "compression must be.*ndarray; for an array, pass shore.Matrix"),
        ({"sparsity": 0}, ValueError, "sparsity"),
        ({"method": "omg"}, ValueError, "method must be one of 'pgd', 'cd', 'omp', 'fista'"),
        ({"step": 0}, ValueError, "step must be a positive number, got 0"),
        ({"step": np.inf}, ValueError, "step"),
        ({"step": "x"}, TypeError, "step must be a positive number, got 'x' of type str"),
        ({"tol": -1e-3}, ValueError, "tol must be a non-negative number"),
        ({"tol": np.nan}, ValueError, "tol"),
        ({"max_iter": 0}, ValueError, "max_iter must be a positive integer, got 0"),
        ({"max_iter": 2.5}, TypeError, "max_iter"),
        ({"step": 10**400}, ValueError, "step must be a positive number"),
        ({"constraint": "boxy"}, ValueError, "constraint"),
        ({"n_threads": -1}, ValueError, "n_threads"),
        ({"allowed": [99]}, ValueError, "allowed must hold indices"),
    ],
    ids=str,
)
def test_bad_arguments(options, error, words):
    arguments = {"B": np.ones((2, 6)), "compression": shore.SparseSignCompression(6, 9), "sparsity": 2, **options}
    with pytest.raises(error, match=words):
        shore.decode(**arguments)


# ---------------------------------------------------------------- signals within a row

INTERRUPTED = """
import signal, sys, threading, time
import numpy as np, shore

signal.signal(signal.SIGINT, signal.default_int_handler)
phi = shore.GaussianCompression(40, 2000)
B = np.random.default_rng(0).normal(size=(int(sys.argv[2]), 40))
B[0] = 0 if len(B) > 1 else B[0]  # done at once: the caller's thread may be left without rows
began = time.monotonic()
threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
options = {"method": sys.argv[1], "step": 1e-9, "max_iter": 10**18, "tol": 0, "n_threads": int(sys.argv[2])}
if sys.argv[1] == "predictor":
    options = {"step": 1e-9, "max_iter": 10**18, "tol": 0}
    model = shore.ShoreRegressor(5, n_components=40, compression="gaussian", **options, n_threads=1)
    model.fit(np.eye(40), np.random.default_rng(0).normal(size=(40, 2000)))
    call = lambda: model.predictor()(np.ones(40))
else:
    call = lambda: shore.decode(B, phi, 5, **options)
try:
    call()
except KeyboardInterrupt:
    sys.exit(0 if time.monotonic() - began < 30 else "heard late")
sys.exit("not heard")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize(("method", "n"), [("pgd", 1), ("pgd", 2), ("fista", 1), ("fista", 2), ("predictor", 1)])
def test_a_signal_is_heard_within_a_row(method, n):
    subprocess.run([sys.executable, "-c", INTERRUPTED, method, str(n)], check=True, timeout=60)


def test_the_step_of_fista_is_the_one_asked_for():
    phi = shore.MatrixCompression(1e-100 * np.eye(3, 5))
    B = 1e-100 * np.ones((2, 3))
    for step in (0.9, 1e200, 1e308):
        info = shore.decode(B, phi, 2, method="fista", step=step, return_info=True)[1]
        assert np.isfinite(info.step).all()
        assert np.isin(np.log2(info.step / step), -np.arange(2201.0)).all()


def test_memory_of_omp_is_bounded():
    phi = shore.SparseSignCompression(1500, 1500, nnz_per_output=1)
    B = phi.compress(np.eye(40, 1500))
    tracemalloc.start()
    try:
        shore.decode(B, phi, 1500, method="omp", n_threads=1)
        assert tracemalloc.get_traced_memory()[1] < 75e6  # a row in work takes 9 MB
    finally:
        tracemalloc.stop()
