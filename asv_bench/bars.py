"""The speed that shore promises, measured: each line is a ratio taken in one process, with its bar.

    python asv_bench/bars.py [part ...]

The exit code is 1 if a bar is missed.
"""

import argparse
import sys

import numpy as np
from benchmarks.projection import project_numpy
from benchmarks.ratio import ratio

import shore


def projection():
    """shore.project against np.argpartition plus the CSR: n = 256, K = 100,000, s = 5, float32, one thread."""
    V = np.random.default_rng(0).standard_normal((256, 100_000), dtype=np.float32)
    assert abs(shore.project(V, 5) - project_numpy(V, 5)).max() == 0
    measured = ratio(lambda: project_numpy(V, 5), lambda: shore.project(V, 5, n_threads=1))
    yield "times faster than argpartition", measured, measured.median >= 5, ">= 5"


PARTS = {"projection": projection}


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
