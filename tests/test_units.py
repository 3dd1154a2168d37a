"""Numbers near the ends of the range: powers of two change no digit of W, or W is refused or warned of."""

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg, sparse

import shore
from shore import solvers

EXPONENTS = {"float32": (-140, -75, -45, 0, 75, 110), "float64": (-1000, -520, -250, 0, 520, 700)}


def problem(dtype):
    rng = np.random.default_rng(0)
    X, Y = rng.integers(-4, 5, (12, 4)), rng.integers(-4, 5, (12, 3))  # as subnormal numbers too
    return X.astype(dtype), Y.astype(dtype), rng.integers(1, 4, 12) ** 2.0


def fit(X, Y, weights, **given):
    """A model, or None if it is refused because of sizes; and whether there was a warning."""
    model = shore.ShoreRegressor(1, compression=None, **given)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", linalg.LinAlgWarning)
        try:
            model.fit(X, Y, sample_weight=weights)
        except ValueError as error:
            if "too large" not in str(error):
                raise
            model = None
    return model, bool(said)


def is_ours(warning):
    """Whether it names a line of the tests, which called shore."""
    return Path(warning.filename).is_relative_to(Path(__file__).parent)


def scaled(W, exponent):
    with np.errstate(over="ignore"):
        return np.ldexp(W, exponent)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_two_change_no_digit(dtype, solver, layout, weighted):
    X, Y, weights = problem(dtype)
    weights = weights if weighted else None
    info, right = np.finfo(dtype), 0
    for alpha, centre in itertools.product((0.0, 1.0), (False, True)):
        given = {"dtype": dtype, "solver": solver, "fit_intercept": centre, "solver_tol": 1e-6}
        plain, said = fit(layout(X), Y, weights, alpha=alpha, **given)
        assert not said
        for a, b in itertools.product(EXPONENTS[dtype], EXPONENTS[dtype]):
            if alpha and not 0 < scaled(alpha, 2 * a) < np.inf:
                continue
            model, said = fit(layout(scaled(X, a)), scaled(Y, b), weights, alpha=scaled(alpha, 2 * a), **given)
            meant = scaled(plain.coef_, b - a)
            sizes = np.abs(meant)
            if model is None:
                assert sizes.max() > info.max / 1e6, (a, b)
            elif sizes.min() > 64 * info.tiny / info.eps:
                np.testing.assert_array_equal(model.coef_, meant, str((a, b)))
                right += 1
            elif not said:
                np.testing.assert_allclose(model.coef_, meant, rtol=0, atol=1e-3 * sizes.max())
    assert right > 30


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_any_size(dtype, solver, layout):
    X, Y, weights = problem(dtype)
    given = {"dtype": dtype, "solver": solver, "fit_intercept": True, "solver_tol": 1e-6}
    plain, _ = fit(layout(X), Y, weights, alpha=1.0, **given)
    for a, c in itertools.product((-40, 0, 40), (-800, -100, 100, 800)):  # 2**c of every weight, a square
        model, said = fit(layout(scaled(X, a)), Y, scaled(weights, c), alpha=scaled(1.0, 2 * a + c), **given)
        np.testing.assert_array_equal(model.coef_, scaled(plain.coef_, -a))
        assert not said


def test_penalties_and_weights_at_opposite_ends():
    X, Y, _ = problem("float64")
    for alpha, weight in ((1e300, 5e-324), (1e308, 1e-320), (5e-324, 1e300), (1e-300, 1e308), (1e308, 1e308)):
        for a, solver, layout in itertools.product(
            (-900, 0, 900), ("cholesky", "dual", "cg"), (np.asarray, sparse.csr_array)
        ):
            given = {"dtype": "float64", "alpha": alpha, "fit_intercept": True, "solver_tol": 1e-8}
            model, _ = fit(layout(scaled(X, a)), scaled(Y, 50), np.full(12, weight), solver=solver, **given)
            if model is not None:
                assert np.isfinite(model.coef_).all()
                np.testing.assert_allclose(
                    model.intercept_ + model.coef_ @ scaled(X, a).mean(axis=0), scaled(Y, 50).mean(axis=0)
                )


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
def test_factorisations_serve_numbers_of_any_size(solver):
    X, Y, _ = problem("float32")
    for a, b in itertools.product(EXPONENTS["float32"][1:], (-75, 0, 75)):
        if not -120 < b - a < 120:
            continue
        rows = solvers.Rows(scaled(X, a), np.dtype(np.float32))
        made = solvers.Factorisation(rows, scaled(1.0, 2 * a), solver, n_threads=1)
        plain = solvers.Factorisation(solvers.Rows(X, np.dtype(np.float32)), 1.0, solver, n_threads=1)
        np.testing.assert_array_equal(made.solve(scaled(Y, b), 1), scaled(plain.solve(Y, 1), b - a))
        if solver == "cholesky" and -120 < a + b < 120:
            C = X.T @ Y
            W = made.solve_cross(scaled(C, a + b), 1)
            np.testing.assert_array_equal(W, scaled(plain.solve_cross(C, 1), b - a))


def test_a_w_too_small_for_its_digits_is_warned_of():
    X, Y, _ = problem("float32")
    with pytest.warns(linalg.LinAlgWarning, match="W is too small for the digits of float32") as said:
        shore.ShoreRegressor(1, compression=None, solver="cg").fit(X, scaled(Y, -145))
    assert is_ours(said[0])
    with pytest.warns(linalg.LinAlgWarning, match="W is too small") as said:
        shore.ShoreRegressor(1, compression=None, solver="cholesky").fit(X, scaled(Y, -145))
    assert is_ours(said[0])


@pytest.mark.parametrize("compression", [None, "sparse_sign", "head_tail"])
@pytest.mark.parametrize(("a", "b"), [(-540, 0), (-1000, -600), (-300, -700), (-300, -800), (0, 0), (-400, -400)])
def test_sums_that_lose_what_a_fit_sees_are_warned_of(a, b, compression):
    X, Y, _ = problem("float64")
    given = {"dtype": "float64", "alpha": 0.0, "compression": compression, "n_components": 3, "solver": "cholesky"}
    whole = shore.ShoreRegressor(1, **given).fit(scaled(X, a), scaled(Y, b))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        W = shore.ShoreRegressor(1, **given).partial_fit(scaled(X, a), scaled(Y, b)).coef_
    if said:
        assert any("small that products vanish" in str(each.message) for each in said)
        assert all(map(is_ours, said))
    else:
        np.testing.assert_allclose(W, whole.coef_, rtol=0, atol=1e-9 * np.abs(whole.coef_).max())
    assert bool(said) == (min(2 * a, a + b) < -960)


@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
@pytest.mark.parametrize("given", ["float32", "int8"])
def test_a_penalty_beyond_the_range_of_x(given, solver):
    X, Y = np.ones((1, 5), dtype=given), np.ones((1, 3))
    for alpha in (1e30, 1e120, 1e200, 1e300):
        model, _ = fit(X, Y, None, dtype="float64", solver=solver, alpha=alpha)
        np.testing.assert_allclose(model.coef_ * alpha, 1.0, rtol=1e-12)


def test_the_rounding_of_float32_counts_in_any_units():
    X, Y, _ = problem("float32")
    X = np.hstack([X, X[:, :1]]) * np.float32(1 / 3)
    X[:, -1] *= np.float32(1 + 2**-22)  # which is its rounding
    for a in (-100, 0, 100):
        with pytest.warns(linalg.LinAlgWarning, match="X has rank 4 of 5"):
            shore.ShoreRegressor(1, compression=None, alpha=0.0, solver="cholesky").fit(scaled(X, a), Y)
