"""The three experiments on problems of a second."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import shore
from shore.cli import main
from shore.datasets import make_synthetic, save_xmc
from shore.experiments import RealSettings, SyntheticSettings, TimingSettings, run_real, run_synthetic, run_timing
from shore.experiments.synthetic import uncompressed_loss
from shore.metrics import output_difference, precision_at_k, prediction_loss, training_loss

pytest.importorskip("matplotlib")

SMALL = SyntheticSettings(n_samples=500, n_features=20, n_outputs=150, m=(32, 64), snr_db=(10.0, 30.0), trials=2)
TIMES = ("seconds", "us_per_row")


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def without_times(rows):
    key = ("snr_db", "m", "trial", "method", "sparsity")
    plain = [{name: value for name, value in row.items() if name not in TIMES} for row in rows]
    return sorted(plain, key=lambda row: tuple(str(row[name]) for name in key))


def test_synthetic_measures_what_it_says(tmp_path):
    store = run_synthetic(SMALL, tmp_path)
    assert len(store.rows) == 2 * 2 * 2 * 4
    row = next(r for r in store.rows if (r["snr_db"], r["m"], r["trial"], r["method"]) == (30.0, 64, 1, "omp"))
    problem = make_synthetic(500, 20, 150, snr_db=30.0)
    X, Y, X_test, Y_test = problem.X[:400], problem.Y[:400], problem.X[400:], problem.Y[400:]
    phi = shore.GaussianCompression(64, 150, seed=1)
    model = shore.ShoreRegressor(3, compression=phi, alpha=0, decoder="omp").fit(X, Y)
    plain = shore.ShoreRegressor(3, compression=None, alpha=0).fit(X, Y)
    found, B = model.predict(X_test), model.predict_compressed(X_test)
    loss = training_loss(Y, model.predict_compressed(X), phi)
    expected = {
        "rows": 100,
        "precision": precision_at_k(Y_test, found, 3),
        "output_difference": output_difference(Y_test, found),
        "prediction_loss": prediction_loss(found, B, phi),
        "training_loss": loss,
        "loss_ratio": loss / training_loss(Y, plain.predict_compressed(X)),
        "iterations": 3.0,
        "full_passes": 3.0,
        "converged": 1.0,
        "us_per_row": row["seconds"] / 100 * 1e6,
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-4), name
    for figure in ("loss_ratio", "precision", "output_difference", "prediction_loss", "time", "iterations"):
        assert is_png(tmp_path / f"{figure}.png")
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "the mean training-loss ratio lies within 1 ± 3/√m" in report
    assert f"{row['precision']:.1f}" in report
    assert all(figure.name in report for figure in tmp_path.glob("*.png"))


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    whole = run_synthetic(SMALL, tmp_path / "whole")
    calls = []
    original = shore.experiments.synthetic.measure

    def measure(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr("shore.experiments.synthetic.measure", measure)
    with pytest.raises(KeyboardInterrupt):
        run_synthetic(SMALL, tmp_path / "stopped")
    store = run_synthetic(SMALL, tmp_path / "stopped")
    assert len(calls) == 4 + 8 - 3
    assert without_times(store.rows) == without_times(whole.rows)
    again = run_synthetic(SMALL, tmp_path / "stopped")
    assert len(calls) == 9
    assert again.rows == store.rows

    more = run_synthetic(replace(SMALL, trials=3, m=(32, 64, 128)), tmp_path / "stopped")  # the grid may grow
    assert len(more.rows) == 2 * 3 * 3 * 4
    assert without_times(whole.rows) == without_times(r for r in more.rows if r["m"] < 128 and r["trial"] < 2)


def test_uncompressed_loss_is_that_of_least_squares():
    problem = make_synthetic(300, 30, 80, dtype=np.float64)
    Z = np.linalg.lstsq(problem.X, problem.Y.toarray(), rcond=None)[0]
    factorisation = shore.ShoreRegressor(alpha=0, dtype=np.float64).factorise(problem.X)
    expected = np.sum((problem.Y.toarray() - problem.X @ Z) ** 2) / 300
    assert uncompressed_loss(factorisation, problem.X, problem.Y) == pytest.approx(expected, rel=1e-10)


def test_the_paper_s_observations(tmp_path):
    """Loss ratio, PGD against correlation decoding, and about ten iterations once m ≥ 500."""
    settings = SyntheticSettings(
        n_samples=1500,
        n_features=60,
        n_outputs=1000,
        m=(100, 500, 700),
        trials=2,
        snr_db=(10.0,),
        methods=("pgd", "cd"),
    )
    rows = run_synthetic(settings, tmp_path).rows

    def mean(measure, **keys):
        return np.mean([row[measure] for row in rows if all(row[k] == v for k, v in keys.items())])

    for m in (100, 500, 700):
        assert abs(mean("loss_ratio", m=m) - 1) <= 3 / np.sqrt(m)
        assert mean("precision", m=m, method="pgd") >= mean("precision", m=m, method="cd") - 0.01
    for m in (500, 700):
        assert 8 <= mean("iterations", m=m, method="pgd") <= 12
    assert mean("iterations", m=100, method="pgd") > mean("iterations", m=500, method="pgd")


def test_scikit_learn_s_methods(tmp_path):
    linear_model = pytest.importorskip("sklearn.linear_model")
    settings = replace(SMALL, m=(64,), trials=1, snr_db=(30.0,), methods=("omp", "sklearn_omp", "elastic_net"))
    rows = {row["method"]: row for row in run_synthetic(settings, tmp_path).rows}
    assert rows["sklearn_omp"]["rows"] == rows["elastic_net"]["rows"] == 20
    problem = make_synthetic(500, 20, 150, snr_db=30.0)
    phi = shore.GaussianCompression(64, 150, seed=0)
    model = shore.ShoreRegressor(3, compression=phi, alpha=0).fit(problem.X[:400], problem.Y[:400])
    B, Y = model.predict_compressed(problem.X[400:420]), problem.Y[400:420]
    omp = shore.decode(B, phi, 3, method="omp", constraint="nonneg")
    assert rows["sklearn_omp"]["precision"] == pytest.approx(precision_at_k(Y, omp, 3))
    net = [linear_model.ElasticNet(alpha=0.2, l1_ratio=0.5, fit_intercept=False).fit(phi.toarray(), b).coef_ for b in B]
    expected = shore.project(np.array(net), 3, "nonneg")
    assert rows["elastic_net"]["precision"] == pytest.approx(precision_at_k(Y, expected, 3))


@pytest.fixture
def folder(tmp_path):
    """A data set of four npz files."""
    problem = make_synthetic(200, 15, 60, constraint="binary", snr_db=30.0)
    path = tmp_path / "toy"
    path.mkdir()
    for name, rows in (("train", slice(0, 150)), ("test", slice(150, 200))):
        sparse.save_npz(path / f"X_{name}.npz", sparse.csr_array(problem.X[rows]))
        sparse.save_npz(path / f"Y_{name}.npz", problem.Y[rows])
    return path


def test_real_takes_folders_and_files(tmp_path, folder):
    problem = make_synthetic(60, 15, 60, constraint="binary")
    save_xmc(tmp_path / "words.txt.gz", problem.X, problem.Y)
    settings = RealSettings(sparsities=(1, 3), m=(16, 32), trials=2, compressions=("gaussian", "sparse_sign"))
    output = tmp_path / "out"
    store = run_real([folder, tmp_path / "words.txt.gz"], settings, output)
    assert len(store.rows) == 2 * 2 * 2 * 2 * 2 * 4
    assert {row["dataset"] for row in store.rows} == {"toy", "words"}
    assert all(0.5 < row["loss_ratio"] < 1.5 for row in store.rows)
    cells = {(row["dataset"], row["compression"], row["m"], row["trial"]): row["training_loss"] for row in store.rows}
    assert len(set(cells.values())) == len(cells) == 2 * 2 * 2 * 2  # another Φ in every one
    assert is_png(output / "precision.png")
    assert "### toy, s = 1, sparse signs" in (output / "report.md").read_text(encoding="utf-8")
    assert run_real([folder], settings, output).rows == store.rows


def test_two_data_sets_of_one_name_are_refused(tmp_path, folder):
    """The second would pass for done: results are kept by name."""
    (tmp_path / "other").mkdir()
    other = folder.rename(tmp_path / "other" / "toy")
    save_xmc(tmp_path / "toy.txt", np.eye(5), np.eye(5))
    save_xmc(tmp_path / "synthetic.txt", np.eye(5), np.eye(5))
    with pytest.raises(ValueError, match="data must have different names, but 'toy' is there twice"):
        run_real([tmp_path / "toy.txt", other], RealSettings(), tmp_path / "out")
    with pytest.raises(ValueError, match="data must have different names, but 'synthetic' is there twice"):
        run_timing(TimingSettings(), tmp_path / "out", paths=[tmp_path / "synthetic.txt"])
    assert not (tmp_path / "out").exists()


def test_real_without_the_uncompressed_model(tmp_path, folder, monkeypatch):
    monkeypatch.setattr("shore.experiments.real._MOST_COEFFICIENTS", 10)
    store = run_real([folder], RealSettings(sparsities=(2,), m=(16,), trials=1, methods=("pgd",)), tmp_path / "out")
    assert store.rows[0]["loss_ratio"] is None
    assert not (tmp_path / "out" / "loss_ratio.png").exists()


def test_timing_times_every_method(tmp_path, folder):
    settings = TimingSettings(
        n_samples=300,
        n_features=10,
        n_outputs=200,
        m=(32, 64),
        repeats=2,
        methods=("blas", "pgd", "fista", "sklearn_omp"),
    )
    store = run_timing(settings, tmp_path / "out", paths=[folder])
    assert len(store.rows) == 2 * 2 * 2 * 2 * 4
    assert all(row["seconds"] > 0 for row in store.rows)
    assert {row["rows"] for row in store.rows if row["method"] == "sklearn_omp"} == {20}
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| synthetic (60 rows), Gaussian Φ |" in report
    assert is_png(tmp_path / "out" / "time.png")
    assert run_timing(settings, tmp_path / "out", paths=[folder]).rows == store.rows

    more = replace(settings, repeats=3, methods=("blas", "pgd", "cd"))  # the grid may grow
    rows = run_timing(more, tmp_path / "out", paths=[folder]).rows
    assert rows[: len(store.rows)] == store.rows
    added = [(row["method"], row["trial"]) for row in rows[len(store.rows) :]]
    for method, trials in (("cd", (0, 1, 2)), ("blas", (2,)), ("pgd", (2,))):
        assert all(added.count((method, trial)) == 2 * 2 * 2 for trial in trials)
    assert len(added) == 5 * 2 * 2 * 2


def test_command_line(tmp_path, capsys):
    small = ["--samples", "300", "--features", "10", "--outputs", "100", "--m", "32", "--trials", "1", "--snr-db", "10"]
    command = ["experiment", "synthetic", *small, "--methods", "pgd", "cd", "--output", str(tmp_path / "out")]
    assert main(command) == 0
    assert "2 measurements in" in capsys.readouterr().out
    for options, words in (
        (["--methods", "magic"], "methods must be among pgd, cd, omp, fista"),
        (["--compressions", "zip"], "compressions must be among sparse_sign, head_tail, gaussian, got 'zip'"),
        (["--m", "0"], "--m must be at least 1, got 0"),
        (["--features", "11"], "holds results of another run: n_features was 10, not 11"),
        (["--samples", "9"], "n_samples must be at least 5/4 of n_features"),
    ):
        assert main([*command, *options]) == 2
        printed = capsys.readouterr().err
        assert words in printed
        assert printed.count("\n") == 1
    assert main(["experiment", "real", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out2")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_without_matplotlib_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert main(["experiment", "synthetic", "--output", str(tmp_path / "out")]) == 2
    assert "pip install 'shore[experiments]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
