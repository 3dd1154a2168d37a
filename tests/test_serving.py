"""One row at a time, from many threads, and in forked and spawned processes."""

import contextlib
import functools
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

import shore
from shore._core.decode import METHODS, RowDecoder
from shore._core.linear import RowTimes
from shore._core.projection import RowProjector
from shore._core.serve import RowPredictor
from shore.constraints import feasible_set
from shore.datasets import make_synthetic

# From Python 3.12 on, for the processes of these tests: with OpenMP's threads, every one is multi-threaded.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# Seconds after which something hangs.
PATIENCE = 60

DATA = make_synthetic(300, 20, 150, sparsity=3, snr_db=30, seed=1)
X, Y = DATA.X * (np.random.default_rng(0).random(DATA.X.shape) < 0.4), DATA.Y
ROWS = sparse.csr_array(X)

CONSTRAINTS = ("real", "nonneg", "binary", shore.Box(-1.0, 2.0), shore.Simplex(3.0))
KINDS = [*itertools.product(["sparse_sign", "head_tail", "gaussian"], ["pgd", "cd", "omp", "fista"]), (None, "pgd")]


def fitted(**options):
    return shore.ShoreRegressor(3, **{"n_components": 64, "n_threads": 1, **options}).fit(X, Y)


@functools.cache
def fitted_bytes(compression, dtype, fit_intercept):
    return pickle.dumps(fitted(compression=compression, dtype=dtype, fit_intercept=fit_intercept))


def models(compression, dtype, fit_intercepts=(False, True), **options):
    """One for every constraint, with and without intercept."""
    for constraint, fit_intercept in itertools.product(CONSTRAINTS, fit_intercepts):
        model = pickle.loads(fitted_bytes(compression, dtype, fit_intercept))
        yield model.set_params(constraint=constraint, **options)


def sparse_row(rows, i):
    here = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[here], rows.data[here]


def same_bits(found, expected):
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


def assert_serves(predictor, model, n=30):
    """Row by row what the model predicts, from sparse and from dense rows."""
    for given, call in ((ROWS[:n], lambda i: predictor(*sparse_row(ROWS, i))), (X[:n], lambda i: predictor(X[i]))):
        expected = model.predict(given)
        for i in range(n):
            assert same_bits(call(i), sparse_row(expected, i)), f"row {i}"


# ---------------------------------------------------------------- the bits of predict


@pytest.mark.parametrize(("compression", "decoder"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_those_of_predict(compression, dtype, decoder):
    for model in models(compression, dtype, decoder=decoder):
        assert_serves(model.predictor(), model)


@pytest.mark.parametrize("options", [
    {"tol": 0.0, "max_iter": 7}, {"step": 5.0}, {"sparsity": 1}, {"sparsity": 10**9}, {"n_components": 3},
    {"compression": None, "sparsity": 10**9, "constraint": "real"}, {"n_components": 2500}, {"decode_sparsity": 9},
])  # fmt: skip
def test_options_are_those_of_the_model(options):
    model = shore.ShoreRegressor(**{"sparsity": 3, "n_components": 64, "n_threads": 1, **options}).fit(X, Y)
    assert_serves(model.predictor(), model, 10)


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32)])
def test_w_and_phi_of_different_dtypes(dtypes):
    model = fitted(dtype=dtypes[0], compression=shore.SparseSignCompression(64, 150, dtype=dtypes[1]))
    assert_serves(model.predictor(), model)


def test_partial_fit_is_solved_for():
    model = shore.ShoreRegressor(3, n_components=64).partial_fit(X, Y)
    assert_serves(model.predictor(), model)


def test_w_may_be_read_only():
    model = fitted(fit_intercept=True)
    for array in (model._feature_major, model._intercept):
        array.flags.writeable = False
    assert_serves(model.predictor(), model)


def test_half_precision_of_w_does_not_bound_the_constraint(tmp_path):
    fitted(constraint=shore.Simplex(1e5)).save(tmp_path / "m.shore", weights="float16")  # past the range of float16
    model = shore.load(tmp_path / "m.shore")
    assert_serves(model.predictor(), model)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_every_kind(dtype):
    model = fitted(dtype=dtype)
    predictor = model.predictor()
    indices, values = sparse_row(ROWS, 0)
    whole = np.round(8 * values)  # exact in all dtypes
    dense = np.zeros(20)
    dense[indices] = whole
    by_index = sparse_row(model.predict(sparse.csr_array(dense[None])), 0)
    by_feature = sparse_row(model.predict(dense[None]), 0)
    for kind in (np.int32, np.int64, np.longlong, np.int8, np.uint64, ">i4", list):
        for real in (np.float32, np.float64, np.float16, np.longdouble, np.int64, np.int8, ">f8", list):
            given = [a.tolist() if t is list else np.asarray(a).astype(t) for a, t in ((indices, kind), (whole, real))]
            assert same_bits(predictor(*given), by_index), (kind, real)
            row = dense.tolist() if real is list else dense.astype(real)
            assert same_bits(predictor(row), by_feature), real
    strided = [np.repeat(a, 2)[::2] for a in (indices, whole, dense)]
    assert same_bits(predictor(*strided[:2]), by_index)
    assert same_bits(predictor(strided[2]), by_feature)
    for a in (indices, whole, dense):
        a.flags.writeable = False
    assert same_bits(predictor(indices, whole), by_index)
    assert same_bits(predictor(dense), by_feature)
    unaligned = np.frombuffer(b"x" + dense.tobytes(), dtype=np.float64, offset=1)
    assert same_bits(predictor(unaligned), by_feature)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_of_the_other_dtype_are_rounded_as_predict_rounds_them(dtype):
    model = fitted(dtype=dtype)
    predictor = model.predictor()
    other = np.float64 if dtype == np.float32 else np.float32
    rows = ROWS.astype(other) / other(3)
    expected, expected_dense = model.predict(rows), model.predict(rows.toarray())
    for i in range(30):
        assert same_bits(predictor(*sparse_row(rows, i)), sparse_row(expected, i))
        assert same_bits(predictor(rows.toarray()[i]), sparse_row(expected_dense, i))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unsorted_and_repeated_indices_are_added_up(dtype):
    model = fitted(dtype=np.float64)
    predictor = model.predictor()
    rng = np.random.default_rng(0)
    for n in (1, 7, 50, 2000):  # more than there are features, and than a workspace has room for
        indices, values = rng.integers(0, 20, n), rng.standard_normal(n).astype(dtype)
        row = sparse.csr_array((values.astype(np.float64), (np.zeros(n, int), indices)), shape=(1, 20))
        expected = model.predict(row)
        found = predictor(indices, values)
        np.testing.assert_array_equal(found[0], expected.indices)
        np.testing.assert_allclose(found[1], expected.data, rtol=1e-8)


def test_an_empty_row_is_a_row_of_zeros():
    for options in ({}, {"fit_intercept": True}, {"compression": None, "constraint": shore.Simplex(1.0)}):
        model = fitted(**options)
        expected = sparse_row(model.predict(sparse.csr_array((1, 20), dtype=np.float32)), 0)
        for indices in ([], np.empty(0, np.int32), np.empty(0, np.int64)):
            for values in ([], np.empty(0, np.float32)):
                assert same_bits(model.predictor()(indices, values), expected)


def test_indices_past_int32_are_int64():
    W = np.ones((2, 4), dtype=np.float32)
    for n_outputs, dtype in ((2**31 - 1, np.int32), (2**31, np.int64)):
        projector = RowProjector(feasible_set("real", None, None, (1, 4), W.dtype), 4, 4, False)
        found = RowPredictor(RowTimes(W), np.arange(4, dtype=np.float32), projector, n_outputs, 4)(np.ones(2))
        assert found[0].dtype == dtype
        assert (found[0].tolist(), found[1].tolist()) == ([0, 1, 2, 3], [2, 3, 4, 5])


# ---------------------------------------------------------------- what is checked


@pytest.mark.parametrize("bad", [-1, 20, 2**31 - 1, -(2**31), 2**40, -(2**62)])
@pytest.mark.parametrize("where", [0, 3, 6])
def test_an_index_out_of_range_is_refused(bad, where):
    model = fitted()
    predictor = model.predictor()
    for dtype in (np.int32, np.int64):
        if not np.iinfo(dtype).min <= bad <= np.iinfo(dtype).max:
            continue
        indices = np.arange(7, dtype=dtype)
        indices[where] = bad
        for values in (np.ones(7, np.float32), np.ones(7), [1] * 7):
            with pytest.raises(ValueError, match=rf"indices must be from 0 to 19, got {bad}"):
                predictor(indices, values)
    assert_serves(predictor, model, 5)


@pytest.mark.parametrize("bad", [20, 2**63 - 1, 2**63, 2**64 - 1])
def test_an_unsigned_index_out_of_range_is_reported_as_it_is(bad):
    with pytest.raises(ValueError, match=rf"indices must be from 0 to 19, got {bad}$"):
        fitted().predictor()(np.array([3, bad], dtype=np.uint64), np.ones(2))


@pytest.mark.parametrize(("given", "error", "match"), [
    ((np.arange(3), np.ones(2)), ValueError, "same length, got 3 and 2"),
    ((np.arange(3), np.ones(4, np.float32)), ValueError, "same length, got 3 and 4"),
    ((np.ones(19),), ValueError, "dense_row must have 20 numbers, one per feature, got 19"),
    ((np.ones(21, np.float32),), ValueError, "dense_row must have 20 numbers"),
    ((np.ones((1, 20)),), ValueError, r"dense_row must be 1-D, got shape \(1, 20\)"),
    ((ROWS[:1],), ValueError, r"a sparse row is given as predictor\(row.indices, row.data\)"),
    ((1.0,), ValueError, "dense_row must be 1-D"),
    ((np.arange(4).reshape(2, 2), np.ones(4)), ValueError, "indices must be 1-D"),
    ((np.arange(4), np.ones((2, 2))), ValueError, "values must be 1-D"),
    ((np.ones(3), np.ones(3)), TypeError, "indices must hold integers, got dtype float64"),
    ((np.ones(3, bool), np.ones(3)), TypeError, "indices must hold integers, got dtype bool"),
    ((np.arange(3), np.ones(3, complex)), TypeError, "values must hold real numbers"),
    ((["a"] * 20,), TypeError, "dense_row must hold real numbers"),
    ((np.ma.masked_equal(np.ones(20), 1),), TypeError, "dense_row is a masked array"),
    ((), TypeError, "argument"),
])  # fmt: skip
def test_what_is_no_row_is_refused(given, error, match):
    with pytest.raises(error, match=match):
        fitted().predictor()(*given)


@pytest.mark.parametrize(("compression", "decoder"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_not_finite_come_out_empty(compression, dtype, decoder):
    for model in models(compression, dtype, (False,), decoder=decoder):
        predictor = model.predictor()
        largest = np.finfo(dtype).max
        for bad in (np.nan, np.inf, -np.inf, largest):
            for given in ((np.array([2, 5]), np.array([1, bad], dtype)), (np.full(20, bad, dtype),)):
                assert [len(part) for part in predictor(*given)] == [0, 0], (model, bad)
        if dtype == np.float32:
            assert [len(part) for part in predictor([2, 5], np.array([1, 1e300]))] == [0, 0]
        assert_serves(predictor, model, 5)


def test_the_number_of_threads_is_checked():
    model = fitted()
    for n_threads in (1, 2, None):
        assert_serves(model.predictor(n_threads=n_threads), model, 3)
    with pytest.raises(ValueError, match="n_threads"):
        model.predictor(0)
    with pytest.raises(TypeError, match="n_threads"):
        model.predictor("1")


def test_a_predictor_needs_a_fitted_model_with_sound_parameters():
    with pytest.raises(shore.NotFittedError):
        shore.ShoreRegressor().predictor()
    for name, value in (("sparsity", 0), ("step", -1.0), ("decoder", "none"), ("constraint", "any")):
        with pytest.raises(ValueError, match=name):
            fitted().set_params(**{name: value}).predictor()


W = np.ones((3, 4), dtype=np.float32)
FOUR = np.ones(4, dtype=np.float32)


@pytest.mark.parametrize(("changed", "error", "match"), [
    ({"compression": shore.SparseSignCompression(3_000_000, 50)}, ValueError, "compression must have n_components=4"),
    ({"compression": shore.GaussianCompression(3, 50)}, ValueError, "compression must have n_components=4"),
    ({"compression": shore.MatrixCompression(np.ones((5, 50)))}, ValueError, "compression must have n_components=4"),
    ({"compression": np.ones((4, 50))}, TypeError, "compression must be a compression or None"),
    ({"intercept": np.ones(3)}, ValueError, r"intercept must have shape \(4,\).*got \(3,\)"),
    ({"intercept": np.ones(4, dtype=int)}, TypeError, "intercept must be an array of float32 or float64, got int64"),
    ({"intercept": None}, TypeError, "intercept must be an array"),
    ({"weights": np.ones(4)}, ValueError, r"weights must have shape \(d, m\), got \(4,\)"),
    ({"weights": np.ones((0, 4))}, ValueError, r"weights must have shape \(d, m\), got \(0, 4\)"),
    ({"weights": np.ones((3, 4), dtype=complex)}, TypeError, "weights must be an array of float16 or float32 or"),
    ({"weights": [[1.0]]}, TypeError, "weights must be an array"),
    ({"options": None}, TypeError, "options must be DecodeOptions"),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(changed, error, match):
    options = fitted()._decode_options(np.dtype(np.float32))
    parts = {"weights": W, "intercept": FOUR, "compression": shore.GaussianCompression(4, 50), "sparsity": 2}
    parts |= {"constraint": "real", "options": options}
    assert len(shore.Predictor(**parts)(np.ones(3))[0]) <= 2
    with pytest.raises(error, match=match):
        shore.Predictor(**(parts | changed))


def test_an_engine_of_other_sizes_is_refused():
    feasible = feasible_set("real", None, None, (1, 5), W.dtype)
    for width, keep, match in ((5, 2, "rows of 5 numbers, but W has 4"), (4, 3, "keeps 3 entries, but sparsity is 2")):
        with pytest.raises(ValueError, match=match):
            RowPredictor(RowTimes(W), FOUR, RowProjector(feasible, width, keep, False), width, 2)
    with pytest.raises(ValueError, match="keep must be from 1 to sparsity=2, got 3"):
        RowDecoder(METHODS["pgd"], shore.GaussianCompression(4, 5)._phi, feasible, 2, 3, 0.9, 60, 1e-3, 0.1)


# ---------------------------------------------------------------- a snapshot


def test_later_fits_do_not_reach_a_predictor():
    model = fitted()
    before, predictor = pickle.loads(pickle.dumps(model)), model.predictor()
    model.set_params(sparsity=1, constraint="real", decoder="cd").fit(X[::-1], Y)
    assert_serves(predictor, before)
    assert_serves(model.predictor(), model)


def test_predictors_outlive_their_model():
    model = fitted(fit_intercept=True)
    before = pickle.loads(pickle.dumps(model))
    predictors = [model.predictor() for _ in range(20)]
    del model
    gc.collect()
    junk = [np.full((20, 64), np.nan, np.float32) for _ in range(50)]  # where W lay, had it been freed
    for predictor in predictors:
        assert_serves(predictor, before, 5)
    assert len(junk) == 50


@pytest.mark.parametrize("compression", ["sparse_sign", "gaussian", None])
def test_a_predictor_can_be_pickled(compression):
    model = fitted(compression=compression)
    predictor = pickle.loads(pickle.dumps(model.predictor()))
    assert isinstance(predictor, shore.Predictor)
    assert_serves(predictor, model)


def test_repr_says_what_it_serves():
    assert repr(fitted().predictor()) == (
        "<Predictor: d=20, K=150, m=64, decoder='pgd', sparsity=3, constraint='nonneg', float32>"
    )
    assert repr(fitted(compression=None).predictor()) == (
        "<Predictor: d=20, K=150, uncompressed, sparsity=3, constraint='nonneg', float32>"
    )


def test_results_belong_to_the_caller():
    model = fitted()
    predictor = model.predictor()
    first = predictor(X[0])
    kept = [part.copy() for part in first]
    predictor(X[1])
    assert same_bits(first, kept)
    for part in first:
        part[:] = 0
    assert_serves(predictor, model, 3)


def test_a_warm_call_makes_no_workspace():
    import tracemalloc

    model = shore.ShoreRegressor(3, n_components=64, dtype=np.float64).fit(X, Y)
    predictor = model.predictor()
    row, other = X[0].astype(np.float64), X[0].astype(np.float32)
    for given in (row, other):
        predictor(given)
    peaks = []
    for _ in range(5):  # threads that other tests left behind may allocate meanwhile
        tracemalloc.start()
        try:
            for _ in range(20):
                predictor(row)
                predictor(other)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < 2000  # a workspace is more


# ---------------------------------------------------------------- threads


def at_once(calls):
    """What the calls give, each on a thread of its own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(call) for call in calls]]


@pytest.mark.parametrize("compression", ["sparse_sign", "gaussian", None])
def test_threads_on_one_model_and_one_predictor(compression):
    model = fitted(compression=compression, fit_intercept=True)
    predictor = model.predictor()

    def everything(n_threads=None):
        return (
            pickle.dumps(model.predict(ROWS, n_threads=n_threads)),
            pickle.dumps(model.predict(X, n_threads=n_threads)),
            pickle.dumps(model.predict_compressed(ROWS, n_threads=n_threads)),
            pickle.dumps(model.explain(ROWS[:20]).to_dict()),
            pickle.dumps([predictor(*sparse_row(ROWS, i)) for i in range(300)]),
            pickle.dumps([predictor(x) for x in X]),
        )

    serial = everything(1)
    for n_threads in (1, 2, None):
        for found in at_once([lambda n=n_threads: [everything(n) for _ in range(3)]] * 4):
            assert all(parts == serial for parts in found)


def test_a_model_is_refitted_while_its_predictor_serves():
    model = fitted()
    predictor = model.predictor()
    expected = pickle.dumps([predictor(*sparse_row(ROWS, i)) for i in range(300)])
    over = threading.Event()

    def serve():
        rounds = 0
        while not over.is_set() or rounds == 0:
            assert pickle.dumps([predictor(*sparse_row(ROWS, i)) for i in range(300)]) == expected
            rounds += 1

    def refit():
        try:
            for seed in range(10):
                model.set_params(random_state=seed).fit(X[seed:], Y[seed:])
                assert_serves(model.predictor(), model, 3)
        finally:
            over.set()

    at_once([serve, serve, refit])


# ---------------------------------------------------------------- processes


@contextlib.contextmanager
def forked(work):
    """A child that runs work(connection), and is ended when it takes too long."""
    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            work(theirs)
        except BaseException:
            theirs.send(traceback.format_exc())
        finally:
            os._exit(0)
    theirs.close()
    try:
        yield ours
        assert os.waitpid(child, 0)[1] == 0  # the alarm sees to it that this ends
        child = None
    finally:
        ours.close()
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def answer(connection):
    assert connection.poll(PATIENCE), "no answer"
    return connection.recv()


def serves(model, predictor):
    """Whatever a model does in stage 2, as bytes, and how many threads it ran on at most."""
    threads = shore._core.threads.resolve_n_threads(2)
    found = (
        model.predict(ROWS, n_threads=2),
        model.predict(X),
        model.predict_compressed(X, n_threads=2),
        model.explain(ROWS[:5]).to_dict(),
        [predictor(*sparse_row(ROWS, i)) for i in range(50)],
    )
    return threads, [pickle.dumps(part) for part in found]


@needs_fork
@pytest.mark.parametrize("compression", ["sparse_sign", "gaussian", None])
def test_a_forked_child_goes_on_with_the_model(compression):
    model = fitted(compression=compression)
    predictor = model.predictor()
    expected = serves(model, predictor)[1]
    for _ in range(3):
        with forked(lambda connection: connection.send(serves(model, predictor))) as child:
            assert answer(child) == (1, expected)
    assert serves(model, predictor)[1] == expected


@needs_fork
def test_a_child_of_a_child_and_a_fit_in_a_child():
    model = fitted()
    predictor = model.predictor()
    expected = serves(model, predictor)[1]

    def fit_again(connection):
        again = fitted()
        connection.send(serves(again, again.predictor()))

    def fork_again(connection):
        with forked(fit_again) as child:
            connection.send(answer(child))

    with forked(fork_again) as child:
        assert answer(child) == (1, expected)


@needs_fork
def test_fork_while_other_threads_predict():
    model = fitted()
    predictor = model.predictor()
    expected = serves(model, predictor)[1]
    over = threading.Event()

    def keep_busy():
        while not over.is_set():
            assert serves(model, predictor)[1] == expected

    with ThreadPoolExecutor(3) as pool:
        busy = [pool.submit(keep_busy) for _ in range(3)]
        try:
            for _ in range(10):
                time.sleep(0.01)
                with forked(lambda connection: connection.send(serves(model, predictor))) as child:
                    assert answer(child) == (1, expected)
        finally:
            over.set()
        for future in busy:
            future.result(PATIENCE)


@needs_fork
def test_workers_forked_from_a_loaded_parent_serve_at_once():
    model = fitted(fit_intercept=True)
    predictor = model.predictor()
    expected = model.predict(ROWS)

    def work(connection):
        def loop():
            return [predictor(*sparse_row(ROWS, i)) for i in range(100)]

        in_threads = [pickle.dumps(found) for found in at_once([loop, loop])]
        connection.send(in_threads[0] == in_threads[1] == pickle.dumps(loop()))
        for i in iter(connection.recv, None):
            connection.send(predictor(*sparse_row(ROWS, i)))

    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(forked(work)) for _ in range(4)]
        for worker in workers:
            assert answer(worker) is True
        for start in range(0, 300, len(workers)):
            for i, worker in enumerate(workers):
                worker.send(start + i)
            for i, worker in enumerate(workers):
                assert same_bits(answer(worker), sparse_row(expected, start + i))
        for worker in workers:
            worker.send(None)


def serve_elsewhere(connection, model, predictor):
    connection.send(serves(model, predictor))
    connection.close()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_of_every_start_method(method):
    model = fitted()
    predictor = model.predictor()
    expected = serves(model, predictor)[1]
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_elsewhere, args=(theirs, model, predictor), daemon=True)
    process.start()
    try:
        theirs.close()
        threads, found = answer(ours)
        assert found == expected
        if method == "fork":
            assert threads == 1
        process.join(PATIENCE)
        assert process.exitcode == 0
    finally:
        if process.is_alive():
            process.kill()
        process.join(PATIENCE)
        process.close()
        ours.close()


@needs_fork
def test_parent_and_child_end_as_usual():
    code = """
import os, signal
import numpy as np, shore
signal.alarm(50)
X = np.random.default_rng(0).standard_normal((50, 5), dtype=np.float32)
model = shore.ShoreRegressor(2, n_components=20).fit(X, np.abs(X))
predictor = model.predictor()
expected = model.predict(X, n_threads=2)
child = os.fork()
signal.alarm(50)
assert (model.predict(X, n_threads=2) != expected).nnz == 0
assert predictor(X[0])[0].tolist() == expected[[0]].indices.tolist()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("done")
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
