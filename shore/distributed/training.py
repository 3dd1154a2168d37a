"""fit: a model from rows on a Dask cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from dask.delayed import delayed

from shore import solvers
from shore._validation import csr_rows
from shore.compression import COMPRESSIONS, Compression, OutputEnergy
from shore.distributed.blocks import Block, Context, Facts, facts_of, split_pair, training_blocks
from shore.distributed.cg import solve_by_gradients
from shore.distributed.statistics import solve_by_statistics, statistics_bytes
from shore.distributed.workers import find_client, memory_limits, result_of, tree
from shore.estimator import ShoreRegressor

__all__ = ["choose_route", "fit"]

_Model = TypeVar("_Model", bound=ShoreRegressor)

# Blocks that are looked at for their sizes.
_LOOKED_AT = 3


def fit(model: _Model, X: Any, Y: Any = None, *, client: Any = None) -> _Model:
    """Fit a model on the workers of a Dask cluster: the model that its own `fit` gives on all rows.

    Parameters
    ----------
    model : ShoreRegressor
        Its parameters count as in its own `fit`. ``solver="cholesky"`` adds XᵀX and XᵀB up on the workers and solves
        here; ``"cg"`` keeps X on the workers and runs the products of conjugate gradients there; ``"auto"`` picks by
        cost and memory. ``"dual"`` and ``alpha="auto"`` need all rows in one place and are refused.
    X : Dask array of shape (n, d), list of delayed or futures, or str
        Blocks of rows, dense or SciPy sparse. A Dask array is chunked by rows alone. Items of a list are blocks of X,
        or without Y pairs (X, Y). A str names files, with wildcards, as workers see them: ``.npz`` of
        `scipy.sparse.save_npz` or dense ``.npy``, a block of X in each, or text that `shore.datasets.load_xmc` reads,
        with X and Y.
    Y : Dask array of shape (n, K), list of delayed or futures, or str, optional
        As X. Chunks of a Dask array are brought into line with those of X; files belong together where the wildcards
        of X and Y stand for the same.
    client : distributed.Client, optional
        None for the current one.

    Returns
    -------
    ShoreRegressor
        The model given, fitted; as it was before if anything goes wrong.

    Examples
    --------
    >>> import dask.array as da, shore
    >>> from distributed import Client
    >>> from shore.datasets import make_synthetic
    >>> from shore.distributed import fit
    >>> problem = make_synthetic(2000, 20, 100, snr_db=30)
    >>> X = da.from_array(problem.X, chunks=(500, -1))
    >>> Y = da.from_array(problem.Y.toarray(), chunks=(500, -1))
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     model = fit(shore.ShoreRegressor(3, n_components=40), X, Y, client=client)
    >>> model.coef_.shape, model.solver_
    ((40, 20), 'cholesky')
    """
    if not isinstance(model, ShoreRegressor):
        raise TypeError(f"model must be a ShoreRegressor, got {type(model).__name__}")
    dtype = model._check_parameters()
    if model.alpha == "auto":
        raise ValueError("alpha='auto' needs all rows in one place: give a number, or find one by fit on a sample")
    if model.solver == "dual":
        raise ValueError("solver='dual' needs all rows in one place: use 'cholesky', 'cg' or 'auto'")
    client = find_client(client)
    blocks = training_blocks(client, X, Y, dtype)
    facts = _look(client, blocks)
    _, d, n_outputs, _ = facts
    compression = _compression(client, blocks, model, n_outputs, dtype)
    m = n_outputs if compression is None else compression.n_components
    route = model.solver
    if route == "auto":
        route = choose_route(
            facts, m, float(model.alpha), n_blocks=len(blocks), n_threads=sum(client.nthreads().values()),
            threads_at_once=max(client.nthreads().values(), default=1), memory=memory_limits(client),
        )  # fmt: skip
    context = Context(compression, dtype, d, n_outputs)
    if route == "cholesky":
        (W, intercept), n_iter = solve_by_statistics(client, blocks, context, model), 0
    else:
        W, intercept, n_iter = solve_by_gradients(client, blocks, context, model)
    solvers.require_solution(dtype, W, intercept)
    model._keep(None, np.ascontiguousarray(W), intercept, compression, n_outputs, float(model.alpha), route, n_iter)
    return model


def _look(client: Any, blocks: Sequence[Block]) -> Facts:
    """Sizes of all rows together, judged by a few blocks."""
    some = sorted({0, len(blocks) // 2, len(blocks) - 1})[:_LOOKED_AT]
    look = delayed(facts_of, pure=False)
    found = client.gather(client.compute([look(*blocks[i]) for i in some], optimize_graph=False))
    for name, width in (("X", "n_features"), ("Y", "n_outputs")):
        widths = [getattr(facts, width) for facts in found]
        if min(widths) != max(widths):
            raise ValueError(f"{name} must have the same number of columns in all blocks, got {sorted(set(widths))}")
        if widths[0] == 0:
            raise ValueError(f"{name} has 0 column(s) while a minimum of 1 is required.")
    share = len(blocks) / len(found)
    nnz = None if any(facts.nnz is None for facts in found) else sum(facts.nnz for facts in found)
    n = max(1, round(share * sum(facts.n_rows for facts in found)))
    return Facts(n, found[0].n_features, found[0].n_outputs, None if nnz is None else round(share * nnz))


def block_energy(number: int, x: Any, y: Any, n_outputs: int) -> tuple[OutputEnergy]:
    """The energy of every output in a block, and whether Y is as it should be."""
    _, Y = split_pair(number, x, y)
    outputs: Any = csr_rows(Y, "Y")
    if outputs.shape[1] != n_outputs:
        raise ValueError(f"block {number}: Y has {outputs.shape[1]} columns, and other blocks have {n_outputs}")
    if not np.isfinite(outputs.data).all():
        raise ValueError(f"block {number}: Y must be finite, but it holds NaN or infinity")
    return (OutputEnergy.of(outputs),)


def _compression(
    client: Any, blocks: Sequence[Block], model: ShoreRegressor, n_outputs: int, dtype: np.dtype[Any]
) -> Compression | None:
    """Φ; that of 'head_tail' takes a pass over all Y."""
    given = model.compression
    if given is None or isinstance(given, Compression):
        if given is not None and given.n_outputs != n_outputs:
            raise ValueError(f"compression is for {given.n_outputs} outputs, but Y has {n_outputs} columns")
        return given
    if not isinstance(given, str) or given not in COMPRESSIONS:
        names = ", ".join(map(repr, COMPRESSIONS))
        raise ValueError(f"compression must be {names}, a compression or None, got {given!r}")
    of: Any = n_outputs
    if given == "head_tail":
        leaf = delayed(block_energy, pure=False)
        # X, where it is apart from Y, stays where it is
        parts = [leaf(b.number, b.x if b.y is None else None, b.y, n_outputs) for b in blocks]
        (energy,) = result_of(client, tree(parts), verbose=bool(model.verbose))
        of = energy.weights
    return COMPRESSIONS[given](model._components(n_outputs), of, seed=model.random_state, dtype=dtype)


def choose_route(
    facts: Facts, m: int, alpha: float, *, n_blocks: int, n_threads: int, threads_at_once: int, memory: Sequence[float]
) -> str:
    """'cholesky', which stands for sums and one solve, or 'cg': the one of the least time that fits the memory.

    Times are those of `shore.solvers.choose_solver`, and of moving P and XᵀXP at 1 byte a nanosecond.

    Parameters
    ----------
    facts : Facts
        Sizes of all rows.
    m : int
        Right-hand sides.
    alpha : float
    n_blocks : int
    n_threads : int
        Of all workers.
    threads_at_once : int
        Of the worker with the most.
    memory : sequence of float
        Bytes of each worker.

    Returns
    -------
    str

    Examples
    --------
    >>> from shore.distributed.blocks import Facts
    >>> from shore.distributed.training import choose_route
    >>> cluster = {"n_blocks": 100, "n_threads": 8, "threads_at_once": 2, "memory": [16e9] * 4}
    >>> choose_route(Facts(2_000_000, 1000, 50_000, None), 500, 1.0, **cluster)
    'cholesky'
    >>> choose_route(Facts(2_000_000, 500_000, 50_000, 200_000_000), 500, 1.0, **cluster)
    'cg'
    """
    n, d, _, nnz = facts
    entries, rate = (n * d, 100.0) if nnz is None else (nnz, 15.0)
    products = 2.0 * entries * m
    steps = 40 if alpha > 0 else 400
    own = float(entries) * (d if nnz is None else entries / n)
    cost = {
        "cholesky": (own + products) / rate / n_threads + (d**3 / 3 + 2.0 * d * d * m) / 100,
        "cg": steps * (2 * products / rate / n_threads + 8.0 * d * m * len(memory)),
    }
    # Sums of blocks that wait for their neighbours, one on each level of the tree, and those that are being made.
    alive = 2 * threads_at_once + math.ceil(math.log2(max(2, n_blocks / len(memory))))
    fits = alive * statistics_bytes(d, m) <= 0.5 * min(memory) and d**2 * 8 <= solvers.memory() / 8
    return min(cost, key=lambda route: cost[route]) if fits else "cg"
