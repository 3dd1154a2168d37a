"""Φ: the random matrices that compress K outputs into m numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from threadpoolctl import threadpool_limits

from shore._core import compression as _core
from shore._core.threads import resolve_n_threads
from shore._validation import check_positive, check_rows, check_seed, float_dtype, is_sparse, working_dtype

__all__ = ["Compression", "GaussianCompression", "MatrixCompression", "SparseSignCompression"]

# Dense outputs are read in blocks of rows of about this size.
_BLOCK_BYTES = 1 << 26
# Lanczos steps to a norm; ten to twenty are enough for random Φ.
_MOST_STEPS = 64


def _check_columns(matrix: Any, name: str, n_columns: int, what: str) -> Any:
    rows = check_rows(matrix, name)
    if rows.shape[1] != n_columns:
        raise ValueError(f"{name} must have {n_columns} columns, one per {what}, got shape {rows.shape}")
    return rows


def _refuse_overflow(compressed: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    if not np.isfinite(compressed).all():
        raise ValueError(f"Y is too large: its compression leaves the range of {dtype}")


class Compression(ABC):
    """A matrix Φ of shape (m, K).

    Attributes
    ----------
    n_components : int
        Rows of Φ, m.
    n_outputs : int
        Columns of Φ, K.
    dtype : dtype
        float32 or float64; decoding runs in it.
    """

    n_components: int
    n_outputs: int
    dtype: np.dtype[Any]
    _phi: _core.Phi
    _squared_norm: float | None = None
    _stored = False  # whether Φ came as it is, and not from a seed

    @abstractmethod
    def toarray(self) -> npt.NDArray[Any]:
        """Φ as a dense array of shape (m, K)."""

    @abstractmethod
    def _correlate(self, R: npt.NDArray[Any], n_threads: int) -> npt.NDArray[Any]:
        """R Φ for C-contiguous R."""

    def compress(self, Y: Any, *, n_threads: int | None = None) -> npt.NDArray[Any]:
        """Compressed outputs, Y Φᵀ.

        Parameters
        ----------
        Y : array-like or SciPy sparse matrix of shape (n, K)
            Sparse outputs are not made dense; the cost is in their non-zeros.
        n_threads : int, optional
            Threads to run on; None for the cores this process may use.

        Returns
        -------
        ndarray of shape (n, m)
        """
        rows = _check_columns(Y, "Y", self.n_outputs, "output")
        out = np.empty((rows.shape[0], self.n_components), dtype=self.dtype)
        step = rows.shape[0]
        if not is_sparse(rows):
            step = max(1, _BLOCK_BYTES // max(1, self.n_outputs * self.dtype.itemsize))
        for start in range(0, rows.shape[0], max(1, step)):
            block = rows[start : start + step] if step < rows.shape[0] else rows
            block = sparse.csr_array(block if is_sparse(block) else np.asarray(block, dtype=self.dtype))
            data = np.ascontiguousarray(block.data, dtype=self.dtype)
            if not np.isfinite(data).all():
                raise ValueError(f"Y must be finite in {self.dtype}, but it holds NaN, infinity or larger numbers")
            threads = min(resolve_n_threads(n_threads), max(1, block.shape[0]))
            _core.compress_csr(self._phi, data, block.indices, block.indptr, out[start : start + step], threads)
            if np.abs(data).max(initial=0) > 1e-9 * np.finfo(self.dtype).max:
                _refuse_overflow(out[start : start + step], self.dtype)
        return out

    def correlate(self, R: Any, *, n_threads: int | None = None) -> npt.NDArray[Any]:
        """Correlation of every row with every column of Φ, R Φ: for a residual r, the numbers φ_jᵀr.

        Parameters
        ----------
        R : array-like of shape (n, m)
        n_threads : int, optional
            Threads to run on; None for the cores this process may use.

        Returns
        -------
        ndarray of shape (n, K)
            Dense: for many outputs, mind its size.
        """
        rows = _check_columns(R, "R", self.n_components, "component")
        dense = rows.toarray() if is_sparse(rows) else rows
        dense = np.require(dense, dtype=self.dtype, requirements=["C", "A"])
        if not np.isfinite(dense).all():
            raise ValueError(f"R must be finite in {self.dtype}, but it holds NaN, infinity or larger numbers")
        return self._correlate(dense, resolve_n_threads(n_threads))

    @abstractmethod
    def _gram_product(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """ΦΦᵀu, on one thread and without the BLAS."""

    def squared_norm(self) -> float:
        """‖Φ‖₂², the largest eigenvalue of ΦΦᵀ, to about a percent; computed once.

        The same number every time. The BLAS has no part in it: its number of threads belongs to the whole process, and
        calls from several threads that hold it down and set it back would leave it down.
        """
        if self._squared_norm is None:
            self._squared_norm = _largest_eigenvalue(self._gram_product, self.n_components)
        return self._squared_norm


def _largest_eigenvalue(product: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]], size: int) -> float:
    """Of a symmetric matrix, by Lanczos steps from a fixed start; infinity if its products overflow."""
    start = np.random.default_rng(0).standard_normal(size)
    basis = (start / math.hypot(*start))[None]
    tridiagonal = np.zeros((min(size, _MOST_STEPS),) * 2)
    largest = 0.0
    for k in range(len(tridiagonal)):
        with np.errstate(over="ignore", invalid="ignore"):
            w = product(basis[k])
            tridiagonal[k, k] = np.einsum("i,i", w, basis[k])
            for _ in range(2):  # once leaves rounding errors of the size of w
                w = w - np.einsum("ki,k->i", basis, np.einsum("ki,i->k", basis, w))
        rest = math.hypot(*w)
        if not math.isfinite(rest):
            return math.inf
        values, vectors = np.linalg.eigh(tridiagonal[: k + 1, : k + 1])
        largest = float(values[-1])
        if rest * abs(vectors[-1, -1]) <= 1e-2 * largest or k + 1 == len(tridiagonal):
            break
        tridiagonal[k, k + 1] = tridiagonal[k + 1, k] = rest
        basis = np.concatenate([basis, w[None] / rest])
    return largest


class _DenseCompression(Compression):
    """Φ held column by column, as an array (K, m)."""

    def _set_columns(self, columns: npt.NDArray[Any]) -> None:
        self.n_outputs, self.n_components = columns.shape
        self.dtype = columns.dtype
        columns.flags.writeable = False
        self._columns = columns
        norms = np.sqrt(np.einsum("ji,ji->j", columns, columns, dtype=np.float64))
        self._phi = _core.Phi.dense(columns, float(norms.max()) * (1 + 1e-9), resolve_n_threads())

    @classmethod
    def _from_columns(cls, columns: npt.NDArray[Any], **attributes: Any) -> Self:
        """Φ from its columns, a C-contiguous array (K, m) of finite numbers that is not copied."""
        made = cls.__new__(cls)
        made._stored = True
        made.__dict__.update(attributes)
        made._set_columns(columns)
        return made

    def toarray(self) -> npt.NDArray[Any]:
        """Φ as a dense array of shape (m, K)."""
        return np.ascontiguousarray(self._columns.T)

    def _correlate(self, R: npt.NDArray[Any], n_threads: int) -> npt.NDArray[Any]:
        with threadpool_limits(n_threads, "blas"):
            return np.asarray(R @ self._columns.T)

    def _gram_product(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        columns = self._columns  # einsum of two operands has loops of its own
        return np.asarray(np.einsum("ji,j->i", columns, np.einsum("ji,i->j", columns, u)))


class GaussianCompression(_DenseCompression):
    """Φ with independent entries N(0, 1/m): the paper's Assumption 1.

    Parameters
    ----------
    n_components : int
        Rows of Φ, m.
    n_outputs : int
        Columns of Φ, K.
    seed : int, default 0
        Same seed, same Φ: on any machine, number of threads and version of NumPy.
    dtype : float32 or float64, default float32

    Examples
    --------
    >>> import shore
    >>> phi = shore.GaussianCompression(100, 5000)
    >>> phi.toarray().shape
    (100, 5000)
    """

    def __init__(self, n_components: int, n_outputs: int, *, seed: int = 0, dtype: npt.DTypeLike = np.float32) -> None:
        shape = check_positive(n_outputs, "n_outputs"), check_positive(n_components, "n_components")
        self.seed = check_seed(seed, "seed")
        columns = np.empty(shape, dtype=float_dtype(dtype))
        _core.make_gaussian(columns, self.seed, min(resolve_n_threads(), shape[0]))
        self._set_columns(columns)

    def __reduce__(self) -> Any:
        if self._stored:
            return _rebuild_stored, (type(self)._from_columns, self._columns, {"seed": self.seed})
        return _rebuild, (type(self), (self.n_components, self.n_outputs), {"seed": self.seed, "dtype": self.dtype})

    def __repr__(self) -> str:
        return f"GaussianCompression({self.n_components}, {self.n_outputs}, seed={self.seed}, dtype={self.dtype})"


class MatrixCompression(_DenseCompression):
    """Any Φ that the caller brings.

    Parameters
    ----------
    matrix : array-like of shape (m, K)
        Finite real numbers; float32 stays float32, all else becomes float64. It is copied.

    Examples
    --------
    >>> import numpy as np, shore
    >>> shore.MatrixCompression(np.eye(3)).compress([[0, 2, 0]])
    array([[0., 2., 0.]])
    """

    def __init__(self, matrix: Any) -> None:
        rows = check_rows(matrix, "matrix")
        dense = rows.toarray() if is_sparse(rows) else rows
        if 0 in dense.shape:
            raise ValueError(f"matrix must have at least one row and one column, got shape {dense.shape}")
        columns = np.array(dense.T, dtype=working_dtype(dense.dtype, "matrix"), order="C", copy=True)
        if not np.isfinite(columns).all():
            raise ValueError("matrix must be finite, but it holds NaN or infinity")
        self._set_columns(columns)

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), (self.toarray(),), {})

    def __repr__(self) -> str:
        return f"MatrixCompression(<{self.n_components}x{self.n_outputs} {self.dtype}>)"


class SparseSignCompression(Compression):
    """Φ with a few entries ±1/√nnz in each column, at random rows with random signs.

    A full pass over the outputs costs `nnz_per_output` additions per output, whatever m is, and recovery is as
    good as with a Gaussian Φ of the same m.

    Parameters
    ----------
    n_components : int
        Rows of Φ, m.
    n_outputs : int
        Columns of Φ, K.
    nnz_per_output : int, default 16
        Entries in a column; more than m means m. One lies in each of that many equal segments of the rows.
    seed : int, default 0
        Same seed, same Φ: on any machine, number of threads and version of NumPy.
    dtype : float32 or float64, default float32

    Examples
    --------
    >>> import numpy as np, shore
    >>> phi = shore.SparseSignCompression(100, 5000)
    >>> np.unique(phi.toarray()).tolist()
    [-0.25, 0.0, 0.25]
    """

    def __init__(
        self,
        n_components: int,
        n_outputs: int,
        *,
        nnz_per_output: int = 16,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self.n_components = check_positive(n_components, "n_components")
        self.n_outputs = check_positive(n_outputs, "n_outputs")
        self.nnz_per_output = min(check_positive(nnz_per_output, "nnz_per_output"), self.n_components)
        self.seed = check_seed(seed, "seed")
        self.dtype = float_dtype(dtype)
        pad, size, table_dtype = _core.sign_layout(self.n_components, self.n_outputs, self.nnz_per_output)
        tables = np.empty(size, dtype=table_dtype)
        self._set_tables(tables, pad)
        _core.make_sign_tables(self._phi, tables, self.seed, resolve_n_threads())
        tables.flags.writeable = False

    def _set_tables(self, tables: npt.NDArray[Any], pad: int) -> None:
        self._tables = tables
        self._phi = _core.Phi.signs(
            tables, self.n_components, self.n_outputs, self.nnz_per_output, pad, self.dtype == np.float64
        )

    @classmethod
    def _from_tables(
        cls, tables: npt.NDArray[Any], n_components: int, n_outputs: int, nnz_per_output: int, seed: int, dtype: Any
    ) -> Self:
        """Φ from its tables, which are checked and not copied."""
        made = cls.__new__(cls)
        made._stored = True
        made.n_components = check_positive(n_components, "n_components")
        made.n_outputs = check_positive(n_outputs, "n_outputs")
        made.nnz_per_output = check_positive(nnz_per_output, "nnz_per_output")
        made.seed, made.dtype = check_seed(seed, "seed"), float_dtype(dtype)
        # In Python's integers first: those of the core have 64 bits.
        size = -(-made.n_outputs // _core.TILE) * _core.TILE * made.nnz_per_output
        if made.nnz_per_output > made.n_components or tables.shape != (size,):
            raise ValueError(f"tables of shape {tables.shape} are not those of {made!r}")
        pad, _, table_dtype = _core.sign_layout(made.n_components, made.n_outputs, made.nnz_per_output)
        if tables.dtype != table_dtype:
            raise ValueError(f"tables of dtype {tables.dtype} are not those of {made!r}")
        tables.flags.writeable = False
        made._set_tables(tables, pad)
        illegal = _core.illegal_sign_places(made._phi, resolve_n_threads())
        if illegal:
            raise ValueError(f"tables hold {illegal} entries that are no places of {made!r}")
        return made

    def toarray(self) -> npt.NDArray[Any]:
        """Φ as a dense array of shape (m, K)."""
        rows = np.empty((self.n_outputs, self.nnz_per_output), dtype=np.int64)
        signs = np.empty(rows.shape, dtype=np.int8)
        _core.signs_to_rows(self._phi, rows, signs)
        dense = np.zeros((self.n_components, self.n_outputs), dtype=self.dtype)
        dense[rows, np.arange(self.n_outputs)[:, None]] = signs / self.dtype.type(np.sqrt(self.nnz_per_output))
        return dense

    def _correlate(self, R: npt.NDArray[Any], n_threads: int) -> npt.NDArray[Any]:
        out = np.empty((R.shape[0], self.n_outputs), dtype=self.dtype)
        _core.correlate_signs(self._phi, R, out, max(1, min(n_threads, R.shape[0])))
        return out

    def _gram_product(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        correlations = self._correlate(u[None].astype(self.dtype), 1)
        return np.asarray(self.compress(correlations, n_threads=1)[0], dtype=np.float64)

    def __reduce__(self) -> Any:
        if self._stored:
            names = ("n_components", "n_outputs", "nnz_per_output", "seed", "dtype")
            attributes = {name: getattr(self, name) for name in names}
            return _rebuild_stored, (type(self)._from_tables, self._tables, attributes)
        options = {"nnz_per_output": self.nnz_per_output, "seed": self.seed, "dtype": self.dtype}
        return _rebuild, (type(self), (self.n_components, self.n_outputs), options)

    def __repr__(self) -> str:
        return (
            f"SparseSignCompression({self.n_components}, {self.n_outputs}, nnz_per_output={self.nnz_per_output}, "
            f"seed={self.seed}, dtype={self.dtype})"
        )


def _rebuild(kind: type[Compression], arguments: tuple[Any, ...], options: dict[str, Any]) -> Compression:
    return kind(*arguments, **options)


def _rebuild_stored(make: Any, array: npt.NDArray[Any], attributes: dict[str, Any]) -> Compression:
    made: Compression = make(array, **attributes)
    return made


def same_compression(one: Compression | None, other: Compression | None) -> bool:
    """Whether both are the same Φ; None is that of the uncompressed model."""
    if type(one) is not type(other) or repr(one) != repr(other):
        return False
    if isinstance(one, _DenseCompression) and isinstance(other, _DenseCompression):
        from_seeds = isinstance(one, GaussianCompression) and not (one._stored or other._stored)
        return from_seeds or bool(np.array_equal(one._columns, other._columns))
    if isinstance(one, SparseSignCompression) and isinstance(other, SparseSignCompression):
        return not (one._stored or other._stored) or bool(np.array_equal(one._tables, other._tables))
    return True
