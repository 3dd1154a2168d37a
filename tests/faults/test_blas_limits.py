"""The number of threads of BLAS belongs to the whole process: calls hold it down together, and put it back."""

import inspect
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest
from forks import forked, needs_fork
from threadpoolctl import ThreadpoolController, threadpool_limits

import shore
from shore._core import blas
from shore._core.blas import limit_blas
from shore.datasets import make_synthetic

KIND = "limits of BLAS threads set and put back, at once or interrupted"

DATA = make_synthetic(200, 30, 100, sparsity=3)
PHI = shore.GaussianCompression(40, 100)
R = np.random.default_rng(0).standard_normal((30, 40)).astype(np.float32)


def blas_threads():
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


@pytest.fixture(autouse=True)
def as_before():
    """BLAS on four threads, as if there were as many cores, at the start and at the end of each test."""
    with threadpool_limits(4, "blas"):
        before = blas_threads()
        if set(before) != {4}:
            pytest.skip("the BLAS here does not take four threads")
        yield
        assert blas_threads() == before
    assert not blas._inside
    assert not blas._before


def everything(n_threads):
    """Whatever limits BLAS in a call."""
    for options in ({"solver": "cholesky"}, {"solver": "dual"}, {"solver": "cg"}, {"alpha": "auto"}):
        model = shore.ShoreRegressor(3, n_components=40, fit_intercept=True, n_threads=n_threads, **options)
        model.fit(DATA.X, DATA.Y)
    shore.ShoreRegressor(3, n_components=40, n_threads=n_threads).partial_fit(DATA.X, DATA.Y).predict(DATA.X[:3])
    PHI.correlate(R, n_threads=n_threads)


def test_calls_within_calls():
    with limit_blas(3):
        assert set(blas_threads()) == {3}
        with limit_blas(1):
            assert set(blas_threads()) == {1}
            with limit_blas(2):
                assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {3}


def test_a_limit_of_the_caller_holds_inside_and_stays(monkeypatch, survived):
    seen = []
    apply = blas._apply

    def spy():
        apply()
        seen.append(max(blas_threads()))

    monkeypatch.setattr(blas, "_apply", spy)
    with threadpool_limits(1, "blas"):
        everything(2)
        assert set(blas_threads()) == {1}
        assert set(seen) == {1}
    everything(2)
    assert 2 in seen
    survived(KIND, len(seen))


def test_threads_at_once_leave_it_as_it_was(deep, survived):
    """Also while they overlap in every order: the first in need not be the first out."""
    errors, done = [], []

    def work(seed):
        draw = random.Random(seed)
        try:
            for _ in range(200 if deep else 40):
                n_threads = draw.randint(1, 4)
                with limit_blas(n_threads):
                    time.sleep(draw.choice((0, 1e-4, 1e-3)))
                    assert max(blas_threads()) <= n_threads
                if draw.random() < 0.05:
                    everything(n_threads)
                done.append(1)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    survived(KIND, len(done))


def test_correlate_and_fit_from_two_threads_leave_it_as_it_was(deep, survived):
    rounds = 60 if deep else 15
    for _ in range(rounds):
        work = [
            threading.Thread(target=PHI.correlate, args=(R,), kwargs={"n_threads": 1}),
            threading.Thread(target=shore.ShoreRegressor(3, n_components=40, n_threads=2).fit, args=(DATA.X, DATA.Y)),
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert set(blas_threads()) == {4}
    survived(KIND, 2 * rounds)


def test_ctrl_c_at_any_line_leaves_it_as_it_was(survived):
    """A trace function interrupts at the k-th line or call, for every k.

    But not at lines with `with`: they are traced once more behind the block, where Python does not hear signals.
    """
    lines = inspect.getsource(blas).splitlines()

    def interrupted(k):
        left = k

        def trace(frame, event, argument):
            nonlocal left
            if frame.f_code.co_filename != blas.__file__:
                return None
            if event in ("line", "call") and not lines[frame.f_lineno - 1].lstrip().startswith("with"):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with limit_blas(3), limit_blas(2):
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    k = 1
    while interrupted(k):
        assert set(blas_threads()) == {4}, f"line {k}"
        assert not blas._inside, f"line {k}"
        k += 1
    assert k > 20
    survived(KIND, k - 1)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer")
def test_ctrl_c_at_random_moments_leaves_it_as_it_was(deep, survived):
    draw = random.Random(0)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    n = 0
    try:
        for _ in range(4000 if deep else 400):
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 2e-4))
                while True:
                    with limit_blas(1), limit_blas(2):
                        pass
            except KeyboardInterrupt:
                n += 1
            assert set(blas_threads()) == {4}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    survived(KIND, n)


class FakeBlas:
    """With a number for every thread that calls, as a BLAS on OpenMP has."""

    threading_layer = "openmp"

    def __init__(self):
        self.numbers = {}

    def get_num_threads(self):
        return self.numbers.get(threading.get_ident(), 8)

    def set_num_threads(self, n):
        self.numbers[threading.get_ident()] = n


def test_a_blas_with_a_number_for_every_thread(monkeypatch):
    fake = FakeBlas()
    monkeypatch.setattr(blas, "_libraries", lambda: [fake])
    entered, leave = threading.Event(), threading.Event()
    seen = []

    def other():
        with limit_blas(2):
            seen.append(fake.get_num_threads())
            entered.set()
            leave.wait()
            seen.append(fake.get_num_threads())
        seen.append(fake.get_num_threads())

    thread = threading.Thread(target=other)
    fake.set_num_threads(6)
    with limit_blas(3):
        thread.start()
        entered.wait()
        with limit_blas(5):
            assert fake.get_num_threads() == 3
        assert fake.get_num_threads() == 3
    assert fake.get_num_threads() == 6
    leave.set()
    thread.join()
    assert seen == [2, 2, 8]


@needs_fork
def test_a_child_finds_it_as_it_was_before_the_calls_of_other_threads(deep, survived):
    over = threading.Event()

    def hold():
        while not over.is_set():
            with limit_blas(1):
                time.sleep(1e-4)

    def look():
        assert set(blas_threads()) == {4}
        with limit_blas(1):
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {4}

    holders = [threading.Thread(target=hold) for _ in range(3)]
    for thread in holders:
        thread.start()
    rounds = 100 if deep else 15
    try:
        for _ in range(rounds):
            forked(look)
    finally:
        over.set()
        for thread in holders:
            thread.join()
    survived("fork while another thread holds BLAS down", rounds)


@needs_fork
def test_a_child_that_is_forked_inside_goes_on_with_its_own_limit():
    with limit_blas(2):

        def look():
            assert set(blas_threads()) == {2}

        forked(look)


def test_what_is_loaded_is_looked_for_once(monkeypatch):
    with limit_blas(1):
        pass

    def refuse():
        raise AssertionError

    monkeypatch.setattr(blas, "ThreadpoolController", refuse)
    with limit_blas(1):
        pass
