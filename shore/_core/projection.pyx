"""Projection of many rows onto {s-sparse} ∩ F, one row a task."""

from cython.parallel cimport parallel, prange

from shore._core._openmp cimport omp_get_thread_num
from shore._core._typedefs cimport index_t, int64_t, real_t, uint8_t
from shore._core.feasible cimport FeasibleSet, shore_support
from shore._core.runtime cimport simd_level
from shore.capi cimport shore_constraint

import numpy as np


cdef extern from "topk.h" nogil:
    ctypedef struct shore_entry:
        pass
    ctypedef struct shore_topk:
        shore_entry *entries
        int64_t capacity

cdef extern from "projection.h" nogil:
    ctypedef int64_t (*dense_float_fn)(
        const float *, int64_t, const shore_constraint *, const shore_support *, shore_topk *,
        int64_t *, float *) noexcept
    ctypedef int64_t (*dense_double_fn)(
        const double *, int64_t, const shore_constraint *, const shore_support *, shore_topk *,
        int64_t *, double *) noexcept
    ctypedef int64_t (*csr_float_fn)(
        const float *, const void *, int, int64_t, int64_t, const shore_constraint *,
        const shore_support *, shore_topk *, int64_t *, float *) noexcept
    ctypedef int64_t (*csr_double_fn)(
        const double *, const void *, int, int64_t, int64_t, const shore_constraint *,
        const shore_support *, shore_topk *, int64_t *, double *) noexcept
    dense_float_fn *shore_project_dense_float
    dense_double_fn *shore_project_dense_double
    csr_float_fn *shore_project_csr_float
    csr_double_fn *shore_project_csr_double


cdef size_t project_bytes(int64_t sparsity) noexcept nogil:
    """Of a workspace: room for the best entries of one row."""
    return sparsity * sizeof(shore_entry)


cdef int64_t project_row(
    const real_t *v, int64_t n_outputs, const shore_constraint *constraint, const shore_support *support,
    int64_t sparsity, char *workspace, int64_t *index, real_t *value,
) noexcept nogil:
    """One dense row. Returns how many entries were written, or -1 for a row with NaN or infinity."""
    cdef shore_topk top
    top.entries = <shore_entry *> workspace
    top.capacity = sparsity
    if real_t is float:
        return shore_project_dense_float[simd_level()](v, n_outputs, constraint, support, &top, index, value)
    else:
        return shore_project_dense_double[simd_level()](v, n_outputs, constraint, support, &top, index, value)


def _workspace(int n_threads, int64_t capacity):
    """A workspace for every thread, on cache lines of its own."""
    return np.empty((n_threads, (project_bytes(capacity) + 63) // 64 * 64), dtype=np.uint8)


def project_dense(
    const real_t[:, ::1] rows,         # IN   (n, K)
    FeasibleSet feasible,              # IN
    int64_t first_row,                 # IN   number of rows[0] in `feasible`
    int64_t[:, ::1] index,             # OUT  (n, s)
    real_t[:, ::1] value,              # OUT  (n, s)
    int64_t[::1] count,                # OUT  (n,), -1 for a row with NaN or infinity
    int n_threads,
):
    """Project dense rows; row i of the result is index[i, :count[i]], value[i, :count[i]]."""
    cdef int64_t n = rows.shape[0], n_outputs = rows.shape[1], capacity = index.shape[1], i
    if n == 0 or n_outputs == 0:
        count[:] = 0
        return
    cdef uint8_t[:, ::1] workspace = _workspace(n_threads, capacity)

    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for i in prange(n, schedule="static"):
            count[i] = _dense_row(rows, feasible, first_row, index, value, workspace, i)


cdef inline int64_t _dense_row(
    const real_t[:, ::1] rows, FeasibleSet feasible, int64_t first_row, int64_t[:, ::1] index,
    real_t[:, ::1] value, uint8_t[:, ::1] workspace, int64_t i,
) noexcept nogil:
    cdef shore_support support = feasible.support_of(first_row + i)
    return project_row(
        &rows[i, 0], rows.shape[1], &feasible.constraint, &support, index.shape[1],
        <char *> &workspace[omp_get_thread_num(), 0], &index[i, 0], &value[i, 0])


def project_csr(
    const real_t[::1] data,            # IN   CSR in canonical form, (n, K)
    const index_t[::1] indices,        # IN
    const index_t[::1] indptr,         # IN
    int64_t n_outputs,                 # IN
    FeasibleSet feasible,              # IN
    int64_t first_row,                 # IN   number of the first row in `feasible`
    int64_t[:, ::1] index,             # OUT  (n, s)
    real_t[:, ::1] value,              # OUT  (n, s)
    int64_t[::1] count,                # OUT  (n,), -1 for a row with NaN or infinity
    int n_threads,
):
    """Project CSR rows; entries that are not stored are zeros."""
    cdef int64_t n = indptr.shape[0] - 1, capacity = index.shape[1], i
    cdef int level = simd_level()
    if n == 0 or n_outputs == 0 or capacity == 0:
        count[:] = 0
        return
    cdef uint8_t[:, ::1] workspace = _workspace(n_threads, capacity)

    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for i in prange(n, schedule="dynamic", chunksize=64):
            count[i] = _csr_row(
                data, indices, indptr, n_outputs, feasible, first_row, index, value, workspace, i, level)


cdef inline int64_t _csr_row(
    const real_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, int64_t n_outputs,
    FeasibleSet feasible, int64_t first_row, int64_t[:, ::1] index, real_t[:, ::1] value, uint8_t[:, ::1] workspace,
    int64_t i, int level,
) noexcept nogil:
    cdef shore_support support = feasible.support_of(first_row + i)
    cdef int64_t start = indptr[i], stored = indptr[i + 1] - indptr[i]
    cdef bint wide = index_t is int64_t
    cdef const void *columns = NULL
    cdef const real_t *values = NULL
    cdef shore_topk top
    top.entries = <shore_entry *> &workspace[omp_get_thread_num(), 0]
    top.capacity = index.shape[1]
    if stored:
        values = &data[start]
        columns = <const void *> &indices[start]
    if real_t is float:
        return shore_project_csr_float[level](
            values, columns, wide, stored, n_outputs, &feasible.constraint, &support, &top,
            &index[i, 0], &value[i, 0])
    else:
        return shore_project_csr_double[level](
            values, columns, wide, stored, n_outputs, &feasible.constraint, &support, &top,
            &index[i, 0], &value[i, 0])


def compact(
    const int64_t[:, ::1] index,       # IN   (n, s)
    const real_t[:, ::1] value,        # IN   (n, s)
    const index_t[::1] indptr,         # IN   (n + 1,)
    index_t[::1] indices,              # OUT  (nnz,)
    real_t[::1] data,                  # OUT  (nnz,)
):
    """Close the gaps behind short rows: the arrays of a CSR matrix."""
    cdef int64_t i, k, at
    with nogil:
        for i in range(index.shape[0]):
            at = indptr[i]
            for k in range(indptr[i + 1] - at):
                indices[at + k] = <index_t> index[i, k]
                data[at + k] = value[i, k]


cdef class RowProjector:
    """The projection of one dense row at a time. It is only read: any number of threads may use it.

    Parameters
    ----------
    feasible : FeasibleSet
        Lets every row use the same outputs.
    n_outputs, sparsity : int
        K and s.
    is_double : bool
        Whether rows are double, or float.

    Attributes
    ----------
    workspace_bytes : int
        Of a workspace, which starts on a cache line.
    """

    def __cinit__(self, FeasibleSet feasible not None, int64_t n_outputs, int64_t sparsity, bint is_double):
        self.feasible = feasible
        self.permit = feasible.support_of(0)
        self.n_outputs, self.sparsity = n_outputs, sparsity
        self.is_double = is_double
        self.workspace_bytes = project_bytes(sparsity)

    cdef int64_t project(
        self,
        const void *row,               # IN   (K,)
        char *workspace,
        int64_t *index,                # OUT  (s,)
        void *value,                   # OUT  (s,)
    ) noexcept nogil:
        """Returns how many entries were written, or -1 for a row with NaN or infinity."""
        if self.is_double:
            return project_row(
                <const double *> row, self.n_outputs, &self.feasible.constraint, &self.permit, self.sparsity, workspace,
                index, <double *> value)
        return project_row(
            <const float *> row, self.n_outputs, &self.feasible.constraint, &self.permit, self.sparsity, workspace,
            index, <float *> value)
