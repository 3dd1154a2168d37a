"""Π: the exact Euclidean projection onto {s-sparse} ∩ F."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._core import projection as _core
from shore._core.threads import resolve_n_threads
from shore._pieces import pieces
from shore._validation import check_positive, check_rows, is_sparse, working_dtype
from shore.constraints import Constraint, Simplex, feasible_set

__all__ = ["csr_from_slots", "project"]

# Rows that must be converted first (other dtype, other layout) are converted in blocks of about this size.
_BLOCK_BYTES = 1 << 26


def csr_from_slots(
    index: npt.NDArray[np.int64], value: npt.NDArray[Any], count: npt.NDArray[np.int64], n_outputs: int
) -> sparse.csr_array:
    """The canonical CSR of rows that were written into slots of equal length.

    Parameters
    ----------
    index, value : (n, s) arrays
    count : (n,) array
        How many slots of each row are used.
    n_outputs : int
        Number of columns K.
    """
    total = int(count.sum())
    wide = max(total, n_outputs) > np.iinfo(np.int32).max
    index_dtype = np.int64 if wide else np.int32
    indptr = np.zeros(count.shape[0] + 1, dtype=index_dtype)
    np.cumsum(count, out=indptr[1:])
    indices = np.empty(total, dtype=index_dtype)
    data = np.empty(total, dtype=value.dtype)
    _core.compact(index, value, indptr, indices, data)
    result = sparse.csr_array((data, indices, indptr), shape=(count.shape[0], n_outputs))
    result.has_canonical_format = True
    return result


def project(
    V: Any,
    sparsity: int,
    constraint: Constraint = "real",
    *,
    allowed: Any = None,
    denied: Any = None,
    n_threads: int | None = None,
) -> sparse.csr_array:
    """Project every row onto the vectors with at most `sparsity` non-zeros in a feasible set.

    The result is the nearest such vector in Euclidean distance. Ties go to the lowest index, and entries with
    nothing to gain (zeros, or with ``"nonneg"`` negative values) are not kept.

    Parameters
    ----------
    V : array-like or SciPy sparse matrix of shape (n, K)
        One row a sample; float32, float64 or integers, in any layout. Entries that a sparse matrix does not
        store are zeros.
    sparsity : int
        How many entries to keep at most, s. More than K means all.
    constraint : {'real', 'nonneg', 'binary'} or Box or Simplex, default 'real'
        The feasible set F.
    allowed, denied : 1-D array of indices or booleans, or sparse matrix of shape (n, K), optional
        The only outputs that may be kept, and those that may not: for all rows, or the non-zeros of a sparse
        matrix for each row.
    n_threads : int, optional
        Threads to run on; None for the cores this process may use. The result does not depend on it.

    Returns
    -------
    csr_array of shape (n, K)
        In canonical form, float32 for float32 input and float64 otherwise.

    Examples
    --------
    >>> import numpy as np, shore
    >>> V = np.array([[0.1, -3.0, 2.0, 0.5]])
    >>> shore.project(V, 2).toarray()
    array([[ 0., -3.,  2.,  0.]])
    >>> shore.project(V, 2, "nonneg").toarray()
    array([[0. , 0. , 2. , 0.5]])
    >>> shore.project(V, 2, "nonneg", denied=[2]).toarray()
    array([[0.1, 0. , 0. , 0.5]])
    """
    rows = check_rows(V, "V")
    n, n_outputs = rows.shape
    dtype = working_dtype(rows.dtype, "V")
    slots = check_positive(sparsity, "sparsity", n_outputs)
    feasible = feasible_set(constraint, allowed, denied, (n, n_outputs), dtype)
    threads = max(1, min(resolve_n_threads(n_threads), n))

    is_csr = is_sparse(rows)
    if is_csr and not isinstance(constraint, Simplex):  # a row never keeps more than it stores
        slots = min(slots, int(np.diff(rows.indptr).max(initial=0)))
    index = np.empty((n, slots), dtype=np.int64)
    value = np.empty((n, slots), dtype=dtype)
    count = np.zeros(n, dtype=np.int64)

    if is_csr:
        data = np.ascontiguousarray(rows.data, dtype=dtype)
        for here in pieces(n, 4e-9 * (1 + len(data) / max(1, n)) / threads, least=64 * threads):
            _core.project_csr(
                data, rows.indices, rows.indptr[here.start : here.stop + 1], n_outputs, feasible, here.start,
                index[here], value[here], count[here], threads,
            )  # fmt: skip
    else:
        as_is = rows.dtype == dtype and rows.dtype.isnative and rows.flags.c_contiguous and rows.flags.aligned
        most = n if as_is else max(1, _BLOCK_BYTES // max(1, n_outputs * dtype.itemsize))
        for here in pieces(n, 1e-9 * n_outputs / threads, least=threads, most=most):
            block = np.require(rows[here], dtype=dtype, requirements=["C", "A"])
            _core.project_dense(block, feasible, here.start, index[here], value[here], count[here], threads)

    if n and count.min() < 0:
        raise ValueError(f"V must be finite, but row {int(np.argmin(count))} holds NaN or infinity")
    return csr_from_slots(index, value, count, n_outputs)
