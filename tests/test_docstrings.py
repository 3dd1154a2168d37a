"""Every example of a docstring prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import shore


def module_names():
    for module in pkgutil.walk_packages(shore.__path__, "shore."):
        if not module.name.startswith("shore._core.") and module.name != "shore.__main__":
            yield module.name


@pytest.mark.parametrize("name", list(module_names()))
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder()
    for public in shore.__all__:
        thing = getattr(shore, public)
        if callable(thing) and public not in ("DecodeInfo", "Explanation", "NotFittedError", "show_versions"):
            assert any(test.examples for test in finder.find(thing)), f"{public} has no example"
