"""Options that commands share, and how their values are read."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

from shore.constraints import Box, Simplex

__all__ = [
    "Parser",
    "add_blocks",
    "add_constraint",
    "add_limits",
    "add_matrices",
    "add_model_file",
    "add_numbers",
    "add_quiet",
    "add_sparsity",
    "add_threads",
    "add_training_rows",
    "command",
    "constraint",
    "number_or_auto",
    "positive",
    "positive_or_auto",
    "row_range",
    "shows_progress",
    "training_files",
]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def command(commands: Any, name: str, help: str, description: str, examples: str) -> Any:
    """A new command with a description and examples below its options.

    Parameters
    ----------
    commands : object
        What `add_subparsers` gave.
    name, help : str
    description : str
        Paragraphs with empty lines between.
    examples : str
    """
    return commands.add_parser(
        name,
        help=help,
        description="\n\n".join(map(_wrapped, description.split("\n\n"))),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _wrapped(paragraph: str) -> str:
    """Broken by the width of the terminal, unless it has lines of its own."""
    width = max(40, shutil.get_terminal_size().columns - 2)
    return paragraph if "\n" in paragraph else textwrap.fill(paragraph, width)


def positive(text: str) -> int:
    """An integer of at least 1, of at most 18 digits.

    Parameters
    ----------
    text : str
    """
    if not (text.isascii() and text.isdigit() and text.strip("0")):
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    if len(text) > 18:
        raise argparse.ArgumentTypeError(f"expected a positive integer of at most 18 digits, got {text!r}")
    return int(text)


def positive_or_auto(text: str) -> int | str:
    """A positive integer or 'auto'.

    Parameters
    ----------
    text : str
    """
    return text if text == "auto" else positive(text)


def number_or_auto(text: str) -> float | str:
    """A number or 'auto'.

    Parameters
    ----------
    text : str
    """
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or 'auto', got {text!r}") from None


def constraint(text: str) -> Any:
    """A feasible set.

    Parameters
    ----------
    text : str
        ``real``, ``nonneg``, ``binary``, ``box:low:high``, ``simplex`` or ``simplex:total``.
    """
    if text in ("real", "nonneg", "binary"):
        return text
    kind, *words = text.split(":")
    try:
        numbers = [float(word) for word in words]
        if kind == "box" and len(numbers) == 2:
            return Box(*numbers)
        if kind == "simplex" and len(numbers) <= 1:
            return Simplex(*numbers)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    raise argparse.ArgumentTypeError(
        f"expected real, nonneg, binary, box:LOW:HIGH, simplex or simplex:TOTAL, got {text!r}"
    )


def row_range(text: str) -> tuple[int, int | None]:
    """First row, and the one behind the last or None.

    Parameters
    ----------
    text : str
        ``5``, ``0:5``, ``:5`` or ``10:``.
    """
    words = text.split(":")
    if text and len(words) <= 2 and all(word == "" or (word.isascii() and word.isdigit()) for word in words):
        start = int(words[0] or 0)
        stop = start + 1 if len(words) == 1 else int(words[1]) if words[1] else None
        if stop is None or stop > start:
            return start, stop
    raise argparse.ArgumentTypeError(f"expected a row or a range of rows as 0:5, got {text!r}")


def add_model_file(parser: Any) -> None:
    """Add MODEL, a file to read.

    Parameters
    ----------
    parser : ArgumentParser
    """
    parser.add_argument("model", metavar="MODEL", help="a file that 'shore fit' or ShoreRegressor.save wrote")


def add_matrices(parser: Any, instead: str) -> None:
    """Add --x and --y.

    Parameters
    ----------
    parser : ArgumentParser
    instead : str
        The argument that they stand in for.
    """
    parser.add_argument(
        "--x", metavar="X.npz", help=f"inputs, as scipy.sparse.save_npz writes them, instead of {instead}"
    )
    parser.add_argument("--y", metavar="Y.npz", help="outputs, likewise")


def add_training_rows(parser: Any) -> None:
    """Add TRAIN, --x and --y.

    Parameters
    ----------
    parser : ArgumentParser
    """
    parser.add_argument("train", nargs="?", metavar="TRAIN", help="training rows: file, folder or '-'")
    add_matrices(parser, "TRAIN")


def training_files(arguments: argparse.Namespace) -> dict[str, str | None]:
    """The files of `add_training_rows`, by their arguments.

    Parameters
    ----------
    arguments : Namespace
    """
    return {"TRAIN": arguments.train, "--x": arguments.x, "--y": arguments.y}


def add_sparsity(parser: Any) -> None:
    """Add --sparsity of a model that is to be fitted.

    Parameters
    ----------
    parser : ArgumentParser
    """
    parser.add_argument(
        "--sparsity", type=positive, default=5, metavar="S", help="outputs a prediction holds at most (5)"
    )


def add_constraint(parser: Any, read: Callable[[str], Any] = constraint) -> None:
    """Add --constraint.

    Parameters
    ----------
    parser : ArgumentParser
    read : callable, optional
        What makes a value of the text, and refuses what `constraint` refuses.
    """
    parser.add_argument(
        "--constraint", type=read, default="nonneg", metavar="SET",
        help="what values may be: real, nonneg, binary, box:LOW:HIGH, or simplex:TOTAL (nonneg)",
    )  # fmt: skip


def add_numbers(parser: Any, seed: str) -> None:
    """Add --intercept, --dtype and --seed.

    Parameters
    ----------
    parser : ArgumentParser
    seed : str
        What it is the seed of.
    """
    parser.add_argument("--intercept", action="store_true", help="fit an intercept")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="precision (float32)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=f"of {seed} (0)")


def add_quiet(parser: Any) -> None:
    """Add --quiet.

    Parameters
    ----------
    parser : ArgumentParser
    """
    parser.add_argument("--quiet", action="store_true", help="show no progress (none is shown in a pipe anyway)")


def add_threads(parser: Any) -> None:
    """Add --threads.

    Parameters
    ----------
    parser : ArgumentParser
    """
    parser.add_argument("--threads", type=positive, metavar="N", help="threads to run on; all cores if not given")


def add_blocks(parser: Any, default: str) -> None:
    """Add --block-rows.

    Parameters
    ----------
    parser : ArgumentParser
    default : str
        What None means.
    """
    parser.add_argument(
        "--block-rows", type=positive, metavar="N",
        help=f"rows to hold in memory at a time, {default}; the result does not depend on it",
    )  # fmt: skip


def add_limits(parser: Any) -> None:
    """Add what `predict` takes: --sparsity, --allowed, --denied, --labels.

    Parameters
    ----------
    parser : ArgumentParser
    """
    parser.add_argument(
        "--sparsity", type=positive, metavar="S", help="outputs per row at most; the model's if not given"
    )
    for name, text in (("allowed", "the only outputs to predict"), ("denied", "outputs not to predict")):
        parser.add_argument(
            f"--{name}", metavar="FILE",
            help=f"{text}: text with one index a line (with --labels also one name), or .npz with a row for each input",
        )  # fmt: skip
    parser.add_argument("--labels", metavar="FILE", help="names of the outputs: text, one a line from output 0 on")


def shows_progress(arguments: argparse.Namespace) -> bool:
    """Whether bars go to standard error: on a terminal, unless results go there too.

    Parameters
    ----------
    arguments : Namespace
    """
    if arguments.quiet or sys.stderr is None or not sys.stderr.isatty():
        return False
    return getattr(arguments, "output", None) != "-" or not sys.stdout.isatty()
