"""The route of sums: XᵀX and XᵀB of every block on the workers, added up in a tree, and one solve here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from dask.delayed import delayed

from shore import solvers
from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._statistics import Statistics, sparse_cross
from shore._validation import is_sparse
from shore.distributed.blocks import Block, Context, sum_of_rows
from shore.distributed.workers import result_of, share, tree
from shore.estimator import ShoreRegressor

__all__ = ["solve_by_statistics", "statistics_bytes"]

Array = npt.NDArray[Any]


def statistics_bytes(d: int, m: int) -> float:
    """Bytes of the sums of a block."""
    return 8.0 * d * (d + m)


def block_statistics(context: Context, number: int, x: Any, y: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """XᵀX, XᵀB and the sums of X and B about the centre, all in float64, and the number of rows.

    Products of dense rows are computed in `dtype`, of CSR rows in float64, as `fit` does.
    """
    with limit_blas(1):
        X, Y = context.read(number, x, y)
        n, d = X.shape
        phi, centre, double = context.compression, context.centre, np.dtype(np.float64)
        m = context.n_outputs if phi is None else phi.n_components
        if n == 0:
            zeros = np.zeros((d, d), order="F"), np.zeros((d, m))
            return (*zeros, np.zeros(d), np.zeros(m), 0) if centre is not None else (*zeros, 0)
        B: Any = Y.astype(np.float64) if phi is None else phi.compress(Y, n_threads=1)
        shifted = centre is not None and phi is not None and not is_sparse(X)  # what BLAS can do on the way
        kind = double if is_sparse(X) or phi is None else dtype
        rows = solvers.Rows(X.astype(double) if is_sparse(X) else X, kind, centre if shifted else None)
        G = solvers.gram(rows, 1).astype(double, copy=False)
        C = sparse_cross(rows, B).toarray() if phi is None else solvers.cross(rows, B.astype(kind, copy=False), 1)
        C = C.astype(double, copy=False)
        if centre is None:
            return G, C, n
        x_sum, b_sum = sum_of_rows(X), sum_of_rows(B)
        if not shifted and centre.any():
            G += n * np.outer(centre, centre) - np.outer(centre, x_sum) - np.outer(x_sum, centre)
            C -= np.outer(centre, b_sum)
        return G, C, x_sum - n * centre, b_sum, n


def block_centre(context: Context, number: int, x: Any, y: Any) -> Array:
    """Where to sum dense rows about: the mean of a block, so that centring later cancels next to nothing.

    Zeros for CSR rows, which are summed as they are in float64, and for a block without rows.
    """
    X, _ = context.read(number, x, y)
    if is_sparse(X) or X.shape[0] == 0:
        return np.zeros(X.shape[1])
    with limit_blas(1):
        return np.asarray(sum_of_rows(X) / X.shape[0])


def solve_by_statistics(
    client: Any, blocks: Sequence[Block], context: Context, model: ShoreRegressor
) -> tuple[Array, Array]:
    """W of shape (d, m), feature-major, and the intercept."""
    centre = None
    if model.fit_intercept:
        block, bare = blocks[len(blocks) // 2], replace(context, compression=None)
        centre = result_of(client, delayed(block_centre, pure=False)(bare, *block))
    shared = share(client, replace(context, centre=centre))
    leaf = delayed(block_statistics, pure=False)
    dtype = context.dtype
    while True:
        work = tree([leaf(shared, block.number, block.x, block.y, dtype) for block in blocks])
        total = result_of(client, work, verbose=bool(model.verbose))
        if total[-1] == 0:
            raise ValueError("X has 0 sample(s) while a minimum of 1 is required.")
        try:
            return _solve(total, centre, model, context.dtype, dtype)
        except solvers.InaccurateError:  # as in `fit`, which then computes in float64 too
            dtype = np.dtype(np.float64)


def _solve(
    total: tuple[Any, ...], centre: Array | None, model: ShoreRegressor, dtype: np.dtype[Any], products: np.dtype[Any]
) -> tuple[Array, Array]:
    statistics = Statistics(0, 0)
    statistics.gram, statistics.cross, statistics.weight = total[0], total[1], float(total[-1])
    statistics.n_rows = int(total[-1])
    if centre is not None:
        statistics.x_sum, statistics.b_sum = total[2], total[3]
    else:
        statistics.b_sum = np.zeros(statistics.cross.shape[1])
    with limit_blas(resolve_n_threads(model.n_threads)):
        W, intercept = statistics.solve(float(model.alpha), centre is not None, dtype, products)
        if centre is not None:
            intercept = (intercept - centre @ W).astype(dtype)
    return W, intercept
