"""The command `shore experiment`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from typing import Any

from shore.compression import COMPRESSIONS
from shore.experiments.cells import METHODS
from shore.experiments.figures import require_matplotlib
from shore.experiments.real import RealSettings, run_real
from shore.experiments.synthetic import SyntheticSettings, run_synthetic
from shore.experiments.timing import TimingSettings, run_timing

__all__ = ["add_parser"]


def _add_common(parser: argparse.ArgumentParser, trials: str) -> None:
    parser.add_argument(
        "--preset", choices=["quick", "paper"], default="quick",
        help="sizes and grid: quick, in about a minute or two, or the paper's",
    )  # fmt: skip
    parser.add_argument(
        "--output", required=True, metavar="DIR",
        help="folder for results.csv, report.md and figures; a run that was stopped goes on where it was",
    )  # fmt: skip
    parser.add_argument("--m", type=int, nargs="+", metavar="M", help="rows of Φ to try, instead of the preset's")
    parser.add_argument("--trials", type=int, metavar="N", help=trials)
    parser.add_argument("--methods", nargs="+", metavar="NAME", help=f"decoders, among {', '.join(METHODS)}")
    parser.add_argument("--compressions", nargs="+", metavar="NAME", help=f"Φ, among {', '.join(COMPRESSIONS)}")
    parser.add_argument("--threads", type=int, metavar="N", help="threads to run on; all cores if not given")
    parser.add_argument("--quiet", action="store_true", help="show no progress (as in a pipe)")


def _settings(preset: Any, arguments: argparse.Namespace, **names: str) -> Any:
    """The preset with what was given instead; `names` are settings whose option has another name."""
    changes = {}
    for field in fields(preset):
        value = getattr(arguments, names.get(field.name, field.name), None)
        if value is not None:
            changes[field.name] = tuple(value) if isinstance(value, list) else value
    for name in ("m", "sparsities", "trials", "repeats", "n_samples", "n_features", "n_outputs", "sparsity"):
        given = changes.get(name, ())
        for value in given if isinstance(given, tuple) else (given,):
            if value < 1:
                raise ValueError(f"--{names.get(name, name).removeprefix('n_')} must be at least 1, got {value}")
    return replace(preset, **changes)


def _run(arguments: argparse.Namespace) -> int:
    require_matplotlib()
    common: dict[str, Any] = {
        "n_threads": arguments.threads,
        "verbose": not arguments.quiet and sys.stderr is not None and sys.stderr.isatty(),
    }
    if arguments.experiment == "synthetic":
        settings = _settings(SyntheticSettings.preset(arguments.preset), arguments)
        store = run_synthetic(settings, arguments.output, **common)
    elif arguments.experiment == "real":
        settings = _settings(RealSettings.preset(arguments.preset), arguments, sparsities="sparsity")
        store = run_real(arguments.data, settings, arguments.output, **common)
    else:
        settings = _settings(TimingSettings.preset(arguments.preset), arguments, repeats="trials")
        store = run_timing(settings, arguments.output, paths=arguments.data, **common)
    print(f"{len(store.rows):,} measurements in {store.path}, figures and tables in {store.folder / 'report.md'}")
    return 0


def add_parser(commands: Any) -> None:
    """Add `experiment` to the subcommands of `shore`."""
    parser = commands.add_parser(
        "experiment",
        help="run the paper's experiments: tables and figures into a folder",
        description="Run an experiment of the paper. Results are kept in a CSV file as they come,\n"
        "figures and a report are drawn from it.",
        epilog="examples:\n  shore experiment synthetic --output results\n"
        "  shore experiment real eurlex/ --sparsity 1 3 5 --output results",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="experiment", required=True, metavar="experiment")

    synthetic = kinds.add_parser(
        "synthetic", help="loss ratio, precision and losses against m on the paper's synthetic data",
        description="Loss ratio, precision, output difference, prediction loss and time against m, for several "
        "signal-to-noise ratios, on the paper's synthetic data.",
    )  # fmt: skip
    _add_common(synthetic, "matrices Φ for each m")
    synthetic.add_argument("--snr-db", type=float, nargs="+", metavar="DB", help="signal-to-noise ratios in decibels")
    for name, letter, text in (
        ("samples", "N", "rows, of which 80 %% are trained on"), ("features", "D", "inputs per row"),
        ("outputs", "K", "possible outputs"),
    ):  # fmt: skip
        synthetic.add_argument(f"--{name}", dest=f"n_{name}", type=int, metavar=letter, help=text)
    synthetic.add_argument("--sparsity", type=int, metavar="S", help="outputs per row")
    synthetic.add_argument("--tol", type=float, metavar="TOL", help="of the stopping rule of PGD and FISTA")
    synthetic.set_defaults(run=_run)

    real = kinds.add_parser(
        "real", help="precision and losses against m on data sets",
        description="Precision, output difference, prediction loss and time against m, for several s, on real data.",
    )  # fmt: skip
    real.add_argument("data", nargs="+", metavar="DATA", help="folder or file: XMC text, or npz (see docs/data.md)")
    _add_common(real, "matrices Φ for each m")
    real.add_argument("--sparsity", type=int, nargs="+", metavar="S", help="outputs to predict per row")
    real.add_argument("--alpha", type=float, metavar="ALPHA", help="weight of the ridge penalty (the paper: 0)")
    real.set_defaults(run=_run)

    timing = kinds.add_parser(
        "timing", help="time of every decoder against m, beside scikit-learn and one BLAS product",
        description="Time of every decoder against m on a synthetic problem, and on data sets if there are any, beside "
        "scikit-learn's and one BLAS product ΦᵀB.",
    )  # fmt: skip
    timing.add_argument("--data", nargs="*", default=[], metavar="DATA", help="folders or files to time too")
    _add_common(timing, "repeats of every measurement, all methods in turns")
    timing.set_defaults(run=_run)
