"""Π: projection of rows onto the s-sparse vectors of a feasible set."""

import numpy as np
from scipy import sparse

import shore

from .ratio import ratio

CONSTRAINTS = {
    "real": "real",
    "nonneg": "nonneg",
    "binary": "binary",
    "box": shore.Box(-1, 2),
    "simplex": shore.Simplex(),
}


def rows(n_outputs, n=64, dtype=np.float32):
    return np.random.default_rng(0).standard_normal((n, n_outputs), dtype=dtype)


def project_numpy(V, sparsity):
    """What one would write without shore: argpartition of the sizes, then the CSR of the winners."""
    best = np.argpartition(np.abs(V), V.shape[1] - sparsity, axis=1)[:, -sparsity:]
    best.sort(axis=1)
    indptr = np.arange(0, V.shape[0] * sparsity + 1, sparsity)
    return sparse.csr_array((np.take_along_axis(V, best, axis=1).ravel(), best.ravel(), indptr), shape=V.shape)


class Dense:
    """One thread, by K, s and F."""

    params = ([10_000, 1_000_000], [1, 5, 500], list(CONSTRAINTS))
    param_names = ("n_outputs", "sparsity", "constraint")

    def setup(self, n_outputs, sparsity, constraint):
        self.V = rows(n_outputs, n=max(4, 2_000_000 // n_outputs))

    def time_project(self, n_outputs, sparsity, constraint):
        shore.project(self.V, sparsity, CONSTRAINTS[constraint], n_threads=1)


class Threads:
    params = ([1, 2],)
    param_names = ("n_threads",)

    def setup(self, n_threads):
        self.V = rows(100_000, n=128)
        self.csr = sparse.random(20_000, 100_000, density=1e-3, format="csr", random_state=np.random.default_rng(0))

    def time_dense(self, n_threads):
        shore.project(self.V, 5, n_threads=n_threads)

    def time_csr(self, n_threads):
        shore.project(self.csr, 5, n_threads=n_threads)

    def peakmem_dense(self, n_threads):
        shore.project(self.V, 5, n_threads=n_threads)


class AgainstNumPy:
    """How many times faster than argpartition, one thread each."""

    params = ([1, 5, 50],)
    param_names = ("sparsity",)
    unit = "times faster"

    def setup(self, sparsity):
        self.V = rows(100_000, n=64)

    def track_speedup(self, sparsity):
        measured = ratio(
            lambda: project_numpy(self.V, sparsity), lambda: shore.project(self.V, sparsity, n_threads=1), turns=5
        )
        return measured.median
