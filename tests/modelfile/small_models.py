"""Small models of every kind that a file can hold."""

import numpy as np
import reference

import shore
from shore._core.threads import available_cores
from shore.datasets import make_synthetic

DATA = make_synthetic(120, 12, 70, sparsity=3, snr_db=30, seed=1)
X, Y = DATA.X, DATA.Y


class Frame:
    """Rows with names of columns, as a data frame has them."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.rows, dtype=dtype)


def fitted(inputs=X, **options):
    return shore.ShoreRegressor(3, **{"n_components": 40, **options}).fit(inputs, Y)


def matrix(dtype):
    return shore.MatrixCompression((np.random.default_rng(0).normal(size=(20, 70)) / 4).astype(dtype))


def head_tail(m, H):
    """With the last H outputs in the head, from the heaviest."""
    return shore.HeadTailCompression(m, np.r_[np.full(70 - H, 1e-9), 2.0 ** np.arange(H)], seed=3, dtype=np.float64)


MODELS = {
    "signs": {},
    "signs, few": {"compression": shore.SparseSignCompression(30, 70, nnz_per_output=5, seed=2**64 - 1)},
    "signs, float64": {"dtype": np.float64, "fit_intercept": True},
    "signs, wide tables": {"n_components": 40_000},
    "head and tail": {"compression": "head_tail", "n_components": 50},
    "head and tail, float64": {"compression": head_tail(20, 9), "dtype": np.float64},
    "a head alone": {"compression": "head_tail", "n_components": 80, "fit_intercept": True},
    "no head": {"compression": head_tail(20, 0)},
    "gaussian": {"compression": "gaussian", "random_state": 7},
    "gaussian, float64": {"compression": "gaussian", "dtype": "float64"},
    "matrix": {"compression": matrix(np.float64)},
    "matrix, float32": {"compression": matrix(np.float32)},
    "uncompressed": {"compression": None, "fit_intercept": True},
    "box": {"constraint": shore.Box(-np.inf, 0.1), "decoder": "fista", "l1": 0.25},
    "simplex": {"constraint": shore.Simplex(2.5)},
    "binary": {"constraint": "binary", "decoder": "omp"},
    "real": {"constraint": "real", "decoder": "cd", "step": 0.7, "max_iter": 11, "tol": 0},
    "alpha": {"alpha": "auto", "solver": "cholesky"},
    "cg": {"alpha": np.float32(0.1), "solver": "cg", "solver_tol": 1e-5, "n_threads": np.int64(2), "verbose": True},
    "names": {"inputs": Frame(X, [f'"{i}\\,é😀\n\ud800[' for i in range(12)])},
}


def assert_same_model(one, other):
    for name, value in one.get_params().items():
        if name == "dtype":
            assert np.dtype(value) == np.dtype(other.dtype)
        elif name == "n_threads" and value is not None:  # loading bounds it
            assert min(value, available_cores()) == min(other.n_threads, available_cores())
        elif name != "compression":
            assert value == getattr(other, name), name
    for name in ("n_features_in_", "n_outputs_", "solver_", "n_iter_", "alpha_"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("coef_", "intercept_"):
        mine, its = getattr(one, name), getattr(other, name)
        assert mine.dtype == its.dtype
        assert mine.tobytes() == its.tobytes()
    assert one._feature_major.dtype == other._feature_major.dtype
    assert repr(one.compression) == repr(other.compression)
    assert repr(one.compression_) == repr(other.compression_)
    if one.compression_ is not None:
        np.testing.assert_array_equal(one.compression_.toarray(), other.compression_.toarray())
    names = [model.__dict__.get("feature_names_in_", np.array([])).tolist() for model in (one, other)]
    assert names[0] == names[1]
    paths = [model.__dict__.get("alpha_path_", {}) for model in (one, other)]
    assert paths[0].keys() == paths[1].keys()
    for name, values in paths[0].items():
        np.testing.assert_array_equal(values, paths[1][name])
    reference.assert_same_bits(one.predict(X), other.predict(X))
