"""The example of non-linear inputs: kernel features win where they should, and picking sees training rows only."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("sklearn")
import joblib

FOLDER = Path(__file__).parents[2] / "examples" / "nonlinear"


@pytest.fixture(scope="module")
def nonlinear():
    spec = importlib.util.spec_from_file_location("nonlinear_example", FOLDER / "nonlinear.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
        module.ALPHAS = (0.1, 1.0)  # a smaller grid, for time
        yield module
    finally:
        del sys.modules[spec.name]


@pytest.fixture(scope="module")
def small(nonlinear):
    return nonlinear.make_problem(1000, 200)


@pytest.fixture(scope="module")
def sides(nonlinear, small):
    return nonlinear.study(small, components=100, m=64, seeds=2)


def test_kernel_features_win_where_inputs_are_nonlinear(nonlinear, sides):
    linear, kernel = sides[nonlinear.LINEAR].precision, sides[nonlinear.KERNEL].precision
    assert kernel.shape == (2, 3)
    assert np.all(kernel > linear + 0.1)
    assert np.all(np.diff(kernel, axis=1) < 0)  # the first found are the surest


def test_seeds_change_landmarks_and_compression(nonlinear, sides):
    for name in (nonlinear.LINEAR, nonlinear.KERNEL):
        assert np.ptp(sides[name].precision, axis=0).max() > 0, name
    pipeline = nonlinear.seeded(sides[nonlinear.KERNEL].pipeline, 7)
    assert [step.random_state for step in (pipeline[1], pipeline[2])] == [7, 7]


def test_picking_does_not_see_test_rows(nonlinear, small, sides):
    rng = np.random.default_rng(0)
    other = dataclasses.replace(
        small,
        X_test=rng.standard_normal(small.X_test.shape),
        Y_test=sparse.csr_array(small.Y_test[rng.permutation(small.Y_test.shape[0])]),
    )
    again = nonlinear.study(other, components=100, m=64, seeds=1)
    assert {name: side.picked for name, side in again.items()} == {name: side.picked for name, side in sides.items()}
    np.testing.assert_array_equal(  # with seed 0 both sides learned the same W
        nonlinear.evaluate(sides[nonlinear.LINEAR].pipeline, {}, small, 1).pipeline[-1].coef_,
        again[nonlinear.LINEAR].pipeline[-1].coef_,
    )
    assert again[nonlinear.KERNEL].precision.max() < 0.2  # the test rows were indeed others


def test_words_are_normalised_and_stay_sparse(nonlinear):
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((200, 40)) < 0.2).astype(np.float32))
    Y = sparse.csr_array((rng.random((200, 30)) < 0.1).astype(np.float32))
    sides = nonlinear.study(nonlinear.Dataset("words", X[:150], Y[:150], X[150:], Y[150:]), 50, 16, 1)
    scaled = sides[nonlinear.KERNEL].pipeline[0].transform(X)
    assert sparse.issparse(scaled)
    np.testing.assert_allclose(scaled.multiply(scaled).sum(axis=1), 1, rtol=1e-5)
    assert sides[nonlinear.KERNEL].pipeline[-1].n_features_in_ == 50


def test_pipeline_ships_in_two_files_or_in_one(nonlinear, small, sides, tmp_path):
    pipeline = sides[nonlinear.KERNEL].pipeline.fit(small.X_train, small.Y_train)
    assert nonlinear.ship(pipeline, small.X_test, tmp_path).endswith("the same predictions")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["features.joblib", "model.shore"]
    model = nonlinear.shore.load(tmp_path / "model.shore")
    with pytest.raises(ValueError, match="100"):  # the file has no scaler and no landmarks
        model.predict(small.X_test)
    joblib.dump(pipeline, tmp_path / "pipeline.joblib")
    whole = joblib.load(tmp_path / "pipeline.joblib")
    assert abs(whole.predict(small.X_test) - pipeline.predict(small.X_test)).max() == 0


def test_small_run_prints_the_table_and_draws(nonlinear, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    figure = tmp_path / "out.png"
    arguments = ["--rows", 600, "--components", 64, "--m", 64, "--seeds", 1, "--figure", figure]
    assert nonlinear.main([str(a) for a in arguments]) == 0
    printed = capsys.readouterr().out
    assert "generated: 450 training rows, 150 test rows, d = 8, K = 1,000, m = 64" in printed
    gain = next(line for line in printed.splitlines() if line.startswith("gain over linear"))
    assert all(float(word) > 1 for word in gain.split() if word.startswith("+"))
    assert printed.rstrip().endswith("the same predictions")
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["--components", 0], "--components must be at least 8, got 0"),
        (["--seeds", 0], "--seeds must be at least 1, got 0"),
        (["--components", 2500], "--components must be at most 2399"),
    ],
)
def test_wrong_arguments_are_named(nonlinear, capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        nonlinear.main([str(a) for a in arguments])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_a_folder_without_data_is_named(nonlinear, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        nonlinear.main([str(tmp_path)])
    assert stop.value.code == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_folders_are_read_in_double_precision(nonlinear, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for part, n in (("train", 60), ("test", 20)):
        for name, width in (("X", 30), ("Y", 12)):
            matrix = sparse.csr_array((rng.random((n, width)) < 0.3).astype(np.float32))
            sparse.save_npz(tmp_path / f"{name}_{part}.npz", matrix)
    seen = []

    def spy(data, *rest):
        seen.append(data)
        raise InterruptedError

    monkeypatch.setattr(nonlinear, "study", spy)
    with pytest.raises(InterruptedError):
        nonlinear.main([str(tmp_path), "--components", "20"])
    assert seen[0].X_train.dtype == np.float64  # float32 landmarks depend on the threads of the BLAS
