"""Tables, figures and promises from the CSV files that the parts write."""

import csv
import datetime
import platform
from importlib import metadata
from pathlib import Path

import numpy as np
from benchmarks.pages import table_head, table_row, write_between

from peers.models import PEERS

SHORE = ("shore, Gaussian Φ", "shore, sparse signs")
# times faster than this, by the Φ of the method
STAGE_PROMISES = {
    ("PyTorch loop, Gaussian Φ", "shore, Gaussian Φ"): 20,
    ("PyTorch loop, sparse signs", "shore, sparse signs"): 200,
    ("OMP of scikit-learn, sparse signs", "shore, sparse signs"): 1000,
}
REFERENCE, FASTEST = "shore, m = 1000, alpha = 2", "shore, m = 1000, alpha = 2, correlation"


def read(path):
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(value):
    """Three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):,.15g}"


def spread(values):
    low, middle, high = map(number, np.quantile(values, [0.25, 0.5, 0.75]))
    return f"{middle} ({low} to {high})"


def by_method(rows):
    found = {}
    for row in rows:
        found.setdefault(row["method"], []).append(float(row["us"]))
    return {name: np.array(values) for name, values in found.items()}


def machine(threads):
    """What the figures depend on, in one sentence."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(": ")[1] for line in lines if line.startswith("model name"))
        if any(" avx512f" in line for line in lines):
            processor += " with AVX-512"
    except (OSError, StopIteration):
        processor = platform.machine()
    packages = ("shore", "numpy", "scipy", "torch", "scikit-learn", "libpecos", "napkinxc", "omikuji")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    return (
        f"{processor}, {threads} threads for all; Python {platform.python_version()}, {versions}; "
        f"{datetime.datetime.now(tz=datetime.UTC).date()}."
    )


# ---------------------------------------------------------------- decoding alone


def stage_table(rows):
    times = by_method(rows)
    found = {row["method"]: row["found"] for row in rows}
    yield from table_head("method", "µs a row", "true outputs found", *(f"times {name}" for name in SHORE))
    for name in sorted(times, key=lambda name: np.median(times[name])):
        ratios = ["" if name == base else spread(times[name] / times[base]) for base in SHORE]
        yield table_row(name, spread(times[name]), found[name] and f"{100 * float(found[name]):.1f} %", *ratios)


# ---------------------------------------------------------------- from training to predictions


def by_model(rows):
    """Model: measure: values of the rounds."""
    found = {}
    for row in rows:
        own = found.setdefault(row["model"], {})
        for key, value in row.items():
            if key not in ("data", "model", "round"):
                own.setdefault(key, []).append(float(value))
    return found


def models_table(rows, which=None):
    yield from table_head(
        "model", "P@1 / P@3 / P@5", "training, s", "in batches, µs a row", "row by row, µs", "peak memory, MB",
        "model, MB",
    )  # fmt: skip
    for name, own in by_model(rows).items():
        if which is not None and name not in which:
            continue
        precision = " / ".join(f"{100 * np.median(own[k]):.2f}" for k in ("p1", "p3", "p5"))
        middles = [number(np.median(own[key])) for key in ("train_s", "batch_us", "row_us")]
        sizes = [f"{np.median(own[key]):,.0f}" for key in ("peak_mb", "size_mb")]
        yield table_row(name, precision, *middles, *sizes)


# What is promised of the two models: to be this many times faster than the fastest peer.
MODEL_PROMISES = {
    REFERENCE: {"train_s": 1, "batch_us": 5, "row_us": 5},
    FASTEST: {"train_s": 1, "batch_us": 15, "row_us": 5},
}
MEASURES = {"train_s": "training", "batch_us": "prediction in batches", "row_us": "row by row"}


def fastest_peer(found, key, own):
    """The peer with the least median time, and how many times faster a model of shore is."""
    name = min(PEERS, key=lambda name: np.median(found[name][key]))
    return name, np.median(found[name][key]) / np.median(found[own][key])


def promises_table(rows):
    found = by_model(rows)
    yield from table_head("times faster than the fastest of PECOS, napkinXC and omikuji", *MODEL_PROMISES)
    for key, called in MEASURES.items():
        ratios = [fastest_peer(found, key, own) for own in MODEL_PROMISES]
        yield table_row(f"{called} ({ratios[0][0]})", *(f"{ratio:.1f}" for _, ratio in ratios))


def broken_promises(figures):
    """Everything that is promised and its figure, printed; what does not hold, returned."""
    stage, broken = by_method(read(figures / "peers-stage.csv")), []

    def check(text, holds):
        print(text)
        if not holds:
            broken.append(text)

    for (slow, fast), bar in STAGE_PROMISES.items():
        if stage:
            ratio = float(np.median(stage[slow] / stage[fast]))
            check(f"{slow}: {ratio:.0f} times the time of {fast} (at least {bar})", ratio >= bar)
    rows = read(figures / "peers-models.csv")
    if not rows or rows[0]["data"] != "citeulike-t-tags5":
        return broken
    found = by_model(rows)
    for own, bars in MODEL_PROMISES.items():
        for k in ("p1", "p3", "p5"):
            best, mine = max(np.median(found[name][k]) for name in PEERS), np.median(found[own][k])
            check(f"{own}, {k}: {mine:.4f}, best of the others {best:.4f}", mine >= best)
        for key, bar in bars.items():
            name, ratio = fastest_peer(found, key, own)
            check(f"{own}, {MEASURES[key]}: {ratio:.2f} times faster than {name} (at least {bar})", ratio >= bar)
    return broken


# ---------------------------------------------------------------- figures

COLOURS = {"shore": "#0b6e4f", "PECOS": "#c8553d", "napkinXC": "#d9a441", "omikuji": "#7a4e9c",
           "scikit-learn": "#3d5a98", "PyTorch": "#c8553d", "one": "#6b6b6b"}  # fmt: skip


def colour(name):
    return next(value for key, value in COLOURS.items() if name.startswith(key))


def plain(value, position=None):
    return f"{value:g}"


def draw_models(rows, path):
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(7.6, 4.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    above, lines = (0, 9, "center"), {}
    offsets = {"shore, m = 2000, alpha = 2": above, "PECOS XLinear, as trained": above, FASTEST: (0, -15, "center")}
    for name, own in by_model(rows).items():
        if "float16" in name or name.endswith("alpha = 1"):
            continue
        x, y = np.median(own["batch_us"]), 100 * np.median(own["p5"])
        plain_shore = name.startswith("shore, m") and name != FASTEST
        marker = "o" if plain_shore else "D" if name.startswith("shore") else "s"
        axes.plot([x], [y], marker, color=colour(name), markersize=8)
        label = "correlation" if name == FASTEST else name.replace(", alpha = 2", "").replace(" for prediction", "")
        dx, dy, side = offsets.get(name, (8, -4, "left"))
        axes.annotate(label, (x, y), xytext=(dx, dy), textcoords="offset points", fontsize=8.5, ha=side,
                      color=colour(name))  # fmt: skip
        if plain_shore:
            lines[x] = y
    axes.plot(list(lines), list(lines.values()), "-", color=COLOURS["shore"], linewidth=1.5, label="shore")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.set_xlim(axes.get_xlim()[0] / 1.5, axes.get_xlim()[1] * 3)
    axes.margins(y=0.12)
    axes.set_xlabel("prediction in batches, µs a row (two threads)")
    axes.set_ylabel("precision at 5, %")
    axes.set_title(f"{rows[0]['data']}: up and to the left is better", fontsize=10, loc="left")
    axes.grid(alpha=0.25, which="both")
    figure.savefig(path)


def draw_outputs(rows, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    styles = {"shore, sparse signs": ("o-", "#0b6e4f"), "shore, Gaussian Φ": ("o--", "#0b6e4f"),
              "one BLAS product ΦᵀB": ("^:", "#6b6b6b"), "PyTorch loop, Gaussian Φ": ("s-", "#c8553d")}  # fmt: skip
    for name, (style, shade) in styles.items():
        points = {}
        for row in rows:
            if row["method"] == name:
                points.setdefault(int(row["outputs"]), []).append(float(row["us"]))
        at = sorted(points)
        axes.plot(at, [np.median(points[k]) for k in at], style, color=shade, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("outputs, K")
    axes.set_ylabel("µs a row (two threads)")
    axes.set_title("decoding, m = 500, s = 3, noise at 10 dB", fontsize=10, loc="left")
    axes.grid(alpha=0.25, which="both")
    axes.legend(fontsize=9)
    figure.savefig(path)


def write_figures(figures):
    for name, draw in (("models", draw_models), ("outputs", draw_outputs)):
        rows = read(figures / f"peers-{name}.csv")
        if rows:
            draw(rows, figures / f"peers-{name}.png")


# ---------------------------------------------------------------- pages

IN_README = (
    "shore, m = 500, alpha = 2", REFERENCE, FASTEST, "shore, uncompressed ridge, alpha = 2",
    "PECOS XLinear, loaded for prediction", "napkinXC PLT", "omikuji", "scikit-learn Ridge + argpartition",
)  # fmt: skip


def write_pages(root, threads):
    figures, page = root / "docs" / "figures", root / "docs" / "peers.md"
    stage, models = (read(figures / f"peers-{name}.csv") for name in ("stage", "models"))
    where = machine(threads)
    if stage:
        write_between(page, "stage", [*stage_table(stage), "", where])
    if models:
        write_between(page, "models", [*models_table(models), "", where])
        write_between(page, "ratios", list(promises_table(models)))
        write_between(root / "README.md", "peers", [*models_table(models, IN_README), "", where])
