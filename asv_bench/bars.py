"""The speed that shore promises, measured: each line is a ratio taken in one process, with its bar.

    python asv_bench/bars.py [part ...]

The exit code is 1 if a bar is missed.
"""

import argparse
import sys
import time

import numpy as np
from benchmarks.problems import KINDS, compressed, sparse_outputs
from benchmarks.projection import project_numpy
from benchmarks.ratio import ratio

import shore


def projection():
    """shore.project against np.argpartition plus the CSR: n = 256, K = 100,000, s = 5, float32, one thread."""
    V = np.random.default_rng(0).standard_normal((256, 100_000), dtype=np.float32)
    assert abs(shore.project(V, 5) - project_numpy(V, 5)).max() == 0
    measured = ratio(lambda: project_numpy(V, 5), lambda: shore.project(V, 5, n_threads=1))
    yield "times faster than argpartition", measured, measured.median >= 5, ">= 5"


def decoding():
    """decode, two threads, K = 20,000, n = 1,024, s = 3, nonneg, 10 dB: time over one BLAS product of Φᵀ and B."""
    n_outputs, n = 20_000, 1024
    Y = sparse_outputs(n, n_outputs, 3)
    bars = {("gaussian", m): 2.2 for m in (300, 500, 1000)}
    bars |= {("sparse_sign", 300): np.inf, ("sparse_sign", 500): 0.15, ("sparse_sign", 1000): 0.08}
    for (kind, m), bar in bars.items():
        phi = KINDS[kind](m, n_outputs)
        columns, B = np.ascontiguousarray(phi.toarray().T), compressed(phi, Y)
        passes = shore.decode(B, phi, 3, constraint="nonneg", return_info=True)[1].full_passes.mean()

        def decode(n_threads=2, B=B, phi=phi):
            shore.decode(B, phi, 3, constraint="nonneg", n_threads=n_threads)

        measured = ratio(decode, lambda columns=columns, B=B: columns @ B.T)
        yield f"{kind}, m = {m}: BLAS products", measured, measured.median <= bar, f"<= {bar}"
        yield f"{kind}, m = {m}: full passes", f"{passes:.2f}", passes <= 2.5, "<= 2.5"
        measured = ratio(lambda decode=decode: decode(1), lambda decode=decode: decode(2))
        yield f"{kind}, m = {m}: times faster on two threads", measured, measured.median >= 1.8, ">= 1.8"


def one_row():
    """decode of one row, sparse signs, one thread, K = 20,000, m = 500, s = 3: microseconds of the whole call."""
    phi = KINDS["sparse_sign"](500, 20_000)
    B = compressed(phi, sparse_outputs(1000, 20_000, 3))
    times = []
    for b in B:
        started = time.perf_counter()
        shore.decode(b[None], phi, 3, constraint="nonneg", n_threads=1)
        times.append(1e6 * (time.perf_counter() - started))
    low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
    yield "median (quartiles)", f"{median:.0f} ({low:.0f} to {high:.0f})", median < 150, "< 150"


def growth():
    """decode, sparse signs, m = 500, s = 3, two threads: time per row and output over that at K = 10,000."""
    base = KINDS["sparse_sign"](500, 10_000)
    B_base = compressed(base, sparse_outputs(1024, 10_000, 3))
    for n_outputs in (30_000, 100_000, 300_000, 1_000_000):
        phi = KINDS["sparse_sign"](500, n_outputs)
        B = compressed(phi, sparse_outputs(1024, n_outputs, 3))
        measured = ratio(
            lambda B=B, phi=phi: shore.decode(B, phi, 3, constraint="nonneg", n_threads=2),
            lambda: shore.decode(B_base, base, 3, constraint="nonneg", n_threads=2),
            turns=7,
        )
        relative = measured.median * 10_000 / n_outputs
        yield f"K = {n_outputs:,}", f"{relative:.2f}", relative <= 1.2, "<= 1.2"


PARTS = {"projection": projection, "decoding": decoding, "one_row": one_row, "growth": growth}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], help=f"which: {', '.join(PARTS)}; all by default")
    missed = 0
    for part in parser.parse_args().part or PARTS:
        print(PARTS[part].__doc__.strip())
        for name, value, reached, bar in PARTS[part]():
            missed += not reached
            print(f"  {name:<58} {value!s:>28}   bar {bar:<8} {'ok' if reached else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
