"""A model that is read is the model that was written."""

import copy
import json
import mmap
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reference
from forging import forge, pieces
from small_models import MODELS, X, Y, assert_same_model, fitted

import shore
from shore._core import runtime


@pytest.mark.parametrize("kind", MODELS)
def test_round_trip(kind, models, tmp_path):
    model, path = models[kind], tmp_path / "m.shore"
    assert model.save(path) is None
    for options in ({}, {"verify": False}, {"mmap": False}, {"mmap": False, "verify": False}):
        again = shore.load(path, **options)
        assert_same_model(again, model)
        assert not again._feature_major.flags.writeable
        np.testing.assert_array_equal(again.predict_compressed(X), model.predict_compressed(X))
        assert_same_explanation(again.explain(X[:3]), model.explain(X[:3]))
        again.save(tmp_path / "again.shore")
        assert_same_model(shore.load(tmp_path / "again.shore"), model)
    assert sorted(os.listdir(tmp_path)) == ["again.shore", "m.shore"]


def assert_same_explanation(one, other):
    for name, column in one.to_dict().items():
        np.testing.assert_array_equal(column, other.to_dict()[name])


@pytest.mark.parametrize("kind", ["signs", "gaussian", "matrix", "uncompressed", "names"])
@pytest.mark.parametrize("weights", [None, "float16"])
def test_a_loaded_model_is_a_model(kind, weights, models, tmp_path):
    models[kind].save(tmp_path / "m.shore", weights=weights)
    model = shore.load(tmp_path / "m.shore")
    (tmp_path / "m.shore").unlink()  # a mapping stays
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert_same_model(again, model)
    assert np.diff(again.set_params(sparsity=2).predict(X).indptr).max() <= 2
    inputs = MODELS[kind].get("inputs", X)
    assert_same_model(copy.deepcopy(model).fit(inputs, Y), models[kind])
    scale = np.abs(models[kind].coef_).max()
    np.testing.assert_allclose(model.partial_fit(X, Y).coef_, models[kind].coef_, rtol=0, atol=1e-5 * scale)


def test_joblib(models, tmp_path):
    joblib = pytest.importorskip("joblib")
    models["signs"].save(tmp_path / "m.shore")
    model = shore.load(tmp_path / "m.shore")
    joblib.dump(model, tmp_path / "m.joblib")
    assert_same_model(joblib.load(tmp_path / "m.joblib"), model)
    for found in joblib.Parallel(n_jobs=2, max_nbytes=100)(joblib.delayed(model.predict)(X) for _ in range(2)):
        reference.assert_same_bits(found, model.predict(X))


def test_a_stored_compression_pickles_its_numbers_not_its_seed(models, tmp_path):
    path = tmp_path / "m.shore"
    for kind, tensor, change in (("signs", "tables", swapped), ("gaussian", "columns", lambda columns: columns[::-1])):
        models[kind].save(path)
        forge(path, {tensor: change})
        model = shore.load(path)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.compression_.toarray(), model.compression_.toarray())
        assert (again.compression_.toarray() != models[kind].compression_.toarray()).any()
        parts = [shore.ShoreRegressor(3, compression=m.compression_).partial_fit(X, Y) for m in (model, models[kind])]
        with pytest.raises(ValueError, match="same compression"):
            parts[0].merge(parts[1])
        parts[0].merge(shore.ShoreRegressor(3, compression=again.compression_).partial_fit(X, Y))


def swapped(tables):
    """The first two outputs in each other's place."""
    tables = tables.copy().reshape(-1, 16)
    tables[:, [0, 1]] = tables[:, [1, 0]]
    return tables.reshape(-1)


def test_partial_fit_is_solved_and_starts_anew(tmp_path):
    model = shore.ShoreRegressor(3, n_components=40, fit_intercept=True).partial_fit(X[:60], Y[:60])
    model.partial_fit(X[60:], Y[60:])
    model.save(tmp_path / "m.shore")
    again = shore.load(tmp_path / "m.shore")
    assert_same_model(again, model)
    with pytest.raises(ValueError, match="merge needs two models that were fitted by partial_fit"):
        again.merge(model)


def test_misaligned_tensors_are_copied(path, models):
    header, body = pieces(path)
    text = json.dumps(header).encode()
    for more in range(1, 9):
        longer = text + b" " * more
        path.write_bytes(len(longer).to_bytes(8, "little") + longer + body)
        for mapped in (True, False):
            model = shore.load(path, mmap=mapped)
            assert model._feature_major.flags.aligned
            assert_same_model(model, models["names"])


def test_many_threads_load_one_file(path, models):
    with ThreadPoolExecutor(8) as pool:
        for model in pool.map(lambda _: shore.load(path), range(40)):
            assert_same_model(model, models["names"])


def test_a_mapped_model_has_the_pages_of_the_file(path):
    def owner(array):
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        return array.obj if isinstance(array, memoryview) else array

    model = shore.load(path)
    for array in (model._feature_major, model.intercept_):
        assert isinstance(owner(array), mmap.mmap)
    # what kernels take for places in memory must stay as it was checked
    assert isinstance(owner(model.compression_._tables), np.ndarray)
    assert isinstance(owner(shore.load(path, mmap=False)._feature_major), np.ndarray)


# ---------------------------------------------------------------- half precision

COMPARE = """
import sys
from pathlib import Path
import numpy as np
from scipy import sparse
import shore

level, folder = sys.argv[1], Path(sys.argv[2])
assert shore._core.runtime.simd()[0] == level
X = np.load(folder / "X.npy")
half, expanded = shore.load(folder / "half.shore"), shore.load(folder / "expanded.shore")
assert half._feature_major.dtype == np.float16
for rows in (X, sparse.csr_array(X)):
    np.testing.assert_array_equal(half.predict_compressed(rows), expanded.predict_compressed(rows))
    found, expected = half.predict(rows), expanded.predict(rows)
    assert found.dtype == np.float32
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
one, other = half.explain(X[:5]).to_dict(), expanded.explain(X[:5]).to_dict()
for name, column in one.items():
    np.testing.assert_array_equal(column, other[name])
np.testing.assert_array_equal(half.coef_, expanded.coef_)
assert half.coef_.dtype == np.float32 and half.predict(X[:0]).dtype == np.float32
"""


@pytest.mark.parametrize("options", [{}, {"compression": "gaussian"}, {"compression": None, "fit_intercept": True}])
@pytest.mark.parametrize("level", runtime.LEVELS[: runtime.LEVELS.index(runtime.simd()[1]) + 1])
def test_half_precision_predicts_as_its_expansion(options, level, tmp_path):
    model = fitted(**options)
    model.save(tmp_path / "half.shore", weights="float16")
    expanded = copy.deepcopy(model)
    expanded._feature_major = model._feature_major.astype(np.float16).astype(np.float32)
    expanded.save(tmp_path / "expanded.shore")
    np.save(tmp_path / "X.npy", X)
    command = [sys.executable, "-c", COMPARE, level, str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, "SHORE_SIMD": level}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_half_precision_halves_the_file_and_stays(tmp_path):
    model = fitted(n_components=4000)
    model.save(tmp_path / "m.shore")
    model.save(tmp_path / "half.shore", weights="float16")
    sizes = [(tmp_path / name).stat().st_size for name in ("m.shore", "half.shore")]
    assert sizes[0] - sizes[1] == pytest.approx(2 * 12 * 4000, abs=8)
    half = shore.load(tmp_path / "half.shore")
    assert np.dtype(half.dtype) == np.float32
    for weights in (None, "float16"):
        half.save(tmp_path / "again.shore", weights=weights)
        assert_same_model(shore.load(tmp_path / "again.shore"), half)
    assert half.fit(X, Y).coef_.tobytes() == model.coef_.tobytes()


def test_half_precision_is_refused_where_it_cannot_be(tmp_path):
    path = tmp_path / "m.shore"
    with pytest.raises(ValueError, match="weights='float16' is for float32 models, but this one is float64"):
        fitted(dtype=np.float64).save(path, weights="float16")
    model = fitted()
    for largest in (65505.0, -1e30):
        model._feature_major[3, 3] = largest
        with pytest.raises(ValueError, match=r"weights='float16' cannot hold W: its largest entry is .*ends at 65504"):
            model.save(path, weights="float16")
    model._feature_major[3, 3], model._feature_major[4, 4] = 65504, 7e-8  # the largest half, and a subnormal one
    model.save(path, weights="float16")
    again = shore.load(path)
    assert (again.coef_[3, 3], again.coef_[4, 4]) == (65504, 2.0**-24)
