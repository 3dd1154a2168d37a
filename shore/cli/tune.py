"""The command `shore tune`."""

from __future__ import annotations

import argparse
import importlib.util
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from shore._validation import float_dtype
from shore.cli.inputs import open_rows
from shore.cli.options import (
    add_constraint,
    add_numbers,
    add_sparsity,
    add_threads,
    add_training_rows,
    command,
    constraint,
    positive,
    shows_progress,
    training_files,
)
from shore.cli.outputs import bytes_in_words, check_output, require_stdout
from shore.compression import COMPRESSIONS
from shore.tuning import Trial, Tuning, tune

__all__ = ["add_parser"]

_UNITS = {"": 1.0, "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def _bytes(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text)
    if found is None or found[2] not in _UNITS or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"expected a number of bytes as 200000, 50MB or 1.5GB, got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def _print(tuning: Tuning, sparsity: int) -> None:
    header = ("", "compression", "m", "alpha", f"P@{sparsity}", "P@1", "file", "us per row")
    rows = [header]
    for trial in sorted({*tuning.frontier(), tuning.best}, key=lambda t: (t.compression, t.n_components, t.alpha)):
        mark = "*" if trial == tuning.best else ""
        rows.append(
            (mark, trial.compression, f"{trial.n_components:,}", f"{trial.alpha:g}", f"{trial.precision:.4f}",
             f"{trial.precision_at_1:.4f}", bytes_in_words(trial.bytes), f"{trial.microseconds:.1f}")
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _fit_command(arguments: argparse.Namespace, best: Trial) -> str:
    """How to fit the pick."""
    train = arguments.train or f"--x {arguments.x} --y {arguments.y}"
    words = [f"shore fit {train} --sparsity {arguments.sparsity} --compression {best.compression}"]
    if best.compression != "none":
        words.append(f"--components {best.n_components}")
    words.append(f"--alpha {best.alpha:g}")
    words += ["--intercept"] if arguments.intercept else []
    words += [f"--constraint {arguments.constraint_text}"] if arguments.constraint_text != "nonneg" else []
    words += [f"--dtype {arguments.dtype}"] if arguments.dtype != "float32" else []
    words += [f"--seed {arguments.seed}"] if arguments.seed else []
    words += [f"--weights {arguments.weights}"] if arguments.weights else []
    return " ".join([*words, "--output model.shore"])


def _tune(arguments: argparse.Namespace) -> int:
    if not arguments.quiet:
        require_stdout()
    folder = None if arguments.output is None else Path(arguments.output)
    if folder is not None:
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError("--output draws a figure, which needs matplotlib: pip install 'shore[experiments]'")
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("trials.csv", "trials.png"):
            check_output(str(folder / name), "--output", training_files(arguments), streams=False)
    if arguments.model is not None:
        check_output(arguments.model, "--model", training_files(arguments), streams=False)
    arguments.constraint_text, chosen = arguments.constraint, constraint(arguments.constraint)
    started = time.perf_counter()
    dtype = np.dtype(arguments.dtype)
    with open_rows(arguments.train, "train", float_dtype(dtype), x=arguments.x, y=arguments.y) as rows:
        if 0 in (rows.n_rows, rows.n_features, rows.n_outputs):
            raise ValueError(f"{rows.header}: there is nothing to tune with: no rows, features or outputs")
        X, Y = rows.whole()
    tuning = tune(
        X, Y, sparsity=arguments.sparsity, n_components=arguments.components, alphas=arguments.alphas,
        compressions=[None if name == "none" else name for name in arguments.compressions],
        max_bytes=arguments.max_bytes, max_microseconds=arguments.max_microseconds, held_out=arguments.held_out,
        weights=arguments.weights, random_state=arguments.seed, n_threads=arguments.threads,
        verbose=int(shows_progress(arguments)), constraint=chosen, fit_intercept=arguments.intercept, dtype=dtype.type,
    )  # fmt: skip
    if not arguments.quiet:
        _print(tuning, arguments.sparsity)
        print(f"\n{len(tuning.trials)} models in {time.perf_counter() - started:.1f} s; the pick, marked *, is")
        print(f"  {_fit_command(arguments, tuning.best)}")
    if folder is not None:
        tuning.to_csv(folder / "trials.csv")
        tuning.figure(folder / "trials.png")
    if arguments.model is not None:
        model = tuning.model().fit(X, Y)
        model.set_params(n_threads=None).save(arguments.model, weights=arguments.weights)
        if not arguments.quiet:
            print(f"{arguments.model}: fitted to all {X.shape[0]:,} rows")
    return 0


def _constraint_text(text: str) -> str:
    constraint(text)
    return text


def add_parser(commands: Any) -> None:
    """Add `tune` to the commands that `add_subparsers` gave."""
    parser = command(
        commands, "tune", "find how many components, which penalty and which compression, for a budget",
        "Try models on held-out rows, print what each is worth and what it costs, and pick the most precise one within "
        "a budget of bytes or microseconds.\n\n"
        "TRAIN is what 'shore fit' takes; all of it is read into memory.",
        "  shore tune train.txt --sparsity 5\n"
        "  shore tune train.txt --max-bytes 50MB --weights float16 --model model.shore\n"
        "  shore tune data/ --components 256 512 1024 --max-microseconds 10 --output tuning/",
    )  # fmt: skip
    data = parser.add_argument_group("data")
    add_training_rows(data)
    data.add_argument("--output", metavar="DIR", help="folder for trials.csv, with all that was tried, and trials.png")
    data.add_argument("--model", metavar="MODEL", help="fit the pick to all rows, and save it to this file")
    data.add_argument("--held-out", type=float, default=0.1, metavar="SHARE", help="of the rows, to judge by (0.1)")

    budget = parser.add_argument_group("budget")
    budget.add_argument("--max-bytes", type=_bytes, metavar="SIZE", help="of the model file, as 200000, 50MB or 1.5GB")
    budget.add_argument(
        "--max-microseconds", type=float, metavar="US", help="per row, predicted in blocks on the threads given"
    )
    budget.add_argument("--weights", choices=["float16"], help="count, and save, weights in half precision")

    tried = parser.add_argument_group("what to try")
    tried.add_argument(
        "--components", type=positive, nargs="+", metavar="M",
        help="numbers that outputs are compressed to; by default half, once, twice and four times what the rule for S "
        "outputs says, and the most that the budget has room for",
    )  # fmt: skip
    tried.add_argument(
        "--alphas", type=float, nargs="+", metavar="A", help="weights of the ridge penalty (0.1 0.3 1 3 10 30 100)"
    )
    tried.add_argument(
        "--compressions", nargs="+", choices=[*COMPRESSIONS, "none"], default=["head_tail", "sparse_sign"],
        metavar="NAME", help=f"among {', '.join(COMPRESSIONS)} and none (head_tail sparse_sign)",
    )  # fmt: skip

    model = parser.add_argument_group("the same for all")
    add_sparsity(model)
    add_constraint(model, _constraint_text)
    add_numbers(model, "Φ and of the rows held out")
    add_threads(model)
    parser.add_argument("--quiet", action="store_true", help="show no progress (none is shown in a pipe) and no table")
    parser.set_defaults(run=_tune)
