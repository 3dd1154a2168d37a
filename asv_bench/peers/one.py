"""One model in a process of its own: prints a line of JSON.

python -m peers.one NAME DATA THREADS
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.memory import new_peak, peak_growth
from benchmarks.problems import load_normalised, tagged_text
from threadpoolctl import threadpool_limits

from peers.models import MODELS
from shore.metrics import precision_at_k

SINGLE_ROWS = 500


def data(folder):
    """Rows of a folder; or, for 'generated', of a problem with long-tailed tags."""
    if str(folder) != "generated":
        return load_normalised(Path(folder))
    X, Y = tagged_text(25_000, 10_000, 5_000, 1.0)
    return X[:20_000], Y[:20_000], X[20_000:], Y[20_000:]


def median_us(call, rows, turns=5):
    call()
    times = []
    for _ in range(turns):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e6 * float(np.median(times)) / rows


def measure(name, X, Y, X_test, Y_test, threads):
    model = MODELS[name][0](threads)
    if hasattr(model, "prepare"):
        model.prepare(X, Y)
    before = new_peak()
    started = time.perf_counter()
    model.fit(X, Y)
    train = time.perf_counter() - started
    peak = peak_growth(before) / 2**20
    folder = Path("model")
    folder.mkdir()
    model.ready(folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    found = model.predict(X_test)
    batch = median_us(lambda: model.predict(X_test), X_test.shape[0])
    calls = [model.one_row(X_test, i) for i in range(SINGLE_ROWS)]
    singles = []
    for call in (*calls[:50], *calls):
        started = time.perf_counter()
        call()
        singles.append(1e6 * (time.perf_counter() - started))
    precisions = {f"p{k}": precision_at_k(Y_test, found, k) for k in (1, 3, 5)}
    return {"train_s": train, "peak_mb": peak, "size_mb": size / 1e6, "batch_us": batch,
            "row_us": float(np.median(singles[50:])), **precisions}  # fmt: skip


def main():
    name, folder, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rows = data(folder if folder == "generated" else Path(folder).resolve())
    with tempfile.TemporaryDirectory() as scratch, threadpool_limits(threads):
        os.chdir(scratch)
        result = measure(name, *rows, threads)
        os.chdir("/")
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
