"""What checkers of types read is complete, and says what is there."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import typed_use

import shore
from shore._core import capi, compression, decode, feasible, linear, projection, runtime, serve, xmc

MODULES = [capi, compression, decode, feasible, linear, projection, runtime, serve, xmc]


def test_every_module_is_listed():
    compiled = Path(shore._core.__file__).parent.glob("*.so")
    assert {path.name.split(".")[0] for path in compiled} <= {module.__name__.split(".")[-1] for module in MODULES}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_stubs_name_all_that_is_public(module):
    stub = Path(module.__file__).parent / f"{module.__name__.split('.')[-1]}.pyi"
    said = stub.read_text(encoding="utf-8")
    for name, thing in vars(module).items():
        if (
            name.startswith("_")
            or inspect.ismodule(thing)
            or getattr(thing, "__module__", "shore").split(".")[0] != "shore"
        ):
            continue
        assert f"def {name}(" in said or f"class {name}" in said or f"{name}:" in said, f"{stub.name} misses {name}"


def test_uses_run():
    typed_use.main()


def test_types_of_results_are_those_that_are_said():
    phi = shore.SparseSignCompression(20, 100)
    found, info = shore.decode(np.ones((2, 20)), phi, 3, return_info=True)
    assert type(found).__name__ == "csr_array"
    assert isinstance(info, shore.DecodeInfo)
