import numpy as np
import pytest
import reference
from dask_data import CUTS, OPTIONS, X, Y, assert_same_model, cut, fitted
from scipy import sparse

import shore
from shore.datasets import save_xmc
from shore.distributed import fit, predict

PARTS = [i for i in range(6) if CUTS[i] != CUTS[i + 1]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The rows in files of every kind."""
    place = tmp_path_factory.mktemp("parts")
    for i, (x, y) in enumerate(zip(cut(X), cut(Y), strict=True)):
        np.save(place / f"X_{i}.npy", x)
        sparse.save_npz(place / f"X_{i}.npz", sparse.csr_array(x))
        sparse.save_npz(place / f"Y_{i}.npz", y)
        if i in PARTS:
            save_xmc(place / f"rows_{i}.txt{'.gz' if i % 2 else ''}", x, y)
    return place


@pytest.mark.parametrize(("x", "y"), [("X_*.npz", "Y_*.npz"), ("X_?.npy", "Y_[0-9].npz"), ("rows_*", None)])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_files_are_read_on_the_workers(client, folder, x, y, solver, monkeypatch):
    monkeypatch.chdir(folder)  # names are those of the caller, who may be elsewhere than the workers
    model = fit(shore.ShoreRegressor(**OPTIONS, solver=solver), x, y, client=client)
    rows = X if x.endswith("npy") else sparse.csr_array(X)
    assert_same_model(model, fitted(rows, solver=solver), 1e-4)
    names = predict(model, x, client=client, output=folder / f"of_{solver}_{x[-3:]}")
    assert len(names) == (len(PARTS) if y is None else 6)
    assert all(name.endswith(f"{i}.npz") for name, i in zip(names, PARTS if y is None else range(6), strict=True))
    found = sparse.vstack([sparse.load_npz(name) for name in names], format="csr")
    reference.assert_same_bits(found, model.predict(rows))
    lazy = predict(model, x, client=client)
    reference.assert_same_bits(sparse.vstack(client.gather(client.compute(lazy)), format="csr"), found)


def test_files_that_do_not_fit_are_refused(client, folder, tmp_path):
    model = shore.ShoreRegressor(**OPTIONS)
    with pytest.raises(ValueError, match=r"X: the workers see no file .*none_\*\.npz"):
        fit(model, folder / "none_*.npz", folder / "Y_*.npz", client=client)
    with pytest.raises(ValueError, match=r"files of the same parts, .* but the part '1' is in one alone"):
        fit(model, folder / "X_*.npz", folder / "Y_[02345].npz", client=client)
    with pytest.raises(TypeError, match="Y must be the name of files as X is, with wildcards, got NoneType"):
        fit(model, folder / "X_*.npz", client=client)
    with pytest.raises(ValueError, match="Y must be None where X are files of XMC text"):
        fit(model, folder / "rows_*", folder / "Y_*.npz", client=client)
    (tmp_path / "X_0.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"X_0\.npz: not a matrix of scipy\.sparse\.save_npz"):
        fit(model, tmp_path / "X_*.npz", folder / "Y_[0].npz", client=client)
    with pytest.raises(ValueError, match="output must be another folder than that of X"):
        predict(fitted(), folder / "X_*.npy", client=client, output=folder)
    with pytest.raises(ValueError, match=r"output: 2 files of X would be written to X_0\.npz"):
        predict(fitted(), folder / "X_0.np?", client=client, output=tmp_path / "out")


def test_a_file_that_cannot_be_read_leaves_no_half_of_one(client, folder, tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X * np.nan)
    with pytest.raises(ValueError, match="X must be finite"):
        predict(fitted(), tmp_path / "?.npy", client=client, output=tmp_path / "out")
    # The other worker may be on its way: what it writes has a name of its own until it is complete.
    written = [path.name for path in (tmp_path / "out").glob("[!.]*")]
    assert written in ([], ["a.npz"])
