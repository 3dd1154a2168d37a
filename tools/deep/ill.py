"""Least squares with a condition that is prescribed, and their solutions in 50 digits."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from scipy import linalg, sparse

CONDITIONS = (1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12)
SHAPES = {"tall": (36, 12), "wide": (12, 36)}
SPECTRA = ("geometric", "graded")
# Centred is with fit_intercept; weights lie between 1/4 and 4.
PREPARATIONS = ("plain", "centred", "weighted")
# Penalties, where the largest singular value of X is about 1.
ALPHAS = (0.0, 1e-10, 1e-2)
# random: mostly in the smallest singular directions, as is usual. smooth: X times a moderate W, as predictable outputs
# have it. orthogonal: that, and far larger what no W explains, which makes the problem itself as bad as the square.
TARGETS = ("random", "smooth", "orthogonal")
_DIGITS, _COLUMNS = 50, 3


@dataclass(frozen=True)
class Case:
    """A problem but for its penalty and targets."""

    condition: float
    shape: str
    layout: str  # dense or csr
    spectrum: str
    preparation: str
    dtype: str
    seed: int = 0


@dataclass(frozen=True)
class Data:
    """X and weights as stored, which are the exact input, and targets by name."""

    X: Any
    weights: Any
    targets: dict[str, Any]

    @property
    def dense(self) -> Any:
        """X as an array of float64."""
        return (self.X.toarray() if sparse.issparse(self.X) else self.X).astype(np.float64)


@contextlib.contextmanager
def warnings_of_w():
    """A list that gets what is said of a W that is not good; any other warning is an error."""
    texts = []
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("error")
        warnings.simplefilter("always", linalg.LinAlgWarning)
        warnings.filterwarnings("always", "conjugate gradients stopped", RuntimeWarning)
        yield texts
    texts += [str(warning.message) for warning in given]


def _orthogonal(rng, n, k):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def _rotated(rng, X, times):
    """X with random pairs of rows, and of columns, rotated: stays sparse, and keeps its singular values."""
    for _ in range(2):
        X = X.T
        for _ in range(times):
            i, k = rng.choice(X.shape[0], 2, replace=False)
            angle = rng.uniform(0, 2 * np.pi)
            c, s = np.cos(angle), np.sin(angle)
            X[i], X[k] = c * X[i] + s * X[k], c * X[k] - s * X[i]
    return X


def make_data(case: Case) -> Data:
    """The data of a case."""
    rng = np.random.default_rng([case.seed, int(np.log10(case.condition)), case.shape == "tall"])
    n, d = SHAPES[case.shape]
    k = min(n, d)
    values = np.geomspace(1, 1 / case.condition, k)
    graded = case.spectrum == "graded"
    if case.layout == "csr":
        X = np.zeros((n, d))
        X[np.arange(k), np.arange(k)] = 1 if graded else values
        X = _rotated(rng, X, 2 * max(n, d) // 3)
    else:
        U, V = _orthogonal(rng, n, k), _orthogonal(rng, d, k)
        X = (U if graded else U * values) @ V.T
    if graded:  # badly scaled columns; of wide rows, badly scaled rows, which keep the condition
        X *= rng.permutation(np.geomspace(1, 1 / case.condition, d)) if n > d else values[:, None]
    X = X.astype(case.dtype)
    if case.preparation == "centred" and case.layout == "dense" and not (graded and n < d):  # it would drown rows
        X += (rng.standard_normal(d) * np.linalg.norm(X, axis=0) / np.sqrt(d)).astype(case.dtype)
    weights = None if case.preparation != "weighted" else rng.uniform(0.25, 4, n).astype(case.dtype).astype(np.float64)
    X64 = X.astype(np.float64)
    smooth = X64 @ rng.standard_normal((d, _COLUMNS))
    noise = rng.standard_normal((n, _COLUMNS))
    Q = np.linalg.qr(np.column_stack([X64, np.ones(n)]) if n > d else np.eye(n))[0]
    root = 1.0 if weights is None else np.sqrt(weights)[:, None]
    if n > d and weights is not None:
        Q = np.linalg.qr(root * np.column_stack([X64, np.ones(n)]))[0]
    rest = (noise - Q @ (Q.T @ noise)) / root
    targets = {"random": noise, "smooth": smooth}
    if n > d:
        targets["orthogonal"] = smooth + rest
    made = {name: B.astype(case.dtype) for name, B in targets.items()}
    return Data(sparse.csr_array(X) if case.layout == "csr" else X, weights, made)


def exact_solutions(case: Case, data: Data, alphas) -> dict[tuple[float, str], Any]:
    """W of shape (d, w), by penalty and targets: least squares, of least norm where there are more of them."""
    names = list(data.targets)
    X, B = data.dense, np.column_stack([data.targets[name].astype(np.float64) for name in names])
    n, d = X.shape
    centred = case.preparation != "plain"
    with mpmath.workdps(_DIGITS):
        root = [mpmath.sqrt(w) for w in (np.ones(n) if data.weights is None else data.weights)]
        both = np.array([[mpmath.mpf(v) for v in row] for row in np.column_stack([X, B])], dtype=object)
        if centred:
            total = sum((r * r for r in root), mpmath.mpf(0))
            both = both - sum(both[i] * root[i] ** 2 for i in range(n)) / total
        both = both * np.array(root, dtype=object)[:, None]
        X, B = both[:, :d], both[:, d:]
        found = {}
        for alpha in alphas:
            if n > d:
                W = _solve(X.T @ X, alpha, X.T @ B)
            else:
                G = X @ X.T
                if centred and alpha == 0:  # its one direction of no use, in which B is 0 too
                    G = G + np.outer(root, root)
                W = X.T @ _solve(G, alpha, B)
            W = W.astype(np.float64)
            for i, name in enumerate(names):
                found[alpha, name] = W[:, i * _COLUMNS : (i + 1) * _COLUMNS]
    return found


def _solve(G, alpha, C):
    """(G + alpha)⁻¹ C for a positive definite G, by its Cholesky factor."""
    G, k = G.copy(), len(G)
    for j in range(k):
        G[j, j] += alpha
    L = np.zeros_like(G)
    for j in range(k):
        L[j, j] = mpmath.sqrt(G[j, j] - (L[j, :j] @ L[j, :j] if j else 0))
        if j + 1 < k:
            L[j + 1 :, j] = (G[j + 1 :, j] - (L[j + 1 :, :j] @ L[j, :j] if j else 0)) / L[j, j]
    Z = C.copy()
    for j in range(k):
        Z[j] = (Z[j] - (L[j, :j] @ Z[:j] if j else 0)) / L[j, j]
    for j in range(k - 1, -1, -1):
        Z[j] = (Z[j] - (L[j + 1 :, j] @ Z[j + 1 :] if j + 1 < k else 0)) / L[j, j]
    return Z
