import gzip
import io

import numpy as np
from arguments import WRONG_COUNTS, WRONG_DTYPES
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, folder, matrices, mostly, numbers, options, sizes
from oracle import Refusal, assert_at_most, assert_same, compared, tried
from scipy import sparse
from test_fuzz_projection import CONSTRAINTS

import shore
from shore import datasets


@given(st.data())
def test_synthetic_problems_of_any_size(data):
    given, wrong = data.draw(
        options(
            n_samples=(st.integers(0, 6), WRONG_COUNTS),
            n_features=(st.integers(1, 6), [0, *WRONG_COUNTS]),
            n_outputs=(st.integers(1, 70), [0, *WRONG_COUNTS]),
            sparsity=([1, 3, 65, 2**40], [0, None, 1.5, True]),
            snr_db=([10.0, -300, 0, 500, np.inf, np.float32(3)], [-301, np.nan, -np.inf, None, "10", True]),
            constraint=(CONSTRAINTS, ["x", None]),
            seed=([0, 2**64 - 1], [-1, None, 2**64]),
            dtype=(["float32", np.float64], WRONG_DTYPES),
            n_threads=([1, 2], [0, "1"]),
        )
    )
    problem = tried(lambda: datasets.make_synthetic(**given), *wrong)
    assert isinstance(problem, Refusal) == bool(wrong), problem
    if wrong:
        return
    n, d, K = (given[name] for name in ("n_samples", "n_features", "n_outputs"))
    kind = np.dtype(given["dtype"])
    assert (problem.X.shape, problem.Y.shape, problem.Z.shape, problem.mean.shape) == ((n, d), (n, K), (K, d), (d,))
    assert problem.X.dtype == problem.Y.dtype == problem.Z.dtype == problem.mean.dtype == kind
    assert all(np.isfinite(part).all() for part in (problem.X, problem.Y.data, problem.Z, problem.mean))
    assert_at_most(problem.Y, given["sparsity"])
    assert_same(datasets.make_synthetic(**{**given, "n_threads": 1}).Y.indices, problem.Y.indices)
    if given["snr_db"] == np.inf and n:
        scores = problem.X @ problem.Z.T
        assert_same(shore.project(scores, given["sparsity"], given["constraint"]).indices, problem.Y.indices)


# ---------------------------------------------------------------- files


def written(X, Y):
    file = io.BytesIO()
    datasets.save_xmc(file, X, Y)
    return file.getvalue()


def without_zeros(matrix, dtype):
    result = sparse.csr_array(matrix).astype(dtype)
    result.eliminate_zeros()
    return result


@given(st.data())
def test_any_presentation_is_written_and_read_back(data):
    n = data.draw(sizes(0, 4))
    inputs = {
        "X": data.draw(any_matrix((n, data.draw(sizes(0, 5))))),
        "Y": data.draw(any_matrix((n, data.draw(sizes(0, 6))))),
    }
    text = compared(lambda X, Y: written(X, Y), inputs)
    if any(each.is_wrong for each in inputs.values()):
        return
    assert not isinstance(text, Refusal), text
    plain = [each.plain for each in inputs.values()]
    packed = data.draw(st.booleans())
    read = tried(lambda: datasets.load_xmc(io.BytesIO(gzip.compress(text) if packed else text), dtype=np.float64))
    for got, matrix in zip(read, plain, strict=True):
        if matrix.dtype == np.float64:
            assert_same(got.data, without_zeros(matrix, np.float64).data)
        np.testing.assert_array_equal(got.toarray(), rounded(matrix))
    blocks = read_in_blocks(text, data.draw(st.integers(1, 5)))
    with datasets.XmcReader(io.BytesIO(text), dtype=np.float64) as reader:
        first = tried(lambda: reader.read()) if plain[0].shape[0] else read
    assert_same([part.toarray() for part in first], [part.toarray() for part in read])
    for which in range(2):
        parts = [block[which] for block in blocks] or [sparse.csr_array(plain[which].shape)]
        assert_same(sparse.csr_array(sparse.vstack(parts)).toarray(), read[which].toarray())


def rounded(matrix):
    """What the shortest decimals of the numbers, which are those of their own dtype, read as float64."""
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()  # in the dtype whose decimals count
    return np.array([float(str(number)) for number in dense.ravel()]).reshape(dense.shape)


def read_in_blocks(text, rows):
    reader = tried(lambda: datasets.XmcReader(io.BytesIO(text), rows=rows, dtype=np.float64))
    blocks = list(reader)
    tried(lambda: reader.close())
    return blocks


TOKENS = [
    "0", "1", "2", "3", ",", ":", " ", "\t", "\n", "\r\n", "-", "+", ".", "e", "1e9", "nan", "inf", "0:1", "1:0.5", "é",
    "values", "\0", "1e-400", "1e400", "99999999999999999999", "#", "0,2 1:1\n", " 0:2\n", "2 3 4\n",
]  # fmt: skip


@given(st.data())
def test_any_text_is_read_or_refused_with_its_line(data):
    header = data.draw(
        mostly(["2 3 4\n", "1 2 3\n", "0 0 0\n", "2 3 4 values\n"], ["", "2 3\n", "a b c\n", "-1 2 3\n"])
    )
    text = (header + "".join(data.draw(st.lists(st.sampled_from(TOKENS), max_size=12)))).encode()
    given = {
        "dtype": data.draw(mostly(["float32", "float64"], WRONG_DTYPES)),
        "index_base": data.draw(mostly([0, 1], [2, -1, None, True, "0", 0.5, [0]])),
    }
    result = tried(lambda: datasets.load_xmc(io.BytesIO(text), **given), "<file>", *given)
    rows = data.draw(mostly([None, 1, 3], [0, -1, 1.5, "1"]))

    def in_blocks():
        with datasets.XmcReader(io.BytesIO(text), rows=rows, **given) as reader:
            assert reader.n_rows >= 0
            return list(reader)

    blocks = tried(in_blocks, "<file>", "rows", *given)
    if isinstance(result, Refusal):
        assert isinstance(blocks, Refusal)
    elif not isinstance(blocks, Refusal):
        assert sum(X.shape[0] for X, _ in blocks) == result[0].shape[0]
        for parts, whole in zip(zip(*blocks, strict=True), result, strict=False):
            assert_same(sparse.csr_array(sparse.vstack(parts)).toarray(), whole.toarray())


TEXT = b"2 3 4\n0,2 0:1.5 2:-2\n1 1:0.25\n"
TEXT_X = np.array([[1.5, 0, -2], [0, 0.25, 0]], dtype=np.float32)
TEXT_Y = np.array([[1, 0, 1, 0], [0, 1, 0, 0]], dtype=np.float32)


@given(data=st.binary(max_size=100), at=st.integers(0, len(TEXT)), more=st.sampled_from([b"", b" ", b"\n", b"7"]))
def test_any_bytes_are_read_or_refused(data, at, more):
    def read(file):
        return tried(lambda: datasets.load_xmc(io.BytesIO(file)), "<file>")

    for file in (data, b"\x1f\x8b" + data, gzip.compress(TEXT)[: len(data)] + data):
        read(file)
    text = TEXT[:at] + more + TEXT[at:]
    found, packed = read(text), read(gzip.compress(text))
    if isinstance(found, Refusal):
        assert more
        assert isinstance(packed, Refusal)
        return
    assert_same(packed, found)
    if not more:
        assert_same([part.toarray() for part in found], [TEXT_X, TEXT_Y])


@given(path=st.sampled_from([None, 3, b"name", ["a"], 1.5, io.StringIO("1 2 3\n")]))
def test_no_path_is_refused(path):
    assert isinstance(tried(lambda: datasets.load_xmc(path), "path"), Refusal)
    assert isinstance(tried(lambda: datasets.XmcReader(path), "path"), Refusal)
    if not hasattr(path, "read"):
        assert isinstance(tried(lambda: datasets.save_xmc(path, np.eye(2), np.eye(2)), "path"), Refusal)
        assert isinstance(tried(lambda: datasets.load_dataset(path), "path"), Refusal)
    if not isinstance(path, bytes):  # which operating systems know as names
        assert isinstance(tried(lambda: shore.load(path), "path"), Refusal)
        model = shore.ShoreRegressor(1, n_components=2, n_threads=1).fit(np.eye(2), np.eye(2))
        assert isinstance(tried(lambda: model.save(path), "path"), Refusal)


@given(st.data())
def test_other_numbers_of_rows_are_refused(data):
    X, Y = data.draw(matrices((2, 3))), data.draw(matrices((data.draw(st.sampled_from([0, 1, 3])), 3)))
    assert isinstance(tried(lambda: written(X.given, Y.given), "X", inputs=[X, Y]), Refusal)


@given(st.data())
def test_folders_of_matrices_are_read(data):
    n, d, K = data.draw(sizes(2, 6)), data.draw(sizes(1, 4)), data.draw(sizes(1, 5))
    X, Y = (sparse.csr_array(data.draw(numbers((n, k), ("float32", "float64", "int8", "bool")))) for k in (d, K))
    if data.draw(st.integers(0, 7)) == 7 and X.nnz:
        X = X.astype(np.float64)
        X.data[0] = np.nan
    given, wrong = data.draw(
        options(
            test_share=([0.2, 0.5, 0.999], [0, 1, None, "0.2", np.nan]),
            seed=([0, 7], [-1, None]),
            dtype=(["float32", "float64"], WRONG_DTYPES),
        )
    )
    if "dtype" not in wrong:
        wrong += [f"{name}.npz" for name, part in (("X", X), ("Y", Y)) if not is_finite(part, given["dtype"])]
    kept, place = folder()
    with kept:
        sparse.save_npz(place / "X.npz", X)
        sparse.save_npz(place / "Y.npz", Y)
        if data.draw(st.integers(0, 7)) == 7:
            damaged = (place / "Y.npz").read_bytes()
            (place / "Y.npz").write_bytes(damaged[: data.draw(st.integers(0, len(damaged) - 1))])
            wrong.append("Y.npz")
        result = tried(lambda: datasets.load_dataset(place, **given), *wrong)
    assert isinstance(result, Refusal) == bool(wrong), result
    if wrong:
        return
    for name, whole in (("X", X), ("Y", Y)):
        parts = getattr(result, f"{name}_train"), getattr(result, f"{name}_test")
        assert sum(part.shape[0] for part in parts) == n
        assert all(part.dtype == given["dtype"] and np.isfinite(part.data).all() for part in parts)
        got = np.sort(np.concatenate([part.data for part in parts]))
        assert_same(got, np.sort(without_zeros(whole, given["dtype"]).data))


def is_finite(matrix, dtype):
    with np.errstate(over="ignore"):
        return bool(np.isfinite(matrix.data.astype(dtype)).all())
