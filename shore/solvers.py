"""Stage 1: least squares for W, min ‖B - XW‖² + alpha ‖W‖², on dense or CSR rows.

W is feature-major, (d, m). Rows may be weighted and centred: a `Rows` stands for diag(√weight) (X - 1 meanᵀ), and
the targets come weighted and centred to match. CSR rows are never made dense: the centring enters as a rank-one
term wherever they are multiplied.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from threadpoolctl import threadpool_limits

from shore._core import linear as _core
from shore._progress import Progress
from shore._validation import is_sparse

__all__ = [
    "SOLVERS",
    "Factorisation",
    "Rows",
    "choose_solver",
    "cross",
    "gram",
    "path",
    "solve",
    "solve_normal_equations",
    "times",
]

Array = npt.NDArray[Any]
# Gives the targets of columns [start, stop) as a C-contiguous array (n, stop - start).
Targets = Callable[[int, int], Array]

SOLVERS = ("auto", "cholesky", "dual", "cg")

_BLOCK_BYTES = 1 << 26
_MAX_CG_STEPS = 1000
# Work of one BLAS call, and the largest matrix that LAPACK factorises in one: well under a second each.
_CALL_FLOPS = 6e10
_PANEL = 6144


def _csr_parts(X: Any) -> tuple[Array, Array, Array]:
    return np.ascontiguousarray(X.data), np.ascontiguousarray(X.indices), np.ascontiguousarray(X.indptr)


def times(X: Any, P: Array, n_threads: int) -> Array:
    """X P for dense or CSR rows, every row the same bits whatever rows it is computed with."""
    P = np.ascontiguousarray(P)
    out = np.empty((X.shape[0], P.shape[1]), dtype=P.dtype)
    threads = max(1, min(n_threads, X.shape[0]))
    if is_sparse(X):
        _core.csr_times(*_csr_parts(X), P, out, threads)
    else:
        _core.dense_times(np.require(X, dtype=P.dtype, requirements=["C", "A"]), P, out, threads)
    return out


@dataclass
class Rows:
    """Rows of X as the solvers see them: diag(shift) (X - 1 meanᵀ).

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
        For CSR already multiplied by `shift`; dense rows are as they came, in any dtype.
    dtype : dtype
        To compute in.
    mean : float64 array of shape (d,) or None
    shift : ndarray of shape (n,) or None
        Square roots of the weights; None for ones.
    """

    X: Any
    dtype: np.dtype[Any]
    mean: Array | None = None
    shift: Array | None = None
    _transposed: Any = None
    _double: Rows | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.X.shape
        return int(n), int(d)

    @property
    def transposed(self) -> Any:
        """Xᵀ as CSR, made once."""
        if self._transposed is None:
            self._transposed = sparse.csr_array(self.X.T.tocsr())
        return self._transposed

    def as_is(self) -> bool:
        """Whether dense rows can go to BLAS without a copy."""
        plain = self.mean is None and self.shift is None and self.X.dtype == self.dtype
        return bool(plain and (self.X.flags.c_contiguous or self.X.flags.f_contiguous) and self.X.flags.aligned)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Dense rows in blocks, weighted and centred."""
        n, d = self.shape
        step = max(256, _BLOCK_BYTES // max(1, d * self.dtype.itemsize))
        if self.as_is():  # no copy to bound, but a call to BLAS should leave room for Ctrl-C
            step = max(1024, int(_CALL_FLOPS / d**2)) if self.X.flags.c_contiguous else n
        for start in range(0, n, max(1, step)):
            here = slice(start, min(n, start + step))
            block = self.X[here]
            if not self.as_is():
                block = np.array(block, dtype=self.dtype, order="C")
                if self.mean is not None:
                    block -= self.mean
                if self.shift is not None:
                    block *= self.shift[here, None]
            yield here, block

    def checksum(self) -> float:
        """The sum of all entries: tells whether two `Rows` can be of the same X."""
        if is_sparse(self.X):
            return float(self.X.data.sum(dtype=np.float64))
        return float(self.X.sum(dtype=np.float64))

    def ones(self) -> Array:
        """The shift as an array."""
        return np.ones(self.shape[0], dtype=self.dtype) if self.shift is None else self.shift


def _syrk(a: Array, c: Array | None, *, of_rows: bool) -> Array:
    """The lower triangle of aᵀa, or with `of_rows` of a aᵀ, plus c; column-major."""
    syrk: Any = linalg.get_blas_funcs("syrk", (a,))
    beta = 0.0 if c is None else 1.0
    # BLAS wants columns: a C-contiguous array is its own transpose to it
    operand, transposed = (a.T, of_rows) if a.flags.c_contiguous else (a, not of_rows)
    options = {} if c is None else {"c": c, "overwrite_c": 1}
    return np.asarray(syrk(1.0, operand, beta=beta, trans=int(transposed), lower=1, **options))


def gram(rows: Rows, n_threads: int, out: Array | None = None) -> Array:
    """XcᵀXc, at least its lower triangle, column-major (d, d); added to `out` if that is given."""
    if not is_sparse(rows.X):
        with threadpool_limits(n_threads, "blas"):
            for _, block in rows.blocks():
                out = _syrk(block, out, of_rows=False)
        d = rows.shape[1]
        return np.zeros((d, d), dtype=rows.dtype, order="F") if out is None else out
    # In float64: sums over many rows, and the difference that centring makes, would lose too much of float32.
    double = _as_double(rows)
    here = _csr_gram(double.X, double.transposed, n_threads)
    if double.mean is not None:
        here -= np.outer(double.mean * float(np.sum(double.ones() ** 2)), double.mean)
    if out is None:
        return here.T.astype(rows.dtype, order="F", copy=False)  # symmetric
    out += here.T
    return out


def _csr_gram(X: Any, transposed: Any, n_threads: int) -> Array:
    d = X.shape[1]
    out = np.empty((d, d), dtype=X.dtype)
    _core.csr_gram(*_csr_parts(X), *_csr_parts(transposed), out, max(1, min(n_threads, d)))
    return out


def _gram_of_rows(rows: Rows, n_threads: int) -> Array:
    """Xc Xcᵀ, at least its lower triangle, column-major (n, n)."""
    if not is_sparse(rows.X):
        with threadpool_limits(n_threads, "blas"):
            return _syrk(_whole(rows), None, of_rows=True)
    double = _as_double(rows)
    out = _csr_gram(double.transposed, double.X, n_threads)
    if double.mean is not None:
        u, s = np.asarray(double.X @ double.mean), double.ones()
        out -= np.outer(u, s) + np.outer(s, u) - np.outer(s * (double.mean @ double.mean), s)
    return out.T.astype(rows.dtype, order="F", copy=False)


def _whole(rows: Rows) -> Array:
    """Dense rows, weighted and centred, in one array."""
    return np.asarray(rows.X) if rows.as_is() else np.concatenate([block for _, block in rows.blocks()])


def cross(rows: Rows, B: Array, n_threads: int) -> Array:
    """XcᵀB, (d, w)."""
    if is_sparse(rows.X):
        double = _as_double(rows)
        out = times(double.transposed, B.astype(np.float64), n_threads)
        if double.mean is not None:
            out -= np.outer(double.mean, double.ones() @ B)
        return out.astype(rows.dtype, copy=False)
    with threadpool_limits(n_threads, "blas"):
        total = None
        for here, block in rows.blocks():
            part = np.asarray(block.T @ B[here])
            total = part if total is None else np.add(total, part, out=total)
        return np.zeros((rows.shape[1], B.shape[1]), dtype=rows.dtype) if total is None else total


def _column_blocks(m: int, n: int, itemsize: int) -> Iterator[tuple[int, int]]:
    step = max(16, min(m, 4 * _BLOCK_BYTES // max(1, n * itemsize)))
    for start in range(0, m, step):
        yield start, min(m, start + step)


# ---------------------------------------------------------------- direct


def _norm_1(G: Array) -> float:
    """‖G‖₁ of a symmetric matrix of which the lower triangle is there, in strips."""
    d = G.shape[0]
    sums = np.zeros(d)
    for start in range(0, d, 512):
        strip = np.abs(np.tril(G[:, start : start + 512], -start))
        sums[start : start + 512] += strip.sum(axis=0)
        sums += strip.sum(axis=1)
    return float((sums - np.abs(np.diagonal(G))).max(initial=0.0))


def _factorise(G: Array, alpha: float) -> tuple[Array, float]:
    """The Cholesky factor of G + alpha (in place of G) and an estimate of 1/condition; 0 if it is not definite."""
    G.flat[:: G.shape[0] + 1] += alpha
    norm = _norm_1(G)
    functions: Any = linalg.get_lapack_funcs(("potrf", "pocon"), (G,))
    potrf, pocon = functions
    factor, info = potrf(G, lower=1, overwrite_a=1, clean=0) if len(G) <= _PANEL else _cholesky_by_panels(G, potrf)
    if info != 0:
        return factor, 0.0
    rcond, info = pocon(factor, norm, uplo="L")
    return factor, float(rcond) if info == 0 else 0.0


def _cholesky_by_panels(G: Array, potrf: Any) -> tuple[Array, int]:
    """The Cholesky factor in the lower triangle, panel by panel: Ctrl-C is heard between them."""
    trsm: Any = linalg.get_blas_funcs("trsm", (G,))
    width = _PANEL // 4
    for start in range(0, len(G), width):
        stop = min(len(G), start + width)
        corner, info = potrf(G[start:stop, start:stop], lower=1, clean=1)
        if info != 0:
            return G, start + int(info)
        G[start:stop, start:stop] = corner
        if stop == len(G):
            break
        below = trsm(1.0, corner, G[stop:, start:stop], side=1, lower=1, trans_a=1)
        G[stop:, start:stop] = below
        for panel in range(stop, len(G), width):
            end = min(len(G), panel + width)
            G[panel:, panel:end] -= below[panel - stop :] @ below[panel - stop : end - stop].T
    return G, 0


def _back_substitute(factor: Array, C: Array) -> Array:
    potrs: Any = linalg.get_lapack_funcs("potrs", (factor, C))
    solution, _ = potrs(factor, np.asfortranarray(C), lower=1, overwrite_b=1)
    return np.ascontiguousarray(solution)


def _is_safe(rcond: float, dtype: np.dtype[Any], solver: str = "cholesky") -> bool:
    """Whether W is good to about 1e-4 in float32, and to half the digits in float64.

    The estimate is in the 1-norm, which for many features is far above the condition that counts; the dual's solution
    is large and cancels in XᵀA, so it has less to lose.
    """
    single = 1e4 if solver == "dual" else 1e3
    return rcond > (single if dtype == np.float32 else 30) * float(np.finfo(dtype).eps)


def _spectral(G: Array, alpha: float, cut: float, full_rank: int) -> tuple[Array, Array]:
    """Vectors V and factors f with (G + alpha)⁻¹ = V diag(f) Vᵀ; eigenvalues up to `cut` of the largest count as 0."""
    values, vectors = linalg.eigh(G, lower=True, driver="evd", overwrite_a=True)
    keep = values > cut * max(values[-1], 0.0)
    if alpha == 0 and keep.sum() < full_rank:
        warnings.warn(
            f"X has rank {int(keep.sum())} of {full_rank} and alpha is 0: the solution of minimum norm is returned",
            linalg.LinAlgWarning,
            stacklevel=4,
        )
    # Directions of eigenvalue 0 take no part in X: they count only where alpha is above the noise that hides them.
    keep |= alpha > cut * max(values[-1], 0.0)
    factors = np.zeros_like(values)
    factors[keep] = 1 / (np.maximum(values[keep], 0) + alpha)
    return vectors, factors


def solve_normal_equations(
    G: Array, cross_of: Callable[[int, int], Array], m: int, alpha: float, dtype: np.dtype[Any], size: int
) -> Array:
    """W from float64 statistics of `size` rows: G = XcᵀXc (lower triangle) and blocks of columns of XcᵀB."""
    factor, rcond = _factorise(G.copy(order="F"), alpha)
    W = np.empty((G.shape[0], m), dtype=dtype)
    if _is_safe(rcond, np.dtype(np.float64)):
        for start, stop in _column_blocks(m, G.shape[0], 8):
            W[:, start:stop] = _back_substitute(factor, cross_of(start, stop).astype(np.float64))
        return W
    V, factors = _spectral(G, alpha, size * float(np.finfo(np.float64).eps), min(size, len(G)))
    for start, stop in _column_blocks(m, G.shape[0], 8):
        W[:, start:stop] = V @ (factors[:, None] * (V.T @ cross_of(start, stop)))
    return W


def _as_double(rows: Rows) -> Rows:
    """The same rows, to compute in float64; made once."""
    if rows.dtype == np.float64:
        return rows
    if rows._double is None:
        X = rows.X.astype(np.float64) if is_sparse(rows.X) else rows.X
        shift = None if rows.shift is None else rows.shift.astype(np.float64)
        rows._double = Rows(X, np.dtype(np.float64), rows.mean, shift)
    return rows._double


class Factorisation:
    """XcᵀXc + alpha (or, dual, Xc Xcᵀ + alpha) factorised, for any number of right-hand sides.

    By Cholesky in the dtype of the rows; where that is not accurate, in float64; where that is not either, by the
    spectrum.

    Parameters
    ----------
    rows : Rows
    alpha : float
    solver : {'cholesky', 'dual'}
    n_threads : int
    """

    def __init__(self, rows: Rows, alpha: float, solver: str, n_threads: int) -> None:
        self.rows, self.alpha, self.solver = rows, alpha, solver
        make = gram if solver == "cholesky" else _gram_of_rows
        with threadpool_limits(n_threads, "blas"):
            self._used = rows
            self._factor: Array | None
            self._factor, rcond = _factorise(make(rows, n_threads), alpha)
            if not _is_safe(rcond, rows.dtype, solver) and rows.dtype == np.float32:
                self._factor, self._used = None, _as_double(rows)
                self._factor, rcond = _factorise(make(self._used, n_threads), alpha)
            if not _is_safe(rcond, self._used.dtype, solver):
                self._factor, self._used = None, _as_double(rows)
                cut = max(rows.shape) * float(np.finfo(np.float64).eps)
                full_rank = min(rows.shape)
                self._vectors, self._factors = _spectral(make(self._used, n_threads), alpha, cut, full_rank)

    def _apply(self, C: Array) -> Array:
        if self._factor is not None:
            return _back_substitute(self._factor, C)
        return np.ascontiguousarray(self._vectors @ (self._factors[:, None] * (self._vectors.T @ C)))

    def solve(self, B: Array, n_threads: int) -> Array:
        """W of shape (d, w) for targets B of shape (n, w)."""
        rows = self._used
        targets = B.astype(rows.dtype, copy=False)
        with threadpool_limits(n_threads, "blas"):
            if self.solver == "cholesky":
                return self._apply(cross(rows, targets, n_threads))
            return cross(rows, self._apply(targets), n_threads)


def _direct(factorisation: Factorisation, targets: Targets, m: int, n_threads: int, progress: Progress) -> Array:
    rows = factorisation.rows
    W = np.empty((rows.shape[1], m), dtype=rows.dtype)
    for start, stop in _column_blocks(m, max(rows.shape), rows.dtype.itemsize):
        part = factorisation.solve(targets(start, stop), n_threads)
        if stop - start == m and part.dtype == W.dtype:
            W = part
        else:
            W[:, start:stop] = part
        progress.advance(stop - start)
    return W


# ---------------------------------------------------------------- conjugate gradients


def _cg_width(n: int, d: int, m: int, itemsize: int, n_threads: int) -> int:
    """Columns of a block: a few vectors, fewer where its matrices (three of d rows, one of n) would leave the cache."""
    lanes = 64 // itemsize
    vectors = max(1, min(4, 12_000_000 // max(1, (3 * d + n) * 64)))
    return max(1, min(lanes * vectors, -(-m // n_threads)))


class _CsrBlocks:
    """Column blocks of one problem on CSR rows, as many at a time as there are threads."""

    def __init__(self, rows: Rows, targets: Targets, m: int, tol: float, n_threads: int) -> None:
        self.rows, self.targets, self.m, self.tol = rows, targets, m, tol
        self.n_threads = min(n_threads, 64)  # as many blocks as the engine holds
        self.width = _cg_width(*rows.shape, m, rows.dtype.itemsize, self.n_threads)
        self._mean = None if rows.mean is None else rows.mean.astype(rows.dtype)
        self.most_steps, self._steps_at_once = 0, 1

    def groups(self) -> Iterator[list[slice]]:
        """Columns of the blocks that are solved together."""
        step = self.width * self.n_threads
        for start in range(0, self.m, step):
            yield [slice(s, min(self.m, s + self.width)) for s in range(start, min(self.m, start + step), self.width)]

    def open(self, group: list[slice]) -> tuple[Any, Array, Array]:
        """The engine, its right-hand sides and its solutions. Narrower blocks are filled up with columns of zeros."""
        n, d = self.rows.shape
        B = np.zeros((len(group), n, self.width), dtype=self.rows.dtype)
        W = np.zeros((len(group), d, self.width), dtype=self.rows.dtype)
        for block, columns in enumerate(group):
            B[block, :, : columns.stop - columns.start] = self.targets(columns.start, columns.stop)
        X, Xt = _csr_parts(self.rows.X), _csr_parts(self.rows.transposed)
        return _core.ConjugateGradients(X, Xt, B, W, self.tol, self._mean, self.rows.shift), B, W

    def run(self, cg: Any) -> None:
        """Steps until all columns are solved; back in Python, to hear Ctrl-C, every quarter second."""
        taken, done = np.zeros(cg.n_blocks, dtype=np.int64), False
        while not done and taken.max() < _MAX_CG_STEPS:
            began = time.monotonic()
            steps = min(self._steps_at_once, _MAX_CG_STEPS - int(taken.max()))
            done = cg.iterate(steps, taken, self.n_threads)
            seconds = (time.monotonic() - began) / steps
            self._steps_at_once = max(1, min(50, int(0.25 / max(seconds, 1e-9))))
        if not done:
            _warn_not_converged(self.tol)
        self.most_steps = max(self.most_steps, int(taken.max()))


def _cg_csr(
    rows: Rows, targets: Targets, m: int, alpha: float, tol: float, n_threads: int, progress: Progress
) -> tuple[Array, int]:
    result = np.zeros((rows.shape[1], m), dtype=rows.dtype)
    if rows.X.nnz == 0:
        return result, 0
    blocks = _CsrBlocks(rows, targets, m, tol, n_threads)
    for group in blocks.groups():
        cg, _, W = blocks.open(group)
        cg.begin(alpha, n_threads)
        blocks.run(cg)
        for block, columns in enumerate(group):
            result[:, columns] = W[block, :, : columns.stop - columns.start]
            progress.advance(columns.stop - columns.start)
    return result, blocks.most_steps


def _warn_not_converged(tol: float) -> None:
    warnings.warn(
        f"conjugate gradients stopped after {_MAX_CG_STEPS} steps before every residual was at most {tol:g} of its "
        "start; use solver='cholesky' or a larger alpha",
        RuntimeWarning,
        stacklevel=5,
    )


def _cg_dense(
    rows: Rows, targets: Targets, m: int, alpha: float, tol: float, n_threads: int, progress: Progress
) -> tuple[Array, int]:
    n, d = rows.shape
    X = _whole(rows)
    W, most = np.zeros((d, m), dtype=rows.dtype), 0
    with threadpool_limits(n_threads, "blas"):
        for start, stop in _column_blocks(m, max(n, d), rows.dtype.itemsize):
            R = X.T @ targets(start, stop)
            P, part = R.copy(), np.zeros_like(R)
            rr = np.einsum("fc,fc->c", R, R, dtype=np.float64)
            goal = tol * tol * rr
            for taken in range(_MAX_CG_STEPS + 1):
                going = rr > goal
                if not going.any() or taken == _MAX_CG_STEPS:
                    break
                AP = X.T @ (X @ P) + rows.dtype.type(alpha) * P
                curvature = np.einsum("fc,fc->c", P, AP, dtype=np.float64)
                if not np.isfinite(curvature).all():
                    W[:] = np.nan  # overflow: the caller refuses the result
                    return W, taken
                going &= curvature > 0
                step = np.divide(rr, curvature, where=going, out=np.zeros_like(rr)).astype(rows.dtype)
                part += step * P
                R -= step * AP
                after = np.einsum("fc,fc->c", R, R, dtype=np.float64)
                goal[~going] = np.inf
                P = R + np.divide(after, rr, where=rr > 0, out=np.zeros_like(rr)).astype(rows.dtype) * P
                rr = after
            if taken == _MAX_CG_STEPS:
                _warn_not_converged(tol)
            most = max(most, taken)
            W[:, start:stop] = part
            progress.advance(stop - start)
    return W, most


# ---------------------------------------------------------------- choice


def _memory() -> float:
    """Bytes of memory of this machine."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 8e9


def choose_solver(n: int, d: int, m: int, nnz: int | None, itemsize: int, alpha: float) -> str:
    """The solver with the least cost that fits a quarter of the memory.

    Costs are in floating-point operations at the rates seen of each: BLAS 3 at 100 a nanosecond, products of CSR
    rows at 15.

    Parameters
    ----------
    n, d, m : int
        Rows, features and right-hand sides.
    nnz : int or None
        Entries of CSR rows; None for dense rows.
    itemsize : int
        Bytes of a number.
    alpha : float
        0 keeps to direct solvers where they fit.
    """
    entries = n * d if nnz is None else nnz
    rate = 100.0 if nnz is None else 15.0
    products = entries * 2.0 * m
    room = _memory() / 4 / itemsize
    costs = {"cg": (40 if alpha > 0 else 400) * 2 * products / rate}
    for name, size in (("cholesky", d), ("dual", n)):
        if float(size) * size <= room:
            own = entries * float(size if nnz is None else entries / max(1, n if name == "cholesky" else d))
            costs[name] = own / rate + (size**3 / 3 + 2.0 * size * size * m) / 100 + products / rate
    if costs.get("cholesky", np.inf) <= costs.get("dual", np.inf):
        costs.pop("dual", None)
    return min(costs, key=lambda name: costs[name])


def solve(
    rows: Rows,
    targets: Targets,
    m: int,
    alpha: float,
    *,
    solver: str,
    tol: float,
    n_threads: int,
    verbose: bool = False,
    factorisation: Factorisation | None = None,
) -> tuple[Array, str, int]:
    """W of shape (d, m), the name of the solver used, and the steps it took (0 for direct ones).

    A `factorisation` of the same rows and alpha is used instead of a new one.
    """
    n, d = rows.shape
    nnz = rows.X.nnz if is_sparse(rows.X) else None
    if factorisation is not None:
        solver = factorisation.solver
    elif solver == "auto":
        solver = choose_solver(n, d, m, nnz, rows.dtype.itemsize, alpha)
    n_iter = 0
    with Progress(f"fit ({solver})", m, show=verbose) as progress:
        if solver in ("cholesky", "dual"):
            if factorisation is None:
                factorisation = Factorisation(rows, alpha, solver, n_threads)
            W = _direct(factorisation, targets, m, n_threads, progress)
        elif nnz is None:
            W, n_iter = _cg_dense(rows, targets, m, alpha, tol, n_threads, progress)
        else:
            W, n_iter = _cg_csr(rows, targets, m, alpha, tol, n_threads, progress)
    W = np.ascontiguousarray(W, dtype=rows.dtype)
    if not np.isfinite(W).all():
        raise ValueError(f"X or Y is too large: the solution leaves the range of {rows.dtype}")
    return W, solver, n_iter


# ---------------------------------------------------------------- many penalties


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
    double = _as_double(rows)
    with threadpool_limits(n_threads, "blas"):
        G = gram(double, n_threads) if d <= n else _gram_of_rows(double, n_threads)
        values, V = linalg.eigh(G, lower=True, driver="evd", overwrite_a=True)
        values = np.maximum(values, 0)
        C = np.empty((len(V), m))
        for start, stop in _column_blocks(m, max(n, d), 8):
            B = np.ascontiguousarray(targets(start, stop), np.float64)
            C[:, start:stop] = V.T @ (cross(double, B, n_threads) if d <= n else B)
        # W = V f(λ) VᵀXᵀB with XᵀX = VλVᵀ, or Xᵀ V f(λ) VᵀB with XXᵀ = VλVᵀ
        basis = V if d <= n else cross(double, V, n_threads)
        held_V = np.asarray(held @ basis)
        if rows.mean is not None:
            held_V -= rows.mean @ basis
    for alpha in descending:
        with threadpool_limits(n_threads, "blas"):
            scores = np.asarray(held_V @ (C / (values + alpha)[:, None]))
        yield alpha, scores.astype(rows.dtype)


def _cg_path(
    rows: Rows, targets: Targets, m: int, alphas: list[float], held: Any, tol: float, n_threads: int
) -> Iterator[tuple[float, Array]]:
    W = np.zeros((rows.shape[1], m), dtype=rows.dtype)
    blocks = _CsrBlocks(rows, targets, m, tol, n_threads)
    for number, alpha in enumerate(alphas):
        for group in blocks.groups():
            cg, B, part = blocks.open(group)
            own = B.copy()
            cg.begin(alpha, n_threads)
            if number:  # on from the solution before
                for block, columns in enumerate(group):
                    part[block, :, : columns.stop - columns.start] = W[:, columns]
                    B[block] = own[block] - _centred_times(rows, part[block], n_threads)
                cg.begin(alpha, n_threads, warm=True)
            blocks.run(cg)
            for block, columns in enumerate(group):
                W[:, columns] = part[block, :, : columns.stop - columns.start]
        scores = times(held, W, n_threads)
        if rows.mean is not None:
            scores -= (rows.mean @ W).astype(rows.dtype)
        yield alpha, scores


def _centred_times(rows: Rows, W: Array, n_threads: int) -> Array:
    """Xc W for CSR rows."""
    out = times(rows.X, W, n_threads)
    if rows.mean is not None:
        out -= np.outer(rows.ones(), rows.mean @ W)
    return out
