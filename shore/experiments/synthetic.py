"""The paper's synthetic experiment: loss ratio, precision and losses against m, for several noise levels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._progress import Progress
from shore.compression import COMPRESSIONS, compression_for
from shore.datasets import make_synthetic
from shore.estimator import ShoreRegressor
from shore.experiments.cells import METHODS, check_names, measure
from shore.experiments.store import Store
from shore.experiments.summary import summarise
from shore.metrics import training_loss
from shore.solvers import Factorisation

__all__ = ["SyntheticSettings", "run_synthetic"]

# Columns of Z are solved for in blocks of about this many bytes.
_BLOCK_BYTES = 1 << 27


@dataclass(frozen=True)
class SyntheticSettings:
    """What is run; the defaults are the paper's.

    Attributes
    ----------
    n_samples, n_features, n_outputs, sparsity : int
        n, d, K and s. The first 80 % of the rows are trained on.
    m, snr_db, methods, compressions : tuple
        What is varied.
    trials : int
        Matrices Φ for each m.
    tol : float
        Of the stopping rule. The paper's text has 1e-6, the box of its Algorithm 2 has 1e-3; with the former PGD takes
        the ten or so iterations that it reports.
    """

    n_samples: int = 30_000
    n_features: int = 10_000
    n_outputs: int = 20_000
    sparsity: int = 3
    m: tuple[int, ...] = (100, 300, 500, 700, 1000, 2000)
    snr_db: tuple[float, ...] = (0.0, 10.0, 30.0)
    trials: int = 10
    methods: tuple[str, ...] = ("pgd", "cd", "omp", "fista")
    compressions: tuple[str, ...] = ("gaussian",)
    constraint: str = "nonneg"
    step: float = 0.9
    max_iter: int = 60
    tol: float = 1e-6
    seed: int = 0

    @classmethod
    def preset(cls, name: str) -> SyntheticSettings:
        """'paper', or 'quick': a problem of the same kind in a minute."""
        if name == "paper":
            return cls()
        if name == "quick":
            return cls(n_samples=5000, n_features=200, n_outputs=2000, trials=3, m=(50, 100, 200, 300, 500, 800))
        raise ValueError(f"preset must be 'quick' or 'paper', got {name!r}")

    def fixed(self) -> dict[str, Any]:
        """What must not change while results are collected in one folder."""
        varied = ("m", "snr_db", "trials", "methods", "compressions")
        return {"experiment": "synthetic", **{k: v for k, v in asdict(self).items() if k not in varied}}


def uncompressed_loss(
    factorisation: Factorisation, X: npt.NDArray[Any], Y: sparse.csr_array, n_threads: int | None = None
) -> float:
    """(1/n)·‖Y - XZ‖_F² of least squares, ‖Y‖² - ⟨XᵀY, Z⟩, without an array of all (n, K) predictions.

    Parameters
    ----------
    factorisation : Factorisation
        Of X, with alpha = 0 and solver 'cholesky'.
    X : ndarray of shape (n, d)
    Y : csr_array of shape (n, K)
    n_threads : int, optional
    """
    threads = resolve_n_threads(n_threads)
    columns = sparse.csc_array(Y)
    explained = 0.0
    step = max(1, _BLOCK_BYTES // (8 * X.shape[1]))
    with limit_blas(threads):
        for start in range(0, Y.shape[1], step):
            C = np.asarray(columns[:, start : start + step].T @ X, dtype=np.float64).T
            Z = factorisation.solve_cross(C, threads)
            explained += float(np.einsum("ij,ij->", C, Z, dtype=np.float64))
    return (float(np.sum(Y.data.astype(np.float64) ** 2)) - explained) / Y.shape[0]


def _cells(settings: SyntheticSettings, store: Store, snr_db: float) -> list[tuple[str, int, int, tuple[str, ...]]]:
    """(compression, m, trial, methods that are not there yet), in the order in which they are run."""
    cells = []
    for trial in range(settings.trials):
        for kind in settings.compressions:
            for m in settings.m:
                missing = tuple(
                    method
                    for method in settings.methods
                    if not store.has(compression=kind, snr_db=snr_db, m=m, trial=trial, method=method)
                )
                if missing:
                    cells.append((kind, m, trial, missing))
    return cells


def _run_level(
    settings: SyntheticSettings,
    snr_db: float,
    cells: Sequence[tuple[str, int, int, tuple[str, ...]]],
    n_threads: int | None,
    verbose: bool,
) -> Iterator[list[dict[str, Any]]]:
    """The rows of every cell at one noise level."""
    problem = make_synthetic(
        settings.n_samples, settings.n_features, settings.n_outputs, sparsity=settings.sparsity, snr_db=snr_db,
        constraint=settings.constraint, seed=settings.seed, n_threads=n_threads, verbose=verbose,
    )  # fmt: skip
    n_train = settings.n_samples * 4 // 5
    X, Y, X_test, Y_test = problem.X[:n_train], problem.Y[:n_train], problem.X[n_train:], problem.Y[n_train:]
    del problem  # and Z with it
    template = ShoreRegressor(settings.sparsity, alpha=0.0, solver="cholesky", n_threads=n_threads)
    factorisation = template.factorise(X)
    plain = uncompressed_loss(factorisation, X, Y, n_threads)
    options: dict[str, Any] = {"step": settings.step, "max_iter": settings.max_iter, "tol": settings.tol}
    for kind, m, trial, methods in cells:
        phi = compression_for(Y, kind, m, seed=trial)
        model = ShoreRegressor(settings.sparsity, compression=phi, alpha=0.0, solver="cholesky", n_threads=n_threads)
        model.fit(X, Y, factorisation=factorisation)
        loss = training_loss(Y, model.predict_compressed(X), phi)
        cell = {
            "dataset": "synthetic", "compression": kind, "snr_db": snr_db, "m": m, "trial": trial,
            "training_loss": loss, "loss_ratio": loss / plain,
        }  # fmt: skip
        B = model.predict_compressed(X_test)
        del model
        yield [
            {**cell, **row}
            for row in measure(methods, B, Y_test, phi, settings.sparsity, settings.constraint, n_threads, **options)
        ]


def run_synthetic(
    settings: SyntheticSettings,
    output: str | os.PathLike[str],
    *,
    n_threads: int | None = None,
    verbose: bool = False,
) -> Store:
    """Run what is missing, and write results.csv, figures and report.md into the folder.

    Parameters
    ----------
    settings : SyntheticSettings
    output : path
        A folder. One that holds results of the same problem is gone on with.
    n_threads : int, optional
        None for the cores this process may use.
    verbose : bool, default False
        Show progress.
    """
    settings = replace(
        settings,
        methods=check_names(settings.methods, METHODS, "methods"),
        compressions=check_names(settings.compressions, tuple(COMPRESSIONS), "compressions"),
        snr_db=tuple(float(level) for level in settings.snr_db),
    )
    if settings.n_samples * 4 // 5 < settings.n_features or settings.n_samples < 5:
        raise ValueError(
            f"n_samples must be at least 5/4 of n_features, for least squares to have one solution; got "
            f"{settings.n_samples} and {settings.n_features}"
        )
    store = Store(output, settings.fixed())
    todo = {snr_db: _cells(settings, store, snr_db) for snr_db in settings.snr_db}
    with Progress("experiment synthetic", sum(map(len, todo.values())), show=verbose) as progress:
        for snr_db, cells in todo.items():
            if not cells:
                continue
            for rows in _run_level(settings, snr_db, cells, n_threads, verbose):
                store.add(rows)
                progress.advance(1)
    summarise(store, "synthetic")
    return store
