"""How often decoding finds the true outputs: Gaussian Φ against sparse signs with 4, 8, 16 and 32 per output.

    python asv_bench/recovery.py [FILE.md]

prints two tables (noise-free, and with noise at 10 dB) and one for the rule of components_for, or writes them
between the markers of FILE.md.
"""

import sys
from pathlib import Path

import numpy as np
from benchmarks.pages import table_head, table_row, write_between
from benchmarks.problems import compressed, sparse_outputs

import shore
from shore.theory import components_for

K, N, SEEDS = 5000, 400, 5
GRID = [(1, 20), (1, 40), (3, 40), (3, 60), (3, 100), (5, 60), (5, 100), (5, 150), (10, 100), (10, 150), (10, 250)]
KINDS = {"Gaussian": lambda m, seed: shore.GaussianCompression(m, K, seed=seed)} | {
    f"signs {nnz}": lambda m, seed, nnz=nnz: shore.SparseSignCompression(m, K, nnz_per_output=nnz, seed=seed)
    for nnz in (4, 8, 16, 32)
}


def recovery(kind, m, sparsity, snr_db, seed):
    """Share of the true outputs that were found."""
    phi = KINDS[kind](m, seed)
    Y = sparse_outputs(N, K, sparsity, seed=seed)
    found = shore.decode(compressed(phi, Y, snr_db, seed + 100), phi, sparsity, constraint="nonneg")
    return found.astype(bool).multiply(Y.astype(bool)).sum() / (N * sparsity)


def tables():
    for snr_db, title in ((np.inf, "Noise-free"), (10.0, "Noise at 10 dB")):
        yield f"{title}:\n"
        yield from table_head("s", "m", *KINDS)
        for sparsity, m in GRID:
            cells = []
            for kind in KINDS:
                shares = [recovery(kind, m, sparsity, snr_db, seed) for seed in range(SEEDS)]
                cells.append(f"{np.mean(shares):.3f} ± {np.std(shares):.3f}")
            yield table_row(sparsity, m, *cells)
        yield ""
    yield "The rule of `n_components='auto'`, m = 10·s·ln(K/s), with sparse signs; noise-free, at 10 dB and at 0 dB:\n"
    yield from table_head("K", "s", "m", "noise-free", "10 dB", "0 dB")
    for n_outputs in (1000, 20_000, 200_000):
        for sparsity in (1, 3, 10):
            m = components_for(sparsity, n_outputs)
            shares = [rule(n_outputs, sparsity, m, snr_db) for snr_db in (np.inf, 10.0, 0.0)]
            yield table_row(f"{n_outputs:,}", sparsity, m, *(f"{share:.3f}" for share in shares))


def rule(n_outputs, sparsity, m, snr_db):
    phi, Y = shore.SparseSignCompression(m, n_outputs), sparse_outputs(N, n_outputs, sparsity)
    found = shore.decode(compressed(phi, Y, snr_db), phi, sparsity, constraint="nonneg")
    return found.astype(bool).multiply(Y.astype(bool)).sum() / Y.nnz


def main():
    lines = list(tables())
    if len(sys.argv) == 1:
        print("\n".join(lines))
    else:
        write_between(Path(sys.argv[1]), "recovery", lines)


if __name__ == "__main__":
    main()
