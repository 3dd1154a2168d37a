"""The faults of tests/faults, at length: no memory, no disk, Ctrl-C, forks, threads, kills."""

import json
import os
import tempfile
from pathlib import Path

from deep.outcome import Outcome, main
from deep.running import run_tests


def run(quick=False):
    """Run the tests and add up the faults that they made."""
    outcome = Outcome("Faults")
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        own = {"SHORE_FAULT_COUNTS": str(counts)} | ({} if quick else {"SHORE_DEEP": "1"})
        passed, skipped, failures = run_tests(["faults", "modelfile/test_faults.py"], environment=os.environ | own)
        survived = json.loads(counts.read_text()) if counts.exists() else {}
    outcome.add("tests of faults", f"{passed:,} passed" + (f", {skipped} skipped" if skipped else ""))
    if not survived or not all(survived.values()):
        outcome.fail(f"some faults were not made: {survived}")
    for kind, number in survived.items():
        outcome.add(kind, number)
    for words in failures:
        outcome.fail(words)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
