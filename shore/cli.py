"""The command line: `shore` and `python -m shore`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from shore._show_versions import show_versions
from shore._version import __version__
from shore.datasets import make_synthetic
from shore.projection import project

__all__ = ["main"]


def _table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    print(title)
    print("-" * len(title))
    for name, value in rows:
        print(f"{name:<{width}}  {value:>12}")


def _demo(arguments: argparse.Namespace) -> int:
    """Make a synthetic problem by the paper's procedure and recover its outputs from the noise-free scores."""
    n, d, K, s = arguments.samples, arguments.features, arguments.outputs, arguments.sparsity
    started = time.perf_counter()
    problem = make_synthetic(n, d, K, sparsity=s, snr_db=arguments.snr_db, seed=arguments.seed)
    made = time.perf_counter()
    scores = problem.X @ problem.Z.T
    multiplied = time.perf_counter()
    recovered = project(scores, s, "nonneg")
    projected = time.perf_counter()

    hits = recovered.astype(bool).multiply(problem.Y.astype(bool)).sum()
    difference = recovered - problem.Y
    _table(
        f"shore {__version__}: {n:,} samples, {d:,} features, {K:,} outputs, {s} kept, {arguments.snr_db:g} dB",
        [
            (f"precision@{s}", f"{hits / (n * s):.4f}"),
            ("output difference", f"{difference.multiply(difference).sum() / n:.4f}"),
            ("make the problem", f"{made - started:.2f} s"),
            ("scores Z*x (BLAS)", f"{(multiplied - made) * 1e6 / n:.1f} us/row"),
            ("top-s projection", f"{(projected - multiplied) * 1e6 / n:.1f} us/row"),
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
    demo.add_argument("--samples", type=int, default=2000, metavar="N", help="rows of the problem")
    demo.add_argument("--features", type=int, default=500, metavar="D", help="inputs per row")
    demo.add_argument("--outputs", type=int, default=20000, metavar="K", help="possible outputs")
    demo.add_argument("--sparsity", type=int, default=3, metavar="S", help="outputs per row")
    demo.add_argument("--snr-db", type=float, default=10.0, metavar="DB", help="signal-to-noise ratio in decibels")
    demo.add_argument("--seed", type=int, default=0, help="of the random numbers")
    demo.set_defaults(run=_demo)

    versions = commands.add_parser("versions", help="print what to paste into a bug report")
    versions.set_defaults(run=_versions)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, or 2 with one line on standard error for a wrong argument."""
    arguments = _parser().parse_args(argv)
    try:
        with np.errstate(all="ignore"):
            return int(arguments.run(arguments))
    except (ValueError, TypeError) as error:
        print(f"shore: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
