from pathlib import Path

import numpy as np
import pytest
import reference
from scipy import sparse

from shore.datasets import load_dataset, load_xmc, save_xmc

REAL = Path(__file__).parents[2] / ".." / "shared" / "data"


def rows(n, columns, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array((rng.random((n, columns)) * (rng.random((n, columns)) < 0.5)).astype(np.float32))


X, Y, X_TEST, Y_TEST = rows(10, 6), (rows(10, 4, 1) > 0).astype(np.float32), rows(3, 6, 2), rows(3, 4, 3)
NAMES = ("X_train", "Y_train", "X_test", "Y_test")


def write_npz(folder, **matrices):
    for name, matrix in matrices.items():
        sparse.save_npz(folder / f"{name}.npz", matrix)


def assert_is(data, *expected):
    for name, matrix in zip(NAMES, expected, strict=True):
        found = getattr(data, name)
        reference.assert_canonical(found, matrix.shape, matrix.shape[1], matrix.dtype)
        reference.assert_same_bits(found, matrix)


def test_folder_of_four_matrices(tmp_path):
    stored = X.copy()
    stored.data[0] = 0
    write_npz(tmp_path, X_train=stored.tocsc(), Y_train=Y.astype(bool), X_test=X_TEST, Y_test=Y_TEST.astype(float))
    clean = stored.copy()
    clean.eliminate_zeros()
    data = load_dataset(tmp_path)
    assert data.name == tmp_path.name
    assert_is(data, clean, Y, X_TEST, Y_TEST)
    assert load_dataset(str(tmp_path), dtype=np.float64).Y_train.dtype == np.float64


def test_folder_of_two_matrices_is_split(tmp_path):
    write_npz(tmp_path, X=X, Y=Y)
    data = load_dataset(tmp_path, test_share=0.3, seed=5)
    assert (data.X_train.shape, data.X_test.shape) == ((7, 6), (3, 6))
    both = {tuple(row) for part in (data.X_train, data.X_test) for row in part.toarray()}
    assert both == {tuple(row) for row in X.toarray()}
    for x, y in ((data.X_train, data.Y_train), (data.X_test, data.Y_test)):  # rows stay together
        for row, outputs in zip(x.toarray(), y.toarray(), strict=True):
            at = int(np.flatnonzero((X.toarray() == row).all(axis=1))[0])
            np.testing.assert_array_equal(outputs, Y.toarray()[at])
    again, other = load_dataset(tmp_path, test_share=0.3, seed=5), load_dataset(tmp_path, test_share=0.3, seed=6)
    reference.assert_same_bits(again.X_test, data.X_test)
    assert (other.X_test != data.X_test).nnz > 0


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_both_parts_have_rows(share, tmp_path):
    write_npz(tmp_path, X=X, Y=Y)
    data = load_dataset(tmp_path, test_share=share)
    assert sorted((data.X_train.shape[0], data.X_test.shape[0])) == [1, 9]


@pytest.mark.parametrize(
    ("train", "test"), [("a_train.txt", "a_test.txt"), ("trn.txt.gz", "tst.txt"), ("Train.TXT", "Test.TXT.GZ")]
)
def test_folder_of_two_texts(train, test, tmp_path):
    save_xmc(tmp_path / train, X, Y)
    save_xmc(tmp_path / test, X_TEST, Y_TEST)
    (tmp_path / "README.md").write_text("train and test")
    (tmp_path / "a_tstSplit.txt").write_text("1\n2\n")
    assert_is(load_dataset(tmp_path), X, Y, X_TEST, Y_TEST)


def test_one_text_is_split(tmp_path):
    path = tmp_path / "tiny_data.txt.gz"
    save_xmc(path, X, Y)
    by_folder, by_file = load_dataset(tmp_path, seed=3), load_dataset(path, seed=3)
    assert (by_folder.name, by_file.name) == (tmp_path.name, "tiny_data")
    assert by_file.X_train.shape == (8, 6)
    assert_is(by_folder, *(getattr(by_file, name) for name in NAMES))
    reference.assert_same_bits(load_xmc(path)[0], X)


def test_what_is_no_data_set_is_described(tmp_path):
    with pytest.raises(ValueError, match=r"looked for X_train.npz, .*; found no files"):
        load_dataset(tmp_path)
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(ValueError, match=r"found notes.md"):
        load_dataset(tmp_path)
    for name in ("a.txt", "b.txt"):
        save_xmc(tmp_path / name, X, Y)
    with pytest.raises(ValueError, match=r"found a.txt, b.txt, notes.md"):
        load_dataset(tmp_path)
    write_npz(tmp_path, X_train=X, Y_test=Y)
    with pytest.raises(ValueError, match=r"holds X_train.npz, Y_test.npz, but not Y_train.npz, X_test.npz"):
        load_dataset(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_dataset(tmp_path / "none")
    with pytest.raises(TypeError, match="path must be a str"):
        load_dataset(None)


def test_parts_must_fit(tmp_path):
    write_npz(tmp_path, X_train=X, Y_train=Y, X_test=rows(3, 7), Y_test=Y_TEST)
    with pytest.raises(ValueError, match=r"the same features, but .*_train.npz has 6 and \*_test.npz has 7"):
        load_dataset(tmp_path)
    write_npz(tmp_path, X_test=rows(2, 6))
    with pytest.raises(ValueError, match=r"X_test.npz and Y_test.npz must have the same number of rows, got 2 and 3"):
        load_dataset(tmp_path)
    texts = tmp_path / "texts"
    texts.mkdir()
    save_xmc(texts / "train.txt", X, Y)
    save_xmc(texts / "test.txt", X_TEST, rows(3, 9))
    with pytest.raises(ValueError, match=r"the same outputs, but .*train.txt has 4 and test.txt has 9"):
        load_dataset(texts)


@pytest.mark.parametrize("options", [{"test_share": 0}, {"test_share": 1.0}, {"test_share": np.nan}, {"seed": -1}])
def test_bad_arguments(options, tmp_path):
    write_npz(tmp_path, X=X, Y=Y)
    with pytest.raises(ValueError, match=next(iter(options))):
        load_dataset(tmp_path, **options)
    with pytest.raises(TypeError, match="test_share must be a number"):
        load_dataset(tmp_path, test_share="0.2")


def test_bad_matrices(tmp_path):
    write_npz(tmp_path, X=X, Y=Y)
    for content, words in (
        (b"no zip", "not a matrix"),
        (b"PK\x03\x04", "not a matrix"),
        (b"", "not a matrix"),
    ):
        (tmp_path / "X.npz").write_bytes(content)
        with pytest.raises(ValueError, match=rf"X.npz: {words}"):
            load_dataset(tmp_path)
    np.savez(tmp_path / "X.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"X.npz: not a matrix"):
        load_dataset(tmp_path)
    np.savez(tmp_path / "X.npz", format=np.array([{"an": "object"}], dtype=object))  # a pickle is not opened
    with pytest.raises(ValueError, match=r"X.npz: not a matrix"):
        load_dataset(tmp_path)
    for value, options in ((np.nan, {}), (1e300, {"dtype": np.float32})):
        wrong = X.astype(float)
        wrong.data[3] = value
        write_npz(tmp_path, X=wrong)
        with pytest.raises(ValueError, match=r"X.npz: values must be finite in float32"):
            load_dataset(tmp_path, **options)
    outside = sparse.csr_array((X.data, X.indices.copy(), X.indptr), shape=X.shape)
    outside.indices[-1] = 77
    write_npz(tmp_path, X=outside)
    with pytest.raises(ValueError, match=r"X.npz is not a valid sparse matrix"):
        load_dataset(tmp_path)
    write_npz(tmp_path, X=X[:1], Y=Y[:1])
    with pytest.raises(ValueError, match="at least 2 rows"):
        load_dataset(tmp_path)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not part of the repository")
def test_real_data_goes_through_text_and_back(tmp_path):
    data = load_dataset(REAL / "bibtex")
    assert (data.name, data.X_train.shape, data.Y_test.shape) == ("bibtex", (4880, 1836), (2515, 159))
    save_xmc(tmp_path / "train.txt", data.X_train, data.Y_train)
    save_xmc(tmp_path / "test.txt.gz", data.X_test, data.Y_test)
    assert_is(load_dataset(tmp_path), *(getattr(data, name) for name in NAMES))
