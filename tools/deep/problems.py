"""Random decoding problems, made to break what decides between outputs: from a seed and a number, always the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import shore

TESTS = Path(__file__).resolve().parents[2] / "tests"

# Of how often each is drawn. "ties", "duplicates" and so on are dense matrices.
PHI = {
    "gaussian": 3, "signs_16": 4, "signs_5": 1, "signs_2": 1, "signs_1": 1, "head_tail_16": 3, "head_tail_5": 1,
    "scaled": 1, "lengths": 3, "duplicates": 1, "near_duplicates": 1, "ulps": 1, "constant": 0.3, "integers": 1,
    "enormous": 0.3, "tiny": 0.3,
}  # fmt: skip
ROWS = {"planted": 5, "noise": 2, "equal": 1, "ulps": 1, "integers": 1, "scaled": 1, "zero": 0.1}
METHODS = {"pgd": 14, "omp": 1, "cd": 1, "fista": 1}
# Multiplications of a problem at about which its rows are cut.
WORK = 6e8


@dataclass
class Problem:
    """What one call of decode takes.

    Attributes
    ----------
    kind : str
        Of Φ.
    kinds : ndarray of str
        Of every row.
    generic : bool
        Whether ties happen by chance alone.
    patterns : bool
        Whether outputs are allowed or denied.
    """

    kind: str
    phi: Any
    B: Any
    kinds: Any
    sparsity: int
    options: dict[str, Any]
    n_threads: int
    generic: bool
    patterns: bool

    def describe(self) -> str:
        """One line."""
        shown = {name: value if np.ndim(value) == 0 else "..." for name, value in self.options.items()}
        return f"{self.phi!r} ({self.kind}), {self.B.shape[0]} rows, s = {self.sparsity}, {shown}"


def _pick(rng, weights):
    names = list(weights)
    chances = np.array([weights[name] for name in names])
    return names[rng.choice(len(names), p=chances / chances.sum())]


def _log_uniform(rng, low, high):
    return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))


def make_phi(rng, kind, m, K, dtype):
    """Φ of a kind of `PHI`."""
    seed = int(rng.integers(1 << 30))
    if kind == "gaussian":
        return shore.GaussianCompression(m, K, seed=seed, dtype=dtype)
    if kind.startswith("signs_"):
        return shore.SparseSignCompression(m, K, nnz_per_output=min(m, int(kind[6:])), seed=seed, dtype=dtype)
    if kind.startswith("head_tail_"):
        weights = rng.permutation(1 / np.arange(1.0, K + 1) ** rng.choice([0.5, 1.2, 3.0]))
        return shore.HeadTailCompression(m, weights, nnz_per_output=int(kind[10:]), seed=seed, dtype=dtype)
    M = rng.standard_normal((m, K)) / np.sqrt(m)
    few = -(-K // int(rng.integers(2, 6)))
    if kind == "scaled":
        M *= rng.uniform(0.2, 1.3, K)
    elif kind == "lengths":  # long columns among short ones, in few dimensions: nothing but their length bounds them
        M = rng.standard_normal((m, K))
        long = rng.random(K) < rng.choice([0.02, 0.2, 0.5])
        M *= np.where(long, 1.0, rng.choice([0.1, 0.3], K)) / np.linalg.norm(M, axis=0)
    elif kind == "duplicates":
        M = M[:, rng.integers(few, size=K)]
    elif kind == "near_duplicates":
        M = M[:, rng.integers(few, size=K)] * (1 + 1e-6 * rng.standard_normal((m, K)))
    elif kind == "constant":
        M[:] = 1 / np.sqrt(m)
    elif kind == "integers":
        M = rng.integers(-2, 3, size=(m, K)).astype(float)
        M *= 2.0 ** -np.ceil(np.log2(2 * m) / 2)
    elif kind == "enormous":
        M *= 1e10
    elif kind == "tiny":
        M *= 1e-12
    M = M.astype(dtype)
    if kind == "ulps":  # the same columns again, a unit in the last place away in some entries
        again = M[:, rng.integers(few, size=K)]
        M = np.where(rng.random((m, K)) < 0.1, np.nextafter(again, again * dtype(2)), again)
    return shore.MatrixCompression(M)


def make_constraint(rng):
    """Any of the feasible sets."""
    return [
        "real", "nonneg", "binary", shore.Box(-1, 2), shore.Box(0, 0.8), shore.Box(-0.3, 0.0),
        shore.Simplex(float(rng.choice([1.0, 2.0, 50.0]))),
    ][rng.choice(7, p=[0.25, 0.3, 0.15, 0.08, 0.08, 0.04, 0.1])]  # fmt: skip


def make_rows(rng, phi, n, sparsity, constraint):
    """B of n rows, and what kind of `ROWS` each is."""
    K, dtype = phi.n_outputs, phi.dtype
    s = min(sparsity, K, 40)
    kinds = rng.choice(list(ROWS), size=n, p=np.array(list(ROWS.values())) / sum(ROWS.values()))
    outputs = np.sort(rng.integers(K, size=(n, s)), axis=1)
    values = rng.uniform(0.5, 1.5, (n, s))
    values[np.isin(kinds, ("equal", "ulps"))] = 1.0
    if constraint == "binary":
        values[:] = 1.0
    if constraint == "real":
        values *= rng.choice([-1, 1], (n, s))
    Y = sparse.csr_array((values.ravel(), outputs.ravel(), np.arange(n + 1) * s), shape=(n, K))
    Y.sum_duplicates()
    B = phi.compress(Y).astype(np.float64)
    size = np.linalg.norm(B, axis=1, keepdims=True) / np.sqrt(phi.n_components)
    noise = rng.choice([0.0, 0.03, 0.1, 0.5, 3.0], size=(n, 1))
    noise[np.isin(kinds, ("equal", "ulps"))] = 0
    B += noise * size * rng.standard_normal(B.shape)
    B[kinds == "noise"] = rng.standard_normal((int(np.sum(kinds == "noise")), B.shape[1]))
    B[kinds == "integers"] = np.round(B[kinds == "integers"] * 4)
    B[kinds == "zero"] = 0
    powers = 60 if dtype == np.float32 else 300
    B[kinds == "scaled"] *= 2.0 ** rng.integers(-powers, powers // 2, size=(int(np.sum(kinds == "scaled")), 1))
    B = B.astype(dtype)
    moved = (kinds == "ulps")[:, None] & (rng.random(B.shape) < 0.2)
    return np.where(moved, np.nextafter(B, B * dtype.type(2)), B), kinds


def make_patterns(rng, n, K, constraint):
    """Options that restrict the support, mostly none. They leave a simplex an output for every row."""
    which = rng.choice(["none", "mask", "rows"], p=[0.8, 0.12, 0.08])
    if which == "none":
        return {}
    name = str(rng.choice(["allowed", "denied"]))
    share = rng.choice([0.05, 0.5, 0.9])
    if which == "mask":
        pattern = rng.random(K) < share
        listed = np.array([pattern.sum()])
    else:
        pattern = sparse.random_array((n, K), density=min(share, 2e6 / (n * K)), rng=rng, format="csr")
        listed = np.diff(pattern.indptr)
    if isinstance(constraint, shore.Simplex) and np.any(listed == (0 if name == "allowed" else K)):
        return {}
    return {name: pattern}


def draw_problem(seed: int, number: int, most: int) -> Problem:
    """The problem of that number, with at most so many rows."""
    rng = np.random.default_rng([seed, number])
    kind, method, dtype = _pick(rng, PHI), _pick(rng, METHODS), np.dtype(rng.choice(["f4", "f8"]))
    K = _log_uniform(rng, 1, 300) if rng.random() < 0.15 else _log_uniform(rng, 100, 3000)
    if rng.random() < 0.12:
        K = _log_uniform(rng, 3000, 30_000)
    m = _log_uniform(rng, 1, 30) if rng.random() < 0.15 else _log_uniform(rng, 20, 200)
    if kind == "lengths":
        m, K = int(rng.integers(2, 7)), _log_uniform(rng, 3, 300)
    s = int(rng.choice([1, 2, 3, 5, 10, 20, 40, 65, 130], p=[0.16, 0.1, 0.25, 0.2, 0.15, 0.05, 0.04, 0.03, 0.02]))
    constraint = make_constraint(rng)
    options: dict[str, Any] = {
        "method": method,
        "constraint": constraint,
        "step": float(rng.choice([0.9, 0.5, 0.1, 1.7, 30.0], p=[0.5, 0.2, 0.1, 0.15, 0.05])),
        "max_iter": int(rng.choice([1, 2, 5, 20, 60], p=[0.02, 0.03, 0.15, 0.4, 0.4])),
        "tol": float(rng.choice([1e-3, 1e-6, 0.0], p=[0.6, 0.2, 0.2])),
    }
    if method == "pgd" and rng.random() < 0.1:
        options["decode_sparsity"] = s + int(rng.integers(1, 10))
    phi = make_phi(rng, kind, m, K, dtype.type)
    entries = 4 if kind.startswith(("signs", "head")) else m  # in additions that cost as much
    n = int(np.clip(WORK / (K * entries * 15), 20, most))
    B, kinds = make_rows(rng, phi, n, s, constraint)
    patterns = make_patterns(rng, n, K, constraint)
    generic = kind in ("gaussian", "signs_16", "scaled", "head_tail_16")
    return Problem(
        kind, phi, B, kinds, s, options | patterns, int(rng.integers(1, 3)), generic, bool(patterns)
    )  # fmt: skip
