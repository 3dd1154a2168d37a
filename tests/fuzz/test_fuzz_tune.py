import contextlib
import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, folder, mostly, numbers, sizes
from oracle import Refusal, assert_same, tried

import shore
from shore import cli

# Names and words that every command knows, and things that none does.
WORDS = [
    "fit", "predict", "evaluate", "explain", "info", "tune", "demo", "--help", "--version", "--sparsity", "0", "-1",
    "2", "nan", "", "x.txt", "missing.shore", "--model", "--output", "--frobnicate", "--alpha", "auto", "--", "-",
]  # fmt: skip


@given(st.data())
def test_tune_takes_any_presentation(data):
    n, d, K = data.draw(sizes(0, 8)), data.draw(sizes(0, 3)), data.draw(sizes(0, 6))
    X, Y = data.draw(any_matrix((n, d), extremes=False)), data.draw(any_matrix((n, K), extremes=False))
    given = {
        "sparsity": data.draw(mostly([1, 2, 65], [0, None, True])),
        "n_components": data.draw(mostly([4, [1, 8], None, np.array([3, 2])], [0, [], "4", [2, None]])),
        "alphas": data.draw(mostly([1.0, [0.1, 10], (3,)], [-1, [], "auto", [None], np.nan])),
        "compressions": data.draw(mostly([("head_tail", None), ("gaussian",), "sparse_sign"], ["zip", (), [3]])),
        "held_out": data.draw(mostly([0.1, 0.5], [0, 1, None, "x", True])),
        "max_bytes": data.draw(mostly([None, 1e6], [0, -1, "1", 10.0])),
        "max_microseconds": data.draw(mostly([None], [0, -1, "1"])),
        "weights": data.draw(mostly([None, "float16"], ["float32", 16])),
        "random_state": data.draw(mostly([0, 5], [-1, None])),
        "n_threads": data.draw(mostly([1], [0, "1"])),
        "decoder": data.draw(mostly(["pgd", "cd"], ["x", None])),
    }
    result = tried(lambda: shore.tune(X.given, Y.given, **given), "X", "Y", *given, inputs=[X, Y])
    if isinstance(result, Refusal):
        return
    assert not X.is_wrong
    assert not Y.is_wrong
    assert result.best in result.trials
    assert all(0 <= trial.precision <= 1 for trial in result.trials)
    again = shore.tune(X.plain, Y.plain, **given)
    for one, other in zip(result.trials, again.trials, strict=True):
        assert (one.compression, one.n_components, one.alpha, one.bytes) == (
            other.compression, other.n_components, other.alpha, other.bytes
        )  # fmt: skip
    model = result.model().fit(X.given, Y.given)
    assert model.n_outputs_ == K


@given(st.data())
def test_validation_rows_are_checked(data):
    X, Y = np.eye(4), np.eye(4)
    wrong = [(X, Y[:2]), (X[:, :2], Y), (X * np.nan, Y), (X,), 3, "ab", (None, None), (X, Y, X), (X, Y[:, :2])]
    pair, is_wrong = data.draw(st.sampled_from([((X, Y), False), (None, False), *((each, True) for each in wrong)]))
    result = tried(lambda: shore.tune(X, Y, n_components=2, alphas=1.0, validation=pair, n_threads=1), "validation")
    assert isinstance(result, Refusal) == is_wrong


@given(st.data())
def test_capsules_are_of_compressions_only(data):
    K = data.draw(sizes(1, 5))
    phi = data.draw(
        mostly(st.just(shore.SparseSignCompression(3, K)), [None, 3, "gaussian", np.eye(3), shore.Box(0, 1)])
    )
    result = tried(lambda: shore.capi.phi(phi), "compression")
    assert isinstance(result, Refusal) != isinstance(phi, shore.SparseSignCompression)


@given(words=st.lists(st.sampled_from(WORDS), max_size=6))
def test_any_command_line_ends_in_a_status(words):
    """0 or an error of its own, with a message: never a traceback."""
    kept, place = folder()
    out, err = io.StringIO(), io.StringIO()

    def run():
        try:
            return cli.main(words)
        except SystemExit as left:
            return left.code

    with kept, contextlib.chdir(place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = tried(run)
    assert status in (0, None, 1, 2)
    assert status in (0, None) or err.getvalue().strip()


@given(st.data())
def test_constructed_predictors_know_their_model(data):
    X, Y = data.draw(numbers((6, 3), ("float32",), extremes=False)), np.eye(6)
    model = shore.ShoreRegressor(2, n_components=4, n_threads=1).fit(X, Y)
    n_threads = data.draw(mostly([1, 2, None], [0, -1, "1", True]))
    predictor = tried(lambda: model.predictor(n_threads), "n_threads")
    if not isinstance(predictor, Refusal):
        assert isinstance(predictor, shore.Predictor)
        assert_same(list(predictor(X[0])), [model.predict(X[:1]).indices, model.predict(X[:1]).data])
