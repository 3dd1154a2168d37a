"""The client package builds against the installed shore, in a folder of its own, and agrees with it."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "embedding"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("build", "*.c", "*.egg-info"))
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-build-isolation",
         "--no-deps", "--no-index", "--target", str(folder / "site"), str(source)],
        check=True, env={name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
    )  # fmt: skip
    return folder / "site"


def run(client, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(client)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


def test_it_is_compiled_by_a_supported_cython():
    assert int(importlib.metadata.version("Cython").split(".")[0]) >= 3


def test_demo_prints_what_the_readme_says(client):
    done = run(client, str(EXAMPLE / "demo.py"))
    assert done.returncode == 0, done.stderr
    said = (EXAMPLE / "README.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    assert done.stdout == said


CHECKS = """
import numpy as np, pytest, shore
from texttags import Tagger, features

rng = np.random.default_rng(0)
X = features([f"a{i % 20} b{i % 7}".encode() for i in range(400)], 256)
Y = np.zeros((400, 50)); Y[np.arange(400), np.arange(400) % 20] = 1; Y[np.arange(400), 20 + np.arange(400) % 7] = 1
model = shore.ShoreRegressor(sparsity=2, n_components=40, compression="gaussian", fit_intercept=False).fit(X, Y)
texts = [b"a3 b3", b"", b"  a1   b1 ", b"a19 b0"]
found = Tagger(model)(texts)
assert found.shape == (4, 50) and np.diff(found.indptr).tolist()[1] == 0
for n_threads in (2, 5):
    again = Tagger(model)(texts, n_threads=n_threads)
    assert (again != found).nnz == 0
np.testing.assert_array_equal(found.indices, model.predict(features(texts, 256)).indices)
assert Tagger(model)([]).shape == (0, 50)
with pytest.raises(ValueError, match="sparsity must be from 1 to 50, got 99"):
    Tagger(model.set_params(sparsity=99))(texts)
model.set_params(sparsity=2, dtype=np.float64).fit(X, Y)
with pytest.raises(TypeError, match="dtype=float32"):
    Tagger(model)
"""


def test_tagger(client):
    done = run(client, "-c", CHECKS)
    assert done.returncode == 0, done.stderr
