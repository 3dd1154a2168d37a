import os
from pathlib import Path

import hypothesis

import shore

# Child interpreters import the installed package too, not the source tree they may be started in.
os.environ["PYTHONSAFEPATH"] = "1"

# "ci" is the same run every time. "deep" is another one every time, and prints what repeats an example that fails.
# Neither judges by time, which is that of whatever else the machine does.
timeless = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=100, **timeless)
hypothesis.settings.register_profile("deep", derandomize=False, max_examples=1000, print_blob=True, **timeless)
hypothesis.settings.load_profile(os.environ.get("SHORE_HYPOTHESIS_PROFILE", "ci"))


def pytest_report_header(config):
    """Say which shore is under test: the installed one, not the source tree, unless it is an editable install."""
    used, available = shore._core.runtime.simd()
    return f"shore: {shore.__version__} at {Path(shore.__file__).parent}, simd {used} of {available}"
