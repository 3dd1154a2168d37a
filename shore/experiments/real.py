"""The paper's experiment on real data: precision, output difference and prediction loss against m, for several s."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from shore._progress import Progress
from shore.compression import COMPRESSIONS, compression_for
from shore.datasets import Dataset, load_dataset
from shore.estimator import ShoreRegressor
from shore.experiments.cells import METHODS, check_names, check_paths, measure
from shore.experiments.store import Store
from shore.experiments.summary import summarise
from shore.metrics import training_loss

__all__ = ["RealSettings", "run_real"]

# The uncompressed model has d·K numbers: beyond this many it is not fitted, and there is no loss ratio.
_MOST_COEFFICIENTS = 20_000_000


@dataclass(frozen=True)
class RealSettings:
    """What is run; the defaults are the paper's.

    Attributes
    ----------
    sparsities, m, methods, compressions : tuple
        What is varied.
    trials : int
        Matrices Φ for each m.
    alpha : float
        Weight of the ridge penalty. The paper has none; wide, sparse inputs need some.
    """

    sparsities: tuple[int, ...] = (1, 3, 5)
    m: tuple[int, ...] = (100, 200, 300, 400, 500, 700, 1000, 2000)
    trials: int = 10
    methods: tuple[str, ...] = ("pgd", "cd", "omp", "fista")
    compressions: tuple[str, ...] = ("gaussian",)
    alpha: float = 1.0
    constraint: str = "nonneg"
    step: float = 0.9
    max_iter: int = 60
    tol: float = 1e-6

    @classmethod
    def preset(cls, name: str) -> RealSettings:
        """'paper', or 'quick': few m and trials."""
        if name == "paper":
            return cls()
        if name == "quick":
            return cls(sparsities=(3, 5), m=(100, 200, 400), trials=3)
        raise ValueError(f"preset must be 'quick' or 'paper', got {name!r}")

    def fixed(self) -> dict[str, Any]:
        """What must not change while results are collected in one folder."""
        varied = ("sparsities", "m", "trials", "methods", "compressions")
        return {"experiment": "real", **{k: v for k, v in asdict(self).items() if k not in varied}}


def _uncompressed_loss(data: Dataset, settings: RealSettings, n_threads: int | None) -> float | None:
    if data.X_train.shape[1] * data.Y_train.shape[1] > _MOST_COEFFICIENTS:
        return None
    model = ShoreRegressor(compression=None, alpha=settings.alpha, n_threads=n_threads).fit(data.X_train, data.Y_train)
    return training_loss(data.Y_train, model.predict_compressed(data.X_train))


def _run_cell(
    data: Dataset, settings: RealSettings, kind: str, m: int, trial: int, missing: dict[int, tuple[str, ...]],
    plain: float | None, n_threads: int | None,
) -> list[dict[str, Any]]:  # fmt: skip
    phi = compression_for(data.Y_train, kind, m, seed=trial)
    model = ShoreRegressor(compression=phi, alpha=settings.alpha, n_threads=n_threads)
    model.fit(data.X_train, data.Y_train)
    loss = training_loss(data.Y_train, model.predict_compressed(data.X_train), phi)
    cell = {
        "dataset": data.name, "compression": kind, "m": m, "trial": trial, "training_loss": loss,
        "loss_ratio": None if plain is None else loss / plain,
    }  # fmt: skip
    B = model.predict_compressed(data.X_test)
    options: dict[str, Any] = {"step": settings.step, "max_iter": settings.max_iter, "tol": settings.tol}
    return [
        {**cell, **row}
        for sparsity, methods in missing.items()
        for row in measure(methods, B, data.Y_test, phi, sparsity, settings.constraint, n_threads, **options)
    ]


def run_real(
    paths: Sequence[str | os.PathLike[str]],
    settings: RealSettings,
    output: str | os.PathLike[str],
    *,
    n_threads: int | None = None,
    verbose: bool = False,
) -> Store:
    """Run what is missing, and write results.csv, figures and report.md into the folder.

    Parameters
    ----------
    paths : sequence of paths
        Data sets, each a folder or file that `shore.datasets.load_dataset` reads.
    settings : RealSettings
    output : path
        A folder. One that holds results of the same settings is gone on with.
    n_threads : int, optional
        None for the cores this process may use.
    verbose : bool, default False
        Show progress.
    """
    settings = replace(
        settings,
        methods=check_names(settings.methods, METHODS, "methods"),
        compressions=check_names(settings.compressions, tuple(COMPRESSIONS), "compressions"),
    )
    if not paths:
        raise ValueError("data must name at least one folder or file")
    check_paths(paths)
    store = Store(output, settings.fixed())
    total = len(paths) * settings.trials * len(settings.compressions) * len(settings.m)
    with Progress("experiment real", total, show=verbose) as progress:
        for path in paths:
            data = load_dataset(path)
            plain: float | None = None
            asked_for_plain = False
            for trial in range(settings.trials):
                for kind in settings.compressions:
                    for m in settings.m:
                        missing = _missing(store, settings, data.name, kind, m, trial)
                        if missing:
                            if not asked_for_plain:
                                plain, asked_for_plain = _uncompressed_loss(data, settings, n_threads), True
                            store.add(_run_cell(data, settings, kind, m, trial, missing, plain, n_threads))
                        progress.advance(1)
    summarise(store, "real")
    return store


def _missing(
    store: Store, settings: RealSettings, name: str, kind: str, m: int, trial: int
) -> dict[int, tuple[str, ...]]:
    """The methods that are not there yet, by sparsity."""
    missing = {}
    for sparsity in settings.sparsities:
        methods = tuple(
            method
            for method in settings.methods
            if not store.has(dataset=name, compression=kind, m=m, trial=trial, sparsity=sparsity, method=method)
        )
        if methods:
            missing[sparsity] = methods
    return missing
