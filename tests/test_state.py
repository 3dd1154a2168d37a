"""One model and several threads: what reads it sees one fit, and what adds rows to it loses none silently.

What another thread would do meanwhile is done by a hook in the middle of a call, so that it happens every time.
"""

import copy
import pickle
import sys
import threading
import time

import numpy as np
import pytest
from scipy import sparse

import shore
from shore import _streaming, solvers
from shore._statistics import Statistics
from shore.datasets import make_synthetic
from shore.modelfile import writing

DATA = make_synthetic(120, 12, 60, sparsity=3, snr_db=30, seed=1)
OTHER = make_synthetic(90, 30, 80, sparsity=3, snr_db=30, seed=2)
X, Y = DATA.X, DATA.Y


def regressor(**options):
    return shore.ShoreRegressor(3, **{"n_components": 24, "n_threads": 1, **options})


class Meanwhile:
    """Rows that do something when they are looked at."""

    def __init__(self, values, act):
        self.values, self.act = values, act

    def __array__(self, dtype=None, copy=None):
        self.act()
        return np.asarray(self.values, dtype=dtype)


def once(act):
    """Do it at the first call only."""
    left = [act]
    return lambda: left and left.pop()()


def as_arrays(result):
    if sparse.issparse(result):
        return [result.indptr, result.indices, result.data]
    return list(result.to_dict().values()) if isinstance(result, shore.explanation.Explanation) else [result]


# ---------------------------------------------------------------- readers


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_products_refuse_another_width(dtype, convert):
    for d in (2, 4):
        rows = convert(np.ones((3, d), dtype=np.float64 if dtype == np.float64 else np.float32))
        with pytest.raises(ValueError, match=f"X has {d} features, but the weights are for 3"):
            solvers.times(rows, np.ones((3, 5), dtype=dtype), 1)


@pytest.mark.parametrize(
    "use",
    [
        lambda model, rows: model.predict(rows),
        lambda model, rows: model.predict_compressed(rows),
        lambda model, rows: model.explain(rows),
        lambda model, rows: model.score(rows, Y),
    ],
    ids=["predict", "predict_compressed", "explain", "score"],
)
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_a_call_is_answered_by_the_model_that_it_began_with(use, fit):
    model = getattr(regressor(fit_intercept=True), fit)(X, Y)
    expected = as_arrays(use(copy.deepcopy(model), X))
    found = as_arrays(use(model, Meanwhile(X, once(lambda: model.fit(OTHER.X, OTHER.Y)))))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert model.predict(OTHER.X).shape == OTHER.Y.shape


def test_a_file_is_of_one_fit(tmp_path, monkeypatch):
    model = regressor(compression="gaussian").partial_fit(X, Y)
    expected, encode = copy.deepcopy(model).predict(X), writing.encode_compression

    def meanwhile(phi):
        model.set_params(n_components=16, verbose=1).fit(OTHER.X, OTHER.Y)
        return encode(phi)

    monkeypatch.setattr(writing, "encode_compression", meanwhile)
    model.save(tmp_path / "m.shore")
    again = shore.load(tmp_path / "m.shore")
    assert (again.n_components, again.verbose, again.n_features_in_) == (24, 0, 12)
    np.testing.assert_array_equal(again.predict(X).toarray(), expected.toarray())


def test_threads_that_predict_while_others_fit(tmp_path):
    model, stop, wrong = regressor().fit(X, Y), [], []
    kinds = {(X.shape[1], Y.shape[1]), (OTHER.X.shape[1], OTHER.Y.shape[1])}
    wide = sparse.csr_array(OTHER.X)

    def read():
        while not stop:
            try:
                model.predictor()
                model.save(tmp_path / "m.shore")
                saved = shore.load(tmp_path / "m.shore")
                if (saved.n_features_in_, saved.n_outputs_) not in kinds:
                    wrong.append("a file of two fits")
                if model.predict(wide).shape != OTHER.Y.shape:
                    wrong.append("another model answered")
            except ValueError as error:
                if "features, but ShoreRegressor is expecting" not in str(error):
                    wrong.append(repr(error))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    reader = threading.Thread(target=read)
    try:
        reader.start()
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            model.set_params(n_components=16).fit(OTHER.X, OTHER.Y)
            model.set_params(n_components=24).fit(X, Y)
    finally:
        stop.append(True)
        reader.join()
        sys.setswitchinterval(interval)
    assert wrong == []


# ---------------------------------------------------------------- W that is solved for late


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_made_while_w_is_solved_for_is_whole(again, monkeypatch):
    model = regressor().partial_fit(X, Y)
    expected = copy.deepcopy(model).coef_
    solve = once(lambda: model.predict(X))

    def reduce(self, protocol):
        solve()
        return object.__reduce_ex__(self, protocol)

    monkeypatch.setattr(Statistics, "__reduce_ex__", reduce)
    np.testing.assert_array_equal(again(model).coef_, expected)


def test_an_older_solution_does_not_replace_a_newer_one(monkeypatch):
    model, solve = regressor(compression="gaussian", dtype=np.float64).partial_fit(X[:50], Y[:50]), Statistics.solve
    newer = []

    def add():
        model.partial_fit(X[50:], Y[50:])
        newer.append(model.coef_)

    meanwhile = once(add)

    def slow(self, *arguments):
        found = solve(self, *arguments)
        meanwhile()
        return found

    monkeypatch.setattr(Statistics, "solve", slow)
    before = regressor(compression="gaussian", dtype=np.float64).partial_fit(X[:50], Y[:50])
    np.testing.assert_array_equal(model.coef_, before.coef_)  # of the rows that there were when it was asked for
    np.testing.assert_array_equal(model.coef_, newer[0])


# ---------------------------------------------------------------- writers


def hooked(monkeypatch, act):
    """Let batches be summed up only after `act`, which runs once."""
    sums, act = _streaming._batch_sums, once(act)

    def later(*arguments):
        act()
        return sums(*arguments)

    monkeypatch.setattr(_streaming, "_batch_sums", later)


@pytest.mark.parametrize("begun", [False, True])
def test_rows_that_two_threads_add_at_once_are_refused_and_not_lost(begun, monkeypatch):
    model = regressor()
    if begun:
        model.partial_fit(X[:10], Y[:10])
    hooked(monkeypatch, lambda: model.partial_fit(X, Y))
    with pytest.raises(RuntimeError, match=r"changed by another thread meanwhile.*one thread at a time"):
        model.partial_fit(X[:40], Y[:40])
    assert model._statistics.n_rows == 120 + 10 * begun


def test_a_merge_that_another_thread_comes_before_is_refused(monkeypatch):
    model, other = regressor().partial_fit(X[:10], Y[:10]), regressor().partial_fit(X[10:], Y[10:])
    plus = Statistics.plus
    meanwhile = once(lambda: model.partial_fit(X[:5], Y[:5]))

    def late(self, its):
        meanwhile()
        return plus(self, its)

    monkeypatch.setattr(Statistics, "plus", late)
    with pytest.raises(RuntimeError, match="changed by another thread meanwhile"):
        model.merge(other)
    assert model._statistics.n_rows == 15


def test_predictions_do_not_disturb_rows_that_are_added(monkeypatch):
    model = regressor().partial_fit(X[:60], Y[:60])
    hooked(monkeypatch, lambda: model.predict(X))
    model.partial_fit(X[60:], Y[60:])
    assert model._statistics.n_rows == 120
    np.testing.assert_allclose(model.coef_, regressor().partial_fit(X, Y).coef_, rtol=1e-4, atol=1e-6)


def test_fit_in_another_thread_is_not_undone_by_rows_that_were_added(monkeypatch):
    model = regressor().partial_fit(X[:60], Y[:60])
    hooked(monkeypatch, lambda: model.fit(OTHER.X, OTHER.Y))
    with pytest.raises(RuntimeError, match="changed by another thread"):
        model.partial_fit(X[60:], Y[60:])
    assert model.predict(OTHER.X).shape == OTHER.Y.shape
