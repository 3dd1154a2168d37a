"""Stage 1: least squares on compressed outputs."""

import numpy as np
from scipy import linalg, sparse

import shore

from .problems import sparse_outputs


def text_like(n, d, per_row=20, seed=0):
    """CSR rows with word frequencies as in text, L2-normalised."""
    rng = np.random.default_rng(seed)
    words = np.minimum((d ** rng.random(n * per_row)).astype(np.int64), d - 1)
    X = sparse.csr_array((rng.random(n * per_row) + 0.1, (np.repeat(np.arange(n), per_row), words)), shape=(n, d))
    lengths = np.sqrt(np.repeat(np.add.reduceat(X.data**2, X.indptr[:-1]), np.diff(X.indptr)))
    return sparse.csr_array((X.data / lengths, X.indices, X.indptr), shape=X.shape).astype(np.float32)


def scipy_cg(X, B, alpha, tol):
    """The same block conjugate gradients with SciPy's sparse products: what one would write without shore."""
    Xt = X.T.tocsr()
    R = Xt @ B
    P, W = R.copy(), np.zeros_like(R)
    rr = np.einsum("fc,fc->c", R, R)
    goal = tol * tol * rr
    steps = 0
    while (rr > goal).any():
        Q = X @ P
        AP = Xt @ Q + alpha * P
        step = rr / np.einsum("fc,fc->c", P, AP)
        step[rr <= goal] = 0
        W += step * P
        R -= step * AP
        after = np.einsum("fc,fc->c", R, R)
        P = R + after / rr * P
        rr, steps = after, steps + 1
    return W, steps


def bare_blas(X, B, alpha):
    """The BLAS and LAPACK calls that ridge by normal equations needs: syrk, gemm, potrf, potrs."""
    G = linalg.blas.ssyrk(1.0, X.T, lower=1)
    C = X.T @ B
    G.flat[:: G.shape[0] + 1] += alpha
    factor, _ = linalg.lapack.spotrf(G, lower=1, overwrite_a=1, clean=0)
    return linalg.lapack.spotrs(factor, np.asfortranarray(C), lower=1, overwrite_b=1)[0]


class Fit:
    params = (["dense", "csr"], [200, 1000])
    param_names = ("kind", "n_components")

    def setup(self, kind, n_components):
        n, d = (5000, 1000) if kind == "dense" else (10_000, 10_000)
        self.X = (
            text_like(n, d) if kind == "csr" else np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
        )
        self.Y = sparse_outputs(n, 20_000, 5)
        self.model = shore.ShoreRegressor(5, n_components=n_components, alpha=2.0, n_threads=2)
        self.fitted = shore.ShoreRegressor(5, n_components=n_components, alpha=2.0, n_threads=2).fit(self.X, self.Y)

    def time_fit(self, kind, n_components):
        self.model.fit(self.X, self.Y)

    def time_predict(self, kind, n_components):
        self.fitted.predict(self.X[:1000])

    def peakmem_fit(self, kind, n_components):
        self.model.fit(self.X, self.Y)
