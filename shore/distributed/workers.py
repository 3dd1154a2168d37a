"""What tasks have in common: one thread each, things that every worker has once, and sums in a tree."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import distributed
from dask.delayed import Delayed, delayed
from dask.sizeof import sizeof
from scipy import sparse

from shore.estimator import ShoreRegressor
from shore.modelfile import load

__all__ = ["add", "find_client", "mapped", "memory_limits", "result_of", "share", "tree"]

# What is pickled into fewer bytes goes with the graph, so that it can be made again wherever it is lost.
_SMALL = 1 << 20
_MAPPED_AT_MOST = 4

_lock = threading.Lock()
_mapped: dict[str, tuple[tuple[int, ...], ShoreRegressor]] = {}

if sizeof.dispatch(sparse.csr_array) is sizeof.dispatch(object):
    # Dask knows the size of sparse matrices but not of sparse arrays, and would never spill them.
    @sizeof.register(sparse.sparray)  # type: ignore[untyped-decorator, unused-ignore]
    def _sizeof_sparse_array(array: Any) -> int:
        return sum(int(sizeof(part)) for part in array.__dict__.values())


class ImportFirst(distributed.WorkerPlugin):  # type: ignore[misc]
    """Has every worker import shore before its first task, also workers that come later.

    To read the plugin is to import. Left to the tasks, several threads of a worker would begin with different parts of
    the package, which can wait for each other for ever.
    """

    name = "shore"


def find_client(client: Any) -> Any:
    """The client given, or else the current one, whose workers then have imported shore."""
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ValueError(
                "there is no Dask client: start one, e.g. `from distributed import Client; client = Client()`, or "
                "give the argument client"
            ) from None
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client must be a distributed.Client, got {client!r} of type {type(client).__name__}")
    if client.asynchronous:
        raise ValueError("client must not be asynchronous: shore.distributed waits for results")
    client.register_plugin(ImportFirst())
    return client


def mapped(path: str) -> ShoreRegressor:
    """The model of a file, mapped once in a process, and again when the file is replaced."""
    status = os.stat(path)
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    with _lock:
        known = _mapped.get(path)
        if known is None or known[0] != identity:
            _mapped.pop(path, None)
            while len(_mapped) >= _MAPPED_AT_MOST:
                del _mapped[next(iter(_mapped))]
            known = _mapped[path] = identity, load(path)
    return known[1]


def memory_limits(client: Any) -> list[float]:
    """Bytes that each worker may use; infinity for those without a limit. Workers that are being lost do not count."""
    limits = client.run(_memory_limit, on_error="ignore").values()
    return [float(limit or "inf") for limit in limits] or [float("inf")]


def _memory_limit(dask_worker: Any) -> int | None:
    limit = dask_worker.memory_manager.memory_limit
    return None if limit is None else int(limit)


def share(client: Any, value: Any) -> Any:
    """A future of something that all tasks need: it reaches every worker once, and no task carries it.

    What is small is a task of its own and can be made again wherever it is lost: a seeded Φ is pickled as its
    specification. What is large, a W or a Φ without a seed, is copied to all workers at once, past the graph.
    """
    buffers: list[pickle.PickleBuffer] = []
    size = len(pickle.dumps(value, protocol=5, buffer_callback=buffers.append))
    if size + sum(buffer.raw().nbytes for buffer in buffers) < _SMALL:
        return client.submit(pickle.loads, pickle.dumps(value, protocol=5), pure=False)
    return client.scatter(value, broadcast=True, hash=False)


def add(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums of arrays, one by one; neither changes."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def tree(parts: Sequence[Delayed], join: Callable[[Any, Any], Any] = add) -> Delayed:
    """The sum of parts, neighbours first: its rounding depends on their order, and not on who is done when."""
    joined = delayed(join, pure=False)
    level = list(parts)
    while len(level) > 1:
        pairs = [joined(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]


def result_of(client: Any, work: Delayed, *, verbose: bool = False) -> Any:
    """Run it on the workers and wait; with `verbose` behind Dask's own progress bar."""
    future = client.compute(work, optimize_graph=False)
    if verbose:
        distributed.progress(future, notebook=False)
    return future.result()
