"""The commands `shore predict`, `shore evaluate` and `shore explain`: what a saved model says of rows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from shore import metrics, modelfile
from shore._progress import Progress
from shore._validation import float_dtype
from shore.cli.inputs import Limits, Rows, open_rows, read_limits, read_names
from shore.cli.options import (
    add_blocks,
    add_limits,
    add_matrices,
    add_model_file,
    add_quiet,
    add_threads,
    command,
    positive,
    row_range,
    shows_progress,
)
from shore.cli.outputs import (
    FORMATS,
    check_output,
    explanation_lines,
    format_of,
    json_text,
    open_output,
    prediction_bytes,
    prediction_header,
    print_table,
    require_stdout,
)
from shore.estimator import ShoreRegressor

__all__ = ["add_parsers"]

# Scores of rows, B, are made in blocks of about this many bytes.
_SCORE_BYTES = 1 << 25


@contextmanager
def _opened(arguments: argparse.Namespace, path: str | None, **options: Any) -> Iterator[tuple[ShoreRegressor, Rows]]:
    """The model, and the rows that it is to look at."""
    model = modelfile.load(arguments.model)
    with open_rows(path, "test", float_dtype(model.dtype), arguments.block_rows, **options) as rows:
        if rows.n_features != model.n_features_in_:
            raise ValueError(
                f"{rows.header}: {rows.n_features} features, but {arguments.model} was fitted to {model.n_features_in_}"
            )
        if not options.get("inputs_alone") and rows.n_outputs != model.n_outputs_:
            raise ValueError(f"{rows.header}: {rows.n_outputs} outputs, but {arguments.model} has {model.n_outputs_}")
        yield model, rows


def _limits(
    arguments: argparse.Namespace, model: ShoreRegressor, rows: Rows
) -> tuple[list[str] | None, Limits, Limits]:
    """The names of the outputs, and those that are allowed and denied."""
    names = read_names(arguments.labels, model.n_outputs_, "outputs")
    shape = (rows.n_rows, model.n_outputs_)
    return names, read_limits(arguments.allowed, shape, names), read_limits(arguments.denied, shape, names)


# ------------------------------------------------------------ predict


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse an output that cannot be written, or is among the files that the command reads."""
    named = {name: getattr(arguments, name, None) for name in ("labels", "allowed", "denied", "features")}
    inputs = {"MODEL": arguments.model, "INPUT": arguments.input, **{f"--{name}": p for name, p in named.items()}}
    check_output(arguments.output, "--output", inputs, streams=True)


def _predict(arguments: argparse.Namespace) -> int:
    _check_output(arguments)
    kind = format_of(arguments.output, arguments.format)
    if arguments.plain and kind != "xmc":
        raise ValueError(f"--plain is for --format xmc, and this is {kind}")
    with _opened(arguments, arguments.input, inputs_alone=True) as (model, rows):
        names, allowed, denied = _limits(arguments, model, rows)
        plain = arguments.plain or model.constraint == "binary"  # where all values are 1
        start = 0
        with (
            Progress("predict", rows.n_rows, show=shows_progress(arguments)) as progress,
            open_output(arguments.output) as file,
        ):
            file.write(prediction_header(kind, (rows.n_rows, model.n_outputs_), names, plain))
            for X, _ in rows.blocks():
                stop = start + X.shape[0]
                found = model.predict(
                    X, sparsity=arguments.sparsity, allowed=allowed.of(start, stop), denied=denied.of(start, stop),
                    n_threads=arguments.threads,
                )  # fmt: skip
                file.write(prediction_bytes(kind, start, found, names, plain))
                if arguments.output == "-":
                    file.flush()  # whoever reads it need not wait for the end
                progress.advance(stop - start)
                start = stop
    return 0


# ------------------------------------------------------------ evaluate


def _propensities(arguments: argparse.Namespace, model: ShoreRegressor) -> npt.NDArray[np.float64] | None:
    """How likely every output is noted down, by how often it occurs in training rows."""
    if arguments.propensities is None:
        return None
    with open_rows(arguments.propensities, "train", np.dtype(np.float32), arguments.block_rows) as rows:
        if rows.n_outputs != model.n_outputs_:
            raise ValueError(f"{rows.header}: {rows.n_outputs} outputs, but {arguments.model} has {model.n_outputs_}")
        counts = np.zeros(model.n_outputs_, dtype=np.int64)
        for _, Y in rows.blocks():
            counts += np.bincount(Y.indices, minlength=model.n_outputs_)
        return metrics.propensities_of_counts(counts, rows.n_rows, *arguments.propensity_ab)


class _Sums:
    """Sums over rows, block by block, of what is reported as a mean or as a ratio."""

    def __init__(self, ks: list[int], propensity: npt.NDArray[np.float64] | None) -> None:
        self._ks, self._propensity, self._n = ks, propensity, 0
        self._totals: dict[str, float] = {}
        self._shares: dict[str, tuple[float, float]] = {}

    def add(self, Y: Any, found: Any, scores: npt.NDArray[Any], compression: Any) -> None:
        """Add rows with true outputs, predicted ones, and Wx."""
        n = Y.shape[0]
        means = {
            f"{name}@{k}": metric(Y, found, k)
            for name, metric in (
                ("precision", metrics.precision_at_k), ("recall", metrics.recall_at_k), ("ndcg", metrics.ndcg_at_k),
            )
            for k in self._ks
        }  # fmt: skip
        means["output difference"] = metrics.output_difference(Y, found)
        means["prediction loss"] = metrics.prediction_loss(found, scores, compression)
        for name, mean in means.items():
            self._totals[name] = self._totals.get(name, 0.0) + mean * n
        for k in self._ks if self._propensity is not None else ():
            sums = metrics.propensity_scored_sums(Y, found, k, self._propensity)
            before = self._shares.get(f"propensity-scored precision@{k}", (0.0, 0.0))
            self._shares[f"propensity-scored precision@{k}"] = (before[0] + sums[0], before[1] + sums[1])
        self._n += n

    def results(self) -> dict[str, float]:
        """By name."""
        means = {name: total / self._n for name, total in self._totals.items()}
        return means | {name: a / b if b > 0 else float("nan") for name, (a, b) in self._shares.items()}


def _evaluate(arguments: argparse.Namespace) -> int:
    require_stdout()
    with _opened(arguments, arguments.input, x=arguments.x, y=arguments.y) as (model, rows):
        s = arguments.sparsity or model.sparsity
        ks = arguments.k or sorted({k for k in (1, 3, 5) if k <= s} | {s})
        if rows.n_rows == 0:
            raise ValueError(f"{rows.header}: there are no rows to evaluate on")
        _, allowed, denied = _limits(arguments, model, rows)
        sums = _Sums(sorted(set(ks)), _propensities(arguments, model))
        step = max(1, _SCORE_BYTES // model.intercept_.nbytes)
        start = 0
        with Progress("evaluate", rows.n_rows, show=shows_progress(arguments)) as progress:
            for X_all, Y_all in rows.blocks():
                for at in range(0, X_all.shape[0], step):
                    X, Y = X_all[at : at + step], Y_all[at : at + step]
                    stop = start + X.shape[0]
                    limits = {"allowed": allowed.of(start, stop), "denied": denied.of(start, stop)}
                    found = model.predict(X, sparsity=s, n_threads=arguments.threads, **limits)
                    scores = model.predict_compressed(X, n_threads=arguments.threads)
                    sums.add(Y, found, scores, model.compression_)
                    progress.advance(stop - start)
                    start = stop
    results = sums.results()
    if arguments.json:
        print(json_text({"rows": start, "sparsity": s, **{name.replace(" ", "_"): v for name, v in results.items()}}))
    else:
        title = f"{arguments.model} on {start:,} rows of {rows.name}, {s} outputs a row"
        print_table(title, [(name, f"{value:.4f}") for name, value in results.items()])
    return 0


# ------------------------------------------------------------ explain


def _explain(arguments: argparse.Namespace) -> int:
    _check_output(arguments)
    kind = arguments.format or ("jsonl" if format_of(arguments.output, None) == "jsonl" else "text")
    first, last = arguments.rows
    with _opened(arguments, arguments.input, inputs_alone=True) as (model, rows):
        if first >= rows.n_rows:
            raise ValueError(f"--rows begins at {first}, but {rows.name} has {rows.n_rows} rows")
        last = rows.n_rows if last is None else min(last, rows.n_rows)
        labels, allowed, denied = _limits(arguments, model, rows)
        features = read_names(arguments.features, model.n_features_in_, "features")
        if features is None and hasattr(model, "feature_names_in_"):
            features = list(model.feature_names_in_)
        at = 0
        with open_output(arguments.output) as file:
            for block, _ in rows.blocks():
                start, stop = max(first, at), min(last, at + block.shape[0])
                X = block[max(0, start - at) : max(0, stop - at)]
                at += block.shape[0]
                if X.shape[0]:
                    limits = {
                        "sparsity": arguments.sparsity, "n_threads": arguments.threads,
                        "allowed": allowed.of(start, stop), "denied": denied.of(start, stop),
                    }  # fmt: skip
                    found = model.predict(X, **limits)
                    why = model.explain(X, arguments.top_features, **limits)
                    lines = explanation_lines(kind, start, found, why, labels, features)
                    file.writelines(f"{line}\n".encode() for line in lines)
                if at >= last:
                    break
    return 0


# ------------------------------------------------------------ their options


def _add_model(parser: Any, rows: str, **options: Any) -> None:
    add_model_file(parser)
    parser.add_argument("input", metavar="INPUT", help=rows, **options)


def _add_rest(parser: Any, output: str | None) -> None:
    if output is not None:
        parser.add_argument(
            "--output", default="-", metavar="FILE",
            help=f"{output}, '-' for standard output (-); .gz packs it; replaced when it is complete",
        )  # fmt: skip
    add_limits(parser)
    add_blocks(parser, "as many as 4 MB of text hold if not given")
    add_threads(parser)
    add_quiet(parser)


def add_parsers(commands: Any) -> None:
    """Add `predict`, `evaluate` and `explain` to the commands that `add_subparsers` gave."""
    what = "file, folder (its test rows) or '-' for standard input"
    parser = command(
        commands, "predict", "predict outputs for rows with a saved model",
        "Predict outputs for every row of INPUT: XMC text, plain or gzip, whose labels are ignored, or inputs as "
        ".npz. Reads, predicts and writes block by block: a file may be larger than memory.\n\n"
        "formats:\n"
        "  xmc    'n 0 K values', then a line a row: output:value,output:value,... by index\n"
        "         (--plain, and models whose values are all 1: 'n 0 K' and output,output,...)\n"
        "  csv    row,output,value, or with --labels row,output,name,value; the highest value first\n"
        '  jsonl  {"row":0,"outputs":[{"output":12,"name":"...","value":0.5},...]}; likewise',
        "  shore predict model.shore test.txt --output predictions.csv --labels labels.txt\n"
        "  zcat test.txt.gz | shore predict model.shore - --format jsonl | head",
    )  # fmt: skip
    _add_model(parser, f"rows: {what}")
    parser.add_argument(
        "--format", choices=FORMATS, help="xmc, csv or jsonl; if not given as the name of FILE says, or else xmc"
    )
    parser.add_argument("--plain", action="store_true", help="xmc without values, as other tools read it")
    _add_rest(parser, "file for the predictions")
    parser.set_defaults(run=_predict)

    parser = command(
        commands, "evaluate", "compare a saved model's predictions with true outputs",
        "Predict outputs for every row of INPUT and compare them with those in it: precision, recall and nDCG at k, "
        "the output difference ‖v - y‖² and the prediction loss ‖Φv - Wx‖², averaged over rows. Block by block.",
        "  shore evaluate model.shore test.txt\n"
        "  shore evaluate model.shore test.txt --k 1 3 5 --propensities train.txt --json",
    )  # fmt: skip
    _add_model(parser, f"rows with outputs: {what}", nargs="?")
    add_matrices(parser, "INPUT")
    parser.add_argument(
        "--k",
        type=positive,
        nargs="+",
        metavar="K",
        help="ranks (1, 3 and 5 as far as a prediction is long, and its length)",
    )
    parser.add_argument(
        "--propensities",
        metavar="TRAIN",
        help="training rows, for propensity-scored precision: rare outputs count more",
    )
    parser.add_argument(
        "--propensity-ab", type=float, nargs=2, default=(0.55, 1.5), metavar=("A", "B"),
        help="constants of the propensities (0.55 1.5; for Wikipedia 0.5 0.4, for Amazon 0.6 2.6)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    _add_rest(parser, None)
    parser.set_defaults(run=_evaluate)

    parser = command(
        commands, "explain", "say which features spoke for and against predicted outputs",
        "For every predicted output of some rows of INPUT, list the features that contributed most, those with a minus "
        "against it. All contributions of an output together are its score.",
        "  shore explain model.shore test.txt --rows 0:3 --top-features 5\n"
        "  shore explain model.shore test.txt --rows 17 --features features.txt --labels labels.txt",
    )  # fmt: skip
    _add_model(parser, f"rows: {what}")
    parser.add_argument(
        "--rows", type=row_range, default=(0, 5), metavar="A:B", help="rows A to B - 1, or one row; from 0 on (0:5)"
    )
    parser.add_argument("--top-features", type=positive, default=10, metavar="N", help="features per output (10)")
    parser.add_argument("--features", metavar="FILE", help="names of the features: text, one a line from feature 0 on")
    parser.add_argument("--format", choices=["text", "jsonl"], help="text to read, or one line of JSON a row (text)")
    _add_rest(parser, "file for the explanations")
    parser.set_defaults(run=_explain)
