"""The figure of a tuning: precision against the bytes of the model, and against the time per row."""

from __future__ import annotations

import os
from typing import Any

from shore._files import replacing

__all__ = ["draw"]

_STYLES = {
    "head_tail": ("head and tail", "#0b6e4f", "o"),
    "sparse_sign": ("sparse signs", "#c8553d", "s"),
    "gaussian": ("Gaussian Φ", "#3d5a98", "^"),
    "none": ("uncompressed", "#000000", "D"),
}


def _plain(value: float, position: int | None = None) -> str:
    return f"{value:g}"


def _spans_little(axes: Any) -> bool:
    """Whether hardly a power of ten is among the ticks."""
    low, high = axes.get_xlim()
    return bool(high < 10 * low)


def draw(tuning: Any, path: str | os.PathLike[str]) -> None:
    """Draw the trials of a `Tuning`, the best alpha of every m joined, the pick and the budget marked."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, NullFormatter
    except ImportError:
        raise ValueError("a figure needs matplotlib: pip install 'shore[experiments]'") from None

    figure = Figure(figsize=(10, 4.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    best = tuning.frontier()
    measures = (("bytes", 1e-6, "model file, MB", tuning.max_bytes),
                ("microseconds", 1.0, "time per row in blocks, µs", tuning.max_microseconds))  # fmt: skip
    for axes, (name, unit, label, budget) in zip(panels, measures, strict=True):
        for kind, (called, colour, marker) in _STYLES.items():
            own = [trial for trial in tuning.trials if trial.compression == kind]
            if not own:
                continue
            line = sorted((t for t in best if t.compression == kind), key=lambda t: getattr(t, name))
            axes.plot([getattr(t, name) * unit for t in own], [100 * t.precision for t in own], marker, color=colour,
                      markersize=3.5, alpha=0.3)  # fmt: skip
            axes.plot([getattr(t, name) * unit for t in line], [100 * t.precision for t in line], "-", color=colour,
                      marker=marker, markersize=6, linewidth=1.6, label=called)  # fmt: skip
            for trial in line:
                axes.annotate(f"{trial.n_components}", (getattr(trial, name) * unit, 100 * trial.precision),
                              xytext=(5, -11), textcoords="offset points", fontsize=8, color=colour)  # fmt: skip
        pick = tuning.best
        axes.plot([getattr(pick, name) * unit], [100 * pick.precision], "o", markersize=15, markerfacecolor="none",
                  markeredgecolor="#d9a441", markeredgewidth=2.2, label="the pick")  # fmt: skip
        if budget is not None:
            axes.axvline(budget * unit, color="#8a8a8a", linestyle="--", linewidth=1.2, label="budget")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(_plain))
        axes.xaxis.set_minor_formatter(FuncFormatter(_plain) if _spans_little(axes) else NullFormatter())
        axes.set_xlabel(label)
        axes.grid(alpha=0.25, which="both")
    panels[0].set_ylabel("precision at s on held-out rows, %")
    panels[0].set_title("numbers are m; faint: other alpha", fontsize=9, loc="left")
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=9)
    with replacing(path) as file:
        figure.savefig(file, format="png")
