import subprocess
import sys

import pytest

import shore
from shore.cli import main


def test_demo_prints_a_table(capsys):
    assert main(["demo", "--samples", "50", "--features", "20", "--outputs", "300"]) == 0
    printed = capsys.readouterr().out
    assert "precision@3" in printed
    assert "output difference" in printed


def test_bad_argument_is_one_line_and_exit_code_2(capsys):
    assert main(["demo", "--samples", "50", "--sparsity", "0"]) == 2
    assert capsys.readouterr().err == "shore: sparsity must be a positive integer, got 0\n"


def test_ctrl_c_is_one_line_and_exit_code_130(capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("shore.cli.demo.make_synthetic", interrupt)
    assert main(["demo", "--samples", "50"]) == 130
    assert capsys.readouterr().err == "shore: interrupted\n"


def test_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "shore", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"shore {shore.__version__}\n"
    with pytest.raises(SystemExit):
        main(["no-such-command"])
