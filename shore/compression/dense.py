"""Φ as a dense matrix: Gaussian, or the caller's own."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from shore._core import compression as _core
from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._pieces import pieces
from shore._validation import check_entries, check_rows, check_seed, check_size, float_dtype, is_sparse, working_dtype
from shore.compression.base import Compression, rebuild

__all__ = ["GaussianCompression", "MatrixCompression"]

# Work of one BLAS call: well under a second.
_CALL_FLOPS = 3e10


class DenseCompression(Compression):
    """Φ held column by column, as an array (K, m)."""

    def _set_columns(self, columns: npt.NDArray[Any]) -> None:
        self.n_outputs, self.n_components = columns.shape
        self.dtype = columns.dtype
        columns = np.require(columns, requirements=["C", "A"])
        columns.flags.writeable = False
        self._columns = columns
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.einsum("ji,ji->j", columns, columns, dtype=np.float64))
        self._largest_column = float(norms.max())
        self._phi = _core.Phi.dense(columns, self._largest_column * (1 + 1e-9), resolve_n_threads())

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
        out = np.empty((len(R), self.n_outputs), dtype=self.dtype)
        step = max(1, int(_CALL_FLOPS / self._columns.size))  # always the same: the bits of BLAS depend on it
        with limit_blas(n_threads):
            for start in range(0, len(R), step):
                np.matmul(R[start : start + step], self._columns.T, out=out[start : start + step])
        return out

    def _equals(self, other: Any) -> bool:
        return bool(np.array_equal(self._columns, other._columns))

    def _gram_product(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        columns = self._columns  # einsum of two operands has loops of its own
        return np.asarray(np.einsum("ji,j->i", columns, np.einsum("ji,i->j", columns, u)))


class GaussianCompression(DenseCompression):
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
        shape = check_size(n_outputs, "n_outputs"), check_size(n_components, "n_components")
        check_entries(n_components=shape[1], n_outputs=shape[0])
        self.seed = check_seed(seed, "seed")
        columns = np.empty(shape, dtype=float_dtype(dtype))
        threads = min(resolve_n_threads(), shape[0])
        for here in pieces(shape[0], 2e-8 * shape[1] / threads):
            _core.make_gaussian(columns[here], self.seed, threads, here.start)
        self._set_columns(columns)

    def _equals(self, other: Any) -> bool:
        return not (self._stored or other._stored) or super()._equals(other)

    def __reduce__(self) -> Any:
        if self._stored:
            return rebuild, (type(self)._from_columns, (self._columns,), {"seed": self.seed})
        return rebuild, (type(self), (self.n_components, self.n_outputs), {"seed": self.seed, "dtype": self.dtype})

    def __repr__(self) -> str:
        return f"GaussianCompression({self.n_components}, {self.n_outputs}, seed={self.seed}, dtype={self.dtype})"


class MatrixCompression(DenseCompression):
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
        return rebuild, (type(self), (self.toarray(),), {})

    def __repr__(self) -> str:
        return f"MatrixCompression(<{self.n_components}x{self.n_outputs} {self.dtype}>)"
