"""The speed that shore promises, measured: each line is a ratio taken in one process, with its bar.

    python asv_bench/bars.py [part ...] [--data folder]

The exit code is 1 if a bar is missed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import benchmarks.reading as reading_suite
import numpy as np
from benchmarks.fitting import bare_blas, scipy_cg, text_like
from benchmarks.loading import large_model
from benchmarks.memory import new_peak, peak_growth, resident
from benchmarks.problems import KINDS, compressed, load_normalised, sparse_outputs
from benchmarks.projection import project_numpy
from benchmarks.ratio import ratio
from benchmarks.serving import calls_per_second, latencies, sparse_rows
from scipy import sparse

import shore

# A folder with a folder for each data set.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


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


def pursuit():
    """decode(method="omp"), K = 20,000, m = 500, s = 3, two threads on both sides: scikit-learn's time per sample."""
    from sklearn.linear_model import orthogonal_mp

    Y = sparse_outputs(512, 20_000, 3)
    for kind in KINDS:
        phi = KINDS[kind](500, 20_000)
        B, Phi = compressed(phi, Y), np.asfortranarray(phi.toarray())
        few = B[:8].T.copy()
        theirs = sparse.csr_array(orthogonal_mp(Phi, few, n_nonzero_coefs=3).T)
        same = (theirs != 0).astype(int) - (shore.decode(few.T, phi, 3, method="omp") != 0).astype(int)
        yield f"{kind}: outputs that differ on 8 rows", f"{abs(same).sum()}", abs(same).sum() == 0, "0"
        measured = ratio(
            lambda few=few, Phi=Phi: orthogonal_mp(Phi, few, n_nonzero_coefs=3),
            lambda B=B, phi=phi: shore.decode(B, phi, 3, method="omp", n_threads=2),
            turns=5,
        ).times(512 / 8)
        yield f"{kind}: times faster per sample", measured, measured.median >= 50, ">= 50"


def reading():
    """load_xmc on one core: megabytes a second of a text file of about 30 MB."""
    suite = reading_suite.Xmc()
    for digits in suite.params[0]:
        suite.setup(digits, "float32")
        try:
            speeds = [suite.track_megabytes_per_second(digits, "float32") for _ in range(5)]
        finally:
            suite.teardown(digits, "float32")
        low, median, high = np.quantile(speeds, [0.25, 0.5, 0.75])
        yield f"{digits}", f"{median:.0f} ({low:.0f} to {high:.0f})", median >= 100, ">= 100"


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


def load(name):
    """A data set, rows of X L2-normalised; None where it is not there."""
    return load_normalised(DATA / name)


def citeulike():
    """citeulike-t-tags5, head and tail, m = 1000, alpha = 2, s = 5, two threads."""
    data = load("citeulike-t-tags5")
    if data is None:
        print("  the data set is not there")
        return
    X, Y, X_test, Y_test = data
    model = shore.ShoreRegressor(5, n_components=1000, alpha=2.0, n_threads=2).fit(X, Y)
    predicted = model.predict(X_test)
    for k, bar in ((1, 0.650), (3, 0.484), (5, 0.386)):
        precision = shore.metrics.precision_at_k(Y_test, predicted, k)
        yield f"precision at {k}", f"{precision:.4f}", precision >= bar, f">= {bar}"
    B = model.compression_.compress(Y)
    W, steps = scipy_cg(X, B, np.float32(2.0), 1e-3)
    difference = np.linalg.norm(model.coef_.T - W) / np.linalg.norm(W)
    yield (
        f"W against SciPy's, relative (steps {steps}, {model.n_iter_})",
        f"{difference:.1e}",
        difference < 5e-3,
        "< 5e-3",
    )
    measured = ratio(lambda: scipy_cg(X, B, np.float32(2.0), 1e-3), lambda: model.fit(X, Y), turns=3)
    yield "fit: times faster than CG with SciPy's products", measured, measured.median >= 5, ">= 5"
    times = []
    for _ in range(15):
        started = time.perf_counter()
        model.predict(X_test)
        times.append(1e6 * (time.perf_counter() - started) / X_test.shape[0])
    low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
    yield "predict, us per row", f"{median:.1f} ({low:.1f} to {high:.1f})", median <= 25, "<= 25"


def head_tail():
    """Head and tail beside sparse signs of the same m on real data, two threads: time to decode, and to predict."""
    for name, m in (("citeulike-t-tags5", 1000), ("delicious-983", 256), ("bibtex", 128)):
        data = load(name)
        if data is None:
            print(f"  {name} is not there")
            continue
        X, Y, X_test, _ = data
        models = [
            shore.ShoreRegressor(5, n_components=m, alpha=2.0, compression=kind, n_threads=2).fit(X, Y)
            for kind in ("head_tail", "sparse_sign")
        ]
        scores = [model.predict_compressed(X_test) for model in models]
        calls = [
            lambda B=B, phi=model.compression_: shore.decode(B, phi, 5, constraint="nonneg", n_threads=2)
            for B, model in zip(scores, models, strict=True)
        ]
        measured = ratio(*calls)
        yield f"{name}: decode, time over sparse signs", measured, measured.median <= 1.05, "<= 1.05"
        with tempfile.TemporaryDirectory() as folder:
            models[0].save(Path(folder, "half.shore"), weights="float16")
            half = shore.load(Path(folder, "half.shore")).set_params(n_threads=2)
            measured = ratio(*(lambda model=model, X=X_test: model.predict(X) for model in (half, models[0])))
        yield f"{name}: predict, float16 over float32", measured, measured.median <= 1.05, "<= 1.05"


def serving():
    """predictor(indices, values), K = 6,845, d = 20,000, about 19 features a row, head and tail, m = 1000, s = 5."""
    data = load("citeulike-t-tags5")
    if data is None:
        print("  the data set is not there: rows like its own")
        data = text_like(20_000, 20_000), sparse_outputs(20_000, 6845, 5), text_like(5000, 20_000, seed=1), None
    X, Y, X_test, _ = data
    model = shore.ShoreRegressor(5, n_components=1000, alpha=2.0, n_threads=2).fit(X, Y)
    predictor, rows = model.predictor(), sparse_rows(X_test)
    times = latencies(predictor, rows)
    one_by_one = latencies(lambda x: model.predict(x, n_threads=1), [(X_test[i : i + 1],) for i in range(500)])
    p50, p99 = np.quantile(times, [0.5, 0.99])
    yield "p50, us", f"{p50:.1f}", p50 < 100, "< 100"
    yield "p99, us", f"{p99:.1f}", p99 < 300, "< 300"
    faster = np.median(one_by_one) / p50
    yield "times faster than predict of one row, medians", f"{faster:.1f}", faster >= 3, ">= 3"
    turns = [[calls_per_second(predictor, rows, n) for n in (1, 2)] for _ in range(9)]
    low, median, high = np.quantile([two / one for one, two in turns], [0.25, 0.5, 0.75])
    yield "calls a second of two threads over one", f"{median:.2f} ({low:.2f} to {high:.2f})", median >= 1.7, ">= 1.7"


DENSE = (20_000, 5_000, 500)


def dense_problem():
    n, d, m = DENSE
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    return X, sparse_outputs(n, 20_000, 5), shore.ShoreRegressor(5, n_components=m, alpha=1.0, n_threads=2)


def fit_dense():
    """fit on dense X, n = 20,000, d = 5,000, m = 500, float32, two threads."""
    X, Y, model = dense_problem()
    B = model.fit(X, Y).compression_.compress(Y)
    measured = ratio(lambda: model.fit(X, Y), lambda: bare_blas(X, B, 1.0), turns=3)
    yield "time over the bare syrk, gemm, potrf, potrs", measured, measured.median <= 1.3, "<= 1.3"
    code = "import sys; sys.path.insert(0, sys.argv[1]); import bars; bars.report_peak()"
    here = str(Path(__file__).resolve().parent)
    done = subprocess.run([sys.executable, "-P", "-c", code, here], capture_output=True, text=True, check=True)
    peak = float(done.stdout)
    yield "peak memory past the inputs, in d² float32", f"{peak:.2f}", peak <= 2.5, "<= 2.5"


def report_peak():
    """Print the growth of the peak resident memory in a fit, in units of d² float32 (in a process of its own)."""
    X, Y, model = dense_problem()
    shore.ShoreRegressor(5, n_components=16, n_threads=2).fit(X[:200, :50], Y[:200])  # warm up BLAS and its buffers
    before = new_peak()
    model.fit(X, Y)
    print(peak_growth(before) / (4 * DENSE[1] ** 2))


FILE = (125_000, 2_000, 50_000)  # d, m, K


def file():
    """load of a 1 GB file, d = 125,000, m = 2,000, K = 50,000, and two processes that predict with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.shore")
        large_model(*FILE).save(path)
        size = path.stat().st_size
        for verify, bar in ((False, 50), (True, np.inf)):
            times = []
            for _ in range(3 if verify else 15):
                started = time.perf_counter()
                shore.load(path, verify=verify)
                times.append(1e3 * (time.perf_counter() - started))
            low, median, high = np.quantile(times, [0.25, 0.5, 0.75])
            name = f"{size / 1e9:.2f} GB, mmap, verify={verify}: ms"
            yield name, f"{median:.2f} ({low:.2f} to {high:.2f})", median < bar, f"< {bar}"
        code = "import sys; sys.path.insert(0, sys.argv[1]); import bars; bars.report_shares(sys.argv[2])"
        command = [sys.executable, "-P", "-c", code, str(Path(__file__).resolve().parent), str(path)]
        both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        readings = []
        for _ in range(3):  # at the start; with the model loaded and used; and then, when both of them are there
            readings.append([int(process.stdout.readline()) for process in both])
            for process in both:
                process.stdin.write("on\n")
                process.stdin.flush()
        for process in both:
            process.wait()
            process.stdin.close()
            process.stdout.close()
        share = (sum(readings[2]) - sum(readings[0])) / size
        yield "growth of the PSS of both processes, in files", f"{share:.2f}", share < 1.2, "< 1.2"


def report_shares(path):
    """Print the proportional set size before a model is used, after, and once more, each time waiting for a line."""
    X = sparse.csr_array(np.ones((4, 4), dtype=np.float32))
    shore.ShoreRegressor(1, n_components=8, n_threads=1).fit(X, X).predict(X)  # all libraries are there
    print(resident("Pss:", "smaps_rollup"), flush=True)
    sys.stdin.readline()
    model, d = shore.load(path, verify=False), FILE[0]
    features = np.random.default_rng(0).permutation(d)  # every row of W
    X = sparse.csr_array((np.ones(d, dtype=np.float32), features, np.arange(0, d + 1, 125)), shape=(d // 125, d))
    model.predict(X, n_threads=1)
    for _ in range(2):
        print(resident("Pss:", "smaps_rollup"), flush=True)
        sys.stdin.readline()


PARTS = {
    "projection": projection,
    "decoding": decoding,
    "one_row": one_row,
    "pursuit": pursuit,
    "reading": reading,
    "growth": growth,
    "citeulike": citeulike,
    "head_tail": head_tail,
    "serving": serving,
    "fit_dense": fit_dense,
    "file": file,
}


def main():
    global DATA
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], help=f"which: {', '.join(PARTS)}; all by default")
    parser.add_argument("--data", type=Path, default=DATA, help="where data sets are: name/X_train.npz and so on")
    given = parser.parse_args()
    DATA = given.data
    missed = 0
    for part in given.part or PARTS:
        print(PARTS[part].__doc__.strip())
        for name, value, reached, bar in PARTS[part]():
            missed += not reached
            print(f"  {name:<58} {value!s:>28}   bar {bar:<8} {'ok' if reached else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
