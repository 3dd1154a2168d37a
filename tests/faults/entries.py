"""Whatever of shore allocates: calls on a small problem, each with the state that it must leave as it is."""

import contextlib
import io
import itertools
import os
import sys
from pathlib import Path

import numpy as np
from bits import bits, folder_bits
from scipy import sparse

import shore
from shore import metrics, theory
from shore.cli import main
from shore.compression import Compression
from shore.datasets import XmcReader, load_xmc, make_synthetic, save_xmc

sys.path.append(str(Path(__file__).parents[1]))
import through_c

# Arrays of a number for every row, output, or feature and component are larger than what is left out.
N, D, K, M = 280, 30, 300, 24

PROBLEM = make_synthetic(N, D, K, sparsity=3, seed=2)
X, Y = PROBLEM.X, PROBLEM.Y
X_CSR = sparse.csr_array(X * (np.random.default_rng(0).random(X.shape) < 0.5))
ALLOWED = sparse.csr_array(np.random.default_rng(1).random((N, K)) < 0.5)
THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
FREQUENCIES = 1 / np.arange(1, K + 1)
DTYPES = {"float32": np.float32, "float64": np.float64}


class Entry:
    """A call, what must be the same after it has failed, and what there is after a success."""

    def __init__(self, name, call, state=lambda: None):
        self.name, self.call, self._state = name, call, state

    def reset(self):
        """As before the first call."""

    def state(self):
        return self._state()

    def made(self):
        return self.state()


def phis(dtype):
    rng = np.random.default_rng(0)
    return {
        "gaussian": shore.GaussianCompression(M, K, dtype=dtype),
        "signs": shore.SparseSignCompression(M, K, dtype=dtype),
        "matrix": shore.MatrixCompression((rng.standard_normal((M, K)) / M**0.5).astype(dtype)),
        "head-tail": shore.HeadTailCompression(M, FREQUENCIES, dtype=dtype),
    }


def of_kernels():
    """Projection, decoding, products with Φ, and making it."""
    for name, dtype in DTYPES.items():
        V = np.random.default_rng(0).standard_normal((N, K)).astype(dtype)
        limits = {"allowed": ALLOWED, "denied": [3, 5], "n_threads": THREADS}
        for layout, rows in (("dense", V), ("CSR", sparse.csr_array(V)), ("converted", V.T.copy().T)):
            yield Entry(f"project {layout} {name}", lambda rows=rows, limits=limits: shore.project(rows, 3, **limits))
        made = phis(dtype)
        for (kind, phi), method in itertools.product(made.items(), ("pgd", "cd", "omp", "fista")):
            B = phi.compress(Y)
            yield Entry(
                f"decode {method} {kind} {name}",
                lambda B=B, phi=phi, method=method, limits=limits: shore.decode(
                    B, phi, 3, method=method, constraint="nonneg", return_info=True, max_iter=8, **limits
                ),
            )
        B = made["signs"].compress(Y)
        for constraint in ("real", "binary", shore.Box(0, 0.75), shore.Simplex(2.0)):
            yield Entry(
                f"decode {constraint} {name}",
                lambda B=B, phi=made["signs"], constraint=constraint: shore.decode(
                    B, phi, 3, constraint=constraint, return_info=True, max_iter=8, n_threads=THREADS
                ),
            )
        for kind, phi in made.items():
            R = phi.compress(Y)
            yield Entry(f"compress sparse {kind} {name}", lambda phi=phi: phi.compress(Y, n_threads=THREADS))
            yield Entry(f"compress dense {kind} {name}", lambda phi=phi: phi.compress(Y.toarray()))
            yield Entry(f"correlate {kind} {name}", lambda phi=phi, R=R: phi.correlate(R, n_threads=THREADS))
            yield Entry(f"toarray {kind} {name}", phi.toarray)
            yield Entry(f"norm {kind} {name}", lambda phi=phi: Compression.squared_norm(_fresh(phi)))
        matrix = made["matrix"].toarray()
        for kind, make in {
            "gaussian": lambda dtype=dtype: shore.GaussianCompression(M, K, dtype=dtype),
            "signs": lambda dtype=dtype: shore.SparseSignCompression(M, K, dtype=dtype),
            "matrix": lambda matrix=matrix: shore.MatrixCompression(matrix),
            "head-tail": lambda dtype=dtype: shore.HeadTailCompression(M, FREQUENCIES, dtype=dtype),
        }.items():
            yield Entry(f"make {kind} {name}", make)


def _fresh(phi):
    phi.__dict__.pop("_squared_norm", None)
    return phi


def of_models():
    """Fits leave a model as it was; predictions leave it as it is."""
    weights = np.random.default_rng(0).random(N) + 0.5
    solvers = ("cholesky", "dual", "cg")
    for (layout, rows), solver in itertools.product({"dense": X, "CSR": X_CSR}.items(), solvers):
        for name, dtype in DTYPES.items():
            options = {"n_components": M, "solver": solver, "dtype": dtype, "n_threads": THREADS, "fit_intercept": True}
            yield _fitting(
                f"fit {solver} {layout} {name}", options, lambda m, r=rows: m.fit(r, Y, sample_weight=weights)
            )
    for layout, rows in {"dense": X, "CSR": X_CSR}.items():
        for compression in ("head_tail", "sparse_sign", "gaussian", None):
            options = {"n_components": M, "compression": compression}
            yield _fitting(f"fit {compression} {layout}", options, lambda m, r=rows: m.fit(r, Y))
            yield _fitting(
                f"partial_fit {compression} {layout}", options, lambda m, r=rows: m.partial_fit(r, Y), partly=True
            )
        yield _fitting(f"fit alpha=auto {layout}", {"n_components": M, "alpha": "auto"}, lambda m, r=rows: m.fit(r, Y))
    for mine_made, its_made in itertools.product((True, False), repeat=2):
        yield _merging(mine_made, its_made)
    partly = shore.ShoreRegressor(3, n_components=M).partial_fit(X, Y)
    yield _InPlace("predict after partial_fit", partly, dict(partly.__dict__), lambda m: m.predict(X), lazily=True)
    for compression, name in itertools.product(("head_tail", "gaussian", None), DTYPES):
        model = shore.ShoreRegressor(3, n_components=M, compression=compression, dtype=DTYPES[name]).fit(X, Y)
        for layout, rows in {"dense": X, "CSR": X_CSR}.items():
            yield Entry(
                f"predict {compression} {layout} {name}", lambda m=model, r=rows: m.predict(r, n_threads=THREADS),
                lambda m=model: bits(m),
            )  # fmt: skip
        predictor = model.predictor()
        yield Entry(
            f"predictor {compression} {name}",
            lambda p=predictor: [p(X[0]), p(X[1].astype(np.float64)), p(X_CSR[[2]].indices, X_CSR[[2]].data)],
        )
        yield Entry(
            f"make predictor {compression} {name}", lambda m=model: m.predictor()(X[0]), lambda m=model: bits(m)
        )
        yield Entry(f"explain {compression} {name}", lambda m=model: m.explain(X[:3]), lambda m=model: bits(m))


def _fitting(name, options, fit, *, partly=False):
    """A fit of a model that is fitted already, to other rows: as it was, or as the new fit leaves it."""
    model = shore.ShoreRegressor(3, **options)
    (model.partial_fit if partly else model.fit)(X[:140], Y[:140])
    return _InPlace(name, model, dict(model.__dict__), fit)


class _InPlace(Entry):
    """A call that changes a model: all of it or nothing."""

    def __init__(self, name, model, before, change, *, lazily=False):
        super().__init__(name, lambda: change(model) if lazily else change(model) and None)
        self.model, self.before, self.lazily = model, before, lazily

    def reset(self):
        self.model.__dict__.clear()
        self.model.__dict__.update(self.before)

    def state(self):
        return None if self.lazily else bits(self.model)  # W may be there or not, as long as predictions are the same

    def made(self):
        return [bits(self.model.__dict__), bits(self.model.predict(X)), bits(self.model.coef_)]


def _merging(mine_made, its_made):
    """Models of partial_fit whose Φ is that of all rows so far, or was made for good."""
    models = []
    for part, is_made in ((slice(0, 140), mine_made), (slice(140, N), its_made)):
        model = shore.ShoreRegressor(3, n_components=M).partial_fit(X[part], Y[part])
        if is_made:
            model._compression = model._statistics.compression()
            model._statistics = model._statistics.compressed(model._compression)
        models.append(model)
    if mine_made and its_made:
        models[1]._compression = models[0]._compression
    name = f"merge {'made' if mine_made else 'later'} {'made' if its_made else 'later'}"
    return _InPlace(name, models[0], dict(models[0].__dict__), lambda model: model.merge(models[1]))


class _Filing(Entry):
    """A call that writes a file in place of an old one: the new one, or the old one and nothing else."""

    def __init__(self, name, folder, path, write, *, is_model=False):
        super().__init__(name, write)
        self.folder, self.path, self.is_model = folder, path, is_model
        self.old = b"the old file"
        self.reset()

    def reset(self):
        self.path.write_bytes(self.old)

    def state(self):
        return folder_bits(self.folder)

    def made(self):
        """The metadata of a model come in any order."""
        return [bits(shore.load(self.path)), os.listdir(self.folder)] if self.is_model else self.state()


def of_files(folder):
    """Model files, text files, and the command line."""
    model = shore.ShoreRegressor(3, n_components=M).fit(X, Y)
    inputs, written = folder / "inputs", folder / "written"
    inputs.mkdir()
    written.mkdir()
    model.save(inputs / "m.shore")
    save_xmc(inputs / "x.txt", X, Y)
    save_xmc(inputs / "x.txt.gz", X, Y)
    for weights in (None, "float16"):
        path = written / "m.shore"
        yield _Filing(
            f"save {weights}", written, path, lambda w=weights, p=path: model.save(p, weights=w), is_model=True
        )
        path.unlink()
    for mmap, verify in itertools.product((True, False), repeat=2):
        yield Entry(
            f"load mmap={mmap} verify={verify}",
            lambda m=mmap, v=verify: shore.load(inputs / "m.shore", mmap=m, verify=v), lambda: folder_bits(inputs),
        )  # fmt: skip
    for name in ("x.txt", "x.txt.gz"):
        yield Entry(f"load_xmc {name}", lambda n=name: load_xmc(inputs / n))
        path = written / name
        yield _Filing(f"save_xmc {name}", written, path, lambda p=path: save_xmc(p, X_CSR, Y))
        path.unlink()
    yield Entry("XmcReader", lambda: list(_blocks(inputs / "x.txt")))
    commands = {
        "fit": ["fit", str(inputs / "x.txt"), "--sparsity", "3", "--components", str(M), "--output"],
        "predict": ["predict", str(inputs / "m.shore"), str(inputs / "x.txt"), "--output"],
        "explain": ["explain", str(inputs / "m.shore"), str(inputs / "x.txt"), "--output"],
    }
    for name, words in commands.items():
        path = written / "out"
        call = lambda w=words, p=path: _command([*w, str(p), "--quiet"])  # noqa: E731
        yield _Filing(f"shore {name}", written, path, call, is_model=name == "fit")
        path.unlink()


def _blocks(path):
    with XmcReader(path, rows=7) as reader:
        yield from reader


def _command(words):
    """A command; that it has no memory, which it says, is an error again here."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main(words)
    if code == 2 and said.getvalue().startswith("shore: not enough memory"):
        raise MemoryError
    if code != 0:
        raise AssertionError(f"{code}: {said.getvalue()}")


def of_c_interface():
    """Only the capsules allocate; the functions work in what they are given."""
    for name, dtype in DTYPES.items():
        for kind, phi in phis(dtype).items():
            B = phi.compress(Y)

            def call(phi=phi, B=B):
                capsule = shore.capi.phi(phi)
                code, slots = through_c.decode(B, capsule, through_c.decoding_of(3, constraint="nonneg"))
                assert code == 0
                return slots.csr(K)

            yield Entry(f"C interface {kind} {name}", call)


def of_theory():
    """What the theorems say of Φ, of data and of a model."""
    model = shore.ShoreRegressor(3, n_components=M).fit(X, Y)
    for kind, phi in phis(np.float32).items():
        yield Entry(
            f"rip_estimate {kind}",
            lambda phi=phi: theory.rip_estimate(phi, 6, n_supports=20, refine=True, n_threads=THREADS),
        )
    for layout, rows in {"dense": X, "CSR": X_CSR}.items():
        yield Entry(
            f"moments {layout}",
            lambda r=rows: theory.sample_sizes(
                theory.Moments.from_data(r, Y, model.compression_, n_threads=THREADS), epsilon=0.1
            ),
        )
        yield Entry(
            f"report {layout}", lambda r=rows: theory.report(model, r, Y, n_supports=20, n_threads=THREADS),
            lambda: bits(model),
        )  # fmt: skip
    yield Entry("head_size", lambda: theory.head_size(M, FREQUENCIES))


def of_metrics():
    predicted = shore.ShoreRegressor(3, n_components=M).fit(X, Y).predict(X)
    phi = shore.SparseSignCompression(M, K)
    B, shares = phi.compress(Y), metrics.propensities(Y)
    for layout, true in {"CSR": Y, "dense": Y.toarray()}.items():
        for metric in (metrics.precision_at_k, metrics.recall_at_k, metrics.ndcg_at_k):
            yield Entry(f"{metric.__name__} {layout}", lambda metric=metric, Y=true: metric(Y, predicted, 3))
        yield Entry(f"propensities {layout}", lambda Y=true: metrics.propensities(Y))
        yield Entry(
            f"propensity_scored_precision_at_k {layout}",
            lambda Y=true: metrics.propensity_scored_precision_at_k(Y, predicted, 3, propensity=shares),
        )
        yield Entry(f"output_difference {layout}", lambda Y=true: metrics.output_difference(Y, predicted))
        yield Entry(f"training_loss {layout}", lambda Y=true: metrics.training_loss(Y, B, phi))
        yield Entry(f"prediction_loss {layout}", lambda Y=true: metrics.prediction_loss(Y, B, phi))


def of_problems():
    """Data that is made, and what is picked for data."""
    for name, dtype in DTYPES.items():
        yield Entry(
            f"make_synthetic {name}",
            lambda dtype=dtype: make_synthetic(N, D, K, dtype=dtype, n_threads=THREADS).__dict__,
        )
    for layout, rows in {"dense": X, "CSR": X_CSR}.items():
        yield Entry(f"tune {layout}", lambda r=rows: _tuned(r))


def _tuned(rows):
    """The trials without their times."""
    found = shore.tune(
        rows, Y, sparsity=3, n_components=[M], alphas=[1.0], compressions=("head_tail", None), n_threads=THREADS
    )
    return [(t.compression, t.n_components, t.alpha, t.precision, t.bytes) for t in found.trials]


def all_entries(folder):
    yield from of_kernels()
    yield from of_models()
    yield from of_files(folder)
    yield from of_c_interface()
    yield from of_theory()
    yield from of_metrics()
    yield from of_problems()
