"""Ctrl-C: heard soon, with everything as it was, in calls and in commands."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bits import bits, folder_bits

import shore
from shore import _pieces
from shore._pieces import pieces
from shore.datasets import make_synthetic, save_xmc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")

KIND = "Ctrl-C at random moments of fit, predict, decode, project and others"

# Seconds after which something hangs.
PATIENCE = 120


# ---------------------------------------------------------------- pieces


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 12_345])
@pytest.mark.parametrize(("seconds", "least", "most"), [(1e-9, 1, None), (1.0, 1, None), (1e-4, 64, 100), (10.0, 5, 3)])
def test_pieces_are_all_rows_in_order(n, seconds, least, most):
    found = list(pieces(n, seconds, least=least, most=most))
    assert [i for piece in found for i in range(n)[piece]] == list(range(n))
    assert all(0 < piece.stop - piece.start <= (most or n) for piece in found)
    if seconds == 1e-9:
        assert len(found) <= 1


def test_pieces_grow_and_shrink_with_the_time_they_take(monkeypatch):
    now, each = 0.0, 1e-6
    monkeypatch.setattr(_pieces.time, "monotonic", lambda: now)
    sizes = []
    for piece in pieces(10_000_000, 1e-3):
        sizes.append(piece.stop - piece.start)
        now += each * sizes[-1]
        if sum(sizes) > 5_000_000:
            each = 1e-5
    assert sizes[:4] == [250, 2000, 16_000, 128_000]
    assert max(sizes) == 250_000
    assert sizes[-2] == 25_000


PHI = shore.SparseSignCompression(40, 300)
DENSE = shore.GaussianCompression(40, 300)
DATA = make_synthetic(700, 20, 300, sparsity=3)
MODEL = shore.ShoreRegressor(3, n_components=40, n_threads=1).fit(DATA.X, DATA.Y)
ALLOWED = (DATA.Y != 0).astype(np.float32)
BLOCKWISE = {
    "project": lambda: shore.project(DATA.Y.toarray(), 2, allowed=ALLOWED, n_threads=1),
    "project CSR": lambda: shore.project(DATA.Y, 2, allowed=ALLOWED, n_threads=1),
    "decode": lambda: shore.decode(PHI.compress(DATA.Y), PHI, 3, allowed=ALLOWED, n_threads=1, return_info=True),
    "decode dense": lambda: shore.decode(DENSE.compress(DATA.Y), DENSE, 3, n_threads=1),
    "compress": lambda: PHI.compress(DATA.Y, n_threads=1),
    "compress dense": lambda: DENSE.compress(DATA.Y.toarray(), n_threads=1),
    "correlate": lambda: PHI.correlate(PHI.compress(DATA.Y), n_threads=1),
    "make": lambda: shore.GaussianCompression(9, 200),
    "predict": lambda: MODEL.predict(DATA.X),
    "predict CSR": lambda: MODEL.predict(DATA.Y[:, :20]),
    "fit CSR": lambda: shore.ShoreRegressor(3, n_components=9, solver="cholesky").fit(DATA.Y[:, :20], DATA.Y),
}


@pytest.mark.parametrize("name", BLOCKWISE)
def test_pieces_change_no_bit(name, monkeypatch):
    expected = bits(BLOCKWISE[name]())
    monkeypatch.setattr(_pieces, "_GOAL", 1e-9)  # as many pieces as there may be
    assert bits(BLOCKWISE[name]()) == expected


# ---------------------------------------------------------------- calls

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
    return sparse.csr_array((np.ones(300 * n, np.float32), rng.integers(0, 5000, 300 * n), np.arange(n + 1) * 300))
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
            begun[name] = begun.get(name, 0) + piece.stop - piece.start
            yield piece
    return counted
for name, module in list(sys.modules.items()):
    if getattr(module, "pieces", None) is plain:
        module.pieces = counting(name)
before = model.coef_.tobytes()
compressed = wide() if sys.argv[1] == "compress" else None
call = calls[sys.argv[1]]
print("started", flush=True)
try:
    call()
except KeyboardInterrupt:
    assert model.coef_.tobytes() == before
    total = 99_000 if sys.argv[1] == "correlate" else n
    print("interrupted", min(begun.values(), default=0) < 0.9 * total, flush=True)
"""


def interrupted(code, words=(), after=0.3):
    child = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "started\n"
        time.sleep(after)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    return out, child.returncode


@pytest.mark.parametrize("name", ["predict", "decode", "decode dense", "project", "compress", "correlate", "make"])
def test_a_long_call_is_left_in_the_middle(name, deep, survived):
    if not deep and name not in ("predict", "decode"):
        pytest.skip("only in the long run")
    assert interrupted(LONG, [name]) == ("interrupted True\n", 0)
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


# ---------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data = make_synthetic(3000, 400, 3000, sparsity=3)
    save_xmc(folder / "train.txt", data.X, data.Y)
    with open(folder / "many.txt", "wb") as file:
        file.write(b"400000 400 3000\n" + b" 0:1 3:2 7:1\n" * 400_000)
    shore.ShoreRegressor(3, n_components=200).fit(data.X, data.Y).save(folder / "m.shore")
    return folder


COMMANDS = {
    "fit": ["fit", "train.txt", "--solver", "cg", "--solver-tol", "1e-9", "--alpha", "1e-9", "--components", "3000"],
    "predict": ["predict", "m.shore", "many.txt"],
    "tune": ["tune", "train.txt", "--components", "500", "1000", "1500", "--compressions", "gaussian", "head_tail"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_so_in_one_line_and_leaves_no_file(name, folder, tmp_path, deep, survived):
    out = tmp_path / "out"
    out.write_text("the old file")
    words = [folder / word if (folder / word).exists() else word for word in COMMANDS[name]]
    words += ["--threads", "1", "--model" if name == "tune" else "--output", out]
    draw = random.Random(name)
    for moment in range(12 if deep else 1):
        command = [sys.executable, "-m", "shore", *map(str, words)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:  # fmt: skip
            while not is_in_command(process.pid) and process.poll() is None:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 1.0) if moment else 0.5)
            process.send_signal(signal.SIGINT)
            printed, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, printed, said) == (130, b"", b"shore: interrupted\n")
        assert folder_bits(tmp_path) == {"out": b"the old file"}
        survived("Ctrl-C in a command")


def is_in_command(pid):
    """Whether the process has opened its data: before, it is still importing, and Python itself says what happens."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/maps") as maps:
            return any(name.endswith((".txt", ".shore")) for name in links) or ".shore" in maps.read()
    except OSError:
        return False
