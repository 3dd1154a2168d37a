"""That nothing public is left out of the fuzz suite."""

import inspect
import re
from pathlib import Path

import pytest

import shore
from shore import capi, datasets, metrics, theory

SUITE = "\n".join(path.read_text() for path in Path(__file__).parent.glob("*.py") if path.name != Path(__file__).name)

# Public, but with nothing in it that a caller could get wrong: what functions return, and errors.
RESULTS = {
    "DecodeInfo", "Explanation", "ModelFileError", "NotFittedError", "Predictor",  # of shore
    "Dataset", "SyntheticProblem",  # of shore.datasets
    "Report", "RipEstimate", "SampleSizes", "Statement",  # of shore.theory
    "get_include", "show_versions",  # take no arguments
}  # fmt: skip
# What is asked of a model with nothing but parameters that `fit` checks.
PARAMETERS = {"get_params"}


def public(module):
    return [name for name in module.__all__ if callable(getattr(module, name))]


@pytest.mark.parametrize("module", [shore, capi, datasets, metrics, theory], ids=lambda module: module.__name__)
def test_every_public_function_is_called(module):
    missing = [name for name in public(module) if name not in RESULTS and not re.search(rf"\b{name}\(", SUITE)]
    named = [name for name in missing if not re.search(rf"\.{name}\b", SUITE)]  # passed on, and called there
    assert named == []


@pytest.mark.parametrize(
    "made", [shore.ShoreRegressor, shore.SparseSignCompression, theory.Moments, datasets.XmcReader]
)
def test_every_public_method_is_called(made):
    methods = [name for name, _ in inspect.getmembers(made, callable) if not name.startswith("_")]
    missing = [name for name in methods if not re.search(rf"\b{name}\b", SUITE)]
    assert [name for name in missing if name not in PARAMETERS] == []


def test_the_functions_without_arguments_answer(capsys):
    assert Path(shore.get_include(), "shore.h").is_file()
    shore.show_versions()
    assert shore.__version__ in capsys.readouterr().out
