"""The route of conjugate gradients: rows stay on the workers, W is here, and products with P run there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

from shore import solvers
from shore._core.blas import limit_blas
from shore._statistics import sparse_cross
from shore._validation import is_sparse
from shore.distributed.blocks import Block, Context, sum_of_rows
from shore.distributed.workers import result_of, share, tree
from shore.estimator import ShoreRegressor

__all__ = ["solve_by_gradients"]

Array = npt.NDArray[Any]

# Columns are solved together while P has at most so many bytes.
_STEP_BYTES = 1 << 26


# ------------------------------------------------------------ on the workers


def block_sums(context: Context, number: int, x: Any, y: Any) -> tuple[Any, ...]:
    """The sum of the rows of X in float64, and their number."""
    with limit_blas(1):
        X, _ = context.read(number, x, y)
        return sum_of_rows(X), X.shape[0]


def hold_block(context: Context, number: int, x: Any, y: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The rows as products need them, X and Xᵀ of CSR or centred dense X; and XᵀB, the sum of B, how many rows."""
    with limit_blas(1):
        X, Y = context.read(number, x, y)
        phi, (n, d) = context.compression, X.shape
        m = context.n_outputs if phi is None else phi.n_components
        rows = solvers.Rows(X, context.dtype, context.centre)
        held = (X, rows.transposed) if is_sparse(X) else (_dense(rows),)
        if n == 0:
            return held, (np.zeros((d, m)), np.zeros(m), 0)
        if phi is None:
            b_sum = sum_of_rows(Y)
            C = sparse_cross(solvers.Rows(X, context.dtype), Y).toarray().astype(np.float64)
            if context.centre is not None:
                C -= np.outer(context.centre, b_sum)
            return held, (C, b_sum, n)
        B = phi.compress(Y, n_threads=1).astype(context.dtype, copy=False)
        C = solvers.cross(rows if is_sparse(X) else solvers.Rows(held[0], context.dtype), B, 1)
        return held, (C.astype(np.float64), sum_of_rows(B), n)


def _dense(rows: solvers.Rows) -> Array:
    """Centred rows in the dtype to compute in; a copy only where they are not so."""
    if rows.as_is() or rows.shape[0] == 0:
        return np.asarray(rows.X, dtype=rows.dtype)
    return np.concatenate([block for _, block in rows.blocks()])


def block_product(context: Context, held: tuple[Any, ...], P: Array) -> tuple[Array]:
    """XᵀX P of rows that are held, of shape (d, w)."""
    with limit_blas(1):
        X = held[0]
        if not is_sparse(X):
            return (X.T @ (X @ P),)
        V = solvers.times(X, P, 1)
        if context.centre is None:
            return (solvers.times(held[1], V, 1),)
        mean = context.centre.astype(P.dtype)
        V -= mean @ P
        return (solvers.times(held[1], V, 1) - np.outer(mean, V.sum(axis=0)),)


# ------------------------------------------------------------ here


def solve_by_gradients(
    client: Any, blocks: Sequence[Block], context: Context, model: ShoreRegressor
) -> tuple[Array, Array, int]:
    """W of shape (d, m), feature-major, the intercept, and the most steps that a block of columns took."""
    mean = None
    if model.fit_intercept:
        leaf, bare = delayed(block_sums, pure=False), replace(context, compression=None)
        total, n = result_of(client, tree([leaf(bare, *block) for block in blocks]), verbose=bool(model.verbose))
        mean = total / max(1, n)
    shared = share(client, replace(context, centre=mean))
    groups, C, b_sum, n = _hold(client, blocks, shared)
    if n == 0:
        raise ValueError("X has 0 sample(s) while a minimum of 1 is required.")
    m, dtype, alpha = C.shape[1], context.dtype, context.dtype.type(model.alpha)
    product = delayed(block_product, pure=False)

    def multiply(P: Array) -> Array:
        there = share(client, P)
        work = tree([tree([product(shared, rows, there) for rows in group]) for group in groups])
        return np.asarray(result_of(client, work)[0] + alpha * P)

    W, most = np.zeros((context.n_features, m), dtype=dtype), 0
    width = max(1, min(m, _STEP_BYTES // max(1, context.n_features * dtype.itemsize)))
    for start in range(0, m, width):
        here = slice(start, min(m, start + width))
        W[:, here], taken = solvers.conjugate_gradients(
            multiply, np.array(C[:, here], dtype=dtype, order="C"), float(model.solver_tol)
        )
        most = max(most, taken)
    if np.isfinite(W).all():
        solvers.check_products(multiply, C, W, float(model.alpha), float(model.solver_tol), n)
    intercept = np.zeros(m, dtype=dtype)
    if mean is not None:
        intercept = (b_sum / n - mean @ W).astype(dtype)
    return W, intercept, most


def _hold(client: Any, blocks: Sequence[Block], shared: Any) -> tuple[list[list[Any]], Array, Array, int]:
    """Futures of all rows, neighbours on the same worker, grouped by worker; XᵀB, the sum of B, how many rows.

    The groups, and with them how sums round, depend on how many workers there are and on nothing that happens to them.
    """
    client.wait_for_workers(1)
    workers = sorted(client.nthreads())
    cuts = np.linspace(0, len(blocks), min(len(workers), len(blocks)) + 1).astype(int)
    groups, sums = [], []
    hold = delayed(hold_block, pure=False, nout=2)
    for address, start, stop in zip(workers, cuts[:-1], cuts[1:], strict=False):
        made = [hold(shared, *block) for block in blocks[start:stop]]
        works = _culled([*(rows for rows, _ in made), tree([cross for _, cross in made])])
        # Another worker takes over where this one is lost.
        *held, cross = client.compute(works, workers=[address], allow_other_workers=True, optimize_graph=False)
        groups.append(held)
        sums.append(cross)
    C, b_sum, n = result_of(client, tree([delayed(cross) for cross in sums]))
    return groups, C, b_sum, int(n)


def _culled(works: list[Delayed]) -> list[Delayed]:
    """The same without what they do not need: of a Dask array, the chunks of others."""
    needed = HighLevelGraph.merge(*(work.dask for work in works)).cull({work.key for work in works})
    layer = f"held-{works[0].key}"
    graph = HighLevelGraph.from_collections(layer, ensure_dict(needed), dependencies=())
    return [Delayed(work.key, graph, layer=layer) for work in works]
