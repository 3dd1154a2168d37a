"""A small problem in all kinds of files, and a model of it."""

from types import SimpleNamespace

import pytest
from scipy import sparse

import shore
from shore.cli import main
from shore.datasets import load_xmc, make_synthetic, save_xmc

N_TRAIN, N_TEST, D, K = 120, 30, 12, 80


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    problem = make_synthetic(N_TRAIN + N_TEST, D, K, sparsity=3, snr_db=30)
    save_xmc(folder / "train.txt", problem.X[:N_TRAIN], problem.Y[:N_TRAIN])
    save_xmc(folder / "test.txt", problem.X[N_TRAIN:], problem.Y[N_TRAIN:])
    save_xmc(folder / "test.gz", problem.X[N_TRAIN:], problem.Y[N_TRAIN:])
    for part in ("train", "test"):
        X, Y = load_xmc(folder / f"{part}.txt")
        sparse.save_npz(folder / f"X_{part}.npz", X)
        sparse.save_npz(folder / f"Y_{part}.npz", Y)
    labels = [f"tag é {j}" if j % 2 else f'tag, "{j}"' for j in range(K)]
    (folder / "labels.list").write_text("\n".join(labels), encoding="utf-8")
    (folder / "features.list").write_text("".join(f"word {j}\r\n" for j in range(D)), encoding="utf-8")
    X, Y = load_xmc(folder / "train.txt")
    model = shore.ShoreRegressor(3, n_components=40).fit(X, Y)
    model.save(folder / "m.shore")
    X, Y = load_xmc(folder / "test.txt")
    return SimpleNamespace(folder=folder, model=model, X=X, Y=Y, labels=labels, **{
        name: str(folder / path) for name, path in (
            ("train", "train.txt"), ("test", "test.txt"), ("gz", "test.gz"), ("saved", "m.shore"),
            ("labels_file", "labels.list"), ("features_file", "features.list"),
        )
    })  # fmt: skip


@pytest.fixture
def run(capfdbinary):
    """Run a command that must succeed; its standard output."""

    def run(*words, code=0):
        assert main([str(word) for word in words]) == code
        printed = capfdbinary.readouterr()
        if code == 0:
            assert printed.err == b""
        return printed.out.decode()

    return run


@pytest.fixture
def refused(capfd):
    """Run a command that must fail with code 2; its one line on standard error, without the program's name."""

    def refused(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as error:
            code = error.code
        printed = capfd.readouterr()
        assert code == 2
        assert printed.err.count("\n") == 1
        assert printed.err.startswith("shore")
        return printed.err.partition(": ")[2].rstrip("\n")

    return refused
