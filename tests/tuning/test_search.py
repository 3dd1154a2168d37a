"""shore.tune: what it measures is what models do, and the pick is within the budget."""

import csv

import numpy as np
import pytest
from scipy import sparse

import shore
from shore.datasets import make_synthetic
from shore.metrics import precision_at_k
from shore.modelfile import model_bytes
from shore.tuning import search

DATA = make_synthetic(400, 20, 200, sparsity=3, snr_db=30)
X, Y = DATA.X, DATA.Y
GRID = {"sparsity": 3, "n_components": [48, 32], "alphas": [10.0, 1.0], "n_threads": 2}


@pytest.fixture(scope="module")
def tuning():
    return shore.tune(X, Y, compressions=["head_tail", "sparse_sign", "gaussian", None], **GRID)


def test_every_model_is_tried_once(tuning):
    tried = [(t.compression, t.n_components, t.alpha) for t in tuning.trials]
    expected = [(c, m, a) for c in ("gaussian", "head_tail", "sparse_sign") for m in (32, 48) for a in (1.0, 10.0)]
    assert tried == sorted([*expected, ("none", 200, 1.0), ("none", 200, 10.0)])
    assert all(t.microseconds > 0 for t in tuning.trials)
    assert len(tuning.frontier()) == 7
    assert all(t.precision == max(o.precision for o in tuning.trials if (o.compression, o.n_components) == at)
               for t in tuning.frontier() for at in [(t.compression, t.n_components)])  # fmt: skip


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("solver", ["auto", "cg"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_precision_is_that_of_fitted_models(convert, solver, fit_intercept, monkeypatch):
    """Held-out rows are predicted as by a model that was fitted to the others alone, however Φ are grouped."""
    options = {"solver": solver, "fit_intercept": fit_intercept, "dtype": np.float64, "solver_tol": 1e-9}
    X_fit, X_held = convert(X[:300]), convert(X[300:])
    given = {**GRID, **options, "compressions": ["head_tail", "sparse_sign", None], "validation": (X_held, Y[300:])}
    found = shore.tune(X_fit, Y[:300], **given)
    monkeypatch.setattr(search, "_GROUP_BYTES", 0)
    one_by_one = shore.tune(X_fit, Y[:300], **given)
    for trial, alone in zip(found.trials, one_by_one.trials, strict=True):
        model = found.model(trial).fit(X_fit, Y[:300])
        predicted = model.predict(X_held)
        assert trial.precision == pytest.approx(precision_at_k(Y[300:], predicted, 3), abs=0.004)
        assert trial.precision_at_1 == pytest.approx(precision_at_k(Y[300:], predicted, 1), abs=0.011)
        assert (alone.compression, alone.n_components, alone.alpha) == (
            trial.compression,
            trial.n_components,
            trial.alpha,
        )
        assert alone.precision == pytest.approx(trial.precision, abs=0.004)


@pytest.mark.parametrize("weights", [None, "float16"])
def test_bytes_are_those_of_the_file(weights, tmp_path):
    found = shore.tune(X, Y, compressions=["head_tail", "sparse_sign", "gaussian", None], weights=weights, **GRID)
    for trial in found.trials:
        model = found.model(trial).fit(X, Y)
        model.save(tmp_path / "m.shore", weights=weights)
        size = (tmp_path / "m.shore").stat().st_size
        assert trial.bytes - 4096 <= size <= trial.bytes
    assert shore.tune(X, Y, weights=weights, **{**GRID, "n_components": 32}, max_bytes=found.trials[-1].bytes)


def test_the_pick_is_the_most_precise_within_the_budget(tuning):
    for max_bytes in sorted({t.bytes for t in tuning.trials}):
        for max_us in (None, float(np.median([t.microseconds for t in tuning.trials]))):
            within = [t for t in tuning.trials
                      if t.bytes <= max_bytes and (max_us is None or t.microseconds <= max_us)]  # fmt: skip
            if within:
                pick = tuning.pick(max_bytes, max_us)
                assert pick in within
                assert pick.precision == max(t.precision for t in within)
                assert all(pick.bytes <= t.bytes for t in within if t.precision == pick.precision)
    assert tuning.best == tuning.pick()
    model = tuning.model()
    assert (model.sparsity, model.alpha, model.n_threads) == (3, tuning.best.alpha, 2)
    assert model.fit(X, Y).predict(X[:5]).shape == (5, 200)


def test_with_a_budget_only_what_fits_is_tried():
    smallest, largest = (model_bytes(20, 200, shore.SparseSignCompression(m, 200), np.dtype("f4")) for m in (32, 48))
    found = shore.tune(X, Y, compressions=["sparse_sign"], max_bytes=largest - 1, **GRID)
    assert {t.n_components for t in found.trials} == {32}
    assert found.best.bytes == smallest <= largest - 1
    assert found.max_bytes == largest - 1
    found = shore.tune(X, Y, sparsity=3, alphas=1.0, compressions=["sparse_sign"], max_bytes=largest + 100)
    assert found.best.bytes <= largest + 100
    assert {t.n_components for t in found.trials} >= {48}  # the most that there is room for


def test_bad_budgets_say_what_the_smallest_model_takes(tuning):
    with pytest.raises(ValueError, match=r"max_bytes=5000 is too small: the smallest model to try, 'sparse_sign' with "
                                         r"n_components=16, takes [\d,]+ bytes"):  # fmt: skip
        shore.tune(X, Y, sparsity=3, compressions=["sparse_sign"], max_bytes=5000)
    with pytest.raises(ValueError, match=r"max_microseconds=1e-05 is too small.*takes [\d.]+ microseconds a row, '"):
        shore.tune(X, Y, max_microseconds=1e-5, **GRID)
    with pytest.raises(ValueError, match="max_bytes=10 is too small: the smallest model that was tried takes"):
        tuning.pick(max_bytes=10)
    both = {"max_bytes": min(t.bytes for t in tuning.trials),
            "max_microseconds": min(t.microseconds for t in tuning.trials)}  # fmt: skip
    if not any(t.bytes <= both["max_bytes"] and t.microseconds <= both["max_microseconds"] for t in tuning.trials):
        with pytest.raises(ValueError, match="nothing that was tried is within both"):
            tuning.pick(**both)


def test_table_and_figure(tuning, tmp_path):
    pytest.importorskip("matplotlib")
    columns = tuning.to_dict()
    assert columns["precision"].tolist() == [t.precision for t in tuning.trials]
    tuning.to_csv(tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["precision"]) for row in rows] == columns["precision"].tolist()
    assert [row["compression"] for row in rows] == columns["compression"].tolist()
    tuning.figure(tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_progress_is_shown_when_asked_for(capsys):
    shore.tune(X, Y, **{**GRID, "alphas": 1.0, "n_components": 32})
    assert capsys.readouterr().err == ""
    shore.tune(X, Y, verbose=1, **{**GRID, "alphas": 1.0, "n_components": 32})
    assert "tune" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"n_components": 0}, ValueError, "n_components must be a positive integer, got 0"),
        ({"n_components": [16, 2.5]}, TypeError, "n_components must be a positive integer, got 2.5"),
        ({"n_components": []}, ValueError, "n_components must hold at least one value"),
        ({"n_components": np.array(0)}, ValueError, "n_components must be a positive integer"),
        ({"n_components": np.full((2, 2), 16)}, TypeError, "n_components must be a positive integer"),
        ({"weights": np.ones(2)}, ValueError, "weights must be None or 'float16'"),
        ({"verbose": np.ones(2)}, TypeError, "verbose must be an integer of at least 0"),
        ({"verbose": "no"}, TypeError, "verbose must be an integer of at least 0, got 'no'"),
        ({"dtype": np.ones(2)}, ValueError, "dtype must be float32 or float64"),
        ({"alphas": [1.0, -1.0]}, ValueError, "alphas must be numbers of at least 0"),
        ({"alphas": "auto"}, ValueError, "alphas must hold numbers, got 'auto'"),
        ({"compressions": ["zip"]}, ValueError, "compressions must be among 'sparse_sign', .*, got 'zip'"),
        ({"compressions": []}, ValueError, "compressions must hold at least one value"),
        ({"max_bytes": 0}, ValueError, "max_bytes must be a positive number or None, got 0"),
        ({"max_microseconds": "1"}, TypeError, "max_microseconds must be a positive number or None, got '1'"),
        ({"held_out": 1.0}, ValueError, "held_out must be a number between 0 and 1, got 1.0"),
        ({"weights": "float8"}, ValueError, "weights must be None or 'float16', got 'float8'"),
        ({"weights": "float16", "dtype": np.float64}, ValueError, "weights='float16' is for float32 models"),
        ({"alpha": 1.0}, TypeError, "alpha is what tune varies: give alphas"),
        ({"compression": None}, TypeError, "compression is what tune varies: give compressions"),
        ({"sparsity": 0}, ValueError, "sparsity must be a positive integer"),
        ({"n_threads": "all"}, TypeError, "n_threads"),
        ({"validation": (X[:, :3], Y)}, ValueError, "validation must have 20 features and 200 outputs, got 3 and 200"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        shore.tune(X, Y, **options)


def test_a_number_may_come_as_an_array():
    found = shore.tune(X, Y, **{**GRID, "alphas": np.array(1.0), "n_components": np.array(32)})
    assert {(trial.n_components, trial.alpha) for trial in found.trials} == {(32, 1.0)}


def test_bad_arguments_of_what_was_found(tuning, tmp_path):
    for wrong, error in (("x", TypeError), (np.nan, ValueError), (-1, ValueError), (np.ones(2), TypeError)):
        for name in ("max_bytes", "max_microseconds"):
            with pytest.raises(error, match=f"{name} must be a positive number or None"):
                tuning.pick(**{name: wrong})
    for wrong in ("x", 3):
        with pytest.raises(TypeError, match="trial must be a Trial"):
            tuning.model(wrong)
    with pytest.raises(ValueError, match="path must not hold NUL"):
        tuning.to_csv(f"{tmp_path}/a\0b")


def test_needs_two_rows():
    with pytest.raises(ValueError, match="X must have at least 2 rows, to hold some out, got 1"):
        shore.tune(X[:1], Y[:1])
