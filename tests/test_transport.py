"""Models in other processes: pickled with buffers beside them, which arrive read-only and at any address."""

import pickle

import numpy as np
import pytest
import reference
from scipy import sparse

import shore

PROBLEM = shore.datasets.make_synthetic(60, 8, 50, sparsity=2, snr_db=30, seed=0)
X, Y = PROBLEM.X, PROBLEM.Y
ROWS = sparse.csr_array(X)
COMPRESSIONS = ["gaussian", "sparse_sign", "head_tail", None]


def sent(value):
    """The same as it arrives from another process, its buffers at odd addresses."""
    buffers = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    odd = []
    for buffer in buffers:
        memory = np.empty(buffer.raw().nbytes + 1, dtype=np.uint8)
        at = 1 - memory.ctypes.data % 2
        memory[at : at + buffer.raw().nbytes] = np.frombuffer(buffer.raw(), dtype=np.uint8)
        odd.append(memoryview(memory)[at : at + buffer.raw().nbytes].toreadonly())
    return pickle.loads(data, buffers=odd)


def fitted(compression, dtype=np.float32, **options):
    return shore.ShoreRegressor(2, n_components=20, compression=compression, dtype=dtype, **options).fit(X, Y)


def test_what_is_sent_lies_at_odd_addresses():
    assert not sent(X).flags.aligned
    assert not sent(X).flags.writeable
    assert not sent(ROWS).indices.flags.aligned


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@pytest.mark.parametrize("from_file", [False, True], ids=["fitted", "loaded"])
def test_a_model_predicts_as_before(tmp_path, compression, dtype, from_file):
    model = fitted(compression, dtype, fit_intercept=True)
    if from_file:  # Φ is then sent as it is, not as a seed
        model.save(tmp_path / "m.shore")
        model = shore.load(tmp_path / "m.shore")
    expected = model.predict(ROWS)
    again = sent(model)
    for rows in (ROWS, sent(ROWS), X, sent(X)):
        reference.assert_same_bits(again.predict(rows), model.predict(rows))
    assert all(part.flags.aligned for part in vars(again).values() if isinstance(part, np.ndarray))
    indices, values = sent(model.predictor())(X[0].astype(dtype))
    start, end = expected.indptr[:2]
    np.testing.assert_array_equal(indices, expected.indices[start:end])
    np.testing.assert_array_equal(values, model.predict(X[:1]).data)


@pytest.mark.parametrize(
    "phi",
    [
        shore.GaussianCompression(20, 50),
        shore.MatrixCompression(np.random.default_rng(0).normal(size=(20, 50))),
        shore.SparseSignCompression(20, 50),
        shore.HeadTailCompression(20, 1 / np.arange(1.0, 51)),
        shore.HeadTailCompression(20, 1 / np.arange(1.0, 51)).astype(np.float64),
    ],
    ids=repr,
)
def test_a_compression_is_read_where_it_is_aligned(phi):
    again = sent(phi)
    np.testing.assert_array_equal(again.toarray(), phi.toarray())
    held = [part for part in vars(again).values() if isinstance(part, np.ndarray)]
    assert held
    assert all(part.flags.aligned for part in held)
    B = phi.compress(Y)
    np.testing.assert_array_equal(again.compress(sent(Y)), B)
    reference.assert_same_bits(shore.decode(sent(B), again, 2), shore.decode(B, phi, 2))


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
def test_partial_fit_goes_on(compression):
    here = shore.ShoreRegressor(2, n_components=20, compression=compression, fit_intercept=True)
    here.partial_fit(X[:30], Y[:30])
    there = sent(here)
    for model in (here, there):
        model.partial_fit(X[30:], Y[30:])
    np.testing.assert_array_equal(there.coef_, here.coef_)
    merged = sent(here).merge(sent(there))
    assert merged.predict(X).shape == Y.shape


@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
def test_rows_that_were_sent_are_fitted_alike(solver):
    for rows in (X, ROWS):
        model = shore.ShoreRegressor(2, n_components=20, solver=solver)
        plain = model.fit(rows, Y).coef_
        np.testing.assert_array_equal(model.fit(sent(rows), sent(Y)).coef_, plain)
