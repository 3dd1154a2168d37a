"""What is counted over the run, and how long it may be.

`SHORE_DEEP=1` asks for the long run; `SHORE_FAULT_COUNTS=path` for the counts as JSON, {kind: n}.
"""

import collections
import faulthandler
import json
import os
import sys

import pytest

DEEP = os.environ.get("SHORE_DEEP", "0") not in ("", "0")

COUNTS = collections.Counter()


@pytest.fixture(autouse=True)
def watchdog():
    """What hangs, even in C and with the GIL, is ended and says where it was."""
    faulthandler.dump_traceback_later(900 if DEEP else 300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def deep():
    return DEEP


@pytest.fixture(scope="session")
def survived():
    """survived(kind, n): n faults of that kind were injected, and all was as it should be."""

    def count(kind, n=1):
        COUNTS[kind] += n

    return count


def pytest_terminal_summary(terminalreporter):
    if not COUNTS:
        return
    terminalreporter.section("faults injected and survived")
    for kind, n in sorted(COUNTS.items()):
        terminalreporter.write_line(f"{n:>9,}  {kind}")
    path = os.environ.get("SHORE_FAULT_COUNTS")
    if path:
        with open(path, "w") as file:
            json.dump(dict(sorted(COUNTS.items())), file, indent=1)
