"""Threads that the caller starts and stops: the same bits in all of them, and nothing is left of them."""

import gc
import os
import random
import subprocess
import sys
import threading

import pytest
from bits import bits
from scipy import sparse

import shore
from shore.datasets import make_synthetic

DATA = make_synthetic(120, 20, 150, sparsity=3)
X_CSR = sparse.csr_array(DATA.X * (abs(DATA.X) > 0.5))
MODEL = shore.ShoreRegressor(3, n_components=40).fit(DATA.X, DATA.Y)
PREDICTOR = MODEL.predictor()
PHI, DENSE = MODEL.compression_, shore.GaussianCompression(40, 150)
B = PHI.compress(DATA.Y)

CALLS = {
    "predict": lambda n: MODEL.predict(DATA.X, n_threads=n),
    "predict CSR": lambda n: MODEL.predict(X_CSR, n_threads=n),
    "decode": lambda n: shore.decode(B, PHI, 3, n_threads=n, return_info=True),
    "project": lambda n: shore.project(DATA.Y, 2, n_threads=n),
    "predictor": lambda n: [PREDICTOR(row) for row in DATA.X[:20]],
    "compress": lambda n: PHI.compress(DATA.Y, n_threads=n),
    "correlate": lambda n: PHI.correlate(B, n_threads=n),
    "make": lambda n: shore.GaussianCompression(20, 100).toarray(),
    "fit": lambda n: shore.ShoreRegressor(3, n_components=40, solver="cg", n_threads=n).fit(X_CSR, DATA.Y).coef_,
}


def os_threads():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="there is no /proc")
def test_short_lived_threads_leave_nothing_behind(deep, survived):
    expected = {name: bits(call(1)) for name, call in CALLS.items() if name != "fit"}
    expected_fit = {n: bits(CALLS["fit"](n)) for n in (1, 2, 3, 4)}  # the width of its blocks depends on it
    errors, draw = [], random.Random(0)

    def work(name, n):
        try:
            found = bits(CALLS[name](n))
            assert found == (expected_fit[n] if name == "fit" else expected[name]), name
        except BaseException as error:
            errors.append(error)
            raise

    def round_of(count):
        threads = [
            threading.Thread(target=work, args=(draw.choice(list(CALLS)), draw.randint(1, 4))) for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        survived("threads started and stopped by the caller", count)

    round_of(8)
    counts = []
    for _ in range(300 if deep else 30):
        round_of(8)
        gc.collect()
        counts.append(os_threads())
    # libgomp ends the threads of a team with the thread that had it: as many are left as at the start, whatever came
    assert max(counts[len(counts) // 2 :]) <= max(counts[: len(counts) // 2]) + 4
    assert counts[-1] < 64


def test_a_thread_ends_while_another_is_in_a_parallel_region(deep, survived):
    over, errors = threading.Event(), []
    expected = bits(CALLS["decode"](1))

    def long():
        try:
            while not over.is_set():
                assert bits(CALLS["decode"](2)) == expected
        except BaseException as error:
            errors.append(error)
            raise

    lasting = [threading.Thread(target=long) for _ in range(2)]
    for thread in lasting:
        thread.start()
    rounds = 300 if deep else 40
    for i in range(rounds):
        brief = threading.Thread(target=CALLS["project"], args=(1 + i % 4,))
        brief.start()
        brief.join()
    over.set()
    for thread in lasting:
        thread.join()
    assert not errors
    survived("threads started and stopped by the caller", rounds)


DAEMON = """
import threading, time
import numpy as np, shore
B = np.random.default_rng(0).standard_normal((3000, 100))
phi = shore.SparseSignCompression(100, 5000)
started = threading.Event()
def work():
    while True:
        shore.decode(B, phi, 3, n_threads=2)
        started.set()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep({})
"""


def test_a_process_ends_while_daemons_are_in_kernels(deep, survived):
    for i in range(20 if deep else 2):
        command = [sys.executable, "-c", DAEMON.format(0.003 * i)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        survived("processes that end while their threads are in kernels")
