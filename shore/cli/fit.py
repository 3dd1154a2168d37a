"""The command `shore fit`."""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from shore._progress import Progress
from shore._statistics import FEW_ENTRIES
from shore._validation import float_dtype
from shore.cli.inputs import Rows, open_rows
from shore.cli.options import (
    add_constraint,
    add_numbers,
    add_sparsity,
    add_threads,
    add_training_rows,
    command,
    number_or_auto,
    positive,
    positive_or_auto,
    shows_progress,
    training_files,
)
from shore.cli.outputs import bytes_in_words, check_output
from shore.compression import COMPRESSIONS
from shore.datasets.xmc import XmcReader
from shore.estimator import ShoreRegressor

__all__ = ["add_parser"]

_BLOCK_ROWS = 1 << 13
# What would take more than this share of the memory as a whole is fitted block by block.
_SHARE = 0.5
# How much longer text is than its gzip, about.
_PACKED = 3


def _memory() -> float:
    """Bytes that this process may use: the machine's, or its control group's."""
    try:
        most = float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            most = min(most, float(Path(path).read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return most


def _components(model: ShoreRegressor, rows: Rows) -> int:
    """Rows of Φ, m; of the uncompressed model K."""
    K = int(rows.n_outputs or 0)
    return K if model.compression is None else model._components(max(1, K))


def _whole_bytes(model: ShoreRegressor, rows: Rows) -> float:
    """What a fit of all rows at once takes, about: the rows are as long as their text, and there is B."""
    path = Path(rows.name)
    if not isinstance(rows.source, XmcReader) or not path.is_file():
        return 0.0  # is in memory anyway, or has no size
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    text = path.stat().st_size * (_PACKED if packed else 1)
    if model.compression is None:
        return float(text)
    copies = 3  # as measured: B, its centred or weighted copy, and a solver's
    return text + copies * float_dtype(model.dtype).itemsize * float(rows.n_rows) * _components(model, rows)


def _sums_bytes(model: ShoreRegressor, rows: Rows) -> float:
    """What `partial_fit` holds: XᵀX and XᵀB in float64, of all rows, of a block, and their sum; with a head XᵀY too."""
    d, m, K = float(rows.n_features), _components(model, rows), float(rows.n_outputs or 0)
    entries = min(d * K, max(FEW_ENTRIES, d * (d + m))) if model.compression == "head_tail" else 0.0
    return 3 * 8 * d * (d + m) + 2 * 12 * entries


def _streams(arguments: argparse.Namespace, model: ShoreRegressor, rows: Rows) -> bool:
    """Whether to fit block by block."""
    needed, memory = _sums_bytes(model, rows), _memory()
    if arguments.stream is None:
        possible = model.alpha != "auto" and model.solver in ("auto", "cholesky") and needed < _SHARE * memory
        return possible and _whole_bytes(model, rows) > _SHARE * memory
    if arguments.stream and needed > memory:
        raise ValueError(
            f"--stream holds d·(d + m) sums, with {rows.n_features:,} features {bytes_in_words(needed)}, and there are "
            f"{bytes_in_words(memory)} of memory"
        )
    return bool(arguments.stream)


def _model(arguments: argparse.Namespace) -> ShoreRegressor:
    model = ShoreRegressor(
        arguments.sparsity, n_components=arguments.components,
        compression=None if arguments.compression == "none" else arguments.compression,
        constraint=arguments.constraint, alpha=arguments.alpha, fit_intercept=arguments.intercept,
        solver=arguments.solver, solver_tol=arguments.solver_tol, decoder=arguments.decoder, step=arguments.step,
        max_iter=arguments.max_iter, tol=arguments.tol, l1=arguments.l1,
        decode_sparsity=arguments.decode_sparsity, dtype=np.dtype(arguments.dtype).type,
        random_state=arguments.seed, n_threads=arguments.threads, verbose=int(shows_progress(arguments)),
    )  # fmt: skip
    model._check_parameters()  # before a file is read
    if arguments.weights == "float16" and arguments.dtype != "float32":
        raise ValueError("--weights float16 is for --dtype float32")
    if arguments.stream and model.alpha == "auto":
        raise ValueError("--alpha auto needs all rows at once: give a number, or leave out --stream")
    if arguments.stream and model.solver not in ("auto", "cholesky"):
        raise ValueError(f"--stream solves by cholesky, and --solver says {model.solver}")
    return model


def _fit(arguments: argparse.Namespace) -> int:
    check_output(arguments.output, "--output", training_files(arguments), streams=False)
    model = _model(arguments)
    started = time.perf_counter()
    dtype = float_dtype(model.dtype)
    block_rows = arguments.block_rows or _BLOCK_ROWS
    with open_rows(arguments.train, "train", dtype, block_rows, x=arguments.x, y=arguments.y) as rows:
        if 0 in (rows.n_rows, rows.n_features, rows.n_outputs):
            sizes = f"{rows.n_rows} rows, {rows.n_features} features and {rows.n_outputs} outputs"
            raise ValueError(f"{rows.header}: there is nothing to fit: {sizes}")
        streams = _streams(arguments, model, rows)
        if streams:
            with Progress("fit", rows.n_rows, show=bool(model.verbose)) as progress:
                for X, Y in rows.blocks():
                    model.partial_fit(X, Y)
                    progress.advance(X.shape[0])
        else:
            model.fit(*rows.whole())
    model.coef_  # noqa: B018  partial_fit solves when W is first asked for
    model.set_params(n_threads=None, verbose=0)  # of this machine and run, not of the model
    model.save(arguments.output, weights=arguments.weights)
    if not arguments.quiet:
        phi = model.compression_
        inside = "uncompressed" if phi is None else f"in {phi.n_components:,} numbers ({model.compression})"
        print(
            f"{arguments.output}: {rows.n_rows:,} rows{' in blocks' if streams else ''}, {rows.n_features:,} features, "
            f"{rows.n_outputs:,} outputs {inside}, alpha {model.alpha_:g}, solver {model.solver_}, "
            f"{bytes_in_words(os.path.getsize(arguments.output))}, {time.perf_counter() - started:.1f} s"
        )
    return 0


def add_parser(commands: Any) -> None:
    """Add `fit` to the commands that `add_subparsers` gave."""
    parser = command(
        commands, "fit", "fit a model to training rows and save it to a file",
        "Fit a model to training rows, inputs with their outputs, and save it to a file.\n\n"
        "TRAIN is text of the Extreme Classification Repository, plain or gzip ('-' reads standard input), or a "
        "folder with training and test rows in .txt or .npz files, of which the training rows are used (of rows that "
        "are not split, a random 80 %).",
        "  shore fit train.txt --sparsity 5 --output model.shore\n"
        "  shore fit huge.txt.gz --stream --alpha 10 --output model.shore\n"
        "  shore fit --x X.npz --y Y.npz --constraint simplex:1 --output model.shore",
    )  # fmt: skip
    data = parser.add_argument_group("data")
    add_training_rows(data)
    data.add_argument(
        "--output", required=True, metavar="MODEL", help="file for the model; replaced when it is complete"
    )
    data.add_argument(
        "--weights", choices=["float16"], help="store the weights in half precision: half the size, rounded results"
    )
    data.add_argument(
        "--stream", action=argparse.BooleanOptionalAction,
        help="read and fit block by block, for files larger than memory; holds d·(d + m) sums for d features. Without "
        "either, text that would take more than half of the memory is streamed if that works",
    )  # fmt: skip
    data.add_argument("--block-rows", type=positive, metavar="N", help=f"rows of such a block ({_BLOCK_ROWS})")

    model = parser.add_argument_group("model")
    add_sparsity(model)
    model.add_argument(
        "--components", type=positive_or_auto, default="auto", metavar="M",
        help="numbers that the outputs are compressed to, or auto: enough for S outputs (auto)",
    )  # fmt: skip
    model.add_argument(
        "--compression", choices=[*COMPRESSIONS, "none"], default="head_tail",
        help="the matrix that compresses the outputs, or none; with head_tail frequent outputs own a row (head_tail)",
    )  # fmt: skip
    add_constraint(model)
    model.add_argument(
        "--alpha", type=number_or_auto, default=1.0, metavar="A",
        help="weight of the ridge penalty, or auto: the best on held-out rows (1)",
    )  # fmt: skip
    add_numbers(model, "the random compression")

    method = parser.add_argument_group("method")
    method.add_argument(
        "--solver", choices=["auto", "cholesky", "dual", "cg"], default="auto", help="of the regression (auto)"
    )
    method.add_argument("--solver-tol", type=float, default=1e-3, metavar="TOL", help="where cg stops (0.001)")
    method.add_argument(
        "--decoder", choices=["pgd", "cd", "omp", "fista"], default="pgd", help="what finds the outputs (pgd)"
    )
    method.add_argument("--step", type=float, default=0.9, metavar="STEP", help="step of pgd (0.9)")
    method.add_argument("--max-iter", type=positive, default=60, metavar="N", help="iterations at most (60)")
    method.add_argument("--tol", type=float, default=1e-3, metavar="TOL", help="where iterations stop (0.001)")
    method.add_argument("--l1", type=float, default=0.1, metavar="L1", help="penalty of cd and fista (0.1)")
    method.add_argument(
        "--decode-sparsity", type=positive, metavar="N", help="outputs to decode, of which the best S are kept (S)"
    )
    add_threads(method)
    parser.add_argument(
        "--quiet", action="store_true", help="show no progress (none is shown in a pipe) and no summary"
    )
    parser.set_defaults(run=_fit)
