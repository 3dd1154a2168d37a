"""The installed modules run on every machine of their platform, whatever level of SIMD it has."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import shore
from shore._core.runtime import LEVELS, simd

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from check_wheel import wide_instructions

x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("objdump") is None,
    reason="reads x86-64 machine code by objdump",
)
MODULES = sorted(Path(shore._core.__file__).parent.glob("*.so"))


@x86
@pytest.mark.parametrize("library", MODULES, ids=lambda path: path.name.split(".")[0])
def test_no_wide_instruction_outside_the_clones(library):
    outside, inside = wide_instructions(library)
    assert not outside
    if library.name.startswith(("decode", "linear", "projection", "compression")):
        assert inside.total() > 100


@x86
def test_the_check_finds_wide_instructions(tmp_path):
    source = tmp_path / "kernel.c"
    source.write_text(
        "void scale(float *x, float a) { for (int i = 0; i < 1024; i++) x[i] *= a; }\n"
        "void scale_float_avx2(float *x, float a) { for (int i = 0; i < 1024; i++) x[i] += a; }\n"
    )
    library = tmp_path / "kernel.so"
    subprocess.run(["cc", "-O3", "-mavx2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    outside, inside = wide_instructions(library)
    assert set(outside) == {"scale"}
    assert set(inside) == {"scale_float_avx2"}
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    outside, inside = wide_instructions(library)
    assert not outside
    assert not inside


WORK = """
import sys
import numpy as np, shore
from scipy import sparse
from shore.datasets import make_synthetic

folder = sys.argv[1]
for dtype in (np.float32, np.float64):
    V = np.random.default_rng(0).normal(size=(40, 3000)).astype(dtype)
    sparse.save_npz(f"{folder}/project-{np.dtype(dtype)}.npz", shore.project(V, 7))
    data = make_synthetic(600, 40, 2000, sparsity=3, snr_db=30)
    for name in ("gaussian", "sparse_sign", "head_tail"):
        model = shore.ShoreRegressor(
            sparsity=3, n_components=250, compression=name, dtype=dtype, solver="cg", solver_tol=1e-7
        ).fit(sparse.csr_array(data.X), data.Y)
        sparse.save_npz(f"{folder}/{name}-{np.dtype(dtype)}.npz", model.predict(data.X[:200]))
print(shore._core.runtime.simd()[0])
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of the same work at every level that this machine has."""
    found = {}
    for level in LEVELS[: LEVELS.index(simd()[1]) + 1]:
        folder = tmp_path_factory.mktemp(level)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", WORK, str(folder)],
            env={**os.environ, "SHORE_SIMD": level}, capture_output=True, text=True,
        )  # fmt: skip
        assert (done.stdout.strip(), done.returncode) == (level, 0), done.stderr
        found[level] = {path.stem: sparse.load_npz(path) for path in sorted(folder.glob("*.npz"))}
    return found


@pytest.mark.parametrize("level", LEVELS[1:])
def test_levels_give_equal_supports_and_values(results, level):
    if level not in results:
        pytest.skip(f"this machine has no {level}")
    assert len(results[level]) == 8
    for name, expected in results["baseline"].items():
        found = results[level][name]
        np.testing.assert_array_equal(found.indptr, expected.indptr, err_msg=name)
        np.testing.assert_array_equal(found.indices, expected.indices, err_msg=name)
        tolerance = 1e-3 if "float32" in name else 1e-6
        np.testing.assert_allclose(found.data, expected.data, rtol=tolerance, atol=tolerance, err_msg=name)
