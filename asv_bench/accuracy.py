"""How precise models are, by compression and by how outputs are decoded, beside ridge regression on all outputs.

    python asv_bench/accuracy.py FOLDER [--page docs/accuracy.md] [--csv docs/figures/accuracy.csv] [part ...]

FOLDER holds the data sets, each a folder that `shore.datasets.load_dataset` reads; those that are not there are left
out. Parts: compressions, heads, decoding. Prints tables, or writes them between the markers of the page. The exit code
is 1 if a model is further from ridge regression, or below plain sparse signs, than is promised.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
from benchmarks.pages import table_head, table_row, write_between
from benchmarks.problems import load_normalised, tagged_text
from scipy import sparse

import shore
from shore.compression import OutputEnergy, compression_for
from shore.metrics import precision_at_k

ALPHA, SEEDS, MORE_SEEDS, KS = 2.0, range(5), range(25), (1, 3, 5)
KINDS = ("sparse_sign", "head_tail", "gaussian")
# m, and how many points of precision 'head_tail' may be below ridge regression, at 1, 3 and 5.
REAL = {
    "citeulike-t-tags5": {500: None, 1000: 0.4},
    "delicious-983": {128: None, 256: 0.9, 512: 0.2},
    "bibtex": {64: None, 128: 1.0},
}
# Outputs as frequent as 1/rank^tail: from far more long-tailed than text to all the same.
GENERATED = {"generated, tail 1.5": 1.5, "generated, tail 1.0": 1.0, "generated, tail 0.5": 0.5, "generated, flat": 0.0}
GENERATED_M = {128: None, 256: None, 512: None}
# 'head_tail' is never further below plain sparse signs, in points.
BELOW_SIGNS = 0.3


def problems(folder):
    """Name, promises by m, and training and test rows."""
    for name, bars in REAL.items():
        data = load_normalised(folder / name)
        if data is not None:
            yield name, bars, *data
    for name, tail in GENERATED.items():
        X, Y = tagged_text(8000, 3000, 2000, tail)
        yield name, GENERATED_M, X[:6000], Y[:6000], X[6000:], Y[6000:]


def precisions(Y, found, ks=KS):
    return [100 * precision_at_k(Y, found, k) for k in ks]


def mean_and_spread(values):
    """Mean and standard deviation over seeds, of each measure."""
    return np.mean(values, axis=0), np.std(values, axis=0, ddof=1)


def cells(mean, spread=None):
    return " / ".join(f"{x:.2f}" for x in mean) + ("" if spread is None else f" (± {max(spread):.2f})")


def compressions(folder, record):
    """Every compression on every problem; returns the broken promises, and what looks worse than sparse signs."""
    broken, suspects = [], []
    for name, bars, X, Y, X_test, Y_test in problems(folder):
        ridge = shore.ShoreRegressor(10, compression=None, alpha=ALPHA).fit(X, Y).predict(X_test)
        ceiling = {s: precisions(Y_test, shore.project(ridge, s, "nonneg"), (1, 3, s)) for s in (3, 5, 10)}
        for m, bar in bars.items():
            for kind in KINDS:
                scores = {s: [] for s in ceiling}
                for seed in SEEDS:
                    phi = compression_for(Y, kind, m, seed=seed)
                    B = shore.ShoreRegressor(compression=phi, alpha=ALPHA).fit(X, Y).predict_compressed(X_test)
                    for s in scores:
                        found = shore.decode(B, phi, s, constraint="nonneg")
                        scores[s].append(precisions(Y_test, found, (1, 3, s)))
                heads = len(phi.head_outputs) if kind != "gaussian" else 0
                for s, values in scores.items():
                    mean, spread = mean_and_spread(values)
                    record(problem=name, m=m, s=s, compression=kind, head=heads, mean=mean, spread=spread,
                           ridge=ceiling[s])  # fmt: skip
                    if kind == "sparse_sign":
                        record.signs[s] = mean
                    elif kind == "head_tail":
                        below = float(np.max(np.asarray(ceiling[s]) - mean))
                        if s == 5 and bar is not None and below > bar:
                            broken.append(f"{name}, m = {m}: {below:.2f} points below ridge, promised {bar}")
                        below = float(np.max(record.signs[s] - mean))
                        if below > BELOW_SIGNS:
                            suspects.append((name, m, s, below, (X, Y, X_test, Y_test)))
    return broken, suspects


def ask_again(suspects):
    """What looks worse than sparse signs with 5 seeds, with 25: lines for the page, and the broken promises."""
    lines, broken = [], []
    for name, m, s, before, (X, Y, X_test, Y_test) in suspects:
        differences = []
        for seed in MORE_SEEDS:
            both = []
            for kind in ("sparse_sign", "head_tail"):
                phi = compression_for(Y, kind, m, seed=seed)
                B = shore.ShoreRegressor(compression=phi, alpha=ALPHA).fit(X, Y).predict_compressed(X_test)
                both.append(precisions(Y_test, shore.decode(B, phi, s, constraint="nonneg"), (1, 3, s)))
            differences.append(np.subtract(both[1], both[0]))
        mean, spread = mean_and_spread(differences)
        error = max(spread) / np.sqrt(len(differences))
        lines.append(table_row(name, m, s, f"{-before:.2f}", cells(mean), f"{error:.2f}"))
        print(lines[-1], file=sys.stderr, flush=True)
        if max(-mean) > BELOW_SIGNS:
            broken.append(f"{name}, m = {m}, s = {s}: {max(-mean):.2f} points below sparse signs")
    if not lines:
        return [], broken
    columns = ("problem", "m", "s", "worst difference, 5 seeds", "difference at 1 / 3 / s, 25 seeds", "standard error")
    words = "Where head and tail was more than 0.3 points below sparse signs at any k, asked again with more seeds:"
    return ["", words, "", *table_head(*columns), *lines], broken


class Recorder(list):
    """Rows of results, said as they come."""

    def __init__(self):
        super().__init__()
        self.signs = {}

    def __call__(self, **row):
        self.append(row)
        print(f"{row['problem']}, m = {row['m']}, s = {row['s']}, {row['compression']}: {cells(row['mean'])}",
              file=sys.stderr, flush=True)  # fmt: skip

    def write(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["problem", "m", "s", "compression", "head", "k", "precision", "spread", "ridge"])
            for row in self:
                for i, k in enumerate((1, 3, row["s"])):
                    numbers = (f"{row[name][i]:.3f}" for name in ("mean", "spread", "ridge"))
                    out.writerow([row["problem"], row["m"], row["s"], row["compression"], row["head"], k, *numbers])


def compression_tables(rows):
    yield "s = 5, precision at 1 / 3 / 5:"
    yield ""
    yield from table_head("problem", "m", "H", "sparse signs", "head and tail", "Gaussian", "ridge on all outputs")
    for at in range(0, len(rows), 9):
        here = {row["compression"]: row for row in rows[at : at + 9] if row["s"] == 5}
        of = {kind: cells(here[kind]["mean"], here[kind]["spread"]) for kind in KINDS}
        row = here["head_tail"]
        shown = [row["problem"], row["m"], row["head"], *(of[kind] for kind in KINDS), cells(row["ridge"])]
        yield table_row(*shown)
    yield ""
    yield "Precision at s for other s, sparse signs → head and tail:"
    yield ""
    yield from table_head("problem", "m", "s = 3", "ridge", "s = 10", "ridge")
    for at in range(0, len(rows), 9):
        here = {(row["compression"], row["s"]): row for row in rows[at : at + 9]}
        shown = [rows[at]["problem"], rows[at]["m"]]
        for s in (3, 10):
            signs, head = here["sparse_sign", s], here["head_tail", s]
            shown += [f"{signs['mean'][2]:.2f} → {head['mean'][2]:.2f}", f"{head['ridge'][2]:.2f}"]
        yield table_row(*shown)


# ---------------------------------------------------------------- a head of another size, a tail of another kind


def own_rows(weights, size):
    """Weights with which the `size` heaviest outputs, and no others, own a row."""
    own = np.zeros_like(weights)
    own[np.argsort(-weights, kind="stable")[:size]] = 1
    return own


def anywhere(phi):
    """The same head, and signs at any rows behind it: without segments, of which no two can be equally long."""
    Phi, H = phi.toarray(), len(phi.head_outputs)
    rng = np.random.default_rng(phi.seed)
    for j in np.setdiff1d(np.arange(phi.n_outputs), phi.head_outputs):
        Phi[H:, j] = rng.permutation(Phi[H:, j])
    return shore.MatrixCompression(Phi)


def heads_table(folder):
    """bibtex, m = 64, s = 10: the one row of all where the default is further below sparse signs than promised."""
    m, s, seeds = 64, 10, range(100)
    data = load_normalised(folder / "bibtex")
    if data is None:
        return
    X, Y, X_test, Y_test = data
    weights = OutputEnergy.of(Y).weights
    factorisation = shore.ShoreRegressor(alpha=ALPHA).factorise(X)
    rule = shore.theory.head_size(m, weights)

    def score(head, nnz=16, change=lambda phi: phi):
        found = []
        for seed in seeds:
            phi = change(shore.HeadTailCompression(m, own_rows(weights, head), nnz_per_output=nnz, seed=seed))
            model = shore.ShoreRegressor(compression=phi, alpha=ALPHA).fit(X, Y, factorisation=factorisation)
            B = model.predict_compressed(X_test)
            decoded, info = shore.decode(B, phi, s, constraint="nonneg", return_info=True)
            first = np.isin(shore.project(decoded, 1, "nonneg").indices, frequent)
            measured = precisions(Y_test, decoded, (1, 3, s))
            found.append([*measured, 100 * first.mean(), 100 * np.mean(info.step < 0.9)])
        return np.array(found)

    frequent = np.flatnonzero(own_rows(weights, rule))
    yield from table_head("Φ", "precision at 1 / 3 / 10", "above sparse signs", "standard error",
                          f"rows with one of the {rule} first", "rows with a smaller step")  # fmt: skip

    def shown(name, here, *more):
        of = here.mean(axis=0)
        return table_row(name, cells(of[:3]), *(more or ("", "")), f"{of[3]:.1f} %", f"{of[4]:.1f} %")

    signs = score(0)
    yield shown("sparse signs", signs)
    cases = {f"H = {rule}, by the rule": (rule,)}
    cases |= {f"H = {rule}, {nnz} signs a column": (rule, nnz) for nnz in (8, 19)}
    cases |= {f"H = {rule}, signs at any rows": (rule, 16, anywhere)}
    cases |= {f"H = {size}": (size,) for size in (4, 10, 16, 24)}
    for name, case in cases.items():
        here = score(*case)
        mean, spread = mean_and_spread((here - signs)[:, :3])
        yield shown(name, here, cells(mean), f"{max(spread) / np.sqrt(len(seeds)):.2f}")


# ---------------------------------------------------------------- how outputs are decoded


def debiased(found, B, Phi):
    """The values on every support by least squares."""
    found = found.copy()
    for i in range(found.shape[0]):
        here = slice(found.indptr[i], found.indptr[i + 1])
        if here.stop > here.start:
            found.data[here] = np.linalg.lstsq(Phi[:, found.indices[here]], B[i], rcond=None)[0]
    return found


def project_dense(V, s):
    rows, best = np.arange(len(V))[:, None], np.argpartition(-V, s - 1, axis=1)[:, :s]
    out = np.zeros_like(V)
    out[rows, best] = np.maximum(V[rows, best], 0)
    return out


def pgd(B, Phi, s, v, step=0.9, tol=1e-3, max_iter=60):
    """Algorithm 2 in NumPy from any start: the outputs, and the steps of every row."""
    before, active, n_iter = v.copy(), np.arange(len(B)), np.zeros(len(B), dtype=int)
    for t in range(1, max_iter + 1):
        here = v[active]
        new = project_dense(here - step * ((here @ Phi.T - B[active]) @ Phi), s)
        change = np.linalg.norm(new - before[active], axis=1)
        before[active], v[active], n_iter[active] = here, new, t
        if t >= 2:
            active = active[change > tol * (0.01 + np.linalg.norm(new, axis=1))]
        if not len(active):
            break
    return sparse.csr_array(v), n_iter


def decode_in(how, B, phi):
    """Outputs by a way of decoding, and the mean number of steps."""
    options = {"constraint": "nonneg", "return_info": True}
    if how in ("zero", "correlation"):
        start = project_dense(phi.correlate(B), 5) if how == "correlation" else np.zeros((len(B), phi.n_outputs), "f4")
        found, n_iter = pgd(B, phi.toarray(), 5, start)
        return found, n_iter.mean()
    more, debias, _ = how.partition(" debiased")
    found, info = shore.decode(B, phi, 5, decode_sparsity=int(more), **options)
    if not debias:
        return found, info.n_iter.mean()
    return shore.project(debiased(found, B, phi.toarray()), 5, "nonneg"), info.n_iter.mean()


WAYS = {
    "5": "plain",
    "5 debiased": "debiased by least squares",
    "10": "decoded as 10",
    "20": "decoded as 20",
    "40": "decoded as 40",
    "zero": "in NumPy, from 0",
    "correlation": "in NumPy, from the correlation step",
}


def decoding_table(folder):
    yield from table_head("data set", "m", "", "sparse signs", "steps", "head and tail", "steps")
    for name, m in (("delicious-983", 256), ("bibtex", 128), ("citeulike-t-tags5", 1000)):
        data = load_normalised(folder / name)
        if data is None:
            continue
        X, Y, X_test, Y_test = data
        results = {}
        for kind in ("sparse_sign", "head_tail"):
            for seed in SEEDS:
                phi = compression_for(Y, kind, m, seed=seed)
                B = shore.ShoreRegressor(compression=phi, alpha=ALPHA).fit(X, Y).predict_compressed(X_test)
                for how in WAYS:
                    if name[0] == "c" and not how.isdigit():
                        continue  # minutes of NumPy
                    found, steps = decode_in(how, B, phi)
                    results.setdefault((how, kind), []).append([*precisions(Y_test, found), steps])
        for how, called in WAYS.items():
            if (how, "head_tail") in results:
                shown = [name, m, called]
                for kind in ("sparse_sign", "head_tail"):
                    mean, spread = mean_and_spread(results[how, kind])
                    shown += [cells(mean[:3], spread[:3]), f"{mean[3]:.1f}"]
                print(*shown, file=sys.stderr, flush=True)
                yield table_row(*shown)


# ---------------------------------------------------------------- output

TABLES = {"heads": heads_table, "decoding": decoding_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("part", nargs="*", choices=[[], "compressions", *TABLES])
    parser.add_argument("--page", type=Path)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    broken, parts = [], {}
    for part in given.part or ("compressions", *TABLES):
        if part == "compressions":
            rows = Recorder()
            broken, suspects = compressions(given.folder, rows)
            more, worse = ask_again(suspects)
            broken += worse
            parts[part] = [*compression_tables(rows), *more]
            if given.csv:
                rows.write(given.csv)
        else:
            parts[part] = list(TABLES[part](given.folder))
    for part, lines in parts.items():
        if given.page:
            write_between(given.page, part, lines)
        else:
            print("\n".join(lines))
    for promise in broken:
        print("BROKEN:", promise)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
