"""fork at any moment, whatever other threads do: the child goes on, with the same bits, and ends."""

import random
import threading
import time

import pytest
from bits import bits
from forks import forked, needs_fork
from scipy import sparse

import shore
from shore._core import blas
from shore.datasets import make_synthetic

pytestmark = needs_fork

DATA = make_synthetic(300, 30, 200, sparsity=3)
X_CSR = sparse.csr_array(DATA.X * (abs(DATA.X) > 0.5))
MODEL = shore.ShoreRegressor(3, n_components=48, n_threads=2).fit(DATA.X, DATA.Y)
PREDICTOR = MODEL.predictor()
DENSE = shore.GaussianCompression(48, 200)


def fit(n_threads, solver="cholesky", rows=DATA.X):
    return shore.ShoreRegressor(3, n_components=48, solver=solver, n_threads=n_threads).fit(rows, DATA.Y)


@pytest.fixture
def busy(tmp_path):
    """Threads that keep doing something; they must not fail either."""
    over, errors, threads = threading.Event(), [], []

    def start(*calls):
        def work(call):
            try:
                while not over.is_set():
                    call()
            except BaseException as error:
                errors.append(error)
                raise

        threads.extend(threading.Thread(target=work, args=(call,)) for call in calls)
        for thread in threads:
            thread.start()

    yield start
    over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not errors


def work_of_threads(folder):
    path = folder / "m.shore"
    MODEL.save(path)
    return {
        "fit": lambda: fit(1),
        "fit CSR by cg": lambda: fit(2, "cg", X_CSR),
        "predict": lambda: MODEL.predict(DATA.X, n_threads=2),
        "predictor": lambda: [PREDICTOR(row) for row in DATA.X[:100]],
        "correlate": lambda: DENSE.correlate(DATA.X[:, :1] @ DENSE.toarray()[:1, :48], n_threads=1),
        "save": lambda: MODEL.save(path),
        "load": lambda: shore.load(path).predict(DATA.X[:5]),
    }


def in_child(path):
    expected = bits(MODEL.predict(DATA.X[:50])), bits(PREDICTOR(DATA.X[0])), bits(fit(1).coef_)

    def child():
        found = bits(MODEL.predict(DATA.X[:50], n_threads=2)), bits(PREDICTOR(DATA.X[0])), bits(fit(2).coef_)
        assert found == expected
        assert bits(shore.load(path).predict(DATA.X[:50])) == expected[0]

    return child


def test_while_other_threads_do_all_kinds_of_things(busy, tmp_path, deep, survived):
    calls = work_of_threads(tmp_path)
    child, draw = in_child(tmp_path / "m.shore"), random.Random(0)
    busy(*calls.values())
    rounds = 800 if deep else 40
    for _ in range(rounds):
        time.sleep(draw.uniform(0, 0.02))
        forked(child)
        survived("fork at random moments, while other threads work")


@pytest.mark.parametrize("name", ["fit", "fit CSR by cg", "predict", "save", "load"])
def test_while_other_threads_do_one_thing(name, busy, tmp_path, deep, survived):
    calls = work_of_threads(tmp_path)
    child, draw = in_child(tmp_path / "m.shore"), random.Random(name)
    busy(calls[name], calls[name])
    for _ in range(100 if deep else 6):
        time.sleep(draw.uniform(0, 0.01))
        forked(child)
        survived("fork at random moments, while other threads work")


def test_while_a_fit_of_another_thread_holds_blas(monkeypatch, tmp_path, survived):
    MODEL.save(tmp_path / "m.shore")
    child = in_child(tmp_path / "m.shore")
    inside, leave = threading.Event(), threading.Event()
    factorise = shore.solvers.direct.factorise

    def slow(*arguments):
        inside.set()
        assert leave.wait(60)
        return factorise(*arguments)

    monkeypatch.setattr("shore.solvers.direct.factorise", slow)
    thread = threading.Thread(target=fit, args=(1,))
    thread.start()
    try:
        assert inside.wait(60)
        assert blas._inside

        def look():
            assert not blas._inside  # the fit is not in this process
            monkeypatch.undo()
            child()

        forked(look)
    finally:
        leave.set()
        thread.join()
    survived("fork while another thread holds BLAS down")


def test_while_another_thread_has_the_lock_of_the_blas_limits(tmp_path, survived):
    MODEL.save(tmp_path / "m.shore")
    child = in_child(tmp_path / "m.shore")
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with blas._lock:
            inside.set()
            leave.wait(0.2)  # the fork waits for it: else BLAS might be in the midst of a change

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    forked(child)
    thread.join()
    survived("fork while another thread holds BLAS down")


def test_children_of_children(busy, tmp_path, deep, survived):
    calls = work_of_threads(tmp_path)
    child = in_child(tmp_path / "m.shore")
    busy(calls["predict"], calls["fit"])

    def fork_again(depth):
        child()
        if depth:
            forked(lambda: fork_again(depth - 1))
            child()

    for _ in range(10 if deep else 1):
        forked(lambda: fork_again(3))
        survived("fork in children of children", 4)


def test_a_child_with_threads_of_its_own(tmp_path, deep, survived):
    MODEL.save(tmp_path / "m.shore")
    child = in_child(tmp_path / "m.shore")

    def work():
        errors = []

        def guarded():
            try:
                child()
            except BaseException as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=guarded) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors

    for _ in range(20 if deep else 2):
        forked(work)
        survived("fork, and threads in the child")
