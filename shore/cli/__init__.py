"""The command line: `shore` and `python -m shore`.

::

    __init__    main: runs a command, turns errors and signals into exit codes
    options     options that commands share
    inputs      rows of data block by block, names, lists of outputs
    outputs     predictions and explanations as text, tables
    demo        shore demo, shore versions
    fit         shore fit
    tune        shore tune
    predict     shore predict, shore evaluate, shore explain
    info        shore info

and `shore.experiments.command` is `shore experiment`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO

import numpy as np

from shore._version import __version__
from shore.cli import demo, fit, info, predict, tune
from shore.cli.options import Parser
from shore.experiments.command import add_parser as add_experiment_parser

__all__ = ["main"]

# What shells say of a process that was ended by Ctrl-C or by a closed pipe.
_INTERRUPTED, _PIPE_CLOSED = 130, 141

_DESCRIPTION = """\
Sparse and high-dimensional-output regression: for each input a short list of
outputs with values, out of tens of thousands to millions of possible ones."""
_EPILOG = """\
examples:
  shore demo
  shore fit train.txt --sparsity 5 --output model.shore
  shore tune train.txt --max-bytes 50MB
  shore predict model.shore test.txt --output predictions.csv
  shore evaluate model.shore test.txt

'shore COMMAND --help' says more of each. Data is text of the Extreme
Classification Repository, plain or gzip, or SciPy's .npz. The exit code is 0,
or 2 for wrong arguments or files, with one line on standard error."""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shore",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"shore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    fit.add_parser(commands)
    tune.add_parser(commands)
    predict.add_parsers(commands)
    info.add_parser(commands)
    demo.add_parsers(commands)
    add_experiment_parser(commands)
    return parser


def _end(number: int, frame: Any) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that end a process unwind it first, so that no half-written file stays."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    changed = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    _say(f"warning: {message}")


def _say(words: str) -> None:
    if sys.stderr is not None:  # print would take standard output instead
        print(f"shore: {' '.join(words.split())}", file=sys.stderr)


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    return str(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    The exit code is 0; 2 with one line on standard error for wrong arguments or files; 130 after Ctrl-C; 141, and
    nothing is said, if whoever reads the output has gone.
    """
    arguments = _parser().parse_args(argv)
    try:
        with _ended_by_signals(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.showwarning = _warn
            code = int(arguments.run(arguments))
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
    except BrokenPipeError:
        # What is still in the buffer must not be tried again when the interpreter ends.
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except (ValueError, TypeError, OSError, MemoryError) as error:
        _say(_words(error))
        return 2
    except KeyboardInterrupt:
        _say("interrupted")
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
