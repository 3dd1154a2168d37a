"""Exit codes, errors, signals and pipes."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import shore
from shore.cli import main
from shore.datasets import save_xmc

COMMANDS = ("fit", "predict", "evaluate", "explain", "info", "demo", "versions", "experiment")


def hear_ctrl_c():
    """In a child: a process started in the background may have inherited that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def child(*words, **options):
    command = [sys.executable, "-m", "shore", *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=hear_ctrl_c, **options)


# ---- errors ----


def bad_texts(folder):
    """Text with a wrong 17th line, in a file of its own."""
    path = folder / "bad.txt"
    path.write_bytes(b"20 12 80\n" + b"1 0:1\n" * 15 + b"1 0:x\n" + b"1 0:1\n" * 4)
    return path


def test_wrong_lines_are_named(files, refused, tmp_path):
    path, out = bad_texts(tmp_path), tmp_path / "out"
    words = f"{path}:17: expected a decimal number behind ':', got '0:x'"
    for command in (
        ("fit", path, "--output", out), ("fit", path, "--stream", "--block-rows", 4, "--output", out),
        ("predict", files.saved, path, "--output", out),
        ("predict", files.saved, path, "--block-rows", 4, "--output", out),
        ("evaluate", files.saved, path), ("explain", files.saved, path, "--rows", "0:20", "--output", out),
        ("evaluate", files.saved, files.test, "--propensities", path),
    ):  # fmt: skip
        assert refused(*command) == words
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]  # nothing half-written stays


def test_an_old_output_survives_an_error(files, refused, tmp_path):
    out = tmp_path / "out"
    out.write_text("old")
    refused("predict", files.saved, bad_texts(tmp_path), "--block-rows", 1, "--output", out)
    assert out.read_text() == "old"


@pytest.fixture
def copied(files, tmp_path):
    """A copy of the files, to be damaged if something is wrong; a function of the bits of all of them."""
    folder = tmp_path / "copied"
    shutil.copytree(files.folder, folder)
    return folder, lambda: {path.name: path.read_bytes() for path in folder.iterdir()}


COLLISIONS = [
    ("MODEL", ["predict", "m.shore", "test.txt", "--output", "m.shore"]),
    ("INPUT", ["predict", "m.shore", "test.txt", "--output", "test.txt"]),
    ("INPUT", ["predict", "m.shore", "X_test.npz", "--output", "X_test.npz"]),
    ("--labels", ["predict", "m.shore", "test.txt", "--labels", "labels.list", "--output", "labels.list"]),
    ("--allowed", ["predict", "m.shore", "test.txt", "--allowed", "Y_test.npz", "--output", "Y_test.npz"]),
    ("--denied", ["predict", "m.shore", "test.txt", "--denied", "Y_test.npz", "--output", "Y_test.npz"]),
    ("MODEL", ["explain", "m.shore", "test.txt", "--output", "m.shore"]),
    ("INPUT", ["explain", "m.shore", "test.txt", "--output", "test.txt"]),
    ("--features", ["explain", "m.shore", "test.txt", "--features", "features.list", "--output", "features.list"]),
    ("TRAIN", ["fit", "train.txt", "--output", "train.txt"]),
    ("--x", ["fit", "--x", "X_train.npz", "--y", "Y_train.npz", "--output", "X_train.npz"]),
    ("--y", ["fit", "--x", "X_train.npz", "--y", "Y_train.npz", "--output", "Y_train.npz"]),
    ("TRAIN", ["fit", ".", "--output", "X_test.npz"]),  # a folder's files, of its other part too
    ("TRAIN", ["tune", "train.txt", "--model", "train.txt"]),
]


@pytest.mark.parametrize(("name", "words"), COLLISIONS)
@pytest.mark.parametrize("spelled", ["the same", "another path", "a link", "a second name"])
def test_no_command_replaces_what_it_reads(name, words, spelled, copied, refused, monkeypatch):
    folder, bits = copied
    monkeypatch.chdir(folder)
    *others, option, out = words
    if spelled == "another path":
        out = os.path.join(folder, "..", folder.name, out)
    elif spelled != "the same":
        (os.symlink if spelled == "a link" else os.link)(folder / out, "other.name")
        out = "other.name"
    before = bits()
    assert refused(*others, option, out) == f"{option} {out} would replace {name}, which is read: give another name"
    assert bits() == before


def test_no_command_replaces_its_standard_input(copied):
    folder, bits = copied
    before = bits()
    words = [sys.executable, "-m", "shore", "predict", "m.shore", "-", "--output", "test.txt"]
    with open(folder / "test.txt", "rb") as data:
        ended = subprocess.run(words, stdin=data, cwd=folder, capture_output=True)
    said = b"shore: --output test.txt would replace INPUT, which is read: give another name\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, b"", said)
    assert bits() == before


def test_wrong_files(files, refused, tmp_path):
    missing = tmp_path / "none"
    out = ("--output", tmp_path / "out")
    few = tmp_path / "few.txt"
    few.write_text("a\nb\n")
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"a\nb\xff\n")
    numbers = tmp_path / "numbers.txt"
    numbers.write_text("1\n80\n")
    narrow = tmp_path / "narrow.txt"
    save_xmc(narrow, np.ones((2, 3)), np.ones((2, 4)))
    empty = tmp_path / "empty.txt"
    empty.write_text("0 12 80\n")
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(Path(files.test).read_bytes())[:-9])
    zipped = tmp_path / "x.npz"
    zipped.write_bytes(b"PK\x03\x04 and no more")
    sparse.save_npz(tmp_path / "pattern.npz", sparse.csr_array(np.ones((2, 80))))
    folder = tmp_path / "folder"
    folder.mkdir()
    for words, error in (
        (("fit", missing, *out), f"{missing}: No such file or directory"),
        (("fit", folder, *out), f"{folder} is no data set"),
        (("fit", files.folder / "X_test.npz", *out), "give both, as --x X.npz --y Y.npz"),
        (("fit", empty, *out), f"{empty}:1: there is nothing to fit: 0 rows, 12 features and 80 outputs"),
        (("fit", files.train, "--output", tmp_path / "no" / "m"), f"there is no folder {tmp_path / 'no'}"),
        (("fit", files.train, "--output", folder), f"{folder}: is a folder"),
        (("fit", files.train, "--output", "/dev/null"), "/dev/null: a model is written to a regular file"),
        (("fit", files.train, "--output", "-"), "-: a model is written to a regular file"),
        (("predict", missing, files.test), f"{missing}: No such file or directory"),
        (("predict", files.test, files.test), f"{files.test}: not a model file"),
        (("predict", files.saved, missing, *out), f"{missing}: No such file or directory"),
        (("predict", files.saved, narrow), f"{narrow}:1: 3 features, but {files.saved} was fitted to 12"),
        (("predict", files.saved, zipped), f"{zipped}: not a matrix of scipy.sparse.save_npz"),
        (("predict", files.saved, packed, *out), "the gzip data is damaged"),
        (("predict", files.saved, files.test, "--labels", few), f"{few}: 2 names, but there are 80 outputs"),
        (("predict", files.saved, files.test, "--labels", broken), f"{broken}:2: not UTF-8"),
        (("predict", files.saved, files.test, "--denied", few), f"{few}:1: expected the index of an output, got 'a'"),
        (("predict", files.saved, files.test, "--denied", numbers), f"{numbers}:2: output 80 is out of range"),
        (("predict", files.saved, files.test, "--denied", few, "--labels", files.labels_file), f"{few}:1: 'a' is "),
        (("predict", files.saved, files.test, "--allowed", tmp_path / "pattern.npz"), "needs (30, 80)"),
        (("evaluate", files.saved, narrow), f"{narrow}:1: 3 features"),
        (("evaluate", files.saved, empty), f"{empty}:1: there are no rows"),
        (("evaluate", files.saved, files.test, "--propensities", narrow), f"{narrow}:1: 4 outputs"),
        (("explain", files.saved, files.test, "--features", few), f"{few}: 2 names, but there are 12 features"),
        (("explain", files.saved, files.test, "--rows", "30"), f"--rows begins at 30, but {files.test} has 30 rows"),
        (("info", files.test), f"{files.test}: not a model file"),
        (("info", folder), f"{folder}: Is a directory"),
    ):  # fmt: skip
        assert error in refused(*words), words
    assert not (tmp_path / "out").exists()


def test_wrong_arguments(files, refused, tmp_path):
    fit = ("fit", files.train, "--output", tmp_path / "m")
    for words, error in (
        (("no-such-command",), "invalid choice: 'no-such-command'"),
        ((), "the following arguments are required"),
        (("fit", files.train), "the following arguments are required: --output"),
        (("fit", "--output", tmp_path / "m"), "give either a file or folder, or --x and --y"),
        (("fit", "--x", "X.npz", "--output", tmp_path / "m"), "--x and --y belong together"),
        ((*fit, "--components", "many"), "argument --components: expected a positive integer, got 'many'"),
        ((*fit, "--sparsity", "0"), "argument --sparsity: expected a positive integer, got '0'"),
        ((*fit, "--sparsity", "9" * 23), "argument --sparsity: expected a positive integer of at most 18 digits, got"),
        ((*fit, "--sparsity", "9" * 5000), "argument --sparsity: expected a positive integer of at most 18 digits"),
        ((*fit, "--alpha", "x"), "argument --alpha: expected a number or 'auto', got 'x'"),
        ((*fit, "--alpha", "-1"), "alpha must be a number of at least 0"),
        ((*fit, "--constraint", "box:1:2"), "Box needs low <= 0 <= high"),
        ((*fit, "--constraint", "box:1"), "argument --constraint: expected real, nonneg"),
        ((*fit, "--constraint", "simplex:x"), "could not convert string to float"),
        ((*fit, "--seed", "-1"), "random_state must be from 0"),
        ((*fit, "--step", "0"), "step"),
        ((*fit, "--stream", "--alpha", "auto"), "--alpha auto needs all rows at once"),
        ((*fit, "--stream", "--solver", "cg"), "--stream solves by cholesky"),
        ((*fit, "--weights", "float16", "--dtype", "float64"), "--weights float16 is for --dtype float32"),
        (("predict", files.saved, files.test, "--threads", "0"), "argument --threads: expected a positive integer"),
        (("predict", files.saved, files.test, "--plain", "--format", "csv"), "--plain is for --format xmc"),
        (("predict", files.saved), "required: INPUT"),
        (("evaluate", files.saved), "give either a file or folder, or --x and --y"),
        (("explain", files.saved, files.test, "--rows", "5:3"), "argument --rows: expected a row or a range"),
        (("explain", files.saved, files.test, "--rows", "-1"), "--rows"),
        (("demo", "--samples", "50", "--sparsity", "0"), "sparsity must be a positive integer, got 0"),
    ):  # fmt: skip
        assert error in refused(*words), words
    assert not (tmp_path / "m").exists()


def test_sums_larger_than_memory_are_refused(files, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["shore.cli.fit"], "_memory", lambda: 1e4)
    words = refused("fit", files.train, "--stream", "--output", tmp_path / "m")
    assert words.startswith("--stream holds d·(d + m) sums, with 12 features")


def test_lack_of_memory_is_one_line(files, refused, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(shore.ShoreRegressor, "predict", fail)
    assert refused("predict", files.saved, files.test) == "not enough memory"


def test_warnings_are_one_line(files, tmp_path, capsys):
    save_xmc(tmp_path / "x.txt", np.ones((5, 3)), np.ones((5, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["fit", str(tmp_path / "x.txt"), "--alpha", "0", "--output", str(tmp_path / "m")]) == 0
    printed = capsys.readouterr().err
    assert printed.startswith("shore: warning: ")
    assert printed.count("\n") == 1


# ---- help ----


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "examples:\n" in printed
    assert f"shore {command}" in printed.partition("examples:\n")[2]


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"    {command}" in printed for command in COMMANDS)


# ---- streams that are closed ----


def closed(number, *words):
    """A command that is started without standard input, output or error: its code, and what it wrote to the others."""
    command = [sys.executable, "-m", "shore", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, preexec_fn=lambda: os.close(number))
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def test_closed_standard_output(files, tmp_path):
    said = "shore: standard output is closed, and the results go there\n"
    for words in (
        ("info", files.saved), ("predict", files.saved, files.test), ("explain", files.saved, files.test),
        ("evaluate", files.saved, files.test), ("tune", files.train), ("demo",), ("versions",),
    ):  # fmt: skip
        assert closed(1, *words) == (2, "", said)
    for words in (
        ("predict", files.saved, files.test, "--output", tmp_path / "a"),
        ("fit", files.train, "--output", tmp_path / "b"),
        ("tune", files.train, "--components", 16, "--alphas", 1, "--quiet", "--model", tmp_path / "c"),
    ):  # fmt: skip
        assert closed(1, *words) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_closed_standard_input(files, tmp_path):
    said = "shore: standard input is closed, and '-' reads it\n"
    for words in (("predict", files.saved, "-"), ("fit", "-", "--output", tmp_path / "m")):
        assert closed(0, *words) == (2, "", said)
    assert closed(0, "predict", files.saved, files.test, "--output", tmp_path / "p") == (0, "", "")


def test_closed_standard_error(files, tmp_path):
    code, printed, _ = closed(2, "predict", files.saved, files.test)
    assert (code, printed.count("\n")) == (0, 31)
    assert closed(2, "evaluate", files.saved, files.test)[0] == 0
    assert closed(2, "predict", files.saved, tmp_path / "none") == (2, "", "")  # and no words where results belong


# ---- signals and pipes ----


def test_ctrl_c_is_one_line_and_exit_code_130(capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("shore.cli.demo.make_synthetic", interrupt)
    assert main(["demo", "--samples", "50"]) == 130
    assert capsys.readouterr().err == "shore: interrupted\n"


@pytest.mark.parametrize(("number", "code", "words"), [
    (signal.SIGINT, 130, b"shore: interrupted\n"), (signal.SIGTERM, 128 + signal.SIGTERM, b""),
])  # fmt: skip
def test_signals_leave_no_half_file(number, code, words, files, tmp_path):
    out = tmp_path / "out.csv"
    with child("predict", files.saved, "-", "--output", out, stdin=subprocess.PIPE) as process:
        process.stdin.write(Path(files.test).read_bytes()[:2000])
        process.stdin.flush()
        patience = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and time.monotonic() < patience:
            time.sleep(0.02)
        assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]  # it is in the midst of it
        process.send_signal(number)
        assert process.wait(30) == code
        assert process.stderr.read() == words
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_reader_that_goes_away_is_no_error(files, tmp_path):
    many = tmp_path / "many.txt"
    with open(many, "wb") as file:
        file.write(b"20000 12 80\n" + b" 0:1 3:2 7:1\n" * 20000)
    with child(
        "predict", files.saved, many, "--format", "jsonl", "--block-rows", 100, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().startswith(b'{"row":0,')
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


def test_module_is_the_command(files):
    done = subprocess.run([sys.executable, "-m", "shore", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"shore {shore.__version__}\n"
    with open(files.test, "rb") as file:
        command = [sys.executable, "-m", "shore", "predict", files.saved, "-"]
        done = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert done.stdout.startswith(b"30 0 80 values\n")
    assert done.stderr == b""  # no bars in a pipe


def test_bars_on_a_terminal(files, tmp_path):
    termios = pytest.importorskip("termios", reason="no terminals here")
    for words, shown in ((), True), (("--quiet",), False):
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        command = ["predict", files.saved, files.test, "--output", str(tmp_path / "out"), *words]
        subprocess.run([sys.executable, "-m", "shore", *command], stderr=theirs, check=True)
        os.write(theirs, b"end")  # so that there is something to read
        assert (b"predict" in os.read(ours, 10_000)) == shown
        os.close(ours)
        os.close(theirs)
