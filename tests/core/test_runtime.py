import os
import subprocess
import sys

import numpy as np
import pytest
import reference
from scipy import sparse

import shore
from shore._core.runtime import LEVELS, simd

PROJECT = """
import sys, numpy as np, shore
from scipy import sparse
V = np.random.default_rng(0).normal(size=(20, 1000)).astype(np.float32)
sparse.save_npz(sys.argv[1], shore.project(V, 5, shore.Box(-1, 2)))
print(shore._core.runtime.simd()[0])
"""


def run(level, *arguments):
    environment = {**os.environ, "SHORE_SIMD": level}
    return subprocess.run([sys.executable, "-c", PROJECT, *arguments], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("level", LEVELS[: LEVELS.index(simd()[1]) + 1])
def test_every_simd_level_projects_alike(level, tmp_path):
    done = run(level, str(tmp_path / "r.npz"))
    assert (done.stdout.strip(), done.returncode) == (level, 0), done.stderr
    V = np.random.default_rng(0).normal(size=(20, 1000)).astype(np.float32)
    reference.assert_same_bits(sparse.load_npz(tmp_path / "r.npz"), shore.project(V, 5, shore.Box(-1, 2)))


def test_unknown_simd_level_warns(tmp_path):
    done = run("sse9", str(tmp_path / "r.npz"))
    assert done.returncode == 0
    assert "SHORE_SIMD='sse9' is not one of baseline, avx2, avx512" in done.stderr


def test_show_versions(capsys):
    shore.show_versions()
    printed = capsys.readouterr().out
    for word in ("shore", "compiler", "openmp", "simd", "blas", "threads", "numpy"):
        assert f"\n{word}" in f"\n{printed}"


def test_import_changes_nothing_global():
    code = (
        "import os, sys; before = dict(os.environ); import numpy, scipy.sparse, threadpoolctl; "
        "pools = [p['num_threads'] for p in threadpoolctl.threadpool_info()]; import shore; "
        "assert dict(os.environ) == before; "
        "assert [p['num_threads'] for p in threadpoolctl.threadpool_info()][:len(pools)] == pools; "
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
