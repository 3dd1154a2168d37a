"""What half precision of W costs: precision at 1, 3 and 5 with W in float32 and float16, s = 5, head and tail.

    python asv_bench/half.py FOLDER [FILE.md]

FOLDER holds the data sets, each a folder that `shore.datasets.load_dataset` reads. Prints a table, or writes it between
the markers of FILE.md.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.pages import table_head, table_row, write_between
from benchmarks.problems import load_normalised

import shore
from shore.metrics import precision_at_k

SETS = {
    "citeulike-t-tags5": {"n_components": 1000, "alpha": 2.0},
    "delicious-983": {"n_components": 256},
    "bibtex": {"n_components": 128},
}


def table(folder):
    yield from table_head("data set", "m", "W", "file, MB", "P@1", "P@3", "P@5", "rows with the same outputs")
    for name, options in SETS.items():
        X, Y, X_test, Y_test = load_normalised(folder / name)
        model = shore.ShoreRegressor(5, **options).fit(X, Y)
        plain = model.predict(X_test)
        with tempfile.TemporaryDirectory() as here:
            path = Path(here, "m.shore")
            for weights, called in ((None, "float32"), ("float16", "float16")):
                model.save(path, weights=weights)
                found = shore.load(path).predict(X_test)
                scores = [f"{precision_at_k(Y_test, found, k):.4f}" for k in (1, 3, 5)]
                other = abs(found.astype(bool).astype(np.int8) - plain.astype(bool).astype(np.int8)).sum(axis=1)
                same = f"{100 * np.mean(np.asarray(other) == 0):.1f} %"
                size = f"{path.stat().st_size / 1e6:.1f}"
                yield table_row(name, options["n_components"], called, size, *scores, same)


def main():
    lines = list(table(Path(sys.argv[1])))
    if len(sys.argv) == 2:
        print("\n".join(lines))
    else:
        write_between(Path(sys.argv[2]), "half", lines)


if __name__ == "__main__":
    main()
