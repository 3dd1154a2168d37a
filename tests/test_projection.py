import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import shore

CONSTRAINTS = [
    "real",
    "nonneg",
    "binary",
    shore.Box(-1, 2),
    shore.Box(0, 0.75),
    shore.Box(-0.5, 0),
    shore.Box(-np.inf, 1),
    shore.Simplex(),
    shore.Simplex(3.5),
]
constraints = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

# Where rounding enters: a simplex subtracts its threshold.
RTOL = {np.dtype(np.float32): 2e-7, np.dtype(np.float64): 4e-16}


def assert_projects(V, sparsity, constraint, permitted=None, **options):
    """shore.project equals the reference: exactly, but for the rounding of the simplex."""
    result = shore.project(V, sparsity, constraint, **options)
    dense = V.toarray() if sparse.issparse(V) else V
    expected = reference.project(dense, sparsity, constraint, permitted).astype(V.dtype)
    reference.assert_canonical(result, V.shape, sparsity, V.dtype)
    if isinstance(constraint, shore.Simplex):
        scale = np.abs(expected).max(initial=0)
        np.testing.assert_allclose(result.toarray(), expected, rtol=8 * RTOL[V.dtype], atol=8 * RTOL[V.dtype] * scale)
    else:
        np.testing.assert_array_equal(result.toarray(), expected)
    return result


@constraints
@dtypes
@pytest.mark.parametrize("sparsity", [1, 2, 5, 31, 32, 33, 60, 300])
def test_equals_reference_on_random_rows(constraint, dtype, sparsity):
    V = np.random.default_rng(sparsity).normal(size=(7, 300)).astype(dtype)
    assert_projects(V, sparsity, constraint)
    assert_projects(np.round(V), sparsity, constraint)  # nothing but ties


@constraints
@dtypes
@pytest.mark.parametrize("sparsity", [1, 3, 50])
def test_csr_rows_equal_dense_rows(constraint, dtype, sparsity):
    rng = np.random.default_rng(1)
    V = rng.normal(size=(9, 70)).astype(dtype) * (rng.random((9, 70)) < 0.2)
    V[3] = 0  # an empty row
    V[4] = -np.abs(V[4])
    for index_dtype in (np.int32, np.int64):
        csr = sparse.csr_array(V)
        csr = sparse.csr_array((csr.data, csr.indices.astype(index_dtype), csr.indptr.astype(index_dtype)), V.shape)
        csr.indices = csr.indices.astype(index_dtype)
        reference.assert_same_bits(assert_projects(csr, sparsity, constraint), shore.project(V, sparsity, constraint))


def elements(dtype):
    width = np.dtype(dtype).itemsize * 8
    return st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 0.25]),  # ties
        st.floats(-4, 4, width=width, allow_subnormal=True),
        st.floats(width=width, allow_nan=False, allow_infinity=False, allow_subnormal=True),
    )


@pytest.mark.parametrize("constraint", [c for c in CONSTRAINTS if not isinstance(c, shore.Simplex)], ids=str)
@given(st.data())
def test_equals_reference_on_anything_finite(constraint, data):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40))
    V = data.draw(hnp.arrays(dtype, shape, elements=elements(dtype)))
    sparsity = data.draw(st.integers(1, 45))
    result = shore.project(V, sparsity, constraint)
    expected = reference.project(V, sparsity, constraint).astype(dtype)
    reference.assert_canonical(result, V.shape, sparsity, dtype)
    if isinstance(constraint, shore.Box):  # gains on two sides of 0 are compared to a few units in the last place
        np.testing.assert_array_equal(np.diff(result.indptr), np.count_nonzero(expected, axis=1))
        for v, got, want in zip(V, result.toarray(), expected, strict=True):
            gains = [sum(reference.gain(x, constraint) for x in v[w != 0]) for w in (got, want)]
            assert abs(gains[0] - gains[1]) * 2**50 <= gains[1]
    else:
        np.testing.assert_array_equal(result.toarray(), expected)


@given(st.data())
def test_simplex_on_anything_moderate(data):
    V = data.draw(
        hnp.arrays(np.float64, (3, 12), elements=st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-9, 9)))
    )
    total = data.draw(st.sampled_from([1e-3, 1.0, 7.0]))
    sparsity = data.draw(st.integers(1, 14))
    result = shore.project(V, sparsity, shore.Simplex(total)).toarray()
    np.testing.assert_allclose(result.sum(axis=1), total, rtol=1e-12)
    np.testing.assert_allclose(result, reference.project(V, sparsity, shore.Simplex(total)), atol=4e-15 * (1 + total))


@pytest.mark.parametrize("scale", [1e-300, 1e300, 1.7e308])
def test_simplex_keeps_its_total_at_any_scale(scale):
    result = shore.project(np.array([[scale, -scale, scale / 2]]), 3, shore.Simplex(2.0))
    assert result.sum() == pytest.approx(2.0)


def test_ties_go_to_the_lowest_index():
    V = np.array([[1.0, -2.0, 2.0, 2.0, 1.0, -2.0]])
    assert shore.project(V, 2).indices.tolist() == [1, 2]
    assert shore.project(V, 2, "nonneg").indices.tolist() == [2, 3]
    assert shore.project(V, 3, "nonneg").indices.tolist() == [0, 2, 3]
    assert shore.project(V, 4, "binary").indices.tolist() == [0, 2, 3, 4]
    long = np.ones((1, 1000))
    assert shore.project(long, 40).indices.tolist() == list(range(40))  # a heap
    assert shore.project(long, 5, shore.Simplex()).indices.tolist() == list(range(5))


def test_nothing_to_gain_is_not_kept():
    V = np.array([[-1.0, 0.0, -0.0, 0.5]])
    assert shore.project(V, 4).indices.tolist() == [0, 3]
    assert shore.project(V, 4, "nonneg").indices.tolist() == [3]
    assert shore.project(V, 4, "binary").nnz == 0  # 2v - 1 > 0 is needed
    assert shore.project(V, 4, shore.Box(-3, 0)).indices.tolist() == [0]
    assert shore.project(-np.abs(V), 4, "nonneg").nnz == 0


def test_box_ranks_by_gain_not_by_size():
    # Clipped to 1, 1.4 gains 1.8; -1.3 stays and gains 1.69; -1.5 gains 2.25 although 1.6 (gain 2.2) is larger.
    box = shore.Box(-2, 1)
    assert shore.project(np.array([[1.4, -1.3]]), 1, box).indices.tolist() == [0]
    assert shore.project(np.array([[1.6, -1.5]]), 1, box).indices.tolist() == [1]


@dtypes
def test_box_ties_are_exact(dtype):
    for v in ([2, -2.5], [-2.5, 2], [3, -5], [-5, 3]):  # gains 4 and 4, 9 and 9, on two sides of 0
        V = np.array([v], dtype=dtype)
        assert shore.project(V, 1, shore.Box(-1, np.inf)).indices.tolist() == [0]


@pytest.mark.parametrize(("total", "dtype"), [(1e39, np.float32), (1e-50, np.float32), (1e200, np.float64)])
def test_simplex_total_must_fit_the_dtype(total, dtype):
    with pytest.raises(ValueError, match="total is out of the range of float"):
        shore.project(np.ones((1, 3), dtype=dtype), 2, shore.Simplex(total))


@pytest.mark.parametrize("kind", ["indices", "mask"])
@constraints
def test_allowed_and_denied_for_all_rows(constraint, kind):
    rng = np.random.default_rng(2)
    V = rng.normal(size=(6, 200)).astype(np.float32)
    for few in (0.05, 0.6):  # a list to visit, a mask to look up
        allowed, denied = rng.random(200) < few, rng.random(200) < 0.3
        as_given = np.flatnonzero if kind == "indices" else lambda mask: mask
        for matrix in (V, sparse.csr_array(V * (np.abs(V) > 1))):
            assert_projects(matrix, 4, constraint, allowed, allowed=as_given(allowed))
            assert_projects(matrix, 4, constraint, ~denied, denied=as_given(denied))
            both = {"allowed": as_given(allowed), "denied": as_given(denied)}
            assert_projects(matrix, 4, constraint, allowed & ~denied, **both)


@constraints
def test_allowed_and_denied_per_row(constraint):
    rng = np.random.default_rng(3)
    V = rng.normal(size=(6, 90))
    allowed, denied = rng.random(V.shape) < 0.2, rng.random(V.shape) < 0.5
    all_rows = rng.random(90) < 0.5
    pattern = sparse.csr_array
    for matrix in (V, sparse.csr_array(V * (np.abs(V) > 1))):
        assert_projects(matrix, 4, constraint, allowed, allowed=pattern(allowed))
        assert_projects(matrix, 4, constraint, ~denied, denied=sparse.coo_array(denied))
        assert_projects(matrix, 4, constraint, allowed & ~denied, allowed=pattern(allowed), denied=pattern(denied))
        assert_projects(matrix, 4, constraint, allowed & ~all_rows, allowed=pattern(allowed), denied=all_rows)
        assert_projects(matrix, 4, constraint, all_rows & ~denied, allowed=all_rows, denied=pattern(denied))


def test_nothing_allowed():
    V = np.ones((2, 5))
    assert shore.project(V, 2, allowed=[]).nnz == 0
    assert shore.project(V, 2, denied=np.ones(5, dtype=bool)).nnz == 0
    for options in (
        {"allowed": []},
        {"denied": range(5)},
        {"allowed": sparse.csr_array(np.eye(2, 5)[[0, 0]] * [[1], [0]])},
        {"denied": sparse.csr_array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])},
        {"allowed": [1, 2], "denied": sparse.csr_array([[0, 0, 0, 0, 0], [0, 1, 1, 1, 1]])},
    ):
        with pytest.raises(ValueError, match=r"allowed and denied leave none for row"):
            shore.project(V, 2, shore.Simplex(), **options)


def layouts(V):
    big = np.zeros((V.shape[0] * 2, V.shape[1] + 3), dtype=V.dtype)
    big[::2, 1:-2] = V
    packed = np.zeros(V.nbytes + 1, dtype=np.uint8)
    misaligned = packed[1:].view(V.dtype).reshape(V.shape)
    misaligned[...] = V
    read_only = V.copy()
    read_only.flags.writeable = False
    yield from (
        V,
        np.asfortranarray(V),
        big[::2, 1:-2],
        V[::-1, ::-1].copy()[::-1, ::-1],
        misaligned,
        read_only,
    )
    yield V.astype(V.dtype.newbyteorder())
    yield np.matrix(V)
    for name in ("csr_array", "csr_matrix", "csc_array", "coo_array", "lil_array", "bsr_array"):
        yield getattr(sparse, name)(V)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@dtypes
def test_every_layout_gives_the_same_bits(dtype, tmp_path):
    V = np.random.default_rng(4).normal(size=(11, 50)).astype(dtype)
    expected = shore.project(V, 3)
    np.save(tmp_path / "v.npy", V)
    for matrix in (*layouts(V), np.load(tmp_path / "v.npy", mmap_mode="r")):
        reference.assert_same_bits(shore.project(matrix, 3), expected)


def test_other_dtypes():
    V = np.array([[3, -7, 5], [0, 1, 2]])
    for dtype in (np.int8, np.int64, np.float16, np.longdouble):
        result = shore.project(V.astype(dtype), 2)
        np.testing.assert_array_equal(result.toarray(), [[0, -7, 5], [0, 1, 2]])
        assert result.dtype == (np.float32 if dtype is np.float16 else np.float64)
    assert shore.project(V.astype(bool).tolist(), 2).dtype == np.float64


def test_blocks_of_converted_rows(monkeypatch):
    monkeypatch.setattr("shore.projection._BLOCK_BYTES", 1000)
    V = np.random.default_rng(5).normal(size=(23, 60))
    denied = sparse.csr_array(np.random.default_rng(6).random(V.shape) < 0.5)
    reference.assert_same_bits(
        shore.project(np.asfortranarray(V), 3, denied=denied), shore.project(V, 3, denied=denied)
    )


@constraints
@dtypes
def test_threads_give_the_same_bits(constraint, dtype):
    V = np.random.default_rng(7).normal(size=(65, 333)).astype(dtype)
    for matrix in (V, sparse.csr_array(V * (V > 0.3))):
        one = shore.project(matrix, 4, constraint, n_threads=1)
        for n_threads in (2, 3, 7, None):
            reference.assert_same_bits(shore.project(matrix, 4, constraint, n_threads=n_threads), one)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (1, 1)])
def test_small_shapes(shape):
    for matrix in (np.ones(shape), sparse.csr_array(np.ones(shape))):
        result = shore.project(matrix, 3)
        reference.assert_canonical(result, shape, 3, np.float64)
        assert result.nnz == shape[0] * shape[1]


def test_csr_input_is_left_alone_and_made_canonical():
    V = sparse.csr_array((np.array([1.0, 2.0, 4.0, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 4])), shape=(1, 3))
    before = V.indices.copy(), V.data.copy()
    result = shore.project(V, 1)
    assert result.toarray().tolist() == [[0, 0, 5]]
    np.testing.assert_array_equal(V.indices, before[0])
    np.testing.assert_array_equal(V.data, before[1])


def test_sparsity_past_all_entries_of_csr_takes_no_room_for_it():
    V = sparse.csr_array(([1.0], ([5], [7])), shape=(1000, 10**9))
    assert shore.project(V, 10**9).nnz == 1
    wide = sparse.csr_array(([1.0, -2.0], ([0, 0], [3, 2**40])), shape=(1, 2**41))
    assert shore.project(wide, 1).indices.tolist() == [2**40]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([[1.0]], 0), ValueError, "sparsity must be a positive integer, got 0"),
        (([[1.0]], -3), ValueError, "sparsity.*-3"),
        (([[1.0]], True), ValueError, "sparsity.*True"),
        (([[1.0]], 2.0), TypeError, "sparsity.*2.0.*float"),
        (([[1.0]], None), TypeError, "sparsity"),
        (([[1.0]], 1, "positive"), ValueError, "constraint must be 'real', 'nonneg', 'binary'.*'positive'"),
        (([[1.0]], 1, None), TypeError, "constraint"),
        (([[np.nan, 1.0]], 1), ValueError, "V must be finite, but row 0"),
        (([[1.0], [np.inf]], 1), ValueError, "V must be finite, but row 1"),
        ((sparse.csr_array([[1.0], [-np.inf]]), 1), ValueError, "V must be finite, but row 1"),
        (([1.0, 2.0], 1), ValueError, r"V must be 2-D.*\(2,\).*V\[None, :\]"),
        ((np.ones((2, 2, 2)), 1), ValueError, "V must be 2-D"),
        ((3.0, 1), ValueError, "V must be 2-D"),
        (([[1.0], [1.0, 2.0]], 1), ValueError, "V must be a 2-D array"),
        ((np.array([[1.0, None]], dtype=object), 1), TypeError, "V must hold real numbers.*object"),
        (([["a", "b"]], 1), TypeError, "V must hold real numbers"),
        (([[1j]], 1), TypeError, "V must hold real numbers.*complex"),
        ((np.ma.masked_invalid([[1.0, np.nan]]), 1), TypeError, "V is a masked array"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        shore.project(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"allowed": [0, 4]}, ValueError, "allowed must hold indices from 0 to 3, got 0 to 4"),
        ({"denied": [-1]}, ValueError, "denied must hold indices"),
        ({"allowed": [0.5]}, TypeError, "allowed must hold integer indices or booleans"),
        ({"allowed": [True, False]}, ValueError, "allowed is a mask of length 2, but there are 4 outputs"),
        ({"denied": np.ones((2, 4), dtype=bool)}, ValueError, "denied must be 1-D"),
        ({"denied": sparse.csr_array((2, 3))}, ValueError, r"denied has shape \(2, 3\).*\(2, 4\)"),
        ({"allowed": np.ma.array([0, 1], mask=[0, 1])}, TypeError, "allowed is a masked array"),
        ({"n_threads": 0}, ValueError, "n_threads must be a positive integer or None, got 0"),
        ({"n_threads": 1.5}, TypeError, "n_threads"),
    ],
    ids=str,
)
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words):
        shore.project(np.ones((2, 4)), 1, **options)


def test_nan_is_found_wherever_it_stands():
    for n_outputs in (1, 127, 128, 129, 5000):
        for at in {0, n_outputs // 2, n_outputs - 1}:
            V = np.zeros((2, n_outputs), dtype=np.float32)
            V[1, at] = np.nan
            for options in ({}, {"denied": [at]}, {"allowed": [0]}):
                with pytest.raises(ValueError, match="row 1"):
                    shore.project(V, 1, **options)


def test_broken_csr_is_an_error_not_a_crash():
    V = sparse.csr_array(np.eye(4))
    V.indices = np.array([0, 1, 99, 3], dtype=np.int32)
    with pytest.raises(ValueError, match="V is not a valid sparse matrix"):
        shore.project(V, 1)
    V = sparse.csr_array(np.eye(4))
    V.indptr = np.array([0, 3, 2, 3, 4], dtype=np.int32)
    with pytest.raises(ValueError, match="V is not a valid sparse matrix"):
        shore.project(V, 1)
