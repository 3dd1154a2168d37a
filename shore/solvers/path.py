"""Many penalties on the same rows, for less than as many solutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg

from shore._core.blas import limit_blas
from shore._validation import is_sparse
from shore.solvers.accuracy import require_range
from shore.solvers.cg import CsrBlocks, warn_not_converged
from shore.solvers.choice import choose_solver
from shore.solvers.rows import Array, Rows, Targets, as_double, column_blocks, cross, gram, gram_of_rows, product, times

__all__ = ["path"]


def path(
    rows: Rows,
    targets: Targets,
    m: int,
    alphas: tuple[float, ...],
    held: Any,
    *,
    solver: str,
    tol: float,
    n_threads: int,
) -> Iterator[tuple[float, Array]]:
    """Scores of held-out rows, (x - mean)ᵀW of shape (n_held, m), penalty by penalty from the largest to the smallest.

    On CSR rows with many features each penalty is solved by conjugate gradients from the solution before; else one
    eigendecomposition serves them all.
    """
    n, d = rows.shape
    nnz = rows.X.nnz if is_sparse(rows.X) else None
    descending = sorted(alphas, reverse=True)
    if solver == "auto":
        solver = choose_solver(n, d, m, nnz, rows.dtype.itemsize, descending[-1])
    if solver == "cg" and nnz:
        yield from _cg_path(rows, targets, m, descending, held, tol, n_threads)
        return
    double = as_double(rows)
    with limit_blas(n_threads):
        G = gram(double, n_threads) if d <= n else gram_of_rows(double, n_threads)
        require_range(np.tril(G))
        values, V = linalg.eigh(G, lower=True, driver="evd", overwrite_a=True)
        values = np.maximum(values, 0)
        C = np.empty((len(V), m))
        for start, stop in column_blocks(m, max(n, d), 8):
            B = np.ascontiguousarray(targets(start, stop), np.float64)
            C[:, start:stop] = V.T @ (cross(double, B, n_threads) if d <= n else B)
        # W = V f(λ) VᵀXᵀB with XᵀX = VλVᵀ, or Xᵀ V f(λ) VᵀB with XXᵀ = VλVᵀ
        basis = V if d <= n else cross(double, V, n_threads)
        held_V = np.asarray(held @ basis)
        if rows.mean is not None:
            held_V -= rows.mean @ basis
    for alpha in descending:
        with limit_blas(n_threads):
            scores = np.asarray(held_V @ (C / (values + alpha)[:, None]))
        yield alpha, scores.astype(rows.dtype)


def _cg_path(
    rows: Rows, targets: Targets, m: int, alphas: list[float], held: Any, tol: float, n_threads: int
) -> Iterator[tuple[float, Array]]:
    W = np.zeros((rows.shape[1], m), dtype=rows.dtype)
    blocks = CsrBlocks(rows, targets, m, tol, n_threads)
    for number, alpha in enumerate(alphas):
        for group in blocks.groups():
            cg, B, part = blocks.open(group)
            own = B.copy()
            cg.begin(alpha, n_threads)
            if number:  # on from the solution before
                for block, columns in enumerate(group):
                    part[block, :, : columns.stop - columns.start] = W[:, columns]
                    B[block] = own[block] - product(rows, part[block], n_threads)
                cg.begin(alpha, n_threads, warm=True)
            blocks.run(cg)
            for block, columns in enumerate(group):
                W[:, columns] = part[block, :, : columns.stop - columns.start]
        if not blocks.converged:
            warn_not_converged(tol, blocks.most_steps)
        scores = times(held, W, n_threads)
        if rows.mean is not None:
            scores -= (rows.mean @ W).astype(rows.dtype)
        yield alpha, scores
