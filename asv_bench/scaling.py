"""How time and memory grow with outputs, rows and features, stage by stage, against a cost model.

    python asv_bench/scaling.py [--page docs/scaling.md] [--report]

Every size runs in a process of its own. Writes docs/figures/scaling.csv and scaling.png, and prints the tables, or
writes them between the markers of the page; --report does so from the CSV file without measuring again.
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.memory import new_peak, peak_growth
from benchmarks.pages import table_head, table_row, write_between
from benchmarks.problems import large_tagged_text
from scipy.optimize import nnls

import shore
from shore.compression import OutputEnergy

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
BASE = {"outputs": 100_000, "rows": 50_000, "features": 20_000, "components": 1000}
VARIED = {
    "outputs": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
    "rows": (12_500, 25_000, 100_000, 200_000),
    "features": (5_000, 80_000, 320_000),
    "components": (500, 2000),
}
LARGE = {"outputs": 1_000_000, "rows": 100_000, "features": 20_000, "components": 2000}
TEST_ROWS = 10_000
SIGNS, SPARSITY = 16, 5

# Stage: what it is about, and the counts whose multiples its time should be.
STAGES = {
    "make_s": ("make Φ", {"entries of Φ": lambda p: SIGNS * p["outputs"]}),
    "compress_s": (
        "ΦYᵀ",
        {
            "signs of the outputs seen": lambda p: SIGNS * p["nnz_y"],
            "entries of B": lambda p: p["rows"] * p["components"],
        },
    ),
    "solve_s": (
        "W",
        {
            "products in the steps": lambda p: 2 * p["steps"] * p["nnz_x"] * p["components"],
            "vectors in the steps": lambda p: p["steps"] * (p["rows"] + 3 * p["features"]) * p["components"],
        },
    ),
    "product_s": ("Wx", {"products": lambda p: p["nnz_test"] * p["components"]}),
    "decode_s": (
        "y",
        {
            "signs in full passes": lambda p: SIGNS * p["passes"] * p["outputs"] * TEST_ROWS,
            "residuals in steps": lambda p: p["iterations"] * p["components"] * TEST_ROWS,
        },
    ),
}


def sizes():
    """All that is measured, without repetition."""
    for name, values in VARIED.items():
        for value in values:
            yield {**BASE, name: value}
    yield LARGE


def timed(call):
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def measure(size):
    """Times and memory of the stages, for one size, in this process."""
    n, d, K, m = size["rows"], size["features"], size["outputs"], size["components"]
    X, Y = large_tagged_text(n, d, K)
    X_test, Y_test = large_tagged_text(TEST_ROWS, d, K, seed=2)
    weights = OutputEnergy.of(Y).weights
    make, phi = timed(lambda: shore.HeadTailCompression(m, weights))
    model = shore.ShoreRegressor(SPARSITY, n_components=m, alpha=1.0, solver="cg")
    model.fit(X[:200], Y[:200])  # warm up
    before = new_peak()
    fit, _ = timed(lambda: model.fit(X, Y))
    fit_mb = peak_growth(before) / 2**20
    compress, B = timed(lambda: phi.compress(Y))
    del B
    before = new_peak()
    predict, found = timed(lambda: model.predict(X_test))
    predict_mb = peak_growth(before) / 2**20
    product, B = timed(lambda: model.predict_compressed(X_test))
    decode, (_, info) = timed(lambda: shore.decode(B, phi, SPARSITY, constraint="nonneg", return_info=True))
    return {
        **size, "nnz_x": X.nnz, "nnz_y": Y.nnz, "nnz_test": X_test.nnz, "steps": model.n_iter_,
        "iterations": float(info.n_iter.mean()), "passes": float(info.full_passes.mean()),
        "precision": float(shore.metrics.precision_at_k(Y_test, found, SPARSITY)), "make_s": make,
        "compress_s": compress, "solve_s": max(0.0, fit - make - compress), "product_s": product, "decode_s": decode,
        "fit_s": fit, "predict_s": predict, "fit_mb": fit_mb, "predict_mb": predict_mb,
    }  # fmt: skip


def run_all(path):
    rows = []
    for size in sizes():
        print("  " + ", ".join(f"{name} {value:,}" for name, value in size.items()), file=sys.stderr, flush=True)
        command = [sys.executable, __file__, "--one", json.dumps(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
                      for row in rows)  # fmt: skip


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def same(row, size):
    return all(row[name] == value for name, value in size.items())


def fitted(rows, stage):
    """Nanoseconds of each count of a stage, by least squares on relative errors; and model over measured."""
    counts = np.array([[count(row) for count in STAGES[stage][1].values()] for row in rows])
    seconds = np.array([row[stage] for row in rows])
    cost, _ = nnls(counts / seconds[:, None], np.ones(len(rows)))
    return 1e9 * cost, counts @ cost / seconds


def sizes_table(rows):
    yield from table_head("K", "n", "d", "m", "make Φ, s", "ΦYᵀ, s", "W, s", "fit, MB", "Wx, µs a row", "y, µs a row",
                          "full passes", "P@5")  # fmt: skip
    for row in sorted(rows, key=lambda row: [row[name] for name in BASE]):
        per_row = [f"{1e6 * row[key] / TEST_ROWS:.3g}" for key in ("product_s", "decode_s")]
        yield table_row(
            *(f"{row[name]:,.0f}" for name in BASE), *(f"{row[key]:.2g}" for key in ("make_s", "compress_s")),
            f"{row['solve_s']:.3g}", f"{row['fit_mb']:,.0f}", *per_row, f"{row['passes']:.2f}",
            f"{100 * row['precision']:.1f} %",
        )  # fmt: skip


def model_table(rows):
    yield from table_head("stage", "its time", "model over measured, least to largest")
    for stage, (called, counts) in STAGES.items():
        cost, ratio = fitted(rows, stage)
        terms = " + ".join(f"{c:.2g} ns · {name}" for c, name in zip(cost, counts, strict=True) if c > 0)
        yield table_row(called, terms, f"{ratio.min():.2f} to {ratio.max():.2f}")


def large_table(rows):
    row = next(row for row in rows if same(row, LARGE))
    yield from table_head("", "time, s", "peak memory past the data, MB")
    yield table_row("fit", f"{row['fit_s']:.1f}", f"{row['fit_mb']:,.0f}")
    yield table_row(f"predict {TEST_ROWS:,} rows", f"{row['predict_s']:.2f}", f"{row['predict_mb']:,.0f}")


PAPER = (3_000_000, 10_000_000, 30_000_000, 100_000_000)


def paper_table(rows):
    """What grows with K, by the cost model, past what was measured: m = 2000, passes and steps as of the largest K."""
    largest = max((row for row in rows if same(row, {**BASE, "outputs": row["outputs"]})), key=lambda r: r["outputs"])
    yield from table_head("K", "tables of Φ, GB", "make Φ, s", "y, ms a row", "y on 16 machines, ms a row")
    for K in PAPER:
        row = {**largest, "outputs": K, "components": 2000}
        make, decode = (
            sum(c * count(row) for c, count in zip(fitted(rows, stage)[0], STAGES[stage][1].values(), strict=True))
            for stage in ("make_s", "decode_s")
        )
        milliseconds = decode / 1e6 / TEST_ROWS
        steps = {**row, "outputs": 0}
        own = sum(c * count(steps) for c, count in zip(fitted(rows, "decode_s")[0], STAGES["decode_s"][1].values(),
                                                       strict=True)) / 1e6 / TEST_ROWS  # fmt: skip
        shared = (milliseconds - own) / 16 + own
        gigabytes = 2 * SIGNS * K / 1e9
        yield table_row(f"{K:,}", f"{gigabytes:.2f}", f"{make / 1e9:.1f}", f"{milliseconds:.2g}", f"{shared:.2g}")


def draw(rows, path):
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(10, 4.2), dpi=130, layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    colours = ("#d9a441", "#7a4e9c", "#c8553d", "#3d5a98", "#0b6e4f")
    for axes, name, label in zip(panels, ("outputs", "rows", "features"), ("outputs K", "rows n", "features d"),
                                 strict=True):  # fmt: skip
        here = sorted((row for row in rows if same(row, {**BASE, name: row[name]})), key=lambda row: row[name])
        at = [row[name] for row in here]
        for (stage, (called, counts)), shade in zip(STAGES.items(), colours, strict=True):
            cost, _ = fitted(rows, stage)
            axes.plot(at, [row[stage] for row in here], "o", color=shade, label=called)
            model = [sum(c * count(row) for c, count in zip(cost, counts.values(), strict=True)) / 1e9 for row in here]
            axes.plot(at, model, "-", color=shade, linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel(f"seconds (of {TEST_ROWS:,} test rows)")
    panels[0].set_title("points are measured, lines are the cost model", fontsize=9, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    figure.savefig(path)


MARKS = {"large": large_table, "sizes": sizes_table, "model": model_table, "paper": paper_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one)))
        return
    path = FIGURES / "scaling.csv"
    if not given.report:
        run_all(path)
    rows = read(path)
    draw(rows, FIGURES / "scaling.png")
    for mark, table in MARKS.items():
        if given.page:
            write_between(given.page, mark, list(table(rows)))
        else:
            print("\n".join(table(rows)), end="\n\n")


if __name__ == "__main__":
    main()
