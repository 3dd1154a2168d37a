import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("missing", ["dask", "distributed"])
def test_without_dask_the_extra_is_named(missing):
    done = run(f"import sys; sys.modules[{missing!r}] = None\nimport shore\nimport shore.distributed")
    assert done.returncode == 1
    said = "shore.distributed needs dask and distributed, which are an extra: pip install 'shore[distributed]'"
    assert done.stderr.splitlines()[-1] == f"ImportError: {said}"


def test_shore_alone_imports_no_dask():
    done = run("import sys, shore; print({'dask', 'distributed'} & {name.partition('.')[0] for name in sys.modules})")
    assert done.stdout.strip() == "set()"


def test_without_a_client_it_is_said_how_to_start_one():
    code = """
from dask import delayed
import shore, shore.distributed
shore.distributed.fit(shore.ShoreRegressor(), [delayed(1)], [delayed(1)])
"""
    done = run(code)
    assert done.returncode == 1
    assert "there is no Dask client: start one, e.g. `from distributed import Client; client = Client()`" in done.stderr
