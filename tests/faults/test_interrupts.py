"""Ctrl-C in calls: heard soon, with everything as it was."""

import os
import random
import signal
import sys

import psutil
import pytest
from bits import bits
from blockwise import BLOCKWISE, DATA
from interrupting import interrupted

import shore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")

KIND = "Ctrl-C at random moments of fit, predict, decode, project and others"

LONG = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if inherited from a process in the background
import numpy as np, shore
from scipy import sparse
from shore import _pieces
rng = np.random.default_rng(0)
K, m, n = 60_000, 200, 200_000
def outputs(n):
    return sparse.csr_array((np.ones(n, np.float32), (np.arange(n), rng.integers(0, K, n))), shape=(n, K))
X = rng.standard_normal((n, 50), dtype=np.float32)
row = np.broadcast_to(rng.standard_normal(m, dtype=np.float32), (n, m))
model = shore.ShoreRegressor(3, n_components=m, compression="sparse_sign").fit(X[:500], outputs(500))
phi, dense = model.compression_, shore.GaussianCompression(m, 5000)
def wide():
    at = np.tile(np.arange(0, 4800, 16, dtype=np.int32), n)  # in order: to sort them would take longer than the call
    return sparse.csr_array((np.ones(300 * n, np.float32), at, np.arange(n + 1, dtype=np.int32) * 300), shape=(n, 5000))
calls = {
    "predict": lambda: model.predict(X, n_threads=1),
    "decode": lambda: shore.decode(row, phi, 3, n_threads=1),
    "decode dense": lambda: shore.decode(row, dense, 3, n_threads=1),
    "project": lambda: shore.project(np.broadcast_to(np.ones((1, 20_000)), (n, 20_000)), 3, n_threads=1),
    "compress": lambda: dense.compress(compressed, n_threads=1),
    "correlate": lambda: [phi.correlate(row[:1000], n_threads=1) for _ in range(99)],
    "make": lambda: shore.GaussianCompression(1000, 200_000),
}
begun, plain = {}, _pieces.pieces  # rows that were begun, by the module that hands them out
def counting(name):
    def counted(*given, **options):
        for piece in plain(*given, **options):
            if not begun:  # what comes before, a look at all entries for one, takes its time
                print("started", flush=True)
            begun[name] = begun.get(name, 0) + piece.stop - piece.start
            yield piece
    return counted
for name, module in list(sys.modules.items()):
    if getattr(module, "pieces", None) is plain:
        module.pieces = counting(name)
before = model.coef_.tobytes()
compressed = wide() if sys.argv[1] == "compress" else None
try:
    calls[sys.argv[1]]()
except KeyboardInterrupt:
    assert model.coef_.tobytes() == before
    total = 99_000 if sys.argv[1] == "correlate" else n
    print("interrupted", bool(begun) and min(begun.values()) < 0.9 * total, flush=True)
"""


@pytest.mark.parametrize("name", ["predict", "decode", "decode dense", "project", "compress", "correlate", "make"])
def test_a_long_call_is_left_in_the_middle(name, deep, survived):
    if not deep and name not in ("predict", "decode"):
        pytest.skip("only in the long run")
    assert interrupted(LONG, [name], after=0.3) == ("interrupted True\n", 0)
    survived("Ctrl-C in the middle of a long call")


FITTING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[2])
import numpy as np, shore
from bits import bits
from scipy import sparse
rng = np.random.default_rng(0)
solver, _, layout = sys.argv[1].partition(" ")
n, d = (3000, 9000) if solver == "dual" else (9000, 3000)
if layout == "CSR":
    X = sparse.csr_array((rng.random(60 * n), rng.integers(0, d, 60 * n), np.arange(n + 1) * 60), shape=(n, d))
else:
    X = rng.standard_normal((n, d), dtype=np.float32)
Y = sparse.csr_array((np.ones(n), (np.arange(n), rng.integers(0, 5000, n))), shape=(n, 5000))
model = shore.ShoreRegressor(3, n_components=2000, alpha=1e-9, solver=solver, solver_tol=1e-9, n_threads=1)
model.fit(X[:50, :20], Y[:50])
before = bits(model)
print("started", flush=True)
try:
    while True:
        model.fit(X, Y)
        before = bits(model)
except KeyboardInterrupt:
    print("as it was" if bits(model) == before else "changed", flush=True)
"""


@pytest.mark.parametrize("solver", ["cholesky dense", "cholesky CSR", "dual dense", "dual CSR", "cg dense", "cg CSR"])
def test_a_fit_is_left_in_the_middle(solver, deep, survived):
    if not deep and solver not in ("cholesky CSR", "cg CSR"):
        pytest.skip("only in the long run")
    assert interrupted(FITTING, [solver, os.path.dirname(__file__)], after=0.7) == ("as it was\n", 0)
    survived("Ctrl-C in the middle of a fit")


# What is still done after the signal, as seconds of the processor, which other processes do not lengthen.
SOON = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, shore
from scipy import sparse
rng = np.random.default_rng(0)
K, m, n = 60_000, 200, 200_000
def outputs(n):
    return sparse.csr_array((np.ones(n, np.float32), (np.arange(n), rng.integers(0, K, n))), shape=(n, K))
class Endless:
    def __init__(self):
        self.text = b"2000000000 50 60000\\n"
    def read(self, size):
        self.text += b"1,2,3 0:1.25 3:2.5 7:1e-3\\n" * (size // 26 + 1)
        part, self.text = self.text[:size], self.text[size:]
        return part
def model(**options):
    return shore.ShoreRegressor(3, n_components=m, compression="sparse_sign", n_threads=1, **options)
X = rng.standard_normal((n, 50), dtype=np.float32)
if sys.argv[1] == "predict":
    fitted = model().fit(X[:500], outputs(500))
    call = lambda: fitted.predict(X)
elif sys.argv[1] == "decode":
    phi, row = shore.SparseSignCompression(m, K), rng.standard_normal(m, dtype=np.float32)
    call = lambda: shore.decode(np.broadcast_to(row, (n, m)), phi, 3, n_threads=1)
elif sys.argv[1] == "fit cg":
    wide = sparse.csr_array((rng.random(60 * n), rng.integers(0, 9000, 60 * n), np.arange(n + 1) * 60), shape=(n, 9000))
    Y = outputs(n)
    call = lambda: model(solver="cg", solver_tol=1e-9, alpha=1e-9).fit(wide, Y)
else:
    call = lambda: shore.datasets.load_xmc(Endless())
print("started", flush=True)
try:
    call()
except KeyboardInterrupt:
    print("interrupted", time.process_time(), flush=True)
"""


def processor_seconds(pid):
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@pytest.mark.parametrize("name", ["predict", "decode", "fit cg", "load_xmc"])
def test_little_is_done_after_the_signal(name, deep, survived):
    """Each of these calls would take minutes, or never end."""
    if not deep and name not in ("decode", "load_xmc"):
        pytest.skip("only in the long run")
    used = []
    out, code = interrupted(SOON, [name], after=0.7, look=lambda child: used.append(processor_seconds(child.pid)))
    words = out.split()
    assert (code, words[:1]) == (0, ["interrupted"]), out
    assert float(words[1]) - used[0] < 5
    survived("Ctrl-C in the middle of a long call")


def test_random_moments(deep, survived):
    """The handler of an alarm raises KeyboardInterrupt, as that of Ctrl-C does."""
    draw, n = random.Random(0), 0
    model = shore.ShoreRegressor(3, n_components=40, n_threads=1).fit(DATA.X[:300], DATA.Y[:300])
    partly = shore.ShoreRegressor(3, n_components=40, n_threads=1).partial_fit(DATA.X[:300], DATA.Y[:300])
    other = shore.ShoreRegressor(3, n_components=40, n_threads=1).partial_fit(DATA.X[300:], DATA.Y[300:])
    predictor = model.predictor()
    one = bits(predictor(DATA.X[0]))
    changing = {
        "fit": (model, lambda: model.fit(DATA.X, DATA.Y)),
        "partial_fit": (partly, lambda: partly.partial_fit(DATA.X, DATA.Y)),
        "merge": (partly, lambda: partly.merge(other)),
    }
    others = {**BLOCKWISE, "predictor": lambda: [predictor(row) for row in DATA.X]}
    states = {id(m): dict(m.__dict__) for m in (model, partly)}
    was = {key: bits(state) for key, state in states.items()}
    whole = {}
    for name, (changed, change) in changing.items():
        change()
        whole[name] = bits(changed.__dict__)
        changed.__dict__ = dict(states[id(changed)])
    results = {name: bits(call()) for name, call in others.items()}

    def interrupt(number, frame):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(20000 if deep else 200):
            name = draw.choice([*changing, *others])
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 0.005))
                result = changing[name][1]() if name in changing else others[name]()
                signal.setitimer(signal.ITIMER_REAL, 0)
                if name in others:
                    assert bits(result) == results[name]
            except KeyboardInterrupt:
                n += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if name in changing:
                changed = changing[name][0]
                assert bits(changed.__dict__) in (was[id(changed)], whole[name]), name
                changed.__dict__ = dict(states[id(changed)])
            assert bits(predictor(DATA.X[0])) == one
        for name, call in others.items():
            assert bits(call()) == results[name]
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert n > 20
    survived(KIND, n)


def model_of(fit):
    model = shore.ShoreRegressor(3, n_components=40, n_threads=1)
    getattr(model, fit)(DATA.X[:100], DATA.Y[:100])
    return model


OTHER = model_of("partial_fit")


@pytest.mark.parametrize(("before", "change"), [
    ("fit", lambda model: model.fit(DATA.X[100:200], DATA.Y[100:200])),
    ("fit", lambda model: model.partial_fit(DATA.X[100:200], DATA.Y[100:200])),
    ("partial_fit", lambda model: model.partial_fit(DATA.X[100:200], DATA.Y[100:200])),
    ("partial_fit", lambda model: model.fit_batches([(DATA.X[100:200], DATA.Y[100:200])])),
    ("partial_fit", lambda model: model.merge(OTHER)),
])  # fmt: skip
def test_any_line_of_a_change_leaves_all_of_it_or_nothing(before, change, survived):
    model = model_of(before)
    was, state = bits(model), dict(model.__dict__)
    change(model)
    whole = bits(model)
    files = {sys.modules[f"shore.{name}"].__file__ for name in ("_model", "_streaming", "estimator")}

    def interrupted(k):
        left = k

        def trace(frame, event, argument):
            nonlocal left
            if frame.f_code.co_filename not in files:
                return None
            left -= event == "line"
            if left == 0:
                raise KeyboardInterrupt
            return trace

        outside = sys.gettrace()
        sys.settrace(trace)
        try:
            change(model)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(outside)
        return False

    k = 0
    while True:
        k += 1
        model.__dict__ = dict(state)
        if not interrupted(k):
            break
        assert bits(model) in (was, whole), f"line {k}"
    assert k > 20
    assert bits(model) == whole
    survived("Ctrl-C at every line that changes a model", k - 1)
