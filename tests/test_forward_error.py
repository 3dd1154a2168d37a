"""Solutions of stage 1 against exact ones: good, or with a warning. tools/deep/errors.py has all of it."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg, sparse

import shore
from shore import solvers

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture(scope="module")
def errors():
    pytest.importorskip("mpmath")
    sys.path.insert(0, str(TOOLS))
    try:
        from deep import errors
    finally:
        sys.path.remove(str(TOOLS))
    return errors


@pytest.fixture(scope="module")
def measured(errors):
    return errors.run(quick=True, seed=1)


def test_every_solver_is_good_or_warns(measured):
    assert measured["fits"] > 1000
    assert not measured["silent"]


def test_conjugate_gradients_of_many_outputs_are_good_or_warn(errors):
    """An estimate from a part of the outputs must not miss what they share."""
    records = errors.many.run(quick=True)
    assert len(records) > 300
    assert sum(not record["good"] for record in records) > 50
    assert not [record for record in records if not (record["good"] or record["warned"])]


def test_auto_is_good_up_to_conditions_where_nothing_is(measured):
    """Past 1e6 float32 does not hold the singular values, and float64 not half of the digits of all W."""
    for record in measured["records"]:
        if record["way"] == "auto" and record["targets"] != "orthogonal":
            if record["condition"] <= 1e6:
                assert record["good"], record
                assert not record["warned"], record
            if record["alpha"] > 1e-3:
                assert record["good"], record


def test_warnings_are_rare_where_results_are_good(measured):
    assert len(measured["needless"]) <= 0.01 * measured["fits"]


def ill_conditioned(condition, shape=(60, 20), seed=0):
    rng = np.random.default_rng(seed)
    k = min(shape)
    U, V = (np.linalg.qr(rng.normal(size=(size, k)))[0] for size in shape)
    return (U * np.geomspace(1, 1 / condition, k)) @ V.T


def fit(X, Y, **options):
    return shore.ShoreRegressor(1, compression=None, dtype=np.float64, **options).fit(X, Y)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60)], ids=["tall", "wide"])
def test_no_direction_is_dropped_that_x_holds(layout, shape):
    """The squares of these singular values are lost beside the largest."""
    X = ill_conditioned(1e9, shape)
    Y = np.random.default_rng(1).normal(size=(shape[0], 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        W = fit(layout(X), Y, alpha=0.0).coef_.T
    expected = np.linalg.pinv(X, rcond=1e-14) @ Y
    assert np.linalg.norm(W - expected) < 1e-5 * np.linalg.norm(expected)


def test_rank_is_judged_at_the_precision_of_x():
    X = ill_conditioned(1e6)
    Y = np.random.default_rng(1).normal(size=(60, 3))
    fit(X, Y, alpha=0.0)  # a warning would be an error
    X[:, -1] = X[:, 0]
    with pytest.warns(linalg.LinAlgWarning, match="X has rank 19 of 20 and alpha is 0"):
        fit(X, Y, alpha=0.0)
    with pytest.warns(linalg.LinAlgWarning, match="X has rank 19 of 20 and alpha=1e-40 is lost"):
        fit(X, Y, alpha=1e-40)


def test_centred_rows_are_not_short_of_rank():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 30)), rng.normal(size=(12, 2))
    model = fit(X, Y, alpha=0.0, fit_intercept=True)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, Y, atol=1e-10)
    weights = rng.uniform(1, 3, 12)
    model = shore.ShoreRegressor(1, compression=None, alpha=0.0, fit_intercept=True)
    model.partial_fit(X[:5], Y[:5], weights[:5]).partial_fit(X[5:], Y[5:], weights[5:])
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, Y, atol=1e-4)


def test_sums_that_lost_the_answer_say_so():
    """XᵀX is all that partial_fit keeps: of a column far from 0, centring leaves next to nothing."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 4)) + 1e6, rng.normal(size=(50, 2))
    model = shore.ShoreRegressor(1, compression=None, alpha=0.0, fit_intercept=True, dtype=np.float64)
    model.partial_fit(X, Y)
    with pytest.warns(linalg.LinAlgWarning, match="the sums XᵀX .* use fit on all rows"):
        model.predict(X)
    exact = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(fit(X, Y, alpha=0.0, fit_intercept=True).coef_.T, exact, rtol=1e-6)


def test_sums_whose_squares_vanish_are_those_of_zeros():
    X = np.full((2, 1), 2.97445784e-155)
    model = shore.ShoreRegressor(1, compression=None, alpha=0.1, fit_intercept=True).partial_fit(X, np.ones((2, 1)))
    assert model.coef_.tolist() == [[0.0]]
    assert model.intercept_.tolist() == [1.0]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_gradients_that_stopped_far_away_say_so(layout):
    """One small singular value, which the residual of the normal equations does not see."""
    X = np.eye(60, 20)
    X[19, 19] = 1e-3
    Y = np.random.default_rng(1).normal(size=(60, 3))
    with pytest.warns(linalg.LinAlgWarning, match="conjugate gradients stopped at a residual .* ill-conditioned"):
        W = fit(layout(X), Y, alpha=0.0, solver="cg").coef_.T
    expected = np.linalg.pinv(X) @ Y
    assert np.linalg.norm(W - expected) > 0.5 * np.linalg.norm(expected)
    W = fit(layout(X), Y, alpha=0.1, solver="cg").coef_.T  # no warning
    expected = np.linalg.solve(X.T @ X + 0.1 * np.eye(20), X.T @ Y)
    assert np.linalg.norm(W - expected) < 0.03 * np.linalg.norm(expected)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60)], ids=["tall", "wide"])
def test_gradients_do_not_go_on_past_their_precision(layout, shape):
    """They made W as large as 1e9 times its size."""
    X = ill_conditioned(3.0, shape).astype(np.float32)
    X -= X.mean(axis=0)
    Y = np.random.default_rng(1).normal(size=(shape[0], 3)).astype(np.float32)
    rows = solvers.Rows(layout(X), np.dtype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)  # wide rows, centred, are short of rank
        W = solvers.solve(rows, lambda a, b: Y[:, a:b], 3, 0.0, solver="cg", tol=1e-30, n_threads=1)[0]
    expected = np.linalg.pinv(X.astype(np.float64), rcond=1e-6) @ Y
    assert np.linalg.norm(W - expected) < 1e-4 * np.linalg.norm(expected)


def test_usual_problems_do_not_warn():
    """Sparse rows as of texts, at the penalties that are used with them, by every solver."""
    rng = np.random.default_rng(0)
    words = np.minimum(rng.zipf(1.3, size=(1500, 20)) - 1, 799)
    X = sparse.csr_array((rng.uniform(0.5, 1, 30_000), words.ravel(), np.arange(1501) * 20), shape=(1500, 800))
    X.sum_duplicates()
    X = sparse.csr_array(X / sparse.linalg.norm(X, axis=1)[:, None])
    Y = sparse.csr_array(rng.random((1500, 300)) < 0.01).astype(float)
    for solver in solvers.SOLVERS:
        for alpha in (0.3, 1.0, 2.0):
            for dtype in (np.float32, np.float64):
                shore.ShoreRegressor(3, n_components=64, alpha=alpha, solver=solver, dtype=dtype).fit(X, Y)
