"""Φ of sparse signs, with or without outputs that own a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from shore._core import compression as _core
from shore._core.threads import resolve_n_threads
from shore._pieces import pieces
from shore._validation import check_entries, check_positive, check_seed, check_size, check_vector, float_dtype
from shore.compression.base import Compression, rebuild

__all__ = ["HeadTailCompression", "SparseSignCompression", "head_size"]

Array = npt.NDArray[Any]

_OPTIONS = ("nnz_per_output", "seed", "dtype")
_NO_HEAD = np.empty(0, dtype=np.int64)
_NO_HEAD.flags.writeable = False


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

    nnz_per_output: int
    seed: int
    head_outputs: npt.NDArray[np.int64]

    def __init__(
        self,
        n_components: int,
        n_outputs: int,
        *,
        nnz_per_output: int = 16,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self._set_sizes(n_components, n_outputs, _NO_HEAD, nnz_per_output, seed, dtype)
        self._make_tables()

    def _set_sizes(
        self, n_components: Any, n_outputs: Any, head: npt.NDArray[np.int64], nnz_per_output: Any, seed: Any, dtype: Any
    ) -> None:
        self.n_components = check_size(n_components, "n_components")
        self.n_outputs = check_size(n_outputs, "n_outputs")
        self.nnz_per_output = min(check_positive(nnz_per_output, "nnz_per_output"), max(1, self._tail_shape(head)[0]))
        check_entries(n_outputs=self.n_outputs, nnz_per_output=self.nnz_per_output)
        self.seed, self.dtype = check_seed(seed, "seed"), float_dtype(dtype)
        head = np.require(head, requirements=["C", "A"])
        head.flags.writeable = False
        self.head_outputs = head

    def _tail_shape(self, head: npt.NDArray[np.int64]) -> tuple[int, int]:
        """Rows and columns that the signs are in."""
        return self.n_components - len(head), self.n_outputs - len(head)

    def _make_tables(self) -> None:
        pad, size, dtype = _core.sign_layout(*self._tail_shape(self.head_outputs), self.nnz_per_output)
        tables = np.empty(size, dtype=dtype)
        self._set_tables(tables, pad)
        threads = resolve_n_threads()
        for here in self._tiles(3e-9 / threads):
            _core.make_sign_tables(self._phi, tables, self.seed, threads, here.start, here.stop)
        tables.flags.writeable = False

    def _tiles(self, seconds: float) -> Iterator[slice]:
        """Tiles of the tables in pieces, by what an entry takes, about."""
        n_tiles = -(-self._tail_shape(self.head_outputs)[1] // _core.TILE)
        return pieces(n_tiles, seconds * _core.TILE * self.nnz_per_output)

    def _set_tables(self, tables: Array, pad: int) -> None:
        self._tables = tables
        self._phi = _core.Phi.signs(
            tables, self.head_outputs, self.n_components, self.n_outputs, self.nnz_per_output, pad,
            self.dtype == np.float64,
        )  # fmt: skip

    @classmethod
    def _from_tables(
        cls,
        tables: Array,
        head: npt.NDArray[np.int64] = _NO_HEAD,
        *,
        n_components: int,
        n_outputs: int,
        nnz_per_output: int,
        seed: int,
        dtype: Any,
    ) -> Self:
        """Φ from its tables and its head, which are checked and not copied."""
        made = cls.__new__(cls)
        made._stored = True
        made._set_sizes(n_components, n_outputs, head, nnz_per_output, seed, dtype)
        rows, columns = made._tail_shape(head)
        if rows < 0 or columns < 0 or (columns > 0 and rows == 0):
            raise ValueError(f"{len(head)} outputs cannot own a row in {made!r}")
        if len(head) and (head[0] < 0 or head[-1] >= made.n_outputs or (np.diff(head) <= 0).any()):
            raise ValueError(f"outputs that own a row must be sorted, different, and below {made.n_outputs}")
        # In Python's integers first: those of the core have 64 bits.
        size = -(-columns // _core.TILE) * _core.TILE * made.nnz_per_output
        if made.nnz_per_output != nnz_per_output or tables.shape != (size,):
            raise ValueError(f"tables of shape {tables.shape} are not those of {made!r}")
        pad, _, table_dtype = _core.sign_layout(rows, columns, made.nnz_per_output)
        if tables.dtype != table_dtype:
            raise ValueError(f"tables of dtype {tables.dtype} are not those of {made!r}")
        tables = np.require(tables, requirements=["C", "A"])
        tables.flags.writeable = False
        made._set_tables(tables, pad)
        threads = resolve_n_threads()
        tiles = made._tiles(1e-9 / threads)
        illegal = sum(_core.illegal_sign_places(made._phi, threads, here.start, here.stop) for here in tiles)
        if illegal:
            raise ValueError(f"tables hold {illegal} entries that are no places of {made!r}")
        return made

    @classmethod
    def _from_head(cls, head: npt.NDArray[np.int64], **sizes: Any) -> Self:
        """Φ of a seed, with a head that is known."""
        made = cls.__new__(cls)
        made._set_sizes(sizes["n_components"], sizes["n_outputs"], head, *(sizes[name] for name in _OPTIONS))
        made._make_tables()
        return made

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The same Φ in another dtype."""
        sizes = {name: getattr(self, name) for name in ("n_components", "n_outputs", "nnz_per_output", "seed")}
        return self._from_tables(self._tables, self.head_outputs, **sizes, dtype=dtype)

    def toarray(self) -> Array:
        """Φ as a dense array of shape (m, K)."""
        head = self.head_outputs
        tail = np.delete(np.arange(self.n_outputs), head)
        rows = np.empty((len(tail), self.nnz_per_output), dtype=np.int64)
        signs = np.empty(rows.shape, dtype=np.int8)
        _core.signs_to_rows(self._phi, rows, signs)
        dense = np.zeros((self.n_components, self.n_outputs), dtype=self.dtype)
        dense[np.arange(len(head)), head] = 1
        dense[rows, tail[:, None]] = signs / self.dtype.type(np.sqrt(self.nnz_per_output))
        return dense

    def _correlate(self, R: Array, n_threads: int) -> Array:
        out = np.empty((R.shape[0], self.n_outputs), dtype=self.dtype)
        threads = max(1, min(n_threads, R.shape[0]))
        for here in pieces(R.shape[0], 1e-9 * self.nnz_per_output * self.n_outputs / threads, least=threads):
            _core.correlate_signs(self._phi, R[here], out[here], min(threads, here.stop - here.start))
        return out

    def _gram_product(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        correlations = self._correlate(u[None].astype(self.dtype), 1)
        return np.asarray(self.compress(correlations, n_threads=1)[0], dtype=np.float64)

    def _equals(self, other: Any) -> bool:
        if not np.array_equal(self.head_outputs, other.head_outputs):
            return False
        return not (self._stored or other._stored) or bool(np.array_equal(self._tables, other._tables))

    def __reduce__(self) -> Any:
        sizes = {name: getattr(self, name) for name in ("n_components", "n_outputs", *_OPTIONS)}
        if self._stored:
            return rebuild, (type(self)._from_tables, (self._tables, self.head_outputs), sizes)
        return rebuild, (type(self)._from_head, (self.head_outputs,), sizes)

    def __repr__(self) -> str:
        return (
            f"SparseSignCompression({self.n_components}, {self.n_outputs}, nnz_per_output={self.nnz_per_output}, "
            f"seed={self.seed}, dtype={self.dtype})"
        )


def _check_output_weights(output_weights: Any) -> npt.NDArray[np.float64]:
    weights = check_vector(output_weights, "output_weights")
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError("output_weights must be finite and not negative")
    return weights


def _ranked(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Outputs from the largest weight to the smallest, equal ones by their number."""
    return np.argsort(-weights, kind="stable")


def head_size(n_components: int, output_weights: Any) -> int:
    """How many outputs should own a row of Φ: the H that minimises E(H)/(m - H).

    E(H) is the energy of the outputs that are left to share m - H rows when the H heaviest own one each. An output of
    theirs then meets an interference of about E(H)/(m - H): what the columns of the others, with inner products of
    variance 1/(m - H), bring into its correlation φ_jᵀΦy. Where all outputs are as frequent H is 0; where m is at
    least K, all outputs with any weight own a row.

    Parameters
    ----------
    n_components : int
        m.
    output_weights : array-like of shape (K,)
        The energy Σ_i y_ij² of every output j, for outputs of 0 and 1 its frequency; any multiple will do.

    Returns
    -------
    int
        The smallest such H. It leaves a row to the others, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from shore.theory import head_size
    >>> head_size(100, np.ones(5000)), head_size(100, 1 / np.arange(1, 5001))
    (0, 14)
    """
    m, weights = check_size(n_components, "n_components"), _check_output_weights(output_weights)
    return _head_size(m, weights[_ranked(weights)])


def _head_size(m: int, descending: npt.NDArray[np.float64]) -> int:
    largest = descending[0]
    if largest == 0:
        return 0
    most = len(descending) if len(descending) <= m else m - 1
    # from the smallest on, so that no energy is lost beside the largest
    energy = np.append(np.cumsum((descending / largest)[::-1])[::-1], 0.0)[: most + 1]
    return int(np.argmin(energy / np.maximum(m - np.arange(most + 1), 1)))


class HeadTailCompression(SparseSignCompression):
    """Φ for long-tailed outputs: those with much of the energy own a row, all others share the rest by sparse signs.

    The H outputs of the largest weight (H by `shore.theory.head_size`) have a column e_i each: nothing interferes with
    them. The columns of the others are those of `SparseSignCompression` on the m - H rows behind. With H = 0 it is
    `SparseSignCompression` to the bit; with m ≥ K it is, for all outputs of any weight, no compression at all.

    Parameters
    ----------
    n_components : int
        Rows of Φ, m.
    output_weights : array-like of shape (K,)
        The energy Σ_i y_ij² of every output j, or any multiple of it; for outputs of 0 and 1 how often they occur. Not
        negative. Of equal weights the output of the lowest number comes first.
    nnz_per_output : int, default 16
        Entries in a column of the tail; more than m - H means m - H.
    seed : int, default 0
        Same seed and weights, same Φ: on any machine, number of threads and version of NumPy.
    dtype : float32 or float64, default float32

    Attributes
    ----------
    head_outputs : int64 array of shape (H,)
        The outputs that own a row, sorted; the first of them owns row 0, and so on.

    Examples
    --------
    >>> import numpy as np, shore
    >>> phi = shore.HeadTailCompression(100, 1 / np.arange(1, 5001))
    >>> len(phi.head_outputs), phi.compress(np.eye(1, 5000))[0, :3].tolist()
    (14, [1.0, 0.0, 0.0])
    """

    def __init__(
        self,
        n_components: int,
        output_weights: Any,
        *,
        nnz_per_output: int = 16,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        weights = _check_output_weights(output_weights)
        ranked = _ranked(weights)
        size = _head_size(check_size(n_components, "n_components"), weights[ranked])
        head = np.sort(ranked[:size]).astype(np.int64)
        self._set_sizes(n_components, len(weights), head, nnz_per_output, seed, dtype)
        self._make_tables()

    def __repr__(self) -> str:
        return (
            f"HeadTailCompression({self.n_components}, <{self.n_outputs} outputs, {len(self.head_outputs)} own a row>, "
            f"nnz_per_output={self.nnz_per_output}, seed={self.seed}, dtype={self.dtype})"
        )
