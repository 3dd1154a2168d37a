"""Rows of X as the solvers see them, and products with them: X P, XᵀX, XXᵀ and XᵀB."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from shore._core import linear as _core
from shore._core.blas import limit_blas
from shore._pieces import pieces
from shore._validation import is_sparse, working_dtype
from shore.solvers.accuracy import norm

__all__ = [
    "Array",
    "Rows",
    "Targets",
    "as_double",
    "column_blocks",
    "cross",
    "csr_parts",
    "gram",
    "gram_of_rows",
    "product",
    "times",
    "weighted_csr",
    "whole",
]

Array = npt.NDArray[Any]
# Gives the targets of columns [start, stop) as a C-contiguous array (n, stop - start), in the dtype of the rows or
# more precise.
Targets = Callable[[int, int], Array]

_BLOCK_BYTES = 1 << 26
# Bytes of X that share a checksum.
_PIECE_BYTES = 1 << 20
# Work of one BLAS call: well under a second.
_CALL_FLOPS = 6e10


def csr_parts(X: Any) -> tuple[Array, Array, Array]:
    """Data, indices and row offsets, as the core reads them."""
    data, indices, indptr = (np.require(part, requirements=["C", "A"]) for part in (X.data, X.indices, X.indptr))
    return data, indices, indptr


def times(X: Any, P: Array, n_threads: int) -> Array:
    """X P for dense or CSR rows, every row the same bits whatever rows it is computed with.

    P of float16 is read as float32, which the result then has.
    """
    if X.shape[1] != P.shape[0]:  # the kernels would read past the end of P
        raise ValueError(f"X has {X.shape[1]} features, but the weights are for {P.shape[0]}")
    P = np.require(P, requirements=["C", "A"])
    half = P.dtype == np.float16
    out = np.empty((X.shape[0], P.shape[1]), dtype=np.float32 if half else P.dtype)
    threads = max(1, min(n_threads, X.shape[0]))
    csr_times: Any = _core.csr_times_half if half else _core.csr_times
    dense_times: Any = _core.dense_times_half if half else _core.dense_times
    weights = P.view(np.uint16) if half else P
    if is_sparse(X):
        data, indices, indptr = csr_parts(X)
        entries = 1 + len(data) / max(1, len(out))
        for here in pieces(len(out), 2e-10 * P.shape[1] * entries / threads, least=16 * threads):
            csr_times(data, indices, indptr[here.start : here.stop + 1], weights, out[here], threads)
    else:
        rows = np.require(X, dtype=out.dtype, requirements=["C", "A"])
        for here in pieces(len(out), 1e-10 * P.size / threads, least=4 * threads):
            dense_times(rows[here], weights, out[here], threads)
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
    unweighted : csr_array or None
        CSR rows as they came, if they are weighted: the products were rounded.
    """

    X: Any
    dtype: np.dtype[Any]
    mean: Array | None = None
    shift: Array | None = None
    unweighted: Any = None
    _transposed: Any = None
    _double: Rows | None = None
    _checksum: bytes | None = None

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

    @property
    def cancelled(self) -> float:
        """The square of the norm of what centring takes away; where that is all there was, its rounding is left."""
        return 0.0 if self.mean is None else (norm(self.mean) * norm(self.ones())) ** 2

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

    def checksum(self) -> bytes:
        """What X held at the first call, as a CRC-32 of every piece of it: tells whether two `Rows` are of the same X.

        The same for rows in any memory layout. As fast as a sum of all entries.
        """
        if self._checksum is None:
            arrays: tuple[Any, ...] = (self.X,)
            if is_sparse(self.X):
                narrow = np.int32 if self.shape[1] < 1 << 31 else np.int64
                arrays = self.X.data, self.X.indices.astype(narrow, copy=False), self.X.indptr.astype(np.int64)
            sums = [zlib.crc32(part.data) for array in arrays for part in _parts(array)]
            self._checksum = np.array([*self.shape, *sums], dtype=np.int64).tobytes()
        return self._checksum

    def ones(self) -> Array:
        """The shift as an array."""
        return np.ones(self.shape[0], dtype=self.dtype) if self.shift is None else self.shift


def _parts(array: Array) -> Iterator[Array]:
    """An array in C-contiguous pieces: rows of X in the dtype to compute in, parts of CSR as they are."""
    dtype = working_dtype(array.dtype, "X") if array.ndim == 2 else array.dtype
    step = max(1, _PIECE_BYTES // max(1, dtype.itemsize * math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        part = array[start : start + step]
        if not part.flags.c_contiguous or part.dtype != dtype:
            strided, part = part, np.empty(part.shape, dtype=dtype)
            for column in range(0, part.shape[-1], 64):  # column-major rows a few columns at a time stay in the cache
                part[..., column : column + 64] = strided[..., column : column + 64]
        yield part


def weighted_csr(X: Any, shift: Array, dtype: np.dtype[Any]) -> Any:
    """diag(shift) X for CSR rows, in the dtype given."""
    data = (X.data * np.repeat(shift, np.diff(X.indptr))).astype(dtype, copy=False)
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def as_double(rows: Rows) -> Rows:
    """The same rows, to compute in float64; made once."""
    if rows.dtype == np.float64:
        return rows
    if rows._double is None:
        double, X = np.dtype(np.float64), rows.X
        shift = None if rows.shift is None else rows.shift.astype(np.float64)
        if rows.unweighted is not None and shift is not None:
            X = weighted_csr(rows.unweighted, shift, double)
        elif is_sparse(X):
            X = X.astype(np.float64)
        rows._double = Rows(X, double, rows.mean, shift)
    return rows._double


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
        with limit_blas(n_threads):
            for _, block in rows.blocks():
                out = _syrk(block, out, of_rows=False)
        d = rows.shape[1]
        return np.zeros((d, d), dtype=rows.dtype, order="F") if out is None else out
    # In float64: sums over many rows, and the difference that centring makes, would lose too much of float32.
    double = as_double(rows)
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
    parts, threads = (*csr_parts(X), *csr_parts(transposed)), max(1, min(n_threads, d))
    for here in pieces(d, 1e-9 * (d + X.nnz / max(1, d) * X.nnz / max(1, X.shape[0])) / threads, least=16 * threads):
        _core.csr_gram(*parts, here.start, out[here], threads)
    return out


def gram_of_rows(rows: Rows, n_threads: int) -> Array:
    """Xc Xcᵀ, at least its lower triangle, column-major (n, n)."""
    if not is_sparse(rows.X):
        with limit_blas(n_threads):
            return _syrk(whole(rows), None, of_rows=True)
    double = as_double(rows)
    out = _csr_gram(double.transposed, double.X, n_threads)
    if double.mean is not None:
        u, s = np.asarray(double.X @ double.mean), double.ones()
        out -= np.outer(u, s) + np.outer(s, u) - np.outer(s * (double.mean @ double.mean), s)
    return out.T.astype(rows.dtype, order="F", copy=False)


def whole(rows: Rows) -> Array:
    """Dense rows, weighted and centred, in one array."""
    return np.asarray(rows.X) if rows.as_is() else np.concatenate([block for _, block in rows.blocks()])


def cross(rows: Rows, B: Array, n_threads: int) -> Array:
    """XcᵀB, (d, w)."""
    if is_sparse(rows.X):
        double = as_double(rows)
        out = times(double.transposed, B.astype(np.float64), n_threads)
        if double.mean is not None:
            out -= np.outer(double.mean, double.ones() @ B)
        return out.astype(rows.dtype, copy=False)
    with limit_blas(n_threads):
        total = None
        for here, block in rows.blocks():
            part = np.asarray(block.T @ B[here])
            total = part if total is None else np.add(total, part, out=total)
        return np.zeros((rows.shape[1], B.shape[1]), dtype=rows.dtype) if total is None else total


def product(rows: Rows, W: Array, n_threads: int) -> Array:
    """Xc W, (n, w), in the dtype of W."""
    if is_sparse(rows.X):
        out = times(rows.X, W, n_threads)
        if rows.mean is not None:
            out -= np.outer(rows.ones(), rows.mean @ W)
        return out
    with limit_blas(n_threads):
        return np.concatenate([block @ W for _, block in rows.blocks()])


def column_blocks(m: int, n: int, itemsize: int) -> Iterator[tuple[int, int]]:
    """Columns [start, stop) of an array (n, m), in blocks bounded by bytes."""
    step = max(16, min(m, 4 * _BLOCK_BYTES // max(1, n * itemsize)))
    for start in range(0, m, step):
        yield start, min(m, start + step)
