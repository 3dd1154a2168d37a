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


# An error, and what functions return: their examples show it.
WITHOUT = {
    "NotFittedError", "DecodeInfo", "Explanation", "Dataset", "SyntheticProblem", "Report", "RipEstimate",
    "SampleSizes", "Statement",
}  # fmt: skip


PUBLIC = [shore, shore.capi, shore.datasets, shore.metrics, shore.theory]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_there_are_examples(module):
    finder = doctest.DocTestFinder()
    for public in module.__all__:
        thing = getattr(module, public)
        if callable(thing) and public not in WITHOUT:
            assert any(test.examples for test in finder.find(thing)), f"{module.__name__}.{public} has no example"
