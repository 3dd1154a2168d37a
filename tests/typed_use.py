"""Uses of the public surface, with the types that a reader expects: for mypy and pyright, in strict mode.

`make lint` checks it; tests/test_typing.py runs it.
"""

from typing import assert_type

import numpy as np
import numpy.typing as npt
from scipy import sparse

import shore
from shore.datasets import make_synthetic


def stages(phi: shore.SparseSignCompression) -> None:
    B: npt.NDArray[np.float32] = np.ones((2, phi.n_components), dtype=np.float32)
    assert_type(shore.project(B, 3, shore.Box(-1.0, 1.0)), sparse.csr_array)
    plain = shore.decode(B, phi, 3, constraint="nonneg", denied=[1, 2])
    assert_type(plain, sparse.csr_array)
    found, info = shore.decode(B, phi, 3, return_info=True)
    assert_type(found, sparse.csr_array)
    assert_type(info, shore.DecodeInfo)
    assert_type(info.residual, npt.NDArray[np.float64])
    assert_type(info.converged, npt.NDArray[np.bool_])
    assert_type(shore.decode(B, phi, 3, return_info=False), sparse.csr_array)


def model() -> shore.ShoreRegressor:
    data = make_synthetic(200, 10, 300, sparsity=2)
    fitted = shore.ShoreRegressor(sparsity=2, n_components=50, constraint=shore.Simplex(2.0)).fit(data.X, data.Y)
    assert_type(fitted, shore.ShoreRegressor)
    assert_type(fitted.predict(data.X), sparse.csr_array)
    found, info = fitted.predict(data.X, sparsity=1, return_info=True)
    assert_type(found, sparse.csr_array)
    assert_type(info, shore.DecodeInfo)
    assert_type(fitted.score(data.X, data.Y), float)
    assert_type(fitted.explain(data.X[:1]), shore.Explanation)
    predictor = fitted.predictor()
    assert_type(predictor, shore.Predictor)
    return fitted


def interface(phi: shore.SparseSignCompression) -> None:
    assert_type(shore.get_include(), str)
    assert_type(shore.capi.ABI_VERSION, int)
    assert_type(shore.capi.phi(phi), object)


def main() -> None:
    phi = shore.SparseSignCompression(20, 100)
    stages(phi)
    interface(phi)
    fitted = model()
    assert_type(shore.metrics.precision_at_k(np.eye(3), np.eye(3), 1), float)
    assert_type(shore.theory.components_for(3, 1000), int)
    assert_type(fitted.sparsity, int)


if __name__ == "__main__":
    main()
