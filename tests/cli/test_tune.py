"""shore tune."""

import csv

import numpy as np
import pytest

import shore
from shore.cli.tune import _bytes
from shore.datasets import load_xmc


def test_tune_prints_a_table_and_a_command_that_fits(files, run, tmp_path):
    pytest.importorskip("matplotlib")
    out, model = tmp_path / "tuning", tmp_path / "m.shore"
    printed = run("tune", files.train, "--sparsity", 3, "--components", 16, 32, "--alphas", 1, 10, "--seed", 5,
                  "--intercept", "--constraint", "box:0:50", "--output", out, "--model", model)  # fmt: skip
    lines = printed.splitlines()
    assert lines[0].split() == ["compression", "m", "alpha", "P@3", "P@1", "file", "us", "per", "row"]
    picked = next(line for line in lines if line.startswith("*")).split()
    assert "8 models in" in printed
    assert f"{model}: fitted to all 120 rows" in printed
    command = next(line for line in lines if line.startswith("  shore fit ")).split()[1:]
    assert command[command.index("--compression") + 1] == picked[1]
    assert command[command.index("--components") + 1] == picked[2]
    command[command.index("--output") + 1] = str(tmp_path / "by_hand.shore")
    run(*command)
    by_hand, tuned = shore.load(tmp_path / "by_hand.shore"), shore.load(model)
    assert by_hand.get_params() == tuned.get_params()
    np.testing.assert_array_equal(by_hand.coef_, tuned.coef_)
    rows = list(csv.DictReader((out / "trials.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 8
    assert (out / "trials.png").stat().st_size > 10_000


def test_tune_within_a_budget(files, run, tmp_path):
    X, Y = load_xmc(files.train)
    most = shore.tune(X, Y, sparsity=3, n_components=32, compressions=["sparse_sign"], alphas=1.0).best.bytes
    words = ["tune", files.train, "--sparsity", 3, "--alphas", 1, "--compressions", "sparse_sign"]
    printed = run(*words, "--components", 16, 32, 48, "--max-bytes", most)
    assert "--components 32" in printed or "--components 16" in printed
    assert "2 models" in printed
    assert run(*words, "--components", 16, "--quiet") == ""


def test_tune_refuses(files, refused, tmp_path):
    assert "max_bytes=1000 is too small: the smallest model to try" in refused(
        "tune", files.train, "--max-bytes", "1kB"
    )
    assert "expected a number of bytes" in refused("tune", files.train, "--max-bytes", "1 PB")
    assert "held_out must be a number between 0 and 1" in refused("tune", files.train, "--held-out", "2")
    assert "give either a file or folder, or --x and --y" in refused("tune")
    assert "there is no folder" in refused("tune", files.train, "--model", tmp_path / "no" / "m.shore")
    assert "is a folder" in refused("tune", files.train, "--model", tmp_path)
    assert "max_microseconds must be a positive number" in refused("tune", files.train, "--max-microseconds", "-1")


@pytest.mark.parametrize(("text", "value"), [("200000", 2e5), ("50MB", 5e7), ("1.5 GB", 1.5e9), ("2KiB", 2048.0)])
def test_sizes(text, value):
    assert _bytes(text) == value
