"""What every Φ can do, whatever it is made of."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core import compression as _core
from shore._core.threads import resolve_n_threads
from shore._pieces import pieces
from shore._validation import check_rows, is_sparse

__all__ = ["Compression", "rebuild"]

# Dense outputs are read in blocks of rows of about this size.
_BLOCK_BYTES = 1 << 26
# Lanczos steps to a norm; ten to twenty are enough for random Φ.
_LEAST_STEPS, _MOST_STEPS = 12, 64


def _check_columns(matrix: Any, name: str, n_columns: int, what: str) -> Any:
    rows = check_rows(matrix, name)
    if rows.shape[1] != n_columns:
        raise ValueError(f"{name} must have {n_columns} columns, one per {what}, got shape {rows.shape}")
    return rows


def _refuse_overflow(product: npt.NDArray[Any], what: str, dtype: np.dtype[Any]) -> None:
    if not np.isfinite(product).all():
        raise ValueError(f"{what} leaves the range of {dtype}")


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
    _largest_column: float = 1.0  # max‖φ_j‖₂; entries are no larger
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
        threads = min(resolve_n_threads(n_threads), max(1, rows.shape[0]))
        step = max(1, rows.shape[0])
        if not is_sparse(rows):
            step = max(1, _BLOCK_BYTES // max(1, self.n_outputs * self.dtype.itemsize))
        for start in range(0, rows.shape[0], step):
            block = rows[start : start + step] if step < rows.shape[0] else rows
            with np.errstate(over="ignore"):  # infinity is refused
                block = sparse.csr_array(block if is_sparse(block) else np.asarray(block, dtype=self.dtype))
                data = np.ascontiguousarray(block.data, dtype=self.dtype)
            if not np.isfinite(data).all():
                raise ValueError(f"Y must be finite in {self.dtype}, but it holds NaN, infinity or larger numbers")
            entries = len(data) / block.shape[0]
            for here in pieces(block.shape[0], 1e-9 * self.n_components * (1 + entries) / threads, least=16 * threads):
                indptr, part = block.indptr[here.start : here.stop + 1], out[start + here.start : start + here.stop]
                _core.compress_csr(self._phi, data, block.indices, indptr, part, min(threads, len(part)))
            if self._may_overflow(data):
                _refuse_overflow(out[start : start + step], "Y is too large: its compression", self.dtype)
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
        with np.errstate(over="ignore"):
            dense = np.require(dense, dtype=self.dtype, requirements=["C", "A"])
        if not np.isfinite(dense).all():
            raise ValueError(f"R must be finite in {self.dtype}, but it holds NaN, infinity or larger numbers")
        with np.errstate(over="ignore", invalid="ignore"):
            out = self._correlate(dense, resolve_n_threads(n_threads))
        if self._may_overflow(dense):
            _refuse_overflow(out, "R is too large: its correlation", self.dtype)
        return out

    def _may_overflow(self, numbers: npt.NDArray[Any]) -> bool:
        """Whether a sum of a billion products of them with entries of Φ could: else nobody need look at the result."""
        largest = float(np.abs(numbers).max(initial=0))
        return largest * max(1.0, self._largest_column) > 1e-9 * float(np.finfo(self.dtype).max)

    @abstractmethod
    def _equals(self, other: Any) -> bool:
        """Whether another Φ of the same type and `repr` has the same numbers."""

    @abstractmethod
    def _gram_product(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """ΦΦᵀu, on one thread and without the BLAS."""

    def squared_norm(self) -> float:
        """‖Φ‖₂², the largest eigenvalue of ΦΦᵀ, to about a percent; computed once.

        The same number every time. The BLAS has no part in it: what it computes may depend on its number of threads,
        which belongs to the whole process.
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
        # The estimate may rest near another eigenvalue, if the start has little of the vector of the largest.
        settled = k + 1 >= _LEAST_STEPS and rest * abs(vectors[-1, -1]) <= 1e-2 * largest
        if settled or rest <= 1e-6 * largest or k + 1 == len(tridiagonal):
            break
        tridiagonal[k, k + 1] = tridiagonal[k + 1, k] = rest
        basis = np.concatenate([basis, w[None] / rest])
    return largest


def rebuild(make: Callable[..., Compression], arguments: tuple[Any, ...], options: dict[str, Any]) -> Compression:
    """For pickle, which knows no keywords."""
    return make(*arguments, **options)
