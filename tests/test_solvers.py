import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import linalg, sparse
from threadpoolctl import threadpool_info

import shore
from shore import solvers
from shore._core import runtime

SHAPES = {"tall": (120, 30), "wide": (30, 120)}
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def make_rows(shape, dtype, kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape) * (rng.random(shape) < 0.4 if kind == "csr" else 1.0)
    X[np.arange(min(shape)), np.arange(min(shape))] += 3  # well conditioned
    X = X.astype(dtype)
    return (sparse.csr_array(X) if kind == "csr" else X), X.astype(np.float64)


def closed_form(X, B, alpha):
    if alpha == 0:
        return np.linalg.pinv(X) @ B
    return np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ B)


def solve(X, B, alpha, solver, dtype, mean=None, shift=None, tol=None, **options):
    rows = solvers.Rows(X, np.dtype(dtype), mean, shift)
    tol = tol or (1e-6 if dtype is np.float32 else 1e-12)
    return solvers.solve(
        rows, lambda a, b: B[:, a:b], B.shape[1], alpha, solver=solver, tol=tol, n_threads=2, **options
    )


@dtypes
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("alpha", [0, 1e-3, 1, 100])
@pytest.mark.parametrize("solver", solvers.SOLVERS)
@pytest.mark.filterwarnings("ignore:X has rank:scipy.linalg.LinAlgWarning")
def test_all_solvers_agree(dtype, kind, shape, alpha, solver):
    given, X = make_rows(shape, dtype, kind)
    B = np.random.default_rng(1).normal(size=(shape[0], 37)).astype(dtype)
    W, used, n_iter = solve(given, B, alpha, solver, dtype)
    expected = closed_form(X, B.astype(np.float64), alpha)
    error = np.linalg.norm(W - expected) / np.linalg.norm(expected)
    assert error < (1e-4 if dtype is np.float32 else 1e-8)
    assert W.dtype == dtype
    assert used in solvers.SOLVERS[1:]
    assert (n_iter > 0) == (used == "cg")


@dtypes
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_weights_and_centring(dtype, kind, solver, shape):
    given, X = make_rows(shape, dtype, kind)
    rng = np.random.default_rng(2)
    B = rng.normal(size=(shape[0], 9))
    weights = rng.uniform(0.5, 2, shape[0])
    shift, mean = np.sqrt(weights).astype(dtype), (weights @ X / weights.sum()).astype(dtype)
    scaled = given if kind == "dense" else sparse.csr_array(sparse.diags_array(shift) @ given)
    B = (shift[:, None] * (B - weights @ B / weights.sum())).astype(dtype)
    W, _, _ = solve(scaled, B, 0.5, solver, dtype, mean=mean, shift=shift)
    expected = closed_form(shift[:, None].astype(np.float64) * (X - mean), B.astype(np.float64), 0.5)
    np.testing.assert_allclose(
        W, expected, rtol=0, atol=np.abs(expected).max() * (2e-4 if dtype is np.float32 else 1e-8)
    )


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize(("solver", "shape"), [("cholesky", (40, 20)), ("dual", (12, 20))])
def test_singular_without_penalty_is_minimum_norm_with_a_warning(kind, solver, shape):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(shape[0], 5)) @ rng.normal(size=(5, shape[1]))
    B = rng.normal(size=(shape[0], 4))
    with pytest.warns(linalg.LinAlgWarning, match="X has rank 5 of"):
        W, _, _ = solve(sparse.csr_array(X) if kind == "csr" else X, B, 0.0, solver, np.float64)
    np.testing.assert_allclose(W, np.linalg.pinv(X) @ B, atol=1e-6)


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
@pytest.mark.parametrize("size", [1e-155, 1e-160, 1e-300, 2.0**-1022])
@pytest.mark.parametrize("alpha", [0.0, 5e-324, 1e-309])
def test_rows_whose_squares_vanish(solver, size, alpha):
    X = np.full((2, 3) if solver == "dual" else (3, 2), size)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        W, _, _ = solve(X, np.ones((len(X), 1)), alpha, solver, np.float64)
    np.testing.assert_allclose(W, len(X) / (alpha / size + X.size * size), rtol=1e-12)
    if alpha == 0:
        assert "X has rank 1 of 2" in str(said[0].message)


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
def test_rows_of_zeros_give_zeros_with_a_warning(solver):
    X = np.zeros((2, 3) if solver == "dual" else (3, 2))
    with pytest.warns(linalg.LinAlgWarning, match="X has rank 0 of 2"):
        W, _, _ = solve(X, np.ones((len(X), 1)), 0.0, solver, np.float64)
    assert not W.any()


@pytest.mark.filterwarnings("ignore:X has rank 1 of 2:scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
def test_solutions_past_the_range_are_refused(solver):
    with pytest.raises(ValueError, match="the solution leaves the range of float64"):
        solve(np.full((3, 2), 5e-324), np.ones((3, 1)), 0.0, solver, np.float64)


@dtypes
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-30, 1e-20])
def test_a_column_that_centring_takes_away_gives_no_noise_without_a_warning(dtype, layout, solver, alpha):
    """What is left of a constant column is its rounding, which a penalty this small does not hide."""
    rng = np.random.default_rng(0)
    X, Y = np.full((33, 1), 0.1, dtype=dtype), rng.normal(size=(33, 20))
    model = shore.ShoreRegressor(
        1, compression=None, fit_intercept=True, dtype=dtype, alpha=alpha, solver=solver, n_threads=1
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            W = model.fit(layout(X), Y).coef_
        except (
            ValueError
        ) as error:  # steps along rounding may leave the range, which goes by what instructions there are
            if "X or alpha too small" not in str(error):
                raise
            return
    assert said or np.abs(W).max() < 1e-6


@dtypes
def test_products_do_not_depend_on_threads_or_neighbours(dtype):
    given, X = make_rows((50, 41), dtype, "csr")
    for width in (1, 7, 16, 100, 333):
        P = np.random.default_rng(4).normal(size=(41, width)).astype(dtype)
        for rows in (given, X.astype(dtype)):
            whole = solvers.times(rows, P, 1)
            np.testing.assert_allclose(whole, X @ P, rtol=0, atol=1e-4 if dtype is np.float32 else 1e-12)
            np.testing.assert_array_equal(solvers.times(rows, P, 3), whole)
            np.testing.assert_array_equal(np.concatenate([solvers.times(rows[[i]], P, 1) for i in range(50)]), whole)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "dual", "cg"])
def test_more_rows_than_one_call_takes(solver, monkeypatch):
    monkeypatch.setattr("shore.solvers.rows._CALL_FLOPS", 0.0)
    monkeypatch.setattr("shore.solvers.rows._BLOCK_BYTES", 1 << 12)
    for kind in ("dense", "csr"):
        given, X = make_rows((1100, 30), np.float64, kind)
        B = np.random.default_rng(1).normal(size=(1100, 40))
        W, _, _ = solve(given, B, 1.0, solver, np.float64)
        np.testing.assert_allclose(W, closed_form(X, B, 1.0), rtol=1e-7, atol=1e-9)


def test_more_threads_than_blocks_fit():
    given, X = make_rows((80, 50), np.float64, "csr")
    B = np.random.default_rng(5).normal(size=(80, 700))
    rows = solvers.Rows(given, np.dtype(np.float64))
    W = solvers.solve(rows, lambda a, b: B[:, a:b], 700, 1.0, solver="cg", tol=1e-12, n_threads=96)[0]
    np.testing.assert_allclose(W, closed_form(X, B, 1.0), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_sums_over_many_rows(solver):
    """A constant column and many rows: plain float32 sums would be off by percents."""
    rng = np.random.default_rng(0)
    X = np.stack([np.full(1_000_000, 0.3), rng.random(1_000_000)], axis=1).astype(np.float32)
    B = (X @ np.array([[1.0, -2.0], [0.5, 3.0]]) + rng.normal(size=(1_000_000, 2))).astype(np.float32)
    W, _, _ = solve(sparse.csr_array(X), B, 1.0, solver, np.float32)
    np.testing.assert_allclose(W, closed_form(X.astype(np.float64), B.astype(np.float64), 1.0), rtol=1e-3)


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
def test_ill_conditioned_rows_in_float32(solver, alpha):
    given, X = make_rows((400, 20), np.float32, "dense")
    B = np.random.default_rng(1).normal(size=(400, 5)).astype(np.float32)
    expected = closed_form(X, B.astype(np.float64), alpha)
    W, _, _ = solve(given, B, alpha, solver, np.float32)
    assert np.linalg.norm(W - expected) < 1e-4 * np.linalg.norm(expected)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_path_with_more_features_than_rows(kind):
    given, X = make_rows((30, 90), np.float64, kind)
    B = np.random.default_rng(6).normal(size=(30, 12))
    rows = solvers.Rows(given, np.dtype(np.float64))
    for alpha, scores in solvers.path(
        rows, lambda a, b: B[:, a:b], 12, (0.1, 10.0), X[:4], solver="dual", tol=1e-3, n_threads=1
    ):
        np.testing.assert_allclose(scores, X[:4] @ closed_form(X, B, alpha), rtol=1e-7, atol=1e-9)


def test_conjugate_gradients_do_not_depend_on_threads():
    given, _ = make_rows((80, 50), np.float32, "csr")
    B = np.random.default_rng(5).normal(size=(80, 150)).astype(np.float32)
    first = solve(given, B, 1.0, "cg", np.float32)[0]
    rows = solvers.Rows(given, np.dtype(np.float32))
    for n_threads in (1, 3, 7):
        W = solvers.solve(rows, lambda a, b: B[:, a:b], 150, 1.0, solver="cg", tol=1e-6, n_threads=n_threads)[0]
        np.testing.assert_array_equal(W, first)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_directions_are_conjugate(kind):
    """Then there are as many steps as features at most; steepest descent takes thousands here."""
    X = np.random.default_rng(7).normal(size=(60, 12)) * np.logspace(0, 2, 12)
    n_iter = solve(X if kind == "dense" else sparse.csr_array(X), np.ones((60, 3)), 1e-3, "cg", np.float64, tol=1e-8)[2]
    assert n_iter <= 20


def test_conjugate_gradients_say_when_they_gave_up(monkeypatch):
    monkeypatch.setattr("shore.solvers.cg._MAX_CG_STEPS", 3)
    for kind in ("csr", "dense"):
        given, _ = make_rows((80, 50), np.float32, kind)
        with pytest.warns(RuntimeWarning, match="conjugate gradients stopped after 3 steps"):
            solve(given, np.ones((80, 2), dtype=np.float32), 0.0, "cg", np.float32)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_path_equals_single_fits(kind, solver):
    given, X = make_rows((90, 40), np.float64, kind)
    B = np.random.default_rng(6).normal(size=(90, 35))
    held = X[:5] + 1
    rows = solvers.Rows(given, np.dtype(np.float64))
    options = {"solver": solver, "tol": 1e-12, "n_threads": 2}
    found = list(solvers.path(rows, lambda a, b: B[:, a:b], 35, (0.1, 10.0, 1.0), held, **options))
    assert [alpha for alpha, _ in found] == [10.0, 1.0, 0.1]
    for alpha, scores in found:
        np.testing.assert_allclose(scores, held @ closed_form(X, B, alpha), rtol=1e-7, atol=1e-9)


def test_factorisation_by_panels(monkeypatch):
    monkeypatch.setattr("shore.solvers.direct._PANEL", 16)
    monkeypatch.setattr("shore.solvers.rows._CALL_FLOPS", 0.0)
    given, X = make_rows((1200, 61), np.float64, "dense")
    B = np.random.default_rng(1).normal(size=(1200, 5))
    for alpha in (0.0, 1.0):
        W, _, _ = solve(given, B, alpha, "cholesky", np.float64)
        np.testing.assert_allclose(W, closed_form(X, B, alpha), rtol=1e-9, atol=1e-12)
    given[:, -1] = given[:, 0]
    with pytest.warns(linalg.LinAlgWarning, match="X has rank 60 of 61"):
        solve(given, B, 0.0, "cholesky", np.float64)


@dtypes
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("alpha", [1.0, 1e-9])  # by Cholesky; by the spectrum
def test_solution_from_the_cross_product(dtype, order, alpha):
    given, X = make_rows((120, 30), dtype, "dense")
    given[:, -1], X[:, -1] = given[:, 0], X[:, 0]
    B = np.random.default_rng(1).normal(size=(120, 7)).astype(dtype)
    rows = solvers.Rows(given, np.dtype(dtype))
    factorisation = solvers.Factorisation(rows, alpha, "cholesky", 2)
    C = np.array(X.T @ B, order=order)
    before = C.copy()
    W = factorisation.solve_cross(C, 2)
    np.testing.assert_array_equal(C, before)
    tolerance = 1e-4 if dtype is np.float32 else 1e-6
    np.testing.assert_allclose(W, factorisation.solve(B, 2), rtol=0, atol=tolerance * np.abs(W).max())
    dual = solvers.Factorisation(rows, 1.0, "dual", 2)
    with pytest.raises(ValueError, match="solve_cross needs a factorisation by 'cholesky', got 'dual'"):
        dual.solve_cross(C, 2)


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
@pytest.mark.parametrize("width", [1, 4])
def test_factorisation_leaves_its_targets_alone(solver, width):
    given, _ = make_rows((30, 50), np.float64, "dense")
    factorisation = solvers.Factorisation(solvers.Rows(given, np.dtype(np.float64)), 1.0, solver, 1)
    B = np.asfortranarray(np.random.default_rng(1).normal(size=(30, width)))
    before = B.copy()
    first = factorisation.solve(B, 1)
    np.testing.assert_array_equal(B, before)
    np.testing.assert_array_equal(factorisation.solve(B, 1), first)


def test_auto_picks_by_cost():
    assert solvers.choose_solver(20_000, 5_000, 500, None, 4, 1.0) == "cholesky"
    assert solvers.choose_solver(500, 20_000, 500, None, 4, 1.0) == "dual"
    assert solvers.choose_solver(20_753, 20_000, 1000, 400_000, 4, 2.0) == "cg"
    assert solvers.choose_solver(5_000, 300, 100, 90_000, 4, 1.0) == "cholesky"
    assert solvers.choose_solver(10**7, 10**6, 100, 10**8, 4, 1.0) == "cg"  # nothing else fits


def test_blas_threads_are_put_back():
    given, _ = make_rows((60, 20), np.float64, "dense")
    before = [pool["num_threads"] for pool in threadpool_info()]
    for solver in ("cholesky", "dual", "cg"):
        solve(given, np.ones((60, 2)), 1.0, solver, np.float64)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


HALVES = """
import numpy as np
from scipy import sparse
from shore import solvers
from shore._core import runtime

assert runtime.simd()[0] == "{level}"
rng = np.random.default_rng(0)
bits = np.arange(1 << 16, dtype=np.uint16)
W = bits.view(np.float16)
with np.errstate(invalid="ignore"):
    expanded = W.astype(np.float32)
X = np.ones((1, 1), dtype=np.float32)  # every number there is, subnormals, infinities and NaN among them
for rows in (X, sparse.csr_array(X)):
    np.testing.assert_array_equal(solvers.times(rows, W[None], 1)[0], expanded)
finite = bits[np.isfinite(W)]
X = (rng.normal(size=(37, 200)) * (rng.random((37, 200)) < 0.3)).astype(np.float32)
csr = sparse.csr_array(X)
wide = sparse.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=csr.shape)
for width in (1, 3, 4, 15, 16, 17, 64, 131, 300):
    W = rng.choice(finite, (200, width)).view(np.float16)
    for rows in (X, csr, wide):
        for n_threads in (1, 2):
            ours, plain = (solvers.times(rows, P, n_threads) for P in (W, W.astype(np.float32)))
            np.testing.assert_array_equal(ours.view(np.uint32), plain.view(np.uint32))
"""


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_half_precision_is_its_expansion_to_the_bit(level):
    levels = runtime.LEVELS
    if levels.index(level) > levels.index(runtime.simd()[1]):
        pytest.skip(f"this machine has no {level}")
    environment = {**os.environ, "SHORE_SIMD": level}
    subprocess.run([sys.executable, "-c", HALVES.format(level=level)], env=environment, check=True)


def test_half_precision_with_nothing_to_multiply():
    W = np.ones((3, 2), dtype=np.float16)
    np.testing.assert_array_equal(solvers.times(sparse.csr_array((2, 3), dtype=np.float32), W, 1), np.zeros((2, 2)))
    assert solvers.times(np.empty((0, 3), dtype=np.float32), W, 1).shape == (0, 2)
