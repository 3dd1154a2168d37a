"""Predictors of models that were loaded from a file."""

import multiprocessing
import pickle

import numpy as np
import pytest
import reference
from scipy import sparse

import shore
from shore.datasets import make_synthetic

DATA = make_synthetic(300, 20, 150, sparsity=3, snr_db=30, seed=1)


def rows_of(predictor, X):
    """What the predictor gives for dense rows, as a CSR."""
    found = [predictor(x) for x in X]
    indptr = np.cumsum([0] + [len(indices) for indices, _ in found])
    parts = [np.concatenate(part) for part in zip(*found, strict=True)]
    return sparse.csr_array((parts[1], parts[0], indptr), shape=(len(X), predictor.n_outputs))


@pytest.mark.parametrize("compression", ["sparse_sign", "gaussian", None])
@pytest.mark.parametrize("weights", [None, "float16"])
@pytest.mark.parametrize("mmap", [True, False])
def test_predictor_of_a_loaded_model_has_the_bits_of_predict(tmp_path, compression, weights, mmap):
    model = shore.ShoreRegressor(3, n_components=64, compression=compression, fit_intercept=True).fit(DATA.X, DATA.Y)
    model.save(tmp_path / "m.shore", weights=weights)
    loaded = shore.load(tmp_path / "m.shore", mmap=mmap)
    predictor = loaded.predictor()
    reference.assert_same_bits(rows_of(predictor, DATA.X[:50]), loaded.predict(DATA.X[:50]))
    csr = sparse.csr_array(DATA.X[:20])
    expected = loaded.predict(csr)
    for i in range(20):
        row = slice(csr.indptr[i], csr.indptr[i + 1])
        indices, values = predictor(csr.indices[row], csr.data[row])
        here = slice(expected.indptr[i], expected.indptr[i + 1])
        np.testing.assert_array_equal(indices, expected.indices[here])
        np.testing.assert_array_equal(values, expected.data[here])
    if weights is None:
        reference.assert_same_bits(loaded.predict(DATA.X), model.predict(DATA.X))
    del loaded
    again = pickle.loads(pickle.dumps(predictor))
    reference.assert_same_bits(rows_of(again, DATA.X[:5]), rows_of(predictor, DATA.X[:5]))


def serve(path, X, results):
    results.put(rows_of(shore.load(path).predictor(), X).toarray())


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_that_load_one_file_agree(tmp_path, method):
    model = shore.ShoreRegressor(3, n_components=64).fit(DATA.X, DATA.Y)
    model.save(tmp_path / "m.shore")
    context = multiprocessing.get_context(method)
    results = context.Queue()
    workers = [context.Process(target=serve, args=(tmp_path / "m.shore", DATA.X[:20], results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in workers:
            np.testing.assert_array_equal(results.get(timeout=120), model.predict(DATA.X[:20]).toarray())
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()
