"""The decoders beside projected gradient descent: correlation decoding, matching pursuit and FISTA."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from test_decoders import (
    CONSTRAINTS,
    HARD_KINDS,
    KINDS,
    assert_same,
    constraints,
    decode_with,
    dtypes,
    kinds,
    make_b,
    make_hard_phi,
    make_phi,
)

import shore

BASELINES = ["cd", "omp", "fista"]
baselines = pytest.mark.parametrize("method", BASELINES)


def decode_slowly(method, B, Phi, sparsity, *, permitted=None, **options):
    """Results and numbers of steps by tests/reference.py."""
    permitted = np.broadcast_to(True if permitted is None else permitted, (len(B), Phi.shape[1]))
    if method == "cd":
        rows = [
            (reference.correlate_row(b, Phi, sparsity, permitted=p, **options), 1)
            for b, p in zip(B, permitted, strict=True)
        ]
    elif method == "omp":
        rows = [
            reference.pursue_row(b, Phi, sparsity, permitted=p, **options) for b, p in zip(B, permitted, strict=True)
        ]
    else:
        norm = np.linalg.norm(Phi.astype(np.float64), 2)
        rows = [
            reference.shrink_row(b, Phi, sparsity, permitted=p, norm=norm, **options)
            for b, p in zip(B, permitted, strict=True)
        ]
    return np.array([v for v, _ in rows]), np.array([t for _, t in rows])


# ---------------------------------------------------------------- against the float64 reference


@kinds
@constraints
@dtypes
@baselines
def test_equals_reference(method, kind, constraint, dtype):
    phi = make_phi(kind, 60, 500, dtype)
    phi._squared_norm = np.linalg.norm(phi.toarray().astype(np.float64), 2) ** 2  # which is found to a percent only
    B = make_b(phi, 60, 3, constraint=constraint)
    found, info = shore.decode(B, phi, 3, method=method, constraint=constraint, return_info=True)
    expected, n_iter = decode_slowly(method, B, phi.toarray(), 3, constraint=constraint)
    reference.assert_canonical(found, (60, 500), 3, dtype)
    same = (info.n_iter == n_iter) & ((found.toarray() != 0) == (expected != 0)).all(axis=1)
    assert same.mean() >= (0.98 if dtype is np.float64 else 0.9)
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    np.testing.assert_allclose(found.toarray()[same], expected[same], rtol=tolerance, atol=tolerance)
    residual = np.linalg.norm(found.toarray() @ phi.toarray().T.astype(np.float64) - B, axis=1)
    np.testing.assert_allclose(info.residual, residual, rtol=1e-4 if dtype is np.float32 else 1e-10, atol=1e-5)
    np.testing.assert_allclose(info.step, {"cd": 1.0, "omp": np.nan, "fista": 0.9}[method])


@baselines
@kinds
def test_allowed_and_denied(method, kind):
    phi = make_phi(kind, 60, 300)
    B = make_b(phi, 40, 3, noise=0.2, constraint="real")
    rng = np.random.default_rng(1)
    few, rows = rng.random(300) < 0.1, rng.random((40, 300)) < 0.2
    for options, permitted in (
        ({"allowed": few}, few),
        ({"denied": few}, ~few),
        ({"allowed": sparse.csr_array(rows)}, rows),
        ({"denied": sparse.csr_array(rows)}, ~rows),
    ):
        found = shore.decode(B, phi, 3, method=method, **options)
        expected, _ = decode_slowly(method, B, phi.toarray(), 3, permitted=permitted)
        assert not (found.toarray() != 0)[~np.broadcast_to(permitted, (40, 300))].any()
        same = ((found.toarray() != 0) == (expected != 0)).all(axis=1)
        assert same.mean() >= 0.95
        np.testing.assert_allclose(found.toarray()[same], expected[same], rtol=0.02, atol=0.02)
    nothing = shore.decode(B, phi, 3, method=method, allowed=np.zeros(300, dtype=bool))
    assert nothing.nnz == 0


@pytest.mark.parametrize("sparsity", [1, 10, 33, 60, 200])
@pytest.mark.parametrize("kind", ["gaussian", "sparse_sign"])
@pytest.mark.parametrize("method", ["cd", "omp"])
def test_other_sparsities(method, kind, sparsity):
    phi = make_phi(kind, 50, 120)
    B = make_b(phi, 12, min(sparsity, 20), noise=0.05)
    found, info = shore.decode(B, phi, sparsity, method=method, return_info=True)
    expected, n_iter = decode_slowly(method, B, phi.toarray(), min(sparsity, 120))
    if method == "omp" and sparsity >= 50:  # as many as rows: no residual is left, and no digits of the values
        assert np.all(info.n_iter <= 50)
        assert np.all(info.residual < 1e-8 * np.linalg.norm(B, axis=1))
        return
    np.testing.assert_array_equal(info.n_iter, n_iter)
    reference.assert_same_rows(found, expected, rtol=1e-7, atol=1e-9)


def test_correlation_decoding_is_the_projection_of_the_correlations():
    for kind in KINDS:
        phi = make_phi(kind, 60, 500, np.float64)
        B = make_b(phi, 50, 3, noise=1.0)
        for constraint in CONSTRAINTS:
            found = shore.decode(B, phi, 3, method="cd", constraint=constraint)
            expected = shore.project(phi.correlate(B), 3, constraint)
            reference.assert_same_rows(found, expected, rtol=1e-12, atol=1e-13)


def test_correlation_decoding_does_not_diverge():
    """However far from b it is: there is no smaller step to try."""
    phi = shore.MatrixCompression(10 * make_phi("gaussian", 40, 100).toarray())
    B = make_b(phi, 9, 3)
    found, info = shore.decode(B, phi, 3, method="cd", return_info=True)
    assert np.all(info.residual > 10 * np.linalg.norm(B, axis=1))
    assert info.converged.all()
    reference.assert_same_rows(found, shore.project(phi.correlate(B), 3), rtol=1e-12)


def test_fista_solves_the_lasso():
    """The optimality conditions: Φᵀ(b - Φx) is the weight times the sign where x is not 0, and within it elsewhere."""
    phi = make_phi("gaussian", 40, 100)
    B = make_b(phi, 20, 3, constraint="real")
    x = shore.decode(B, phi, 100, method="fista", l1=0.2, max_iter=5000, tol=0).toarray()
    gradient = phi.correlate(B - phi.compress(x))
    weight = 0.2 * np.abs(phi.correlate(B)).max(axis=1, keepdims=True)
    assert np.all(np.abs(gradient) <= weight * (1 + 1e-6))
    np.testing.assert_allclose(gradient[x != 0], (weight * np.sign(x))[x != 0], rtol=1e-5)
    assert shore.decode(B, phi, 5, method="fista", l1=1.0).nnz == 0


def test_omp_equals_scikit_learn():
    """Supports on 200 random problems, and the values."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    no_equal_columns = ["gaussian", "sparse_sign", "sparse_sign_5", "matrix"]  # ties are broken otherwise there
    for seed in range(200):
        rng = np.random.default_rng(seed)
        m, K, s = int(rng.integers(20, 80)), int(rng.integers(100, 400)), int(rng.integers(1, 8))
        phi = make_phi(no_equal_columns[seed % 4], m, K, seed=seed)
        B = make_b(phi, 1, s, noise=rng.choice([0.01, 0.1, 1.0]), seed=seed, constraint="real")
        expected = linear_model.orthogonal_mp(phi.toarray(), B[0], n_nonzero_coefs=s)
        found = shore.decode(B, phi, s, method="omp")
        np.testing.assert_array_equal(found.indices, np.flatnonzero(expected))
        np.testing.assert_allclose(found.data, expected[expected != 0], rtol=1e-8)


def test_omp_with_columns_of_very_different_norms():
    """What counts as rounding is a matter of the column that is looked at, not of the heaviest."""
    Phi = np.eye(5, 8, dtype=np.float32)
    Phi[0, 0] = 1e9
    B = [[0, 1, 2, 0, 0], [5, 0, 0, 0, 0], [5, 0, 0, 3, 1]]
    found = shore.decode(B, shore.MatrixCompression(Phi), 3, method="omp")
    expected = np.zeros((3, 8))
    expected[0, 1:3], expected[1, 0], expected[2, [0, 3, 4]] = (1, 2), 5e-9, (5e-9, 3, 1)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


def test_omp_leaves_out_a_column_that_depends_on_the_chosen():
    """Its part that is new has no digits left; least squares with it would have none either."""
    phi = shore.MatrixCompression([[1, 1], [0, 1e-7], [0, 0]])
    found, info = shore.decode([[1.0, 1.0, 0.0]], phi, 2, method="omp", return_info=True)
    np.testing.assert_allclose(found.toarray(), [[0, 1]], rtol=1e-6)
    assert (info.n_iter[0], info.full_passes[0], info.converged[0]) == (1, 2, True)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-150, 1e150, 1e200, 1e300])
def test_omp_where_squares_of_columns_leave_the_range_of_numbers(scale):
    """Columns are taken in units of their own: the same outputs, with values as many times larger or smaller."""
    Phi = np.random.default_rng(0).normal(size=(5, 12))
    expected, steps = decode_slowly("omp", np.ones((1, 5)), Phi, 3)
    found, info = shore.decode(np.ones((1, 5)), shore.MatrixCompression(scale * Phi), 3, method="omp", return_info=True)
    np.testing.assert_allclose(scale * found.toarray(), expected, rtol=1e-12)
    assert info.n_iter == steps
    assert info.converged.all()


def test_omp_keeps_what_it_found_where_a_column_asks_for_values_past_the_range_of_numbers():
    phi = shore.MatrixCompression([[2, 0, 0, 0], [0, 1e-160, 0, 0], [0, 0, 1e-310, 0], [0, 0, 0, 5e-324]])
    denied = sparse.csr_array([[0, 0, 0, 0], [0, 1, 0, 0]])
    found, info = shore.decode(np.ones((2, 4)), phi, 4, method="omp", denied=denied, return_info=True)
    np.testing.assert_allclose(found.toarray(), [[0.5, 1e160, 0, 0], [0.5, 0, 0, 0]], rtol=1e-15)
    np.testing.assert_array_equal(info.n_iter, [2, 1])
    np.testing.assert_array_equal(info.residual, np.sqrt([2, 3]))
    assert not info.converged.any()


def test_a_last_projection_that_leaves_the_range_of_numbers():
    """Two large values that cancel, one of which is not feasible: an empty row, not a complaint about B."""
    phi = shore.MatrixCompression(np.float32([[1, 1], [0, 0.01]]))
    found, info = shore.decode(np.float32([[0, 1e37], [0, 1]]), phi, 2, method="omp", constraint="nonneg",
                               return_info=True)  # fmt: skip
    np.testing.assert_array_equal(found.toarray(), np.float32([[0, 0], [0, 100]]))
    np.testing.assert_array_equal(info.converged, [False, True])


def test_omp_with_room_for_all_outputs():
    """No more outputs than rows of Φ can be chosen, and memory is for those."""
    phi = shore.SparseSignCompression(16, 300_000)
    B = make_b(phi, 3, 2)
    found, info = shore.decode(B, phi, 300_000, method="omp", return_info=True, n_threads=2)
    assert np.all(info.n_iter <= 16)
    assert np.all(info.residual <= 1e-5 * np.linalg.norm(B, axis=1))
    assert found.nnz > 0


# ---------------------------------------------------------------- the same bits, whatever the path


@baselines
@kinds
@dtypes
def test_bits_do_not_depend_on_threads_batches_or_order(method, kind, dtype):
    phi = make_phi(kind, 80, 700, dtype)
    B = make_b(phi, 300, 4, noise=0.5)
    options = {"method": method, "constraint": "nonneg", "max_iter": 20}
    whole = shore.decode(B, phi, 4, n_threads=1, return_info=True, **options)
    for n_threads in (2, 5):
        assert_same(shore.decode(B, phi, 4, n_threads=n_threads, return_info=True, **options), whole)
    parts = [shore.decode(B[i : i + 7], phi, 4, n_threads=2, **options) for i in range(0, 70, 7)]
    reference.assert_same_bits(sparse.csr_array(sparse.vstack(parts)), whole[0][:70])
    order = np.random.default_rng(0).permutation(300)
    permuted = shore.decode(B[order], phi, 4, n_threads=2, **options)
    reference.assert_same_bits(permuted, sparse.csr_array(whole[0][order]))


@given(st.data())
def test_every_path_gives_the_same_bits(data):
    """Rows in blocks and one by one, coarse and exact passes, on problems made to break them."""
    seed = data.draw(st.integers(0, 10**6))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    kind = data.draw(st.sampled_from(HARD_KINDS))
    method = data.draw(st.sampled_from(BASELINES))
    sparsity = data.draw(st.sampled_from([1, 2, 3, 5, 40]))
    m, K = data.draw(st.sampled_from([(1, 5), (3, 40), (20, 200), (40, 1500), (150, 100)]))
    phi = make_hard_phi(kind, m, K, dtype, seed)
    B = make_b(phi, 40, sparsity, noise=data.draw(st.sampled_from([0.0, 0.1, 10.0])), seed=seed)
    B[0] = 0
    B[1] = np.round(B[1])
    options = {"method": method, "constraint": data.draw(st.sampled_from(CONSTRAINTS)), "max_iter": 12}
    plain = decode_with(B, phi, sparsity, max_rows=1, n_threads=1, **options)
    for max_rows in (0, 5):
        assert_same(decode_with(B, phi, sparsity, max_rows=max_rows, **options), plain)


# ---------------------------------------------------------------- strange numbers


@baselines
@kinds
@dtypes
@constraints
def test_no_result_holds_nan_or_infinity(method, kind, dtype, constraint):
    phi = make_phi(kind, 30, 200, dtype)
    B = np.random.default_rng(0).normal(size=(12, 30))
    B[0] = 0
    big, small = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    B[1:6] *= [[big / 8], [big / 1e3], [1e30], [1e-30], [1e-20]]
    B[6:8] = [[big], [-big]]
    B[8:10] = [[small], [-small]]
    B = B.astype(dtype)
    for max_rows in (0, 1):
        found, _ = decode_with(B, phi, 3, max_rows=max_rows, method=method, constraint=constraint, check_input=False)
        reference.assert_canonical(found, (12, 200), 3, dtype)
    if constraint in ("real", "nonneg"):
        assert found[[0]].nnz == 0


def test_fista_that_diverges_starts_again_with_half_the_step():
    phi = make_phi("gaussian", 40, 400)
    B = make_b(phi, 30, 4)
    _, info = shore.decode(B, phi, 4, method="fista", step=40.0, max_iter=200, return_info=True)
    assert np.all(info.step < 40)
    np.testing.assert_array_equal(np.log2(40 / info.step) % 1, 0)
    assert np.all(info.residual <= 10 * np.linalg.norm(B, axis=1))
    for step, max_iter in ((1e3, 1), (40.0, 2), (1e40, 1)):  # also where the last step is the one that leads away
        options = {"method": "fista", "step": step, "max_iter": max_iter, "return_info": True}
        found, info = shore.decode(B, phi, 400, **options)
        assert found.nnz > 0
        assert np.all(info.step < step)
        assert np.all(info.residual <= 10 * np.linalg.norm(B, axis=1))


@pytest.mark.parametrize(
    ("l1", "error", "words"),
    [(-0.1, ValueError, "l1 must be a non-negative number, got -0.1"), ("x", TypeError, "l1 must be")],
    ids=str,
)
def test_bad_arguments(l1, error, words):
    with pytest.raises(error, match=words):
        shore.decode(np.ones((2, 6)), shore.SparseSignCompression(6, 9), 2, method="fista", l1=l1)


def test_squared_norm():
    for kind in KINDS:
        phi = make_phi(kind, 50, 300, np.float32)
        assert phi.squared_norm() == pytest.approx(np.linalg.norm(phi.toarray(), 2) ** 2, rel=0.02)
    assert shore.GaussianCompression(1, 7).squared_norm() == pytest.approx(
        np.linalg.norm(shore.GaussianCompression(1, 7).toarray()) ** 2
    )


def test_squared_norm_out_of_the_ordinary():
    rng = np.random.default_rng(0)
    for matrix in (np.eye(6), rng.normal(size=(4, 9)) * 1e-100, rng.normal(size=(200, 9)) * 10.0 ** np.arange(-4, 5)):
        phi = shore.MatrixCompression(matrix)
        assert phi.squared_norm() == pytest.approx(np.linalg.norm(matrix, 2) ** 2, rel=0.02)
    for scale in (0.0, 1e-30, 1e30):
        phi = shore.MatrixCompression((scale * rng.normal(size=(5, 12))).astype(np.float32))
        B = rng.normal(size=(3, 5))
        found, info = shore.decode(B, phi, 2, method="fista", return_info=True)
        reference.assert_canonical(found, (3, 12), 2, np.float32)
        assert np.all(info.residual <= np.linalg.norm(B, axis=1) * 1.000001)
        np.testing.assert_allclose(info.step, 0.9)
        assert found.nnz == (0 if scale == 0 else 6)
    assert shore.MatrixCompression(np.full((3, 4), 1e200)).squared_norm() == np.inf
    found, info = shore.decode(B[:, :3], shore.MatrixCompression(np.full((3, 4), 1e200)), 2, method="fista",
                               return_info=True)  # fmt: skip
    assert found.nnz == 0
    assert not info.converged.any()


@kinds
def test_fista_leaves_the_number_of_blas_threads_alone(kind, monkeypatch):
    """It belongs to the whole process, and what it is must not matter to the result."""

    def refuse(*arguments, **options):
        raise AssertionError("the BLAS was limited")

    for name in ("compression.dense", "estimator", "_streaming"):
        monkeypatch.setattr(f"shore.{name}.limit_blas", refuse)
    phi = make_phi(kind, 30, 200)
    assert shore.decode(make_b(phi, 2, 2), phi, 2, method="fista").nnz > 0
