"""The paper's running times: every method against m on one synthetic problem, and on data sets if there are any."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._progress import Progress
from shore.compression import COMPRESSIONS, Compression, compression_for
from shore.datasets import load_dataset, make_synthetic
from shore.estimator import ShoreRegressor
from shore.experiments.cells import METHODS, check_names, check_paths, measure
from shore.experiments.store import Store
from shore.experiments.summary import summarise

__all__ = ["TimingSettings", "run_timing"]

# Rows of one product ΦᵀB: its result is written, K numbers a row.
_PRODUCT_ROWS = 1024
# Milliseconds a row: fewer rows tell its time as well.
_MOST_ROWS = {"fista": 100}


@dataclass(frozen=True)
class TimingSettings:
    """What is run; the defaults are the paper's sizes of stage 2, on which the time of a decoder depends.

    Attributes
    ----------
    n_samples, n_features, n_outputs, sparsity : int
        Of the synthetic problem, the last 20 % of whose rows are decoded.
    m, methods, compressions : tuple
        What is varied. 'blas' is one product ΦᵀB, the yardstick.
    repeats : int
        All methods in turns, so many times.
    """

    n_samples: int = 30_000
    n_features: int = 1000
    n_outputs: int = 20_000
    sparsity: int = 3
    snr_db: float = 10.0
    m: tuple[int, ...] = (100, 300, 500, 700, 1000, 1500, 2000)
    repeats: int = 5
    methods: tuple[str, ...] = ("blas", "pgd", "cd", "omp", "fista", "sklearn_omp", "elastic_net")
    compressions: tuple[str, ...] = ("gaussian", "sparse_sign")
    alpha: float = 1.0
    constraint: str = "nonneg"
    step: float = 0.9
    max_iter: int = 60
    tol: float = 1e-6
    seed: int = 0

    @classmethod
    def preset(cls, name: str) -> TimingSettings:
        """'paper', or 'quick': fewer rows and repeats."""
        if name == "paper":
            return cls()
        if name == "quick":
            return cls(n_samples=2500, n_features=100, repeats=3, m=(100, 300, 500, 1000, 2000))
        raise ValueError(f"preset must be 'quick' or 'paper', got {name!r}")

    def fixed(self) -> dict[str, Any]:
        """What must not change while results are collected in one folder."""
        varied = ("m", "repeats", "methods", "compressions")
        return {"experiment": "timing", **{k: v for k, v in asdict(self).items() if k not in varied}}


def _product(B: npt.NDArray[Any], Phi: npt.NDArray[Any], n_threads: int | None) -> dict[str, Any]:
    """One BLAS product of every row with every column of Φ."""
    with limit_blas(resolve_n_threads(n_threads)):
        out = np.empty((min(_PRODUCT_ROWS, B.shape[0]), Phi.shape[1]), dtype=Phi.dtype)
        start = time.perf_counter()
        for row in range(0, B.shape[0], _PRODUCT_ROWS):
            block = B[row : row + _PRODUCT_ROWS]
            np.matmul(block, Phi, out=out[: block.shape[0]])
        seconds = time.perf_counter() - start
    return {"method": "blas", "rows": B.shape[0], "seconds": seconds, "us_per_row": seconds / B.shape[0] * 1e6}


def _problems(
    settings: TimingSettings, paths: Sequence[str | os.PathLike[str]], n_threads: int | None
) -> Iterator[tuple[str, float | None, Any, sparse.csr_array, Any, sparse.csr_array]]:
    """(name, noise level, X, Y, X_test, Y_test), one by one."""
    problem = make_synthetic(
        settings.n_samples, settings.n_features, settings.n_outputs, sparsity=settings.sparsity,
        snr_db=settings.snr_db, constraint=settings.constraint, seed=settings.seed, n_threads=n_threads,
    )  # fmt: skip
    n = settings.n_samples * 4 // 5
    yield "synthetic", settings.snr_db, problem.X[:n], problem.Y[:n], problem.X[n:], problem.Y[n:]
    for path in paths:
        data = load_dataset(path)
        yield data.name, None, data.X_train, data.Y_train, data.X_test, data.Y_test


def _time_cell(
    settings: TimingSettings, phi: Compression, B: npt.NDArray[Any], Y: sparse.csr_array,
    missing: Mapping[int, Sequence[str]], n_threads: int | None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Rows of the methods that are `missing`, by repeat."""
    options: dict[str, Any] = {"step": settings.step, "max_iter": settings.max_iter, "tol": settings.tol}
    asked = set().union(*missing.values())
    Phi = phi.toarray() if "blas" in asked else None
    for _ in measure([m for m in ("pgd", "cd", "omp", "fista") if m in asked], B[:64], Y[:64], phi,
                     settings.sparsity, settings.constraint, n_threads, **options):  # fmt: skip
        pass  # warms up threads and caches
    for repeat, methods in missing.items():
        if Phi is not None and "blas" in methods:
            yield {"trial": repeat, "sparsity": settings.sparsity, **_product(B, Phi, n_threads)}
            time.sleep(0.2)  # idle threads of a BLAS spin for a while after a call
        decoders = [method for method in methods if method != "blas"]
        for row in measure(
            decoders, B, Y, phi, settings.sparsity, settings.constraint, n_threads, _MOST_ROWS, **options
        ):
            yield {"trial": repeat, **row}


def _missing(settings: TimingSettings, store: Store, cell: dict[str, Any]) -> dict[int, list[str]]:
    """The methods that are not there yet, by repeat."""
    missing = {}
    for repeat in range(settings.repeats):
        methods = [m for m in settings.methods if not store.has(**cell, trial=repeat, method=m)]
        if methods:
            missing[repeat] = methods
    return missing


def run_timing(
    settings: TimingSettings,
    output: str | os.PathLike[str],
    *,
    paths: Sequence[str | os.PathLike[str]] = (),
    n_threads: int | None = None,
    verbose: bool = False,
) -> Store:
    """Run what is missing, and write results.csv, figures and report.md into the folder.

    Parameters
    ----------
    settings : TimingSettings
    output : path
        A folder. One that holds results of the same problem is gone on with.
    paths : sequence of paths
        Data sets to time too, each a folder or file that `shore.datasets.load_dataset` reads.
    n_threads : int, optional
        None for the cores this process may use.
    verbose : bool, default False
        Show progress.
    """
    settings = replace(
        settings,
        methods=check_names(settings.methods, ("blas", *METHODS), "methods"),
        compressions=check_names(settings.compressions, tuple(COMPRESSIONS), "compressions"),
    )
    if settings.n_samples < 5:
        raise ValueError(f"n_samples must be at least 5, got {settings.n_samples}")
    check_paths(paths, taken=["synthetic"])
    store = Store(output, settings.fixed())
    total = (1 + len(paths)) * len(settings.compressions) * len(settings.m)
    with Progress("experiment timing", total, show=verbose) as progress:
        for name, snr_db, X, Y, X_test, Y_test in _problems(settings, paths, n_threads):
            for kind in settings.compressions:
                for m in settings.m:
                    cell = {"dataset": name, "snr_db": snr_db, "compression": kind, "m": m}
                    missing = _missing(settings, store, cell)
                    if missing:
                        phi = compression_for(Y, kind, m)
                        model = ShoreRegressor(compression=phi, alpha=settings.alpha, n_threads=n_threads).fit(X, Y)
                        B = model.predict_compressed(X_test)
                        rows = list(_time_cell(settings, phi, B, Y_test, missing, n_threads))
                        store.add({**cell, **row} for row in rows)
                    progress.advance(1)
    summarise(store, "timing")
    return store
