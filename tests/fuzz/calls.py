"""Which public functions and methods the suite calls in what it tries: recorded as it runs, not read in its text."""

import functools
import inspect
import sys
from pathlib import Path

from oracle import TRYING

import shore
from shore import capi, datasets, distributed, metrics, theory, tuning

HERE = str(Path(__file__).parent)
MODULES = [shore, capi, datasets, distributed, metrics, theory, tuning]

# Public, but with nothing in it that a caller could get wrong.
EXEMPT = {
    "shore.get_include", "shore.show_versions",  # take no arguments
    "Parameters.get_params",
    "Tuning.figure",  # draws what `to_dict` gives
    # what functions return is made by them: only methods count
    *(f"{made}.__init__" for made in (
        "Explanation", "DecodeInfo", "Dataset", "SyntheticProblem", "Moments", "RipEstimate", "SampleSizes",
        "Report", "Statement", "Trial", "Tuning",
    )),
}  # fmt: skip

CALLED = set()


def public():
    """{name: (owner, attribute)} of all functions, constructors and methods."""
    found = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                found |= _methods(value)
            elif callable(value) and inspect.unwrap(value) not in [
                inspect.unwrap(getattr(*where)) for where in found.values()
            ]:
                found[f"{module.__name__.rpartition('.')[2]}.{name}"] = module, name
    return {name: where for name, where in found.items() if name not in EXEMPT}


def _methods(made):
    """Its constructor and public methods, by the class of shore that defines them."""
    if issubclass(made, Exception):
        return {}
    found = {}
    for name, value in inspect.getmembers(made, callable):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        owner = next(each for each in made.__mro__ if name in each.__dict__)
        if owner.__module__.startswith("shore._core"):  # an extension type takes no attributes
            owner = made
        if owner.__module__.startswith("shore") and not isinstance(value, type) and name not in ("__class__",):
            found[f"{owner.__name__}.{name}"] = owner, name
    return found


def record():
    """Have calls of all of them from here, in what is tried, noted in `CALLED`."""
    for name, (owner, attribute) in public().items():
        raw = owner.__dict__.get(attribute, getattr(owner, attribute))
        if isinstance(raw, classmethod | staticmethod):
            setattr(owner, attribute, type(raw)(_noting(name, raw.__func__)))
        else:
            setattr(owner, attribute, _noting(name, raw))


def _noting(name, function):
    @functools.wraps(function)
    def noted(*given, **options):
        if TRYING and sys._getframe(1).f_code.co_filename.startswith(HERE):
            CALLED.add(name)
        return function(*given, **options)

    return noted
