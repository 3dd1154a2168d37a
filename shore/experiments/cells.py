"""One cell of a grid: the test rows decoded with every method, and what came of it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore.compression import Compression
from shore.constraints import Constraint
from shore.datasets.files import dataset_name
from shore.decoders import DecodeInfo, decode
from shore.metrics import output_difference, precision_at_k, prediction_loss
from shore.projection import project

__all__ = [
    "METHODS",
    "check_names",
    "check_paths",
    "measure",
    "run_method",
]

Array = npt.NDArray[Any]

# shore's decoders, and scikit-learn's as the paper ran them.
METHODS = ("pgd", "cd", "omp", "fista", "elastic_net", "sklearn_omp")
# scikit-learn's take up to a tenth of a second for a row, and fista tens of milliseconds: they are given the first
# so many rows only.
_SLOW = ("elastic_net", "sklearn_omp")
_MOST_ROWS = {"elastic_net": 20, "sklearn_omp": 20, "fista": 2000}


def check_names(given: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """The names, or an error that lists the known ones."""
    for name in given:
        if name not in known:
            raise ValueError(f"{what} must be among {', '.join(known)}, got {name!r}")
    return tuple(dict.fromkeys(given))


def check_paths(paths: Sequence[str | os.PathLike[str]], taken: Sequence[str] = ()) -> None:
    """Refuse two data sets of one name: results are kept by it, so the second would pass for done."""
    names = list(taken)
    for path in paths:
        name = dataset_name(path)
        if name in names:
            raise ValueError(f"data must have different names, but {name!r} is there twice: rename {os.fspath(path)}")
        names.append(name)


def _by_scikit_learn(method: str, B: Array, Phi: Array, sparsity: int) -> sparse.csr_array:
    """Row by row; the paper's baselines as it names them."""
    try:
        from sklearn.linear_model import ElasticNet, orthogonal_mp
    except ImportError:
        raise ValueError(f"{method} needs scikit-learn: pip install 'shore[experiments]'") from None
    rows = []
    for b in B:
        if method == "elastic_net":  # both weights 0.1: alpha·l1_ratio and alpha·(1 - l1_ratio)
            model = ElasticNet(alpha=0.2, l1_ratio=0.5, fit_intercept=False)
            rows.append(sparse.csr_array(model.fit(Phi, b).coef_[None]))
        else:
            rows.append(sparse.csr_array(orthogonal_mp(Phi, b, n_nonzero_coefs=sparsity)[None]))
    return sparse.csr_array(sparse.vstack(rows, format="csr"))


def run_method(
    method: str, B: Array, compression: Compression, sparsity: int, constraint: Constraint,
    n_threads: int | None = None, **options: Any,
) -> tuple[sparse.csr_array, DecodeInfo | None, float]:  # fmt: skip
    """Sparse outputs for the rows of B, notes of the decoder if it is shore's, and the seconds that it took."""
    if method in _SLOW:
        Phi = np.asfortranarray(compression.toarray())
        with warnings.catch_warnings(), limit_blas(resolve_n_threads(n_threads)):
            warnings.simplefilter("ignore")  # not converged, or ended prematurely: that is its result
            start = time.perf_counter()
            raw = _by_scikit_learn(method, B, Phi, sparsity)
            found = project(raw, sparsity, constraint, n_threads=n_threads)
            return found, None, time.perf_counter() - start
    if method == "fista":
        compression.squared_norm()  # once for a Φ, not once for a call
    start = time.perf_counter()
    found, info = decode(
        B, compression, sparsity, method=method, constraint=constraint, n_threads=n_threads, return_info=True, **options
    )
    return found, info, time.perf_counter() - start


def measure(
    methods: Sequence[str], B: Array, Y: sparse.csr_array, compression: Compression, sparsity: int,
    constraint: Constraint, n_threads: int | None = None, most_rows: Mapping[str, int] | None = None, **options: Any,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """What every method makes of the compressed predictions B, beside the true outputs Y.

    `most_rows` names methods that are given the first so many rows only, beside the slow ones.
    """
    for method in methods:
        slow = method in _SLOW
        rows = slice(0, {**_MOST_ROWS, **(most_rows or {})}.get(method, B.shape[0]))
        found, info, seconds = run_method(
            method, B[rows], compression, sparsity, constraint, n_threads, **({} if slow else options)
        )
        yield {
            "method": method,
            "sparsity": sparsity,
            "rows": found.shape[0],
            "precision": precision_at_k(Y[rows], found, sparsity),
            "output_difference": output_difference(Y[rows], found),
            "prediction_loss": prediction_loss(found, B[rows], compression),
            "seconds": seconds,
            "us_per_row": seconds / max(1, found.shape[0]) * 1e6,
            "iterations": None if info is None else float(info.n_iter.mean()),
            "full_passes": None if info is None else float(info.full_passes.mean()),
            "converged": None if info is None else float(info.converged.mean()),
        }
