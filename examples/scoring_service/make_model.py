"""Make a model file and rows to try the service with.

    python make_model.py model.shore                  # synthetic, of the shape of a tagging problem
    python make_model.py model.shore --data folder    # a data set that shore.datasets.load_dataset reads

Beside ``model.shore`` it writes ``model.rows.npz``: 2,000 rows that the model was not fitted on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

import shore

ROWS = 2000


def tagged_texts(n: int, n_features: int, n_outputs: int, seed: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Rows of 19 words with weights, and of 5 tags each: every tag has words of its own, some of which are there."""
    rng = np.random.default_rng(seed)
    words = rng.integers(n_features, size=(n_outputs, 8))
    tags = (n_outputs * rng.random((n, 5)) ** 2).astype(np.int64)  # some are much more frequent than others
    own = words[tags][:, :, :3].reshape(n, -1)
    columns = np.hstack([own, rng.integers(n_features, size=(n, 4))])
    X = _rows(columns, rng.random(columns.shape) + 0.2, n_features)
    X.data /= np.repeat(np.sqrt(np.maximum(X.multiply(X).sum(axis=1), 1e-12)), np.diff(X.indptr))
    Y = _rows(tags, np.ones(tags.shape), n_outputs)
    Y.data[:] = 1
    return X, Y


def _rows(columns: np.ndarray, values: np.ndarray, width: int) -> sparse.csr_array:
    indptr = np.arange(0, columns.size + 1, columns.shape[1])
    matrix = sparse.csr_array((values.ravel().astype(np.float32), columns.ravel(), indptr), (len(columns), width))
    matrix.sum_duplicates()
    return matrix


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit a model for the scoring service.")
    parser.add_argument("model", type=Path, help="file to write")
    parser.add_argument("--data", type=Path, help="folder of a data set; without it, rows are made up")
    parser.add_argument("--rows", type=int, default=20_000, help="made-up rows (default: %(default)s)")
    parser.add_argument("--features", type=int, default=20_000, help="of made-up rows (default: %(default)s)")
    parser.add_argument("--outputs", type=int, default=6_845, help="of made-up rows (default: %(default)s)")
    parser.add_argument("--components", type=int, default=1000, help="m (default: %(default)s)")
    parser.add_argument("--sparsity", type=int, default=5, help="s (default: %(default)s)")
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--weights", choices=["float16"], help="store W in half precision")
    options = parser.parse_args(arguments)
    if options.data is not None:
        data = shore.datasets.load_dataset(options.data)
        X, Y, later, tags = data.X_train, data.Y_train, data.X_test[:ROWS], data.Y_test[:ROWS]
    else:
        X, Y = tagged_texts(options.rows + ROWS, options.features, options.outputs, seed=0)
        X, Y, later, tags = X[:-ROWS], Y[:-ROWS], X[-ROWS:], Y[-ROWS:]
    model = shore.ShoreRegressor(
        options.sparsity, n_components=options.components, compression="sparse_sign", alpha=options.alpha
    ).fit(X, Y)
    model.save(options.model, weights=options.weights)
    sparse.save_npz(options.model.with_suffix(".rows.npz"), later)
    print(
        f"{options.model}: d={X.shape[1]:,}, K={Y.shape[1]:,}, m={options.components:,}, "
        f"{options.model.stat().st_size / 1e6:.0f} MB; precision at {options.sparsity} on rows it has not seen: "
        f"{model.score(later, tags):.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
