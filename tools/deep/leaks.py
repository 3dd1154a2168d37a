"""Memory over 10,000 cycles of fit, predict, save and load: it must not grow.

A cycle fits a small model (of another kind each time: Φ, solver, decoder, F, dtype, rows), predicts, saves, loads,
mapped or not, and predicts again with the same bits; it explains a row, predicts one by a `Predictor`, and makes a call
that fails. What the process holds is noted as it goes, once it is warm: resident memory of its own (a leak of 50 bytes
in a cycle would be 450 kB at the end), what malloc has given out, objects of Python (one in ten cycles would be 900)
and mappings, of files too.
"""

import contextlib
import ctypes
import gc
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from deep.outcome import Outcome, main

_CYCLES = {"quick": 1_500, "long": 10_000}
# The first cycles, of all kinds of models, fill caches: of NumPy's allocator, of threads, of modules imported late.
_WARM = 1_000
# What may be more at the end than when warm. Of resident bytes, a hundred pages that an allocator keeps elsewhere.
_MOST = {"bytes": 400 * 1024, "malloc": 100 * 1024, "objects": 500, "mappings": 4}
# Once, after some thousand cycles, Python lays out its table of interned strings anew, which is a mapping of its own:
# file names come and go in it.
_TABLE = 1 << 20


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip


def _allocated():
    """Bytes that malloc has given out, by glibc."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def _held():
    """Of this process: anonymous resident memory, what malloc and Python's allocator have given out, and mappings."""
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    return {"bytes": resident, "malloc": _allocated(), "objects": sys.getallocatedblocks(), "mappings": mappings}


def _kinds():
    """Models of every kind, each with the form its rows have."""
    import shore

    of_phi = [
        {},
        {"compression": "gaussian"},
        {"compression": "head_tail"},
        {"compression": None},
        {"compression": shore.SparseSignCompression(16, 40, nnz_per_output=5)},
    ]
    of_solver = [
        {"solver": "cholesky"},
        {"solver": "dual"},
        {"solver": "cg"},
        {"alpha": "auto"},
        {"fit_intercept": True},
    ]
    of_decoder = [
        {},
        {"decoder": "omp", "constraint": "real"},
        {"decoder": "cd"},
        {"decoder": "fista"},
        {"constraint": "binary"},
        {"constraint": shore.Simplex()},
        {"constraint": shore.Box(-1, 1)},
    ]
    for phi, solver, decoder in itertools.product(of_phi, of_solver, of_decoder):
        for dtype, sparse_rows in itertools.product(("float32", "float64"), (False, True)):
            yield {"n_components": 16, "dtype": dtype} | phi | solver | decoder, sparse_rows


def _cycle(kind, data, path):
    """One model from fit to file and back."""
    import numpy as np
    from scipy import sparse

    import shore

    options, sparse_rows = kind
    X = sparse.csr_array(data.X) if sparse_rows else data.X
    model = shore.ShoreRegressor(3, n_threads=2, **options).fit(X, data.Y)
    predicted = model.predict(X)
    with contextlib.suppress(ValueError):
        model.predict(X[:, 1:])
    if model.compression_ is not None:
        model.explain(X[:1], 3)
    model.predictor()(np.asarray(data.X[0], dtype=options["dtype"]))
    model.save(path)
    again = shore.load(path, mmap=sparse_rows).predict(X)
    if again.data.tobytes() != predicted.data.tobytes():
        raise AssertionError("a loaded model predicts something else")


def child(cycles):
    """The cycles, in a process of their own; prints [cycle, what is held] now and then."""
    import shore

    data = shore.datasets.make_synthetic(24, 6, 40, sparsity=2, snr_db=30, seed=0)
    kinds, every = itertools.cycle(_kinds()), max(1, cycles // 100)
    with tempfile.TemporaryDirectory() as folder:
        for done in range(1, cycles + 1):
            _cycle(next(kinds), data, Path(folder) / "m.shore")
            if done % every == 0:
                gc.collect()
                print(json.dumps([done, _held()]), flush=True)


def run(quick=False):
    """Run the cycles and look at how memory went."""
    outcome = Outcome("Memory")
    cycles = _CYCLES["quick" if quick else "long"]
    print(f"  {cycles:,} cycles ...", flush=True)
    ended = subprocess.run([sys.executable, "-m", "deep.leaks", "--child", str(cycles)], capture_output=True, text=True)
    if ended.returncode:
        outcome.fail(f"the cycles ended with {ended.returncode}: {ended.stderr[-3000:]}")
        return outcome
    seen = [json.loads(line) for line in ended.stdout.splitlines()]
    warm = next(held for done, held in seen if done >= _WARM)
    grown = {what: seen[-1][1][what] - warm[what] for what in warm}
    outcome.add("cycles of fit, predict, save and load", seen[-1][0])
    outcome.add("resident memory when warm", f"{warm['bytes'] / 1e6:.2f} MB")
    outcome.add("growth from there to the end", f"{grown['bytes'] / 1024:+.0f} kB")
    table = _TABLE if grown["mappings"] > 0 and grown["malloc"] > _TABLE // 2 else 0
    if table:
        outcome.add("of that, Python's table of interned strings", f"up to {table // 1024:,} kB")
    outcome.add("objects of Python more, mappings more", f"{grown['objects']:+}, {grown['mappings']:+}")
    for what, number in grown.items():
        if number > _MOST[what] + (table if what in ("bytes", "malloc") else 0):
            outcome.fail(f"{what} grew by {number:,}: {seen}")
    return outcome


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]))
    else:
        main(run, __doc__)
