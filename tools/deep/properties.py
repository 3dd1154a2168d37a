"""The properties of tests/fuzz on many random inputs, and damaged model files."""

import json
import os
import tempfile
from pathlib import Path

from deep.outcome import Outcome, main
from deep.running import run_tests

_DAMAGED_FILES = {"ci": 10_000, "deep": 100_000}


def run(quick=False):
    """Run the tests and add up the inputs that they tried."""
    outcome = Outcome("Properties")
    profile = "ci" if quick else "deep"
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        own = {"SHORE_HYPOTHESIS_PROFILE": profile, "SHORE_FUZZ_COUNTS": str(counts)}
        passed, skipped, failures = run_tests(["fuzz"], environment=os.environ | own)
        tried = json.loads(counts.read_text()) if counts.exists() else {}
    outcome.add("properties that hold", passed)
    for what in ("answered", "refused"):
        number = sum(count[what] for count in tried.values())
        outcome.add(f"inputs {what}", number)
        if number == 0:
            outcome.fail(f"no input was {what}")
    if skipped:
        outcome.fail(f"{skipped} properties were skipped")
    files = _DAMAGED_FILES[profile]
    own = {"SHORE_MUTATIONS": str(files)}
    passed, _, of_files = run_tests(["modelfile/test_damage.py"], environment=os.environ | own)
    if passed:
        outcome.add("damaged model files", files)
    for words in failures + of_files:
        outcome.fail(words)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
