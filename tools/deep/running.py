"""pytest in a child process, with a count of its tests."""

import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from deep.builds import ROOT

# A run that takes longer, in seconds, waits for something that does not come: a worker that was ended, say.
_LONGEST = 2700


def _ended(command, folder, environment):
    """The output of a command, and the code that it ended with: None if it was killed, with all that it had started."""
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ if environment is None else environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    try:
        return process.communicate(timeout=_LONGEST)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def run_tests(paths, *, environment=None):
    """Run tests; how many passed and how many were skipped, and the words of those that failed.

    Parameters
    ----------
    paths : sequence of str
        Below tests/, or "" for all of them.
    environment : dict, optional

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
        command += [f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
        command += [str(ROOT / "tests" / path) for path in paths]
        output, code = _ended(command, folder, environment)
        words = f"pytest ended with {code}" if code is not None else f"pytest was ended after {_LONGEST} s"
        if not report.exists():
            return 0, 0, [f"{words}: {output[-4000:]}"]
        cases = list(ElementTree.parse(report).iter("testcase"))
    failures = []
    for case in cases:
        if (found := case.find("failure")) is None:
            found = case.find("error")
        if found is not None:
            failures.append(f"{case.get('classname')}::{case.get('name')}: {(found.text or '')[-2000:]}")
    skipped = sum(case.find("skipped") is not None for case in cases)
    if code != 0 and not failures:
        failures.append(f"{words}: {output[-4000:]}")
    return len(cases) - len(failures) - skipped, skipped, failures
