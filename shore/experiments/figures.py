"""Figures of results: one panel for each problem, one line for each method, bands of one standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["draw_lines", "mean_and_spread", "require_matplotlib"]

# Name, colour and marker of a method, the same in every figure.
STYLES = {
    "pgd": ("PGD (Algorithm 2)", "#0b6e4f", "o"),
    "cd": ("correlation decoding", "#c8553d", "s"),
    "omp": ("OMP", "#3d5a98", "^"),
    "fista": ("FISTA", "#8d6a9f", "D"),
    "elastic_net": ("Elastic Net (scikit-learn)", "#8a8a8a", "v"),
    "sklearn_omp": ("OMP (scikit-learn)", "#56a3d9", "<"),
    "blas": ("one BLAS product", "#000000", "x"),
    "ratio": ("compressed / uncompressed", "#0b6e4f", "o"),
}
COMPRESSION_NAMES = {"gaussian": "Gaussian Φ", "sparse_sign": "sparse signs", "head_tail": "head and tail"}
_LINES: dict[str, Any] = {"gaussian": "-", "sparse_sign": "--", "head_tail": ":"}

Row = dict[str, Any]


def require_matplotlib() -> None:
    """Raise an error that says what to install."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError("experiments draw figures with matplotlib: pip install 'shore[experiments]'") from None


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and empirical standard deviation (0 for a single value)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def panels_of(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The problems, in order: data set, noise level and sparsity."""
    return sorted({(r["dataset"], r["snr_db"], r["sparsity"]) for r in rows}, key=lambda p: (p[0], p[1] or 0, p[2]))


def panel_title(panel: tuple[Any, ...], several_sparsities: bool) -> str:
    """What a panel is of."""
    dataset, snr_db, sparsity = panel
    parts = [str(dataset)]
    if snr_db is not None:
        parts.append(f"SNR {snr_db:g} dB")
    if several_sparsities:
        parts.append(f"s = {sparsity}")
    return ", ".join(parts)


def _curve(rows: Sequence[Row], measure: str) -> tuple[list[int], list[float], list[float]]:
    """m, and mean and spread over trials of a measure."""
    by_m: dict[int, list[float]] = {}
    for row in rows:
        if row[measure] is not None:
            by_m.setdefault(row["m"], []).append(row[measure])
    ms = sorted(by_m)
    stats = [mean_and_spread(by_m[m]) for m in ms]
    return ms, [mean for mean, _ in stats], [spread for _, spread in stats]


def draw_lines(
    rows: Sequence[Row],
    measure: str,
    label: str,
    path: Path,
    *,
    logarithmic: bool = False,
    as_ratio: bool = False,
    decorate: Callable[[Any, list[int]], None] | None = None,
) -> Path | None:
    """A measure against m.

    Parameters
    ----------
    rows : sequence of dict
        Of results.csv.
    measure : str
        A column.
    label : str
        Of the vertical axis.
    path : Path
        The PNG to write.
    logarithmic : bool
        The vertical axis, if the values span more than a decade.
    as_ratio : bool
        The measure does not depend on the method: one line.
    decorate : callable
        Given the axes and the m of a panel, to add reference lines.

    Returns
    -------
    Path or None
        None if there is nothing to draw.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import ScalarFormatter

    rows = [row for row in rows if row[measure] is not None]
    if as_ratio:  # the same for all methods and s: keep one
        first = {(r["dataset"], r["snr_db"], r["compression"], r["m"], r["trial"]): r for r in reversed(rows)}
        rows = [{**r, "method": "ratio", "sparsity": 0} for r in first.values()]
    panels = panels_of(rows)
    if not panels:
        return None
    methods = [m for m in STYLES if any(r["method"] == m for r in rows)]
    compressions = [c for c in COMPRESSION_NAMES if any(r["compression"] == c for r in rows)]
    sizes = [row[measure] for row in rows]
    logarithmic = logarithmic and min(sizes) > 0 and max(sizes) > 10 * min(sizes)
    n_columns = 2 if len(panels) == 4 else min(3, len(panels))
    n_rows = -(-len(panels) // n_columns)
    figure = Figure(figsize=(max(6.0, 4.6 * n_columns), 3.7 * n_rows + 0.9), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey="row" if not logarithmic else False)
    several = len({panel[2] for panel in panels}) > 1
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        here = [r for r in rows if (r["dataset"], r["snr_db"], r["sparsity"]) == panel]
        for method in methods:
            name, colour, marker = STYLES[method]
            for compression in compressions:
                own = [r for r in here if r["method"] == method and r["compression"] == compression]
                ms, means, spreads = _curve(own, measure)
                if not ms:
                    continue
                (line,) = axes.plot(
                    ms, means, _LINES[compression], color=colour, marker=marker, markersize=4.5, linewidth=1.6
                )
                handles.setdefault(name, line)
                low, high = np.subtract(means, spreads), np.add(means, spreads)
                if logarithmic:
                    low = np.maximum(low, np.multiply(means, 0.05))
                axes.fill_between(ms, low, high, color=colour, alpha=0.15, linewidth=0)
        if decorate is not None:
            decorate(axes, sorted({r["m"] for r in here}))
        axes.set_title(panel_title(panel, several), fontsize=11)
        axes.set_xlabel("rows of Φ, m")
        axes.grid(alpha=0.25)
        if logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(ScalarFormatter())
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(label)
    if len(compressions) > 1:
        for compression in compressions:
            handles[COMPRESSION_NAMES[compression]] = Line2D([], [], color="black", linestyle=_LINES[compression])
    if len(handles) > 1:
        columns = min(len(handles), (2, 3, 4)[n_columns - 1])
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=9)
    figure.savefig(path)
    return path
