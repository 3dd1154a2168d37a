import json
import os
from pathlib import Path

from oracle import COUNTS


def pytest_terminal_summary(terminalreporter):
    """Say how many inputs were tried, and what became of them; as JSON too, for reports."""
    if not COUNTS:
        return
    terminalreporter.section("inputs tried")
    for test, counts in COUNTS.items():
        name = test.rpartition("/")[2]
        terminalreporter.line(f"{counts['answered']:8,} answered {counts['refused']:8,} refused  {name}")
    answered, refused = (sum(counts[kind] for counts in COUNTS.values()) for kind in ("answered", "refused"))
    terminalreporter.line(f"{answered:8,} answered {refused:8,} refused  in all")
    if path := os.environ.get("SHORE_FUZZ_COUNTS"):
        Path(path).write_text(json.dumps(COUNTS, indent=1, sort_keys=True) + "\n")
