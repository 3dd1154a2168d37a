"""Stage 2: projected gradient descent on compressed outputs."""

from typing import ClassVar

import numpy as np

import shore

from .problems import KINDS, compressed, sparse_outputs
from .projection import CONSTRAINTS
from .ratio import ratio


class Decode:
    """Rows of b to sparse outputs; one parameter varies at a time around K = 20,000, m = 500, s = 3, n = 512."""

    base: ClassVar = {
        "kind": "sparse_sign",
        "n_outputs": 20_000,
        "n_components": 500,
        "sparsity": 3,
        "n": 512,
        "constraint": "nonneg",
        "n_threads": 2,
        "dtype": "float32",
    }
    cases = (
        "kind=sparse_sign", "kind=gaussian", "n_outputs=2000", "n_outputs=200000", "n_components=100",
        "n_components=2000", "sparsity=1", "sparsity=10", "sparsity=50", "n=1", "n=64", "n=4096",
        "constraint=real", "constraint=binary", "constraint=box", "constraint=simplex", "n_threads=1", "dtype=float64",
    )  # fmt: skip
    params = (list(cases),)
    param_names = ("case",)

    def setup(self, case):
        name, _, value = case.partition("=")
        given = {**self.base, name: type(self.base[name])(value)}
        self.phi = KINDS[given["kind"]](given["n_components"], given["n_outputs"], dtype=given["dtype"])
        Y = sparse_outputs(given["n"], given["n_outputs"], given["sparsity"])
        self.B = compressed(self.phi, Y)
        self.sparsity = given["sparsity"]
        self.options = {"constraint": CONSTRAINTS[given["constraint"]], "n_threads": given["n_threads"]}

    def decode(self, **options):
        return shore.decode(self.B, self.phi, self.sparsity, **self.options, **options)

    def time_decode(self, case):
        self.decode()

    def peakmem_decode(self, case):
        self.decode()

    def track_full_passes(self, case):
        return float(self.decode(return_info=True)[1].full_passes.mean())

    def track_iterations(self, case):
        return float(self.decode(return_info=True)[1].n_iter.mean())


class Methods:
    """The decoders beside projected gradient descent, at K = 20,000, m = 500, s = 3."""

    params = (["pgd", "cd", "omp", "fista"], list(KINDS))
    param_names = ("method", "kind")

    def setup(self, method, kind):
        self.phi = KINDS[kind](500, 20_000)
        self.phi.squared_norm()
        self.Y = sparse_outputs(128, 20_000, 3)
        self.B = compressed(self.phi, self.Y)

    def decode(self, method):
        return shore.decode(self.B, self.phi, 3, method=method, constraint="nonneg", n_threads=2)

    def time_decode(self, method, kind):
        self.decode(method)

    def peakmem_decode(self, method, kind):
        self.decode(method)

    def track_precision(self, method, kind):
        return shore.metrics.precision_at_k(self.Y, self.decode(method), 3)


class AgainstBlas:
    """Time of decoding over the time of one BLAS product of Φᵀ and B, same threads: what one gradient costs."""

    params = (list(KINDS), [300, 500, 1000])
    param_names = ("kind", "n_components")
    unit = "BLAS products"

    def setup(self, kind, n_components):
        self.phi = KINDS[kind](n_components, 20_000)
        self.columns = np.ascontiguousarray(self.phi.toarray().T)
        self.B = compressed(self.phi, sparse_outputs(512, 20_000, 3))

    def track_ratio(self, kind, n_components):
        measured = ratio(
            lambda: shore.decode(self.B, self.phi, 3, constraint="nonneg", n_threads=2),
            lambda: self.columns @ self.B.T,
            turns=5,
        )
        return measured.median


class Tables:
    """Making of Φ."""

    params = (list(KINDS),)
    param_names = ("kind",)

    def time_make(self, kind):
        KINDS[kind](500, 20_000)


def time_make_million_sign_columns():
    shore.SparseSignCompression(2000, 1_000_000)


class Compress:
    params = (list(KINDS),)
    param_names = ("kind",)

    def setup(self, kind):
        self.phi = KINDS[kind](500, 20_000)
        self.Y = sparse_outputs(20_000, 20_000, 5)

    def time_compress(self, kind):
        self.phi.compress(self.Y, n_threads=2)
