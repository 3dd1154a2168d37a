"""pytest in a child process, with a count of its tests."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from deep.builds import ROOT


def run_tests(paths, *, environment=None, options=()):
    """Run tests; how many passed and how many were skipped, and the words of those that failed.

    Parameters
    ----------
    paths : sequence of str
        Below tests/, or "" for all of them.
    environment : dict, optional
    options : sequence of str
        For pytest.

    Returns
    -------
    passed, skipped : int
    failures : list of str
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
        ]
        command += [f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), *options]
        command += [str(ROOT / "tests" / path) for path in paths]
        ended = subprocess.run(
            command, cwd=folder, env=os.environ if environment is None else environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        if not report.exists():
            return 0, 0, [f"pytest ended with {ended.returncode}: {ended.stdout[-4000:]}"]
        cases = list(ElementTree.parse(report).iter("testcase"))
    failures = []
    for case in cases:
        if (found := case.find("failure")) is None:
            found = case.find("error")
        if found is not None:
            failures.append(f"{case.get('classname')}::{case.get('name')}: {(found.text or '')[-2000:]}")
    skipped = sum(case.find("skipped") is not None for case in cases)
    if ended.returncode and not failures:
        failures.append(f"pytest ended with {ended.returncode}: {ended.stdout[-4000:]}")
    return len(cases) - len(failures) - skipped, skipped, failures
