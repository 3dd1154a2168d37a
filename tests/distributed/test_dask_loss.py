"""Workers that are killed: the job completes, with the bits that it has without."""

import contextlib
import os
import signal
import sys
import time

import dask.array as da
import numpy as np
import pytest
import reference
from dask import delayed
from dask_data import OPTIONS, X, Y, cut
from scipy import sparse

import shore
from shore.distributed import cg, fit, predict

CUTS = range(0, 901, 60)


# Seconds after which Dask may have given up on restarting a worker, and those after which something hangs.
RESTART, PATIENCE = 20, 300


def pids_of_both(client, before=None):
    """The processes of two workers that answer, others than before; one that Dask gave up on is asked for again."""
    began = time.monotonic()
    while len(pids := sorted(client.run(os.getpid, on_error="ignore").values())) < 2 or pids == before:
        waited = time.monotonic() - began
        assert waited < PATIENCE
        if waited > RESTART:
            client.cluster.scale(2)
        time.sleep(0.1)
    return pids


@pytest.fixture(autouse=True)
def _all_workers(client):
    pids_of_both(client)
    yield
    pids_of_both(client)


def deadly(part, marker):
    """The block; the worker that is the first to make it dies."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def blocks(matrix, marker, at=9):
    return [
        delayed(deadly)(part, str(marker)) if number == at else delayed(part)
        for number, part in enumerate(cut(matrix, CUTS))
    ]


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_a_worker_dies_while_rows_are_read(client, tmp_path, solver):
    options = {**OPTIONS, "solver": solver, "compression": "sparse_sign"}
    (tmp_path / "calm").touch()
    rows = blocks(X, tmp_path / "calm")
    expected = fit(shore.ShoreRegressor(**options), rows, blocks(Y, tmp_path / "calm"), client=client)
    assert not (tmp_path / "killed").exists()
    model = fit(shore.ShoreRegressor(**options), rows, blocks(Y, tmp_path / "killed"), client=client)
    assert (tmp_path / "killed").exists()
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_a_worker_dies_between_steps(client, monkeypatch):
    pairs = [delayed(pair) for pair in zip(cut(sparse.csr_array(X), CUTS), cut(Y, CUTS), strict=True)]
    options = {**OPTIONS, "solver": "cg", "fit_intercept": True}
    expected = fit(shore.ShoreRegressor(**options), pairs, client=client)
    original, calls = cg.result_of, []

    def deadly_result_of(client, work, **more):
        calls.append(1)
        if len(calls) == 6:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return original(client, work, **more)

    monkeypatch.setattr(cg, "result_of", deadly_result_of)
    model = fit(shore.ShoreRegressor(**options), pairs, client=client)
    assert len(calls) > 8
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.n_iter_ == expected.n_iter_


@pytest.mark.parametrize("from_file", [True, False])
def test_a_worker_dies_while_it_predicts(client, tmp_path, from_file):
    model = shore.ShoreRegressor(**OPTIONS).fit(X, Y)
    expected = model.predict(X)
    if from_file:
        model.save(tmp_path / "m.shore")
        model = tmp_path / "m.shore"
    parts = [da.from_delayed(part, (60, 20), meta=X[:0]) for part in blocks(X, tmp_path / "killed")]
    found = predict(model, da.concatenate(parts), client=client)
    reference.assert_same_bits(sparse.csr_array(found.compute()), expected)
    assert (tmp_path / "killed").exists()


def test_a_worker_dies_while_it_writes(client, tmp_path):
    model = shore.ShoreRegressor(**OPTIONS).fit(X, Y)
    names = predict(model, blocks(X, tmp_path / "killed"), client=client, output=tmp_path / "out")
    assert (tmp_path / "killed").exists()
    assert sorted(names) == sorted(map(str, (tmp_path / "out").iterdir()))
    found = sparse.vstack([sparse.load_npz(name) for name in names], format="csr")
    reference.assert_same_bits(found, model.predict(X))


def test_a_worker_that_comes_later_has_imported_shore_before_its_first_task(client):
    fit(shore.ShoreRegressor(**OPTIONS), [delayed(X)], [delayed(Y)], client=client)
    before = pids_of_both(client)
    os.kill(before[0], signal.SIGKILL)
    pids_of_both(client, before)
    # a lambda, since to read a function of this module is to import shore
    assert all(client.run(lambda: "shore.distributed.training" in sys.modules).values())
