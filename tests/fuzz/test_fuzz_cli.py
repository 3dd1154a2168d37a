import contextlib
import io
import sys

from hypothesis import given
from hypothesis import strategies as st
from inputs import folder
from oracle import tried

from shore import cli

# Names and words that every command knows, and things that none does.
WORDS = [
    "fit", "predict", "evaluate", "explain", "info", "tune", "demo", "--help", "--version", "--sparsity", "0", "-1",
    "2", "nan", "", "x.txt", "missing.shore", "--model", "--output", "--frobnicate", "--alpha", "auto", "--", "-",
]  # fmt: skip


@given(words=st.lists(st.sampled_from(WORDS), max_size=6))
def test_any_command_line_ends_in_a_status(words):
    """0 or an error of its own, with a message: never a traceback."""
    kept, place = folder()
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin

    def run():
        sys.stdin = io.TextIOWrapper(io.BytesIO())  # of a command that nothing is written to
        try:
            return cli.main(words)
        except SystemExit as left:
            return left.code
        finally:
            sys.stdin = stdin

    with kept, contextlib.chdir(place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = tried(run)
    assert status in (0, None, 1, 2)
    assert status in (0, None) or err.getvalue().strip()
