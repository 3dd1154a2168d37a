"""report.md: tables of the results, and which of the paper's observations were seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shore._show_versions import environment
from shore.experiments.figures import (
    COMPRESSION_NAMES,
    STYLES,
    draw_lines,
    mean_and_spread,
    panel_title,
    panels_of,
)
from shore.experiments.store import Store

__all__ = ["summarise"]

Row = dict[str, Any]


def _of(rows: Sequence[Row], **keys: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in keys.items())]


def _values(rows: Sequence[Row], measure: str) -> list[float]:
    return [row[measure] for row in rows if row[measure] is not None]


def _points(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Grid points: all keys but trial and method."""
    names = ("dataset", "compression", "snr_db", "sparsity", "m")
    seen = {tuple(row[name] for name in names) for row in rows}
    return [
        dict(zip(names, point, strict=True)) for point in sorted(seen, key=lambda p: tuple((x is None, x) for x in p))
    ]


def _say(holds: int, of: int, what: str, worst: str) -> str:
    mark = "yes" if holds == of else "no"
    return f"- **{mark}** ({holds} of {of} points): {what}. {worst}"


def loss_ratio_observation(rows: Sequence[Row]) -> str | None:
    """Theorem 1 as the paper saw it: the ratio goes to one like 1/√m."""
    points = [(p, _values(_of(rows, **p), "loss_ratio")) for p in _points(rows)]
    points = [(p, values) for p, values in points if values]
    if not points:
        return None
    off = [(float(abs(np.mean(values) - 1)) * math.sqrt(p["m"]), p) for p, values in points]
    worst, where = max(off, key=lambda pair: pair[0])
    return _say(
        sum(size <= 3 for size, _ in off), len(off), "the mean training-loss ratio lies within 1 ± 3/√m",
        f"Farthest from 1: {worst:.2f}/√m at m = {where['m']}.",
    )  # fmt: skip


def precision_observation(rows: Sequence[Row]) -> str | None:
    """PGD at least as good as correlation decoding, up to one standard deviation."""
    differences = []
    for point in _points(rows):
        here = _of(rows, **point)
        pgd, cd = (_values(_of(here, method=name), "precision") for name in ("pgd", "cd"))
        if pgd and cd:
            (mean, spread), (other, other_spread) = mean_and_spread(pgd), mean_and_spread(cd)
            differences.append((mean - other, max(spread, other_spread), point))
    if not differences:
        return None
    worst, spread, where = min(differences, key=lambda entry: entry[0] + entry[1])
    return _say(
        sum(difference >= -spread for difference, spread, _ in differences), len(differences),
        "PGD's mean precision is at least correlation decoding's, up to one standard deviation",
        f"Least: {worst:+.4f} (standard deviation {spread:.4f}) at m = {where['m']}; "
        f"most: {max(d for d, _, _ in differences):+.4f}.",
    )  # fmt: skip


def iterations_observation(rows: Sequence[Row]) -> str | None:
    """The paper: about 10 iterations once m ≥ 500, many more before."""
    pgd = [row for row in rows if row["method"] == "pgd" and row["iterations"] is not None]
    ms = sorted({row["m"] for row in pgd})
    if not ms:
        return None
    means = ", ".join(f"{np.mean(_values(_of(pgd, m=m), 'iterations')):.1f} at m = {m}" for m in ms)
    return f"- Mean iterations of PGD (the paper: around 10 once m ≥ 500): {means}."


def linear_time_observation(rows: Sequence[Row]) -> str | None:
    """Time against m with a Gaussian Φ, from m = 500 on: how much of it a straight line explains."""
    parts = []
    for dataset in sorted({row["dataset"] for row in rows}):
        for method, what in (("pgd", "PGD"), ("cd", "one full pass")):
            own = [r for r in _of(rows, dataset=dataset, method=method, compression="gaussian") if r["m"] >= 500]
            ms = sorted({row["m"] for row in own})
            if len(ms) < 3:
                continue
            times = np.array([np.median(_values(_of(own, m=m), "us_per_row")) for m in ms])
            slope, start = np.polyfit(ms, times, 1)
            rest = np.sum((np.polyval([slope, start], ms) - times) ** 2)
            share = 1 - rest / np.sum((times - np.mean(times)) ** 2)
            parts.append(f"{dataset}, {what}: {start:.1f} + {slope * 100:.2f}·m/100, R² = {share:.3f}")
    if not parts:
        return None
    return (
        f"- Time in µs a row for m ≥ 500 with a Gaussian Φ, as a line in m (the paper: linear): {'; '.join(parts)}. "
        "PGD needs two to three full passes, fewer as m grows."
    )


def _accuracy_tables(rows: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    methods = [m for m in STYLES if _of(rows, method=m)]
    several = len({row["sparsity"] for row in rows}) > 1
    for panel in panels_of(rows):
        dataset, snr_db, sparsity = panel
        for compression in [c for c in COMPRESSION_NAMES if _of(rows, compression=c)]:
            here = _of(rows, dataset=dataset, snr_db=snr_db, sparsity=sparsity, compression=compression)
            if not here:
                continue
            lines += ["", f"### {panel_title(panel, several)}, {COMPRESSION_NAMES[compression]}", ""]
            lines += ["| m | loss ratio | " + " | ".join(f"precision, {STYLES[m][0]}" for m in methods) + " |"]
            lines += ["|---|---|" + "---|" * len(methods)]
            for m in sorted({row["m"] for row in here}):
                at = _of(here, m=m)
                cells = [_with_spread(_values(_of(at, method=method), "precision")) for method in methods]
                lines.append(f"| {m} | {_with_spread(_values(at, 'loss_ratio'))} | " + " | ".join(cells) + " |")
    return lines


def _with_spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean, spread = mean_and_spread(values)
    return f"{mean:.4f} ± {spread:.4f}"


def _time_table(rows: Sequence[Row]) -> list[str]:
    """As the paper's: seconds for all test rows, from the least to the most over m."""
    methods = [m for m in STYLES if _of(rows, method=m)]
    lines = ["| data, Φ | " + " | ".join(STYLES[m][0] for m in methods) + " |", "|---|" + "---|" * len(methods)]
    for dataset in sorted({row["dataset"] for row in rows}):
        for compression in [c for c in COMPRESSION_NAMES if _of(rows, dataset=dataset, compression=c)]:
            own = _of(rows, dataset=dataset, compression=compression)
            n = max(row["rows"] for row in own)
            cells = []
            for method in methods:
                by_m = [
                    float(np.median(_values(_of(own, method=method, m=m), "us_per_row"))) * n / 1e6
                    for m in sorted({row["m"] for row in _of(own, method=method)})
                ]
                cells.append(f"{min(by_m):.3g} to {max(by_m):.3g} s" if by_m else "")
            lines.append(f"| {dataset} ({n:,} rows), {COMPRESSION_NAMES[compression]} | " + " | ".join(cells) + " |")
    return lines


def _draw(store: Store, experiment: str) -> list[str]:
    """Names of the figures drawn."""
    rows, folder = store.rows, store.folder

    def one(axes: Any, ms: list[int]) -> None:
        axes.axhline(1, color="black", linewidth=1)
        fine = np.linspace(min(ms), max(ms), 100)
        axes.plot(fine, 1 + 3 / np.sqrt(fine), ":", color="black", linewidth=1)
        axes.plot(fine, 1 - 3 / np.sqrt(fine), ":", color="black", linewidth=1)
        at = (fine[-1], 1 + 3 / np.sqrt(fine[-1]))
        axes.annotate("1 ± 3/√m", at, (0, 5), textcoords="offset points", fontsize=8, ha="right", va="bottom")

    sparsities = sorted({row["sparsity"] for row in rows if row["sparsity"]})
    at = f"precision@{sparsities[0]}" if len(sparsities) == 1 else "precision@s"
    drawn = []
    if experiment != "timing":
        drawn += [
            draw_lines(rows, "loss_ratio", "training loss, compressed / uncompressed", folder / "loss_ratio.png",
                       as_ratio=True, decorate=one),
            draw_lines(rows, "precision", at, folder / "precision.png"),
            draw_lines(rows, "output_difference", "output difference ‖v − y‖²", folder / "output_difference.png",
                       logarithmic=True),
            draw_lines(rows, "prediction_loss", "prediction loss ‖Φv − Wx‖²", folder / "prediction_loss.png",
                       logarithmic=True),
        ]  # fmt: skip
    drawn += [
        draw_lines(rows, "us_per_row", "time, µs per row", folder / "time.png", logarithmic=True),
        draw_lines(_of(rows, method="pgd"), "us_per_row", "time of PGD, µs per row", folder / "time_pgd.png"),
        draw_lines(_of(rows, method="pgd"), "iterations", "iterations of PGD", folder / "iterations.png"),
    ]
    return [path.name for path in drawn if path is not None]


def summarise(store: Store, experiment: str) -> None:
    """Draw the figures and write report.md, from results.csv alone.

    Parameters
    ----------
    store : Store
    experiment : {'synthetic', 'real', 'timing'}
    """
    if not store.rows:
        return
    rows = store.rows
    observations = [iterations_observation, linear_time_observation]
    if experiment != "timing":  # whose trials are repeats with one Φ
        observations = [loss_ratio_observation, precision_observation, *observations]
    said = [text for observe in observations if (text := observe(rows)) is not None]
    trials = len({row["trial"] for row in rows})
    of_what = "repeat(s)" if experiment == "timing" else "trial(s) of Φ"
    lines = [
        f"# Experiment: {experiment}", "",
        f"{len(rows):,} measurements, {trials} {of_what}, in `results.csv`. {environment()}.", "",
        "## What the paper observed", "", *said, "", "## Running time", "",
        "Seconds for all test rows, from the least to the most over m; methods that were given fewer rows "
        "(`rows` in results.csv) are carried on to all.", "",
        *_time_table(rows),
    ]  # fmt: skip
    if experiment != "timing":
        lines += ["", "## Precision", "", "Mean ± standard deviation over the trials.", *_accuracy_tables(rows)]
    lines += ["", "## Figures", ""]
    for name in _draw(store, experiment):
        lines += [f"![{name}]({name})", ""]
    (store.folder / "report.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
