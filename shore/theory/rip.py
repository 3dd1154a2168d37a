"""The restricted isometry constant of a given Φ, by looking at random supports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, combinations, islice
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._validation import check_flag, check_number, check_positive, check_seed, check_size
from shore.compression import Compression
from shore.theory._data import Array, blocks, check_compression, columns_of
from shore.theory.bounds import log_binomial

__all__ = ["RipEstimate", "rip_estimate"]

# `refine` starts from so many of the worst supports drawn: from one alone it often gets stuck early. It exchanges
# columns so often at most, from either end of the spectrum; as a rule it stops by itself after a few times.
_STARTS = 10
_MOST_EXCHANGES = 100


@dataclass(frozen=True)
class RipEstimate:
    """What `rip_estimate` found.

    δ_S = max(σ_max² - 1, 1 - σ_min²) of the columns Φ_S of a support S; the RIP constant of order k is the largest δ_S
    over all supports of k columns.

    Attributes
    ----------
    sparsity : int
        The order k.
    n_supports : int
        Supports that were looked at.
    delta : float
        The largest δ_S seen: the RIP constant is at least that.
    mean, median, quantile_95 : float
        Of δ_S over the supports drawn.
    worst_support : int64 array of shape (k,)
        The columns that gave `delta`, sorted.
    confidence : float
    share : float
        With that confidence, at most this share of all supports of k columns has a δ_S larger than `delta`. 0 if all
        of them were looked at: then `delta` is the RIP constant.
    """

    sparsity: int
    n_supports: int
    delta: float
    mean: float
    median: float
    quantile_95: float
    worst_support: npt.NDArray[np.int64]
    confidence: float
    share: float


def _spread(columns: Array) -> Array:
    """δ_S of columns Φ_S, which are rows here: one support, or one after the other. Infinity where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        gram = columns @ np.swapaxes(columns, -1, -2)
    if not np.isfinite(gram).all():
        return np.full(gram.shape[:-2], np.inf)
    eigenvalues = np.linalg.eigvalsh(gram)
    return np.asarray(np.maximum(eigenvalues[..., -1] - 1, 1 - eigenvalues[..., 0]))


def _supports(K: int, k: int, sizes: Iterator[int], rng: np.random.Generator | None) -> Iterator[Array]:
    """Blocks of so many supports, one a row: drawn at random, or without a generator one after the other."""
    every = chain.from_iterable(combinations(range(K), k))
    for size in sizes:
        if rng is None:
            yield np.fromiter(every, dtype=np.int64, count=size * k).reshape(size, k)
            continue
        drawn = np.empty((size, k), dtype=np.int64)
        for support in drawn:
            support[:] = np.sort(rng.choice(K, k, replace=False, shuffle=False))
        yield drawn


def _spreads(compression: Compression, supports: Iterator[Array], n_threads: int) -> Iterator[tuple[Array, Array]]:
    """Blocks of supports with the δ_S of each; no more of them are held than threads work on."""

    def of_block(block: Array) -> Array:
        columns = columns_of(compression, block.ravel(), 1).reshape(*block.shape, compression.n_components)
        return _spread(columns)

    if n_threads == 1:
        yield from ((block, of_block(block)) for block in supports)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        while some := list(islice(supports, n_threads)):
            yield from zip(some, pool.map(of_block, some), strict=True)


def _refine(compression: Compression, support: Array) -> tuple[float, Array]:
    """The worst support that exchanging columns finds: truncated power steps from both ends of the spectrum."""
    best = 0.0, support
    for end in (-1, 0):
        here = support
        for _ in range(_MOST_EXCHANGES):
            columns = columns_of(compression, here, 1)
            eigenvalues, vectors = np.linalg.eigh(columns @ columns.T)
            spread = float(max(eigenvalues[-1] - 1, 1 - eigenvalues[0]))
            if spread > best[0]:
                best = spread, here
            # g := ΦᵀΦu for the largest eigenvalue, (λ_max I - ΦᵀΦ)u for the smallest; its k largest entries are next
            g = compression.correlate((vectors[:, end] @ columns)[None], n_threads=1)[0].astype(np.float64)
            if end == 0:
                g = -g
                g[here] += eigenvalues[-1] * vectors[:, 0]
            after = np.sort(np.argsort(-np.abs(g), kind="stable")[: len(here)])
            if np.array_equal(after, here):
                break
            here = after
    return best


def rip_estimate(
    compression: Compression,
    sparsity: int,
    *,
    n_supports: int = 1000,
    confidence: float = 0.95,
    refine: bool = False,
    seed: int = 0,
    n_threads: int | None = None,
) -> RipEstimate:
    """How near Φ is to an isometry on sparse vectors, from random supports: for any Φ, proven bounds or not.

    The RIP constant of order k is the largest δ_S over all supports S of k columns; to find it is NP-hard. What this
    gives is a lower bound on it, and a statement on most supports: with the given confidence, no more than a
    ``share`` = 1 - (1 - confidence)^(1/n_supports) of all supports is worse than the worst one seen. It does not bound
    the RIP constant from above, which the theorems ask for, unless there are no more than `n_supports` supports:
    then all are looked at, and the result is exact.

    Parameters
    ----------
    compression : Compression
        Φ.
    sparsity : int
        The order k: columns in a support. Theorems 2 and 4 use 3s. More than K means K.
    n_supports : int, default 1000
        Supports to draw, uniformly and independently; each takes 8 bytes of memory.
    confidence : float, default 0.95
        Between 0 and 1.
    refine : bool, default False
        Go on from the worst supports drawn, exchanging columns for those that stretch or shrink a vector more: often a
        far better lower bound, for some hundred products with Φᵀ. `share` stays true; the mean and the quantiles are
        still of the supports drawn.
    seed : int, default 0
        Same seed, same supports.
    n_threads : int, optional
        Threads to run on; None for the cores this process may use. The result does not depend on it.

    Returns
    -------
    RipEstimate

    Examples
    --------
    >>> import shore
    >>> from shore.theory import rip_estimate
    >>> estimate = rip_estimate(shore.SparseSignCompression(400, 5000), 9)
    >>> 0.2 < estimate.median < estimate.delta < 0.6
    True
    >>> round(estimate.share, 4)
    0.003
    """
    check_compression(compression)
    K = compression.n_outputs
    k = check_positive(sparsity, "sparsity", K)
    n_supports = check_positive(n_supports, "n_supports")
    confidence = check_number(confidence, "confidence", "a number between 0 and 1", 0, 1)
    refine = check_flag(refine, "refine")
    rng = np.random.default_rng(check_seed(seed, "seed"))
    threads = resolve_n_threads(n_threads)

    # The logarithm first: the number itself may have a million digits.
    exact = log_binomial(K, k) < math.log(n_supports) + 1 and math.comb(K, k) <= n_supports
    n = math.comb(K, k) if exact else check_size(n_supports, "n_supports")
    sizes = (here.stop - here.start for here in blocks(n, k * compression.n_components))
    spreads, worst, worst_spreads, done = np.empty(n), np.empty((0, k), dtype=np.int64), np.empty(0), 0
    too_large = f"compression is too large: products of its columns leave the range of {compression.dtype}"
    with limit_blas(1):  # one thread a block, so that no bit depends on how many there are
        for block, of_block in _spreads(compression, _supports(K, k, sizes, None if exact else rng), threads):
            if not np.isfinite(of_block).all():
                raise ValueError(too_large)
            spreads[done : done + len(block)] = of_block
            done += len(block)
            # the worst of all so far, of equal ones the first
            worst, worst_spreads = np.concatenate([worst, block]), np.concatenate([worst_spreads, of_block])
            order = np.argsort(-worst_spreads, kind="stable")[:_STARTS]
            worst, worst_spreads = worst[order], worst_spreads[order]
    delta, support = float(worst_spreads[0]), worst[0]
    if refine and not exact:
        try:
            with limit_blas(1), np.errstate(over="ignore", invalid="ignore"):
                for start in worst:
                    delta, support = max((delta, support), _refine(compression, start), key=itemgetter(0))
        except ValueError:  # of correlate, and of eigenvalues of what is not finite
            raise ValueError(too_large) from None
    return RipEstimate(
        sparsity=k,
        n_supports=n,
        delta=delta,
        mean=float(spreads.mean()),
        median=float(np.median(spreads)),
        quantile_95=float(np.quantile(spreads, 0.95)),
        worst_support=support,
        confidence=confidence,
        share=0.0 if exact else -math.expm1(math.log1p(-confidence) / n_supports),
    )
