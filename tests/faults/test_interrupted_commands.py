"""Ctrl-C in commands: one line, a code of its own, and no file changed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from bits import folder_bits
from interrupting import PATIENCE

import shore
from shore.datasets import make_synthetic, save_xmc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data = make_synthetic(3000, 400, 3000, sparsity=3)
    save_xmc(folder / "train.txt", data.X, data.Y)
    with open(folder / "many.txt", "wb") as file:
        file.write(b"400000 400 3000\n" + b" 0:1 3:2 7:1\n" * 400_000)
    shore.ShoreRegressor(3, n_components=200).fit(data.X, data.Y).save(folder / "m.shore")
    return folder


COMMANDS = {
    "fit": ["fit", "train.txt", "--solver", "cg", "--solver-tol", "1e-9", "--alpha", "1e-9", "--components", "3000"],
    "predict": ["predict", "m.shore", "many.txt"],
    "tune": ["tune", "train.txt", "--components", "500", "1000", "1500", "--compressions", "gaussian", "head_tail"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_so_in_one_line_and_leaves_no_file(name, folder, tmp_path, deep, survived):
    out = tmp_path / "out"
    out.write_text("the old file")
    words = [folder / word if (folder / word).exists() else word for word in COMMANDS[name]]
    words += ["--threads", "1", "--model" if name == "tune" else "--output", out]
    draw = random.Random(name)
    for moment in range(12 if deep else 1):
        command = [sys.executable, "-m", "shore", *map(str, words)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:  # fmt: skip
            while not is_in_command(process.pid) and process.poll() is None:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 1.0) if moment else 0.5)
            process.send_signal(signal.SIGINT)
            printed, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, printed, said) == (130, b"", b"shore: interrupted\n")
        assert folder_bits(tmp_path) == {"out": b"the old file"}
        survived("Ctrl-C in a command")


def is_in_command(pid):
    """Whether the process has opened its data: before, it is still importing, and Python itself says what happens."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/maps") as maps:
            return any(name.endswith((".txt", ".shore")) for name in links) or ".shore" in maps.read()
    except OSError:
        return False
