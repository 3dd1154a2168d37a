import os
from pathlib import Path

import hypothesis

import shore

# Child interpreters import the installed package too, not the source tree they may be started in.
os.environ["PYTHONSAFEPATH"] = "1"

hypothesis.settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.load_profile("default")


def pytest_report_header(config):
    """Say which shore is under test: the installed one, not the source tree, unless it is an editable install."""
    used, available = shore._core.runtime.simd()
    return f"shore: {shore.__version__} at {Path(shore.__file__).parent}, simd {used} of {available}"
