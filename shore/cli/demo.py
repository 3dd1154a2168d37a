"""The commands `shore demo` and `shore versions`."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from shore._show_versions import show_versions
from shore._version import __version__
from shore.cli.options import command
from shore.cli.outputs import print_table, require_stdout
from shore.datasets import make_synthetic
from shore.estimator import ShoreRegressor
from shore.metrics import precision_at_k

__all__ = ["add_parsers"]


def _demo(arguments: argparse.Namespace) -> int:
    """Run the method on a synthetic problem of the paper's kind: compress the outputs, fit, decode, compare."""
    require_stdout()
    n, d, K, s, m = (
        arguments.samples, arguments.features, arguments.outputs, arguments.sparsity, arguments.components,
    )  # fmt: skip
    if n < 5:
        raise ValueError(f"--samples must be at least 5, got {n}")
    n_train = n * 4 // 5
    clock = [time.perf_counter()]
    problem = make_synthetic(n, d, K, sparsity=s, snr_db=arguments.snr_db, seed=arguments.seed)
    X, Y, X_test, Y_test = problem.X[:n_train], problem.Y[:n_train], problem.X[n_train:], problem.Y[n_train:]
    clock.append(time.perf_counter())
    model = ShoreRegressor(s, n_components=m, random_state=arguments.seed).fit(X, Y)
    clock.append(time.perf_counter())
    found, info = model.predict(X_test, return_info=True)
    clock.append(time.perf_counter())
    uncompressed = ShoreRegressor(s, compression=None).fit(X, Y).predict(X_test)

    wrong = found - Y_test
    phi: Any = model.compression_
    compressed, scores = phi.compress(Y), X_test @ model.coef_.T
    residual = compressed - X @ model.coef_.T
    made, fitted, predicted = np.diff(clock)
    print_table(
        f"shore {__version__}: {n:,} samples, {d:,} features, {K:,} outputs in {m} numbers, {s} kept",
        [
            (f"precision@{s}", f"{precision_at_k(Y_test, found, s):.4f}"),
            (f"precision@{s} without compression", f"{precision_at_k(Y_test, uncompressed, s):.4f}"),
            ("training loss, relative", f"{np.sum(residual**2) / np.sum(compressed**2):.4f}"),
            ("output difference, relative", f"{wrong.multiply(wrong).sum() / Y_test.multiply(Y_test).sum():.4f}"),
            ("prediction loss, relative", f"{np.sum(info.residual**2) / np.sum(scores**2):.4f}"),
            ("iterations, mean", f"{info.n_iter.mean():.1f}"),
            ("full passes, mean", f"{info.full_passes.mean():.1f}"),
            ("time to make the problem", f"{made:.2f} s"),
            ("time to fit", f"{fitted:.2f} s"),
            ("time to predict", f"{predicted * 1e6 / (n - n_train):.1f} us/row"),
        ],
    )
    return 0


def _versions(arguments: argparse.Namespace) -> int:
    require_stdout()
    show_versions()
    return 0


def add_parsers(commands: Any) -> None:
    """Add `demo` and `versions` to the commands that `add_subparsers` gave."""
    demo = command(
        commands, "demo", "run the method on a synthetic problem and print what it achieves",
        "Run the method on a synthetic problem of the paper's kind: compress the outputs, fit, decode, compare. "
        "Takes a few seconds and needs no data.",
        "  shore demo\n  shore demo --outputs 100000 --components 800 --snr-db 20",
    )  # fmt: skip
    for name, default, metavar, text in (
        ("samples", 10000, "N", "rows of the problem"), ("features", 200, "D", "inputs per row"),
        ("outputs", 20000, "K", "possible outputs"), ("components", 500, "M", "numbers that outputs are compressed to"),
        ("sparsity", 3, "S", "outputs per row"),
    ):  # fmt: skip
        demo.add_argument(f"--{name}", type=int, default=default, metavar=metavar, help=f"{text} ({default})")
    demo.add_argument("--snr-db", type=float, default=30.0, metavar="DB", help="signal-to-noise ratio in decibels (30)")
    demo.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    demo.set_defaults(run=_demo)

    versions = command(
        commands, "versions", "print what to paste into a bug report",
        "Print the versions of shore and of all it stands on, the SIMD level, BLAS and threads.", "  shore versions",
    )  # fmt: skip
    versions.set_defaults(run=_versions)
