"""Non-linear inputs: kernel features from scikit-learn before shore, and what they gain.

shore's first stage is linear in its inputs. A Nystroem map in front of it makes the pipeline non-linear. The script
fits both on the same rows, picks their parameters on held-out training rows, and compares them on test rows.

    python nonlinear.py                                  # a generated problem
    python nonlinear.py path/to/bibtex path/to/delicious-983 --figure nonlinear.png
    python nonlinear.py --help
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import shore
from shore.datasets import Dataset, load_dataset
from shore.metrics import precision_at_k

Array = npt.NDArray[Any]

SPARSITY = 5
RANKS = (1, 3, 5)
ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BARE, LINEAR, KERNEL = "linear, no intercept", "linear", "Nystroem"


def make_problem(n: int, outputs: int, seed: int = 0) -> Dataset:
    """Dense inputs whose products, more than they themselves, decide which 5 outputs a row has."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    i, j = np.triu_indices(X.shape[1], 1)
    products = X[:, i] * X[:, j]
    scores = products @ rng.standard_normal((products.shape[1], outputs)) / np.sqrt(products.shape[1])
    scores += 0.5 * X @ rng.standard_normal((X.shape[1], outputs)) / np.sqrt(X.shape[1])
    Y = shore.project(scores, SPARSITY, "binary").astype(np.float32)
    cut = n - n // 4
    return Dataset("generated", X[:cut], Y[:cut], X[cut:], Y[cut:])


def pipelines(data: Dataset, components: int, m: int | str) -> dict[str, tuple[Pipeline, dict[str, Any]]]:
    """The sides of the comparison, each with the grid that it may pick from."""
    text = sparse.issparse(data.X_train)
    scaler = Normalizer() if text else StandardScaler()
    # Squared distances are at most 2 between normalised rows of words, and about 2d between standardised rows.
    gammas = [0.3, 1.0, 2.0] if text else [g / data.X_train.shape[1] for g in (0.3, 1.0, 3.0)]
    shared: dict[str, Any] = {"compression": "head_tail", "n_components": m, "n_threads": 2}
    alpha = {"shoreregressor__alpha": list(ALPHAS)}
    bare = make_pipeline(scaler, shore.ShoreRegressor(SPARSITY, **shared))
    # A kernel map has a nearly constant direction, so that it brings an intercept along. The linear side gets one
    # too: otherwise the intercept would pass for a gain of the kernel.
    linear = make_pipeline(scaler, shore.ShoreRegressor(SPARSITY, fit_intercept=True, **shared))
    kernel = make_pipeline(
        scaler, Nystroem(kernel="rbf", n_components=components),
        shore.ShoreRegressor(SPARSITY, fit_intercept=True, **shared),
    )  # fmt: skip
    return {BARE: (bare, alpha), LINEAR: (linear, alpha), KERNEL: (kernel, {"nystroem__gamma": gammas, **alpha})}


def seeded(pipeline: Pipeline, seed: int) -> Pipeline:
    """Set the seed of Φ, and that of the landmarks where there are any."""
    names = [name for name in pipeline.get_params() if name.endswith("random_state")]
    return pipeline.set_params(**dict.fromkeys(names, seed))


def pick(pipeline: Pipeline, grid: dict[str, Any], X: Any, Y: Any) -> dict[str, float]:
    """The best parameters by precision at 5 on a fifth of the rows given, which are training rows."""
    held_out = ShuffleSplit(1, test_size=0.2, random_state=0)
    search = GridSearchCV(seeded(pipeline, 0), grid, cv=held_out, refit=False, error_score="raise").fit(X, Y)
    return dict(search.best_params_)


@dataclass(frozen=True)
class Side:
    """What one side picked, and its results: a row for each seed."""

    picked: dict[str, float]
    precision: Array  # (seeds, 3): at 1, 3 and 5
    by_row: Array  # (n_test,): at 5, mean of the seeds
    fit: float  # seconds, the least of the seeds: others may use the machine too
    predict: float  # seconds a row
    pipeline: Pipeline  # that of the last seed


def evaluate(pipeline: Pipeline, picked: dict[str, float], data: Dataset, seeds: int) -> Side:
    """Fit on all training rows, once for each seed, and look at the test rows."""
    precision, by_row, fits, predicts = [], [], [], []
    true = sparse.csr_array(data.Y_test != 0)
    for seed in range(seeds):
        seeded(pipeline.set_params(**picked), seed)
        start = time.perf_counter()
        pipeline.fit(data.X_train, data.Y_train)
        fitted = time.perf_counter()
        found = pipeline.predict(data.X_test)
        predicts.append((time.perf_counter() - fitted) / found.shape[0])
        fits.append(fitted - start)
        precision.append([precision_at_k(data.Y_test, found, k) for k in RANKS])
        by_row.append(np.asarray(true.multiply(found != 0).sum(axis=1)).ravel() / SPARSITY)
    seconds = min(fits), min(predicts)
    return Side(picked, np.array(precision), np.mean(by_row, axis=0), *seconds, pipeline)


def study(data: Dataset, components: int, m: int | str = "auto", seeds: int = 3) -> dict[str, Side]:
    """Pick and evaluate every side on one data set."""
    sides = {}
    for name, (pipeline, grid) in pipelines(data, components, m).items():
        sides[name] = evaluate(pipeline, pick(pipeline, grid, data.X_train, data.Y_train), data, seeds)
    return sides


def report(data: Dataset, sides: dict[str, Side]) -> None:
    """The table of one data set."""
    (n, d), (n_test, outputs) = data.X_train.shape, data.Y_test.shape
    m = sides[LINEAR].pipeline[-1].coef_.shape[0]
    print(f"{data.name}: {n:,} training rows, {n_test:,} test rows, d = {d:,}, K = {outputs:,}, m = {m}")
    print(f"{'':<22}{'P@1':^18}{'P@3':^18}{'P@5':^18}{'fit':>7}{'predict':>14}  picked")
    for name, side in sides.items():
        cells = [f"{100 * v.mean():.2f} ± {100 * v.std():.2f}" for v in side.precision.T]
        chosen = ", ".join(f"{key.split('__')[1]} {value:g}" for key, value in sorted(side.picked.items()))
        times = f"{side.fit:5.2f} s{1e6 * side.predict:7.0f} µs/row"
        print(f"{name:<22}" + "".join(f"{c:^18}" for c in cells) + f"{times}  {chosen}")
    gain = sides[KERNEL].precision - sides[LINEAR].precision  # seed by seed
    cells = [f"{100 * v.mean():+.2f} ± {100 * v.std():.2f}" for v in gain.T]
    print(f"{'gain over linear':<22}" + "".join(f"{c:^18}" for c in cells).rstrip())
    by_row = sides[KERNEL].by_row - sides[LINEAR].by_row
    error = 100 * by_row.std() / np.sqrt(len(by_row))  # other test rows would change the gain by about this much
    print(f"standard error of the gain in P@5, over test rows: {error:.2f}")
    fit, predict = sides[KERNEL].fit / sides[LINEAR].fit, sides[KERNEL].predict / sides[LINEAR].predict
    print(f"cost against linear: fit {fit:.0f} times, predict {predict:.0f} times\n")


def ship(pipeline: Pipeline, X: Any, folder: Path) -> str:
    """Write transformer and model, read them back, and check that they predict what the pipeline does."""
    joblib.dump(pipeline[:-1], folder / "features.joblib")  # scaler and landmarks; joblib files are pickles
    pipeline[-1].save(folder / "model.shore")  # shore's part alone: it knows d' features, not the inputs
    features, model = joblib.load(folder / "features.joblib"), shore.load(folder / "model.shore")
    again, whole = model.predict(features.transform(X)), pipeline.predict(X)
    same = np.array_equal(again.indices, whole.indices) and np.array_equal(again.data, whole.data)
    sizes = {p.name: p.stat().st_size / 1e6 for p in sorted(folder.iterdir())}
    listed = ", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items())
    return f"Shipped as {listed}: " + ("the same predictions" if same else "OTHER PREDICTIONS")


def draw(results: dict[str, tuple[Dataset, dict[str, Side]]], path: str) -> None:
    """Precision at 5 against the number of landmarks, with the parameters picked for the largest."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4.2 * len(results), 3.2), squeeze=False, layout="constrained")
    for axis, (name, (data, sides)) in zip(axes[0], results.items(), strict=True):
        kernel, seeds = sides[KERNEL].pipeline, len(sides[KERNEL].precision)
        full = kernel.get_params()["nystroem__n_components"]
        counts = [full // 8, full // 4, full // 2, full]
        smaller = [evaluate(kernel, {"nystroem__n_components": c}, data, seeds).precision[:, 2] for c in counts[:-1]]
        values = 100 * np.array([*smaller, sides[KERNEL].precision[:, 2]])
        axis.errorbar(counts, values.mean(axis=1), values.std(axis=1), color="#0b5394", marker="o", label=KERNEL)
        for side, line in ((LINEAR, "-"), (BARE, "--")):
            axis.axhline(100 * sides[side].precision[:, 2].mean(), color="#e07b00", linestyle=line, label=side)
        axis.set_xscale("log")
        axis.set_xticks(counts, [f"{c:,}" for c in counts])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.set(title=name, xlabel="landmarks", ylabel="precision at 5, %")
    axes[0, -1].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Compare shore on plain inputs with shore on Nystroem features of them, both with parameters "
        "picked on held-out training rows: precision on test rows over seeds, and what it costs.",
        epilog="Needs scikit-learn. Without a folder, a problem with non-linear inputs is generated.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="data sets that shore.datasets.load_dataset reads")
    parser.add_argument("--components", type=int, default=500, metavar="N", help="landmarks of Nystroem, d'")
    parser.add_argument("--m", type=int, default=None, help="components of shore; without it, its rule for K and s")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds of landmarks and Φ")
    parser.add_argument("--rows", type=int, default=4000, metavar="N", help="of the generated problem")
    parser.add_argument("--figure", metavar="FILE", help="also draw precision against landmarks (needs matplotlib)")
    arguments = parser.parse_args(argv)
    for name, least in (("components", 8), ("m", 1), ("seeds", 1), ("rows", 100)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            parser.error(f"--{name} must be at least {least}, got {value}")
    try:
        # Equal rows among the landmarks make Nystroem divide by singular values of about 0. In float32 this blows
        # rounding up so far that precision depends on the threads of the BLAS; shore itself is fine with float32.
        sets = [load_dataset(folder, dtype=np.float64) for folder in arguments.folders]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sets = sets or [make_problem(arguments.rows, 1000)]
    for data in sets:
        learned = data.X_train.shape[0] - data.X_train.shape[0] // 5 - 1  # what is left while a fifth is held out
        if arguments.components > learned:
            parser.error(f"--components must be at most {learned}, landmarks being training rows of {data.name}")
    results = {}
    for data in sets:
        sides = study(data, arguments.components, arguments.m or "auto", arguments.seeds)
        report(data, sides)
        results[data.name] = (data, sides)
    with tempfile.TemporaryDirectory() as folder:
        print(ship(sides[KERNEL].pipeline, data.X_test, Path(folder)))
    if arguments.figure:
        try:
            draw(results, arguments.figure)
        except ImportError:
            print("no figure: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
