"""What shore.distributed costs on two worker processes of this machine, one thread each.

    python asv_bench/cluster.py [--page docs/distributed.md] [part ...]

Parts: stream (2,000,000 rows through workers of 2 GB each), loss (a worker killed in mid-fit and in mid-predict),
overhead (against one process on the same rows and as many threads, and bytes on the wire). Prints tables, or writes
them between the markers of the page. The exit code is 1 if something is not as promised.
"""

import argparse
import contextlib
import os
import resource
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

import dask
import numpy as np
from benchmarks.pages import write_between
from dask import delayed
from distributed import Client, LocalCluster, wait
from scipy import sparse

import shore
from shore.distributed import fit, predict

# What is promised.
SAME, OVERHEAD = 1e-4, 0.25
OUTPUTS, SPARSITY, COMPONENTS, BLOCK = 3000, 3, 300, 20_000


def make_block(number, n_rows, n_features):
    """Rows of one problem: Gaussian X, and in each third of the outputs the one that X speaks for most."""
    plan = np.random.default_rng(0).standard_normal((32, OUTPUTS), dtype=np.float32)
    X = np.random.default_rng([1, number]).standard_normal((n_rows, n_features), dtype=np.float32)
    scores = (X[:, :32] @ plan).reshape(n_rows, SPARSITY, -1)
    best = scores.argmax(axis=2)
    values = np.take_along_axis(scores, best[:, :, None], axis=2)
    columns = best + np.arange(SPARSITY) * scores.shape[2]
    indptr = np.arange(n_rows + 1) * SPARSITY
    return X, sparse.csr_array((values.ravel(), columns.ravel(), indptr), shape=(n_rows, OUTPUTS))


def make_lazily(n_blocks, n_features):
    make = delayed(make_block, pure=True)
    return [make(number, BLOCK, n_features) for number in range(n_blocks)]


def make_here(n_blocks, n_features):
    Xs, Ys = zip(*(make_block(number, BLOCK, n_features) for number in range(n_blocks)), strict=True)
    return np.concatenate(Xs), sparse.csr_array(sparse.vstack(Ys, format="csr"))


def regressor(**options):
    return shore.ShoreRegressor(SPARSITY, n_components=COMPONENTS, **options)


@contextlib.contextmanager
def cluster(n_workers=2, **options):
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0", **options
        ) as it,
        Client(it) as client,
    ):
        yield client


def difference(model, expected):
    """The largest difference of W, as a share of its largest entry."""
    return float(np.abs(model.coef_ - expected.coef_).max() / np.abs(expected.coef_).max())


def timed(call):
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def loopback_bytes():
    """All that ever went over the loopback interface, as Linux counts it."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    return 0


# ---------------------------------------------------------------- parts


def stream(n_blocks):
    """Rows that no process here could hold, made on the workers block by block."""
    n_features, small = 1000, min(5, n_blocks)
    n, limit = n_blocks * BLOCK, 2_000_000_000
    with cluster(memory_limit=limit) as client:
        pids = set(client.run(os.getpid).values())
        blocks = make_lazily(n_blocks, n_features)
        check = difference(fit(regressor(), blocks[:small]), regressor().fit(*make_here(small, n_features)))
        seconds, model = timed(lambda: fit(regressor(), blocks))
        peaks = sorted(client.run(peak_bytes).values())
        survived = set(client.run(os.getpid).values()) == pids
        X, Y = make_block(n_blocks + 1, 5000, n_features)
        precision = model.score(X, Y)
    yield f"| rows x features, {model.coef_.dtype} | {n:,} x {n_features:,}, {n * n_features * 4 / 1e9:.1f} GB |"
    yield f"| outputs K, components m, blocks | {OUTPUTS:,}, {COMPONENTS}, {n_blocks} of {BLOCK:,} rows |"
    yield f"| seconds, rows made twice included | {seconds:.0f} |"
    yield f"| peak memory of the two workers, of 2 GB each | {' and '.join(f'{p / 1e9:.2f} GB' for p in peaks)} |"
    yield f"| precision at 3 on new rows | {precision:.2f} |"
    yield f"| W on the first {small * BLOCK:,} rows, against `fit` in one process | {check:.1e} of its largest entry |"
    if check > SAME:
        yield f"BROKEN: W differs from that of fit by {check:.1e}, promised {SAME}"
    if not survived or peaks[-1] > limit:
        yield "BROKEN: a worker ran out of its memory"


def killing(client, after):
    """A thread that kills a worker after so many seconds."""
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
    timer.start()
    return timer, victim


def loss(n_blocks):
    """A worker killed half-way."""
    n_features = 400
    with dask.config.set({"distributed.comm.timeouts.connect": "5s"}), cluster() as client:
        blocks = make_lazily(n_blocks, n_features)
        fit(regressor(), blocks[:2])  # warm up

        def scored():
            parts = client.compute(predict(model, blocks))
            return sparse.vstack(client.gather(parts), format="csr")

        seconds, model = timed(lambda: fit(regressor(), blocks))
        scoring_seconds, expected = timed(scored)
        for name, calm, run, same in (
            ("fit, sums", seconds, lambda: fit(regressor(), blocks),
             lambda found: np.array_equal(found.coef_, model.coef_)),
            ("predict", scoring_seconds, scored, lambda found: (found != expected).nnz == 0),
        ):  # fmt: skip
            client.wait_for_workers(2)
            timer, victim = killing(client, calm / 2)
            disturbed, found = timed(run)
            died = timer.finished.is_set() and victim not in client.run(os.getpid).values()
            equal = same(found)
            yield f"| {name}, {n_blocks * BLOCK:,} rows | {calm:.1f} | {disturbed:.1f} | {'yes' if equal else 'NO'} |"
            if not died:
                yield f"BROKEN: {name}: no worker died"
            if not equal:
                yield f"BROKEN: {name}: another result after a worker was killed"


def overhead(n_blocks, repeats):
    """Rows that are there: in this process, and held by the workers."""
    n_features, n = 400, n_blocks * BLOCK
    X, Y = make_here(n_blocks, n_features)
    table, wire = [], []
    for n_workers in (1, 2):
        with cluster(n_workers, memory_limit="8GB") as client:
            make = delayed(make_block, pure=True, nout=2)
            made = [make(number, BLOCK, n_features) for number in range(n_blocks)]
            flat = client.persist([part for pair in made for part in pair])
            wait(flat)
            xs, ys = flat[::2], flat[1::2]
            ratios, seconds = [], []
            for turn in range(repeats + 1):
                alone, expected = timed(lambda n=n_workers: regressor(n_threads=n).fit(X, Y))
                before = loopback_bytes()
                there, model = timed(lambda n=n_workers, xs=xs, ys=ys: fit(regressor(n_threads=n), xs, ys))
                moved = loopback_bytes() - before
                if turn:  # the first one warms up
                    ratios.append(there / alone)
                    seconds.append((alone, there))
                    wire.append(moved / n)
            del flat, xs, ys
        ratio, alone, there = statistics.median(ratios), *map(statistics.median, zip(*seconds, strict=True))
        spread = f"{min(ratios) - 1:+.0%} to {max(ratios) - 1:+.0%}"
        table.append(
            f"| {n_workers} worker{'s' if n_workers > 1 else ''} of one thread, against {n_workers} "
            f"thread{'s' if n_workers > 1 else ''} of one process | {alone:.2f} | {there:.2f} | {ratio - 1:+.0%} "
            f"({spread}) | {statistics.median(wire[-repeats:]):,.0f} |"
        )
        if ratio - 1 > OVERHEAD:
            table.append(f"BROKEN: {ratio - 1:.0%} over one process with {n_workers} threads, promised {OVERHEAD:.0%}")
        if difference(model, expected) > SAME:
            table.append(f"BROKEN: W differs from that of fit by {difference(model, expected):.1e}")
    yield from table


TABLES = {
    "stream": ["| 2 workers of one thread | |", "|---|---|"],
    "loss": ["| | seconds | with a worker killed half-way | the same bits |", "|---|---|---|---|"],
    "overhead": [
        "| 500,000 rows, d = 400, K = 3,000, m = 300, float32 | one process, s | workers, s | overhead, median (all) | "
        "bytes on the wire a row |",
        "|---|---|---|---|---|",
    ],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *TABLES])
    parser.add_argument("--page", type=Path)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, to see whether it runs")
    given = parser.parse_args()
    share = 10 if given.small else 1
    parts = {
        "stream": lambda: stream(100 // share),
        "loss": lambda: loss(50 // share),
        "overhead": lambda: overhead(25 // min(share, 5), 5),
    }
    broken = []
    for name in given.part or TABLES:
        lines = list(TABLES[name])
        for line in parts[name]():
            print(line, file=sys.stderr, flush=True)
            (broken if line.startswith("BROKEN") else lines).append(line)
        if given.page:
            write_between(given.page, name, lines)
        else:
            print("\n".join(lines))
    for promise in broken:
        print(promise)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
