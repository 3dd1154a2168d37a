"""The command line: `shore` and `python -m shore`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from shore._show_versions import show_versions
from shore._version import __version__
from shore.datasets import make_synthetic
from shore.estimator import ShoreRegressor
from shore.experiments.command import add_parser as add_experiment_parser
from shore.metrics import precision_at_k

__all__ = ["main"]


def _table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    print(title)
    print("-" * len(title))
    for name, value in rows:
        print(f"{name:<{width}}  {value:>12}")


def _demo(arguments: argparse.Namespace) -> int:
    """Run the method on a synthetic problem of the paper's kind: compress the outputs, fit, decode, compare."""
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
    _table(
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
    show_versions()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shore", description="Sparse and high-dimensional-output regression.")
    parser.add_argument("--version", action="version", version=f"shore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    demo = commands.add_parser(
        "demo",
        help="run the method on a synthetic problem and print what it achieves",
        description=_demo.__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--samples", type=int, default=10000, metavar="N", help="rows of the problem")
    demo.add_argument("--features", type=int, default=200, metavar="D", help="inputs per row")
    demo.add_argument("--outputs", type=int, default=20000, metavar="K", help="possible outputs")
    demo.add_argument("--components", type=int, default=500, metavar="M", help="numbers that outputs are compressed to")
    demo.add_argument("--sparsity", type=int, default=3, metavar="S", help="outputs per row")
    demo.add_argument("--snr-db", type=float, default=30.0, metavar="DB", help="signal-to-noise ratio in decibels")
    demo.add_argument("--seed", type=int, default=0, help="of the random numbers")
    demo.set_defaults(run=_demo)

    add_experiment_parser(commands)

    versions = commands.add_parser("versions", help="print what to paste into a bug report")
    versions.set_defaults(run=_versions)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    The exit code is 0; 2 with one line on standard error for wrong arguments or files; 130 after Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    try:
        with np.errstate(all="ignore"):
            return int(arguments.run(arguments))
    except (ValueError, TypeError, OSError) as error:
        print(f"shore: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("shore: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
