"""Ctrl-C in the middle of commands that print their results."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")

# Seconds after which something hangs.
PATIENCE = 120

# What is imported is not yet the command: Ctrl-C before that is Python's.
CODE = """
import sys
from shore.cli import main
print("started", flush=True)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """So many rows that a command is busy with them for many seconds."""
    path = tmp_path_factory.mktemp("many") / "many.txt"
    with open(path, "wb") as file:
        file.write(b"400000 12 80\n" + b"1,5 0:1 3:2 7:1\n" * 400_000)
    return path


COMMANDS = {
    "explain": ["explain", "MODEL", "MANY", "--rows", "0:400000", "--threads", "1", "--block-rows", "100"],
    "explain to a file": ["explain", "MODEL", "MANY", "--rows", "0:400000", "--threads", "1", "--output", "OUT"],
    "evaluate": ["evaluate", "MODEL", "MANY", "--threads", "1", "--block-rows", "100"],
    "demo": ["demo", "--samples", "20000", "--features", "200", "--outputs", "100000"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_in_the_middle_is_one_line_and_exit_code_130(name, files, many, tmp_path):
    out = tmp_path / "out"
    out.write_text("the old file")
    given = {"MODEL": files.saved, "MANY": str(many), "OUT": str(out)}
    words = [given.get(word, word) for word in COMMANDS[name]]
    with subprocess.Popen(
        [sys.executable, "-c", CODE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        try:
            assert process.stdout.readline() == b"started\n"
            if name == "explain":
                assert process.stdout.readline() == b"row 0\n"  # a pipe that is not read holds it up
            else:
                time.sleep(0.7)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, b"shore: interrupted\n")
    assert {path: (tmp_path / path).read_text() for path in os.listdir(tmp_path)} == {"out": "the old file"}
