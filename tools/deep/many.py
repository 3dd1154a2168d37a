"""Least squares of many features and outputs, where `auto` takes conjugate gradients, with their exact solutions.

X is of blocks of two by two, each a rotation of two singular values, so that W* is known block by block: in extended
precision, of X as stored. Few directions are bad, and all outputs lean to them or not: what an estimate of the error
from a part of the outputs misses most easily.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse

import shore
from deep.ill import warnings_of_w
from shore._progress import Progress

# Features, and the solver that is asked for.
SIZES = {300: "cg", 4000: "auto"}
OUTPUTS = (3, 20, 70, 200)
CONDITIONS = (10.0, 30.0, 1e2, 1e3, 1e6)
SPECTRA = ("one", "few", "geometric")
ALPHAS = (0.0, 1e-6, 1e-3, 1e-1)
TARGETS = ("noise", "leaning")
_TOL = 1e-3


def _values(spectrum, condition, d):
    if spectrum == "geometric":
        return np.geomspace(1, 1 / condition, d)
    values = np.ones(d)
    values[-1 if spectrum == "one" else slice(-5, None)] = 1 / condition
    return values


def make_rows(spectrum, condition, d, dtype, rng):
    """X, and its blocks as they are stored."""
    angle = rng.uniform(0, 2 * np.pi, d // 2)
    rotations = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    blocks = (rotations * _values(spectrum, condition, d).reshape(-1, 1, 2)).astype(dtype)
    return sparse.csr_array(sparse.block_diag(blocks, format="csr")), blocks


def exact_solution(blocks, Y, alpha):
    """(XᵀX + alpha)⁻¹ XᵀY, block by block, by the formula for two unknowns."""
    X, B = blocks.astype(np.longdouble), Y.reshape(len(blocks), 2, -1).astype(np.longdouble)
    A, C = np.einsum("bij,bik->bjk", X, X), np.einsum("bij,biw->bjw", X, B)
    A[:, [0, 1], [0, 1]] += np.longdouble(alpha)
    determinant = A[:, 0, 0] * A[:, 1, 1] - A[:, 0, 1] * A[:, 1, 0]
    adjugate = np.array([[A[:, 1, 1], -A[:, 0, 1]], [-A[:, 1, 0], A[:, 0, 0]]]).transpose(2, 0, 1)
    W = np.einsum("bij,bjw->biw", adjugate, C) / determinant[:, None, None]
    return W.reshape(len(Y), -1)


def examine(d, dtype, spectrum, condition, seed):
    """Records of all penalties, numbers of outputs and targets for one X."""
    rng = np.random.default_rng([seed, d, SPECTRA.index(spectrum), int(condition)])
    X, blocks = make_rows(spectrum, condition, d, dtype, rng)
    worst = X[:, [d - 1]].toarray()
    for m, targets in itertools.product(OUTPUTS, TARGETS):
        Y = rng.standard_normal((d, m))
        if targets == "leaning":
            Y += 3 * worst / np.linalg.norm(worst) * rng.standard_normal((1, m))
        Y = Y.astype(dtype)
        for alpha in ALPHAS:
            if alpha == 0 and condition > 1e4:  # thousands of steps to a warning that deep.errors has too
                continue
            model = shore.ShoreRegressor(
                1, compression=None, dtype=dtype, alpha=alpha, solver=SIZES[d], solver_tol=_TOL, n_threads=1
            )
            with warnings_of_w() as said:
                model.fit(X, Y)
            if model.solver_ != "cg":
                raise RuntimeError(f"{model.solver_!r} was taken for {d} features, not conjugate gradients")
            exact = exact_solution(blocks, Y, alpha)
            error = float(np.linalg.norm(model.coef_.T - exact) / np.linalg.norm(exact))
            yield {
                "d": d, "m": m, "dtype": dtype, "spectrum": spectrum, "condition": condition, "targets": targets,
                "alpha": alpha, "asked": SIZES[d], "error": error, "good": error <= _TOL**0.5, "warned": bool(said),
            }  # fmt: skip


def run(quick: bool, *, show: bool = False):
    """Records of all problems; a quick run takes the smaller size alone and few of the others."""
    sizes, seeds, conditions = ([300], 1, (30.0, 1e3)) if quick else (SIZES, 3, CONDITIONS)
    problems = list(itertools.product(sizes, ("float32", "float64"), SPECTRA, conditions, range(seeds)))
    records = []
    with Progress("errors of many outputs", len(problems), show=show) as progress:
        for problem in problems:
            records += examine(*problem)
            progress.advance(1)
    return records
