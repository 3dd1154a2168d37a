"""That nothing public is left out of the fuzz suite. It runs last: see conftest.py."""

from pathlib import Path

import calls
import pytest

import shore


def test_every_public_function_is_tried(whole_suite):
    if not whole_suite:
        pytest.skip("only some tests of the suite are run")
    assert sorted(calls.public().keys() - calls.CALLED) == []


def test_what_is_exempt_exists():
    exempt, calls.EXEMPT = calls.EXEMPT, set()
    try:
        assert exempt - calls.public().keys() == set()
    finally:
        calls.EXEMPT = exempt


def test_a_new_function_would_be_missed(monkeypatch):
    monkeypatch.setattr(shore, "astype", lambda: None, raising=False)  # which is called elsewhere, but not of shore
    monkeypatch.setattr(shore, "__all__", [*shore.__all__, "astype"])
    assert "shore.astype" in calls.public().keys() - calls.CALLED


def test_the_functions_without_arguments_answer(capsys):
    assert Path(shore.get_include(), "shore.h").is_file()
    shore.show_versions()
    assert shore.__version__ in capsys.readouterr().out
