"""Memory that is not there: MemoryError, everything as it was, and the same call afterwards gives the same bits."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries are preloaded on Linux")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """failing_malloc.c, compiled."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("there is no C compiler (cc, gcc or clang) to make failing_malloc with")
    made = tmp_path_factory.mktemp("library") / "failing_malloc.so"
    words = [compiler, "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", made, HERE / "failing_malloc.c"]
    done = subprocess.run([*map(str, words), "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def fail(library, tmp_path, survived):
    """Let allocations fail in a child, entry by entry; `most` is how many of each, 0 for all."""

    def fail(kind, most, pattern=".", objects=False, on=False, threads=1):
        counts, folder = tmp_path / "counts", tmp_path / "folder"
        folder.mkdir()
        words = [sys.executable, HERE / "allocation.py", library, folder, counts, most, pattern, int(objects), int(on)]
        environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path_with(HERE)}
        environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = str(threads)
        if objects:
            environment["PYTHONMALLOC"] = "malloc"
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, timeout=900)
        assert done.returncode == 0, done.stderr[-4000:]
        found = json.loads(counts.read_text())
        survived(kind, sum(found.values()))
        return found

    return fail


def path_with(folder):
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_one_allocation_fails(fail, deep):
    found = fail("allocations that failed", 0 if deep else 5, threads=2 if deep else 1)
    # What has no arrays of its own, or only such that NumPy keeps for the next time
    none = {name for name, n in found.items() if n == 0}
    assert all(name.startswith(("predictor ", "load mmap=True", "save None")) for name in none), none
    assert len(found) > 150
    assert sum(found.values()) > (2000 if deep else 600)


def test_all_allocations_fail_from_one_on(fail, deep):
    found = fail("allocations that failed, with all that came after", 40 if deep else 2, on=True)
    assert sum(found.values()) > (1000 if deep else 200)


def test_objects_of_the_interpreter_fail(fail, deep):
    """But not where rows of sparse matrices are taken by SciPy, whose sparsetools crash then."""
    kinds = "^(?!Xmc|load_xmc|save_xmc|shore )"
    found = fail("allocations of objects that failed", 40 if deep else 3, kinds, objects=True)
    assert all(found.values())


def test_the_driver_finds_a_state_that_changed(library, tmp_path):
    """A model that is half changed, a temporary file that stays: the faults that this is about."""
    code = f"""
import sys
sys.argv = ["", {str(library)!r}, {str(tmp_path)!r}, {str(tmp_path / "counts")!r}, "0", "^(merge|save_xmc)", "0", "0"]
import allocation, shore._streaming, shore._files
from pathlib import Path
if {{}}:
    before = shore._statistics.Statistics.plus
    def plus(self, other):
        sys._getframe(1).f_locals["self"]._stale = "half"
        return before(self, other)
    shore._statistics.Statistics.plus = plus
else:
    Path.unlink = lambda self, missing_ok=False: None
allocation.main()
"""
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path_with(HERE)}
    for half in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", code.replace("{}", str(half))], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 1
        assert "the state is another" in done.stderr
        shutil.rmtree(tmp_path / "inputs", ignore_errors=True)
        shutil.rmtree(tmp_path / "written", ignore_errors=True)
