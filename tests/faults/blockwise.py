"""Calls that work piece by piece, on a small problem."""

import numpy as np

import shore
from shore.datasets import make_synthetic

PHI = shore.SparseSignCompression(40, 300)
DENSE = shore.GaussianCompression(40, 300)
DATA = make_synthetic(700, 20, 300, sparsity=3)
MODEL = shore.ShoreRegressor(3, n_components=40, n_threads=1).fit(DATA.X, DATA.Y)
ALLOWED = (DATA.Y != 0).astype(np.float32)
BLOCKWISE = {
    "project": lambda: shore.project(DATA.Y.toarray(), 2, allowed=ALLOWED, n_threads=1),
    "project CSR": lambda: shore.project(DATA.Y, 2, allowed=ALLOWED, n_threads=1),
    "decode": lambda: shore.decode(PHI.compress(DATA.Y), PHI, 3, allowed=ALLOWED, n_threads=1, return_info=True),
    "decode dense": lambda: shore.decode(DENSE.compress(DATA.Y), DENSE, 3, n_threads=1),
    "compress": lambda: PHI.compress(DATA.Y, n_threads=1),
    "compress dense": lambda: DENSE.compress(DATA.Y.toarray(), n_threads=1),
    "correlate": lambda: PHI.correlate(PHI.compress(DATA.Y), n_threads=1),
    "make": lambda: shore.GaussianCompression(9, 200),
    "predict": lambda: MODEL.predict(DATA.X),
    "predict CSR": lambda: MODEL.predict(DATA.Y[:, :20]),
    "fit CSR": lambda: shore.ShoreRegressor(3, n_components=9, solver="cholesky").fit(DATA.Y[:, :20], DATA.Y),
}
