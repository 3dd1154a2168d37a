import pickle

import cloudpickle
import dask.array as da
import numpy as np
import pytest
from dask import delayed
from dask_data import CUTS, OPTIONS, X, Y, assert_same_model, cut, fitted, lazy, long_tailed
from distributed import Client
from scipy import sparse
from scipy.linalg import LinAlgWarning
from threadpoolctl import threadpool_info

import shore
from shore import solvers
from shore.distributed import fit
from shore.distributed.blocks import Facts
from shore.distributed.training import choose_route

KINDS = [np.asarray, sparse.csr_array]


def regressor(**options):
    return shore.ShoreRegressor(**{**OPTIONS, **options})


# ---------------------------------------------------------------- the model of one fit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("compression", ["head_tail", "sparse_sign", "gaussian", None])
@pytest.mark.parametrize("convert", KINDS)
def test_sums_give_the_model_of_fit(client, convert, compression, dtype):
    rows, outputs = long_tailed()
    for fit_intercept in (False, True):
        options = {"compression": compression, "dtype": dtype, "fit_intercept": fit_intercept, "solver": "cholesky"}
        expected = fitted(convert(rows), outputs, **options)
        if compression == "head_tail":
            assert 0 < len(expected.compression_.head_outputs) < 48
        model = regressor(**options)
        assert fit(model, lazy(convert(rows)), lazy(outputs), client=client) is model
        assert_same_model(model, expected, 1e-4 if dtype == np.float32 else 1e-10)
        assert (model.solver_, model.n_iter_, model.alpha_) == ("cholesky", 0, 1.0)
        assert (model.n_features_in_, model.n_outputs_) == (20, 150)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("compression", "dtype"), [("head_tail", np.float32), ("gaussian", np.float64), (None, np.float32)]
)
@pytest.mark.parametrize("convert", KINDS)
def test_gradients_give_the_model_of_fit(client, convert, compression, dtype, fit_intercept):
    options = {"compression": compression, "dtype": dtype, "fit_intercept": fit_intercept, "solver": "cg"}
    options["solver_tol"] = 1e-6
    model = fit(regressor(**options), lazy(convert(X)), lazy(Y), client=client)
    assert_same_model(model, fitted(convert(X), **options), 1e-4)
    assert model.solver_ == "cg"
    assert model.n_iter_ > 3


def test_blocks_of_enormous_outputs_pick_the_heads_of_fit(client):
    """Squares of numbers past 2**256 are scaled, in every block and batch by another power of 2."""
    rows, outputs = long_tailed()
    weak = sparse.csr_array(outputs[:, ::-1])  # the rare ones are the frequent ones there
    outputs = sparse.vstack([1e120 * outputs.astype(np.float64)[:450], 1e90 * weak.astype(np.float64)[450:]], "csr")
    options = {"compression": "head_tail", "dtype": np.float64, "solver": "cholesky"}
    expected = fitted(rows, outputs, **options)
    assert set(expected.compression_.head_outputs[:5]) < set(range(10))
    assert_same_model(fit(regressor(**options), lazy(rows), lazy(outputs), client=client), expected, 1e-10)
    batches = zip(cut(rows, (0, 450, 900)), cut(outputs, (0, 450, 900)), strict=True)
    assert_same_model(regressor(**options).fit_batches(batches), expected, 1e-10)


def test_columns_in_blocks_are_all_columns(client, monkeypatch):
    options = {"solver": "cg", "solver_tol": 1e-10, "dtype": np.float64}
    whole = fit(regressor(**options), lazy(X), lazy(Y), client=client)
    monkeypatch.setattr("shore.distributed.cg._STEP_BYTES", 20 * 8 * 20)  # 20 of 48 columns at a time
    parts = fit(regressor(**options), lazy(X), lazy(Y), client=client)
    assert_same_model(parts, whole, 1e-8)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_the_same_blocks_give_the_same_bits(client, solver):
    models = [fit(regressor(solver=solver), lazy(X), lazy(Y), client=client) for _ in range(2)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_dask_arrays_of_any_chunks(client):
    rows = da.from_array(X, chunks=((200, 0, 250, 1, 349, 100), 20))
    assert_same_model(
        fit(regressor(), rows, da.from_array(Y.toarray(), chunks=(170, -1)), client=client), fitted(), 1e-4
    )
    parts = [delayed(part) for part in cut(Y)]
    sparse_meta = sparse.csr_array((0, 0), dtype=Y.dtype)
    shapes = zip(parts, np.diff(CUTS), strict=True)
    outputs = da.concatenate([da.from_delayed(part, (int(n), 150), meta=sparse_meta) for part, n in shapes])
    assert_same_model(fit(regressor(), rows, outputs, client=client), fitted(), 1e-4)
    held = rows.persist()
    assert_same_model(fit(regressor(solver="cg"), held, outputs, client=client), fitted(solver="cg"), 1e-4)
    coarse = outputs.rechunk({0: 450})
    assert_same_model(fit(regressor(), rows, coarse, client=client), fitted(), 1e-4)
    unknown = [
        da.concatenate([da.from_delayed(part, (np.nan, width), meta=meta) for part in lazy(given)])
        for given, width, meta in ((X, 20, X[:0]), (Y, 150, sparse_meta))
    ]
    assert_same_model(fit(regressor(), *unknown, client=client), fitted(), 1e-4)


def test_lists_of_pairs_and_of_futures(client):
    pairs = [delayed(pair) for pair in zip(cut(X), cut(Y), strict=True)]
    assert_same_model(fit(regressor(), pairs, client=client), fitted(), 1e-4)
    futures = client.scatter(cut(sparse.csr_array(X)), hash=False), client.scatter(cut(Y), hash=False)
    for solver in ("cholesky", "cg"):
        model = fit(regressor(solver=solver), *futures, client=client)
        assert_same_model(model, fitted(sparse.csr_array(X), solver=solver), 1e-4)


def test_dense_and_sparse_blocks_may_mix(client):
    mixed = [delayed(sparse.csr_array(part) if i % 2 else part) for i, part in enumerate(cut(X + 5))]
    for solver in ("cholesky", "cg"):
        options = {"solver": solver, "fit_intercept": True, "dtype": np.float64, "solver_tol": 1e-8}
        assert_same_model(fit(regressor(**options), mixed, lazy(Y), client=client), fitted(X + 5, **options), 1e-6)


def test_the_current_client_is_the_default(client):
    assert_same_model(fit(regressor(), lazy(X), lazy(Y)), fitted(), 1e-4)


def test_a_fitted_model_is_saved_and_refitted(client, tmp_path):
    model = fit(regressor(), lazy(X), lazy(Y), client=client)
    model.save(tmp_path / "m.shore")
    np.testing.assert_array_equal(shore.load(tmp_path / "m.shore").coef_, model.coef_)
    assert_same_model(model.partial_fit(X, Y), fitted(), 1e-4)


# ---------------------------------------------------------------- rounding


def test_sums_are_made_again_in_float64_where_float32_is_not_enough(client, monkeypatch):
    rng = np.random.default_rng(0)
    steep = (rng.normal(size=(900, 20)) * np.logspace(0, -3.5, 20)).astype(np.float32)
    kinds = []
    original = solvers.solve_normal_equations
    monkeypatch.setattr(
        solvers, "solve_normal_equations", lambda *given: [kinds.append(np.dtype(given[-1])), original(*given)][1]
    )
    options = {"alpha": 1e-4, "compression": "gaussian"}
    model = fit(regressor(**options), lazy(steep), lazy(Y), client=client)
    assert kinds == [np.float32, np.float64]
    exact = fitted(steep.astype(np.float64), **options, dtype=np.float64)
    scale = np.abs(exact.coef_).max(axis=0)
    assert (np.abs(model.coef_ - exact.coef_) / scale).max() < 1e-4
    kinds.clear()
    fit(regressor(), lazy(X - X.mean(axis=0)), lazy(Y), client=client)
    assert kinds == [np.float32]


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_a_mean_far_from_0_costs_no_digits(client, solver):
    options = {"fit_intercept": True, "solver": solver, "solver_tol": 1e-6}
    model = fit(regressor(**options), lazy(X + np.float32(1000)), lazy(Y), client=client)
    exact = fitted(X.astype(np.float64), fit_intercept=True, dtype=np.float64)
    scale = np.abs(exact.coef_).max()
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0, atol=1e-3 * scale)  # X itself is rounded to 1e-4


def test_alpha_0_of_singular_rows_is_the_solution_of_minimum_norm(client):
    double = np.hstack([X, X])
    options = {"alpha": 0.0, "dtype": np.float64}
    with pytest.warns(LinAlgWarning, match="X has rank 20 of 40"):
        expected = fitted(double, **options, solver="cholesky")
    with pytest.warns(LinAlgWarning, match="X has rank 20 of 40"):
        model = fit(regressor(**options, solver="cholesky"), lazy(double), lazy(Y), client=client)
    assert_same_model(model, expected, 1e-7)


# ---------------------------------------------------------------- what is sent, and what runs


def count_rebuilt(reset):
    """Count on a worker how often a Φ is made of its specification."""
    from shore.compression import base

    if reset:
        original = getattr(base.rebuild, "original", base.rebuild)

        def rebuild(*given):
            rebuild.count += 1
            return original(*given)

        rebuild.count, rebuild.original = 0, original
        rebuild.__module__, rebuild.__qualname__ = original.__module__, original.__qualname__
        base.rebuild = rebuild
    return base.rebuild.count


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("seeded", [True, False])
def test_phi_is_made_once_a_worker_and_in_no_task(client, monkeypatch, seeded, solver):
    phi = shore.GaussianCompression(48, 20_000)  # 3.8 MB
    if not seeded:
        phi = shore.MatrixCompression(phi.toarray())
    wide = sparse.csr_array((Y.data, Y.indices, Y.indptr), shape=(900, 20_000))
    blocks = client.scatter(cut(X), hash=False), client.scatter(cut(wide), hash=False)
    sizes = []
    submit = type(client)._graph_to_futures

    def record(self, expr, *given, **options):
        sizes.append(len(cloudpickle.dumps(expr)))
        return submit(self, expr, *given, **options)

    monkeypatch.setattr(type(client), "_graph_to_futures", record)
    client.run(count_rebuilt, True)
    options = {"compression": phi, "solver": solver, "solver_tol": 1e-6}
    model = fit(regressor(**options), *blocks, client=client)
    monkeypatch.undo()
    assert_same_model(model, fitted(X, wide, **options), 1e-4)
    assert len(sizes) >= 2
    assert max(sizes) < 100_000 < len(pickle.dumps(phi._columns))
    if seeded:
        counts = client.run(count_rebuilt, False)
        assert max(counts.values()) == 1


def test_threads_do_not_multiply(monkeypatch):
    """Three tasks at once in one process, each on one thread, and BLAS too; afterwards it has its own again."""

    def blas_threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen, before = [], blas_threads()
    gram, predict = solvers.gram, shore.ShoreRegressor.predict

    def spying_gram(rows, n_threads, *given):
        seen.append([n_threads, *blas_threads()])
        return gram(rows, n_threads, *given)

    def spying_predict(self, rows, *, n_threads=None, **options):
        seen.append([n_threads, *blas_threads()])
        return predict(self, rows, n_threads=n_threads, **options)

    monkeypatch.setattr(solvers, "gram", spying_gram)
    monkeypatch.setattr(shore.ShoreRegressor, "predict", spying_predict)
    with Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address=":0") as client:
        cuts = range(0, 901, 50)
        model = fit(regressor(), lazy(X, cuts), lazy(Y, cuts), client=client)
        assert len(seen) == 18
        found = shore.distributed.predict(model, lazy(X, cuts), client=client)
        client.gather(client.compute(found))
    assert len(seen) == 36
    assert {n for counts in seen for n in counts} == {1}
    assert blas_threads() == before


def test_progress_is_dask_s_own(client, capsys):
    fit(regressor(verbose=1), lazy(X), lazy(Y), client=client)
    assert "Completed" in capsys.readouterr().out


# ---------------------------------------------------------------- the route


CLUSTER = {"n_blocks": 100, "n_threads": 8, "threads_at_once": 2, "memory": [16e9] * 4}


@pytest.mark.parametrize(
    ("facts", "m", "alpha", "changed", "route"),
    [
        (Facts(2_000_000, 1000, 10_000, None), 500, 1.0, {}, "cholesky"),
        (Facts(2_000_000, 20_000, 10_000, 40_000_000), 1000, 1.0, {"memory": [256e9]}, "cholesky"),
        (Facts(2_000_000, 20_000, 10_000, 40_000_000), 1000, 1.0, {}, "cg"),  # sums do not fit
        (Facts(2_000_000, 500_000, 10_000, 200_000_000), 1000, 1.0, {}, "cg"),
        (Facts(10_000, 10_000, 10_000, 500_000), 200, 1.0, {"memory": [256e9]}, "cg"),  # cheap products
        (Facts(10_000, 10_000, 10_000, 500_000), 200, 0.0, {"memory": [256e9]}, "cholesky"),  # many steps without alpha
    ],
)
def test_auto_picks_by_cost_and_memory(facts, m, alpha, changed, route, monkeypatch):
    monkeypatch.setattr(solvers, "memory", lambda: 256e9)
    assert choose_route(facts, m, alpha, **{**CLUSTER, **changed}) == route


def test_auto_is_what_fit_uses(client, monkeypatch):
    assert fit(regressor(), lazy(X), lazy(Y), client=client).solver_ == "cholesky"
    monkeypatch.setattr("shore.distributed.training.memory_limits", lambda client: [1e4, 1e4])
    assert fit(regressor(), lazy(X), lazy(Y), client=client).solver_ == "cg"


# ---------------------------------------------------------------- bad input


def nan_in_the_fourth(matrix):
    parts = [part.copy() for part in cut(matrix)]
    (parts[4].data if sparse.issparse(matrix) else parts[4].reshape(-1))[7] = np.nan
    return [delayed(part) for part in parts]


@pytest.mark.parametrize(
    ("rows", "outputs", "error", "message"),
    [
        (X, Y, TypeError, r"Dask arrays, lists .* there is ShoreRegressor\.fit\. Got X of type ndarray"),
        (lazy(X), Y, TypeError, "Y must be a list of delayed values or futures, got csr_array"),
        (lazy(X), lazy(Y)[:-1], ValueError, "the same number of blocks, got 6 and 5"),
        (lazy(X), None, TypeError, r"block \d: without Y a block must be a pair \(X, Y\), got ndarray"),
        ([], [], ValueError, "X has no blocks"),
        (cut(X), cut(Y), TypeError, "X must be a list of delayed values or futures, but its item 0 is a ndarray"),
        (lazy(X)[::-1], lazy(Y), ValueError, r"block \d: X and Y must have the same number of rows, got \d+ and \d+"),
        (lazy(X), [*lazy(Y)[:-1], delayed(Y[800:, :9])], ValueError, r"Y must have the same number .* got \[9, 150\]"),
        ([*lazy(X)[:4], delayed(X[451:800, :9]), *lazy(X)[5:]], lazy(Y), ValueError,
         "block 4: X has 9 columns, and other blocks have 20"),
        (nan_in_the_fourth(X), lazy(Y), ValueError, "block 4: X must be finite"),
        (lazy(X), nan_in_the_fourth(Y), ValueError, "block 4: Y must be finite"),
        (lazy(X[:, :0]), lazy(Y), ValueError, r"X has 0 column\(s\)"),
        (lazy(X[:0]), lazy(Y[:0]), ValueError, r"X has 0 sample\(s\)"),
        (lazy(X.astype(str)), lazy(Y), TypeError, r"block \d: X must hold real numbers"),
        (da.from_array(X, chunks=(300, 10)), da.zeros((900, 150)), ValueError, r"call X\.rechunk\(\{1: -1\}\) first"),
        (da.from_array(X), Y, TypeError, "Y must be a Dask array as X is, got csr_array"),
        (da.from_array(X), da.zeros((90, 150)), ValueError, "same number of rows, got 900 and 90"),
        (da.from_array(X[0]), da.zeros((900, 150)), ValueError, "X must be 2-D"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_bad_rows_are_refused(client, rows, outputs, error, message, solver):
    model = fitted()
    before = model.coef_.copy()
    model.set_params(solver=solver)
    with pytest.raises(error, match=message):
        fit(model, rows, outputs, client=client)
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": "auto"}, "alpha='auto' needs all rows in one place"),
        ({"solver": "dual"}, "solver='dual' needs all rows in one place: use 'cholesky', 'cg' or 'auto'"),
        ({"compression": shore.SparseSignCompression(48, 99)}, "compression is for 99 outputs, but Y has 150"),
        ({"compression": "none"}, "compression must be 'sparse_sign', 'head_tail', 'gaussian', a compression or None"),
        ({"sparsity": 0}, "sparsity must be a positive integer"),
    ],
)
def test_bad_parameters_are_refused(client, options, message):
    with pytest.raises(ValueError, match=message):
        fit(regressor(**options), lazy(X), lazy(Y), client=client)


def test_bad_models_and_clients_are_refused():
    with pytest.raises(TypeError, match="model must be a ShoreRegressor, got str"):
        fit("model", lazy(X), lazy(Y))
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got 'tcp"):
        fit(regressor(), lazy(X), lazy(Y), client="tcp://127.0.0.1:8786")
