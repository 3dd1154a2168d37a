import math
import os
import subprocess
import sys

import numpy as np
import pytest

import shore
from shore._core import threads
from shore._core.runtime import build_info


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, math.inf),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, math.inf),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (  # the group's own limit is wide, its parent's is not
            {
                "proc/self/cgroup": "0::/pod/box\n",
                "sys/fs/cgroup/pod/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/pod/box/cpu.max": "400000 100000\n",
            },
            0.5,
        ),
        (  # version 1, several controllers in one hierarchy
            {
                "proc/self/cgroup": "7:pids:/\n4:cpu,cpuacct:/pod\n",
                "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n0::/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/unified/cpu.max": "200000 100000\n",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "rubbish\n"}, math.inf),
        ({"proc/self/cgroup": "rubbish", "sys/fs/cgroup/cpu.max": "1 x\n"}, math.inf),
    ],
)
def test_cgroup_quota(tmp_path, files, cores):
    assert threads.cgroup_cores(write(tmp_path, files)) == cores


def test_quota_and_environment_limit_the_default(monkeypatch):
    monkeypatch.setattr(threads, "_HAS_OPENMP", True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_cgroup_cores_cached", lambda: math.inf)
    assert threads.resolve_n_threads() == 8
    monkeypatch.setattr(threads, "_cgroup_cores_cached", lambda: 2.5)
    assert threads.resolve_n_threads() == 3
    for text, expected in {"2": 2, "1,4": 1, "16": 3, "": 3, "many": 3, "0": 3}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads.resolve_n_threads() == expected
    assert threads.resolve_n_threads(7) == 7  # what the caller asks for is what the caller gets
    assert threads.resolve_n_threads(np.int64(2)) == 2


def test_absurd_numbers_of_threads_are_bounded(monkeypatch):
    monkeypatch.setattr(threads, "_HAS_OPENMP", True)
    for cores, most in ((1, 64), (16, 64), (17, 68), (256, 1024)):
        monkeypatch.setattr(threads, "available_cores", lambda cores=cores: cores)
        assert [threads.resolve_n_threads(n) for n in (1, 64, most, most + 1, 10**9)] == [1, 64, most, most, most]


FEW_THREADS = """
import resource
from pathlib import Path
import numpy as np, shore
V = np.random.default_rng(0).normal(size=(5000, 30))
expected = shore.project(V, 3, n_threads=1)
pages = int(Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + (4 << 30)  # and no more: none for the stacks of a thousand threads
resource.setrlimit(resource.RLIMIT_AS, (room, room))
assert (shore.project(V, 3, n_threads=10**9) != expected).nnz == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")
def test_absurd_numbers_of_threads_do_not_end_the_process():
    subprocess.run([sys.executable, "-c", FEW_THREADS], check=True)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is Linux's")
def test_affinity_limits_the_default():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import shore._core.threads as t; "
    code += "print(t.resolve_n_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_kernels_get_more_than_one_thread():
    if build_info()["openmp"] == "no":
        pytest.skip("built without OpenMP")
    assert threads.resolve_n_threads(5) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_runs_on_one_thread_and_does_not_hang():
    V = np.random.default_rng(0).normal(size=(64, 200))
    expected = shore.project(V, 3, n_threads=2)  # starts OpenMP's threads, which the child will not have
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            same = (shore.project(V, 3, n_threads=2) != expected).nnz == 0
            os.write(writer, f"{threads.resolve_n_threads(2)} {same}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert (os.read(reader, 100), status) == (b"1 True", 0)
    os.close(reader)
