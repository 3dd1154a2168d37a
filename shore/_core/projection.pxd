from shore._core._typedefs cimport int64_t, real_t
from shore._core.feasible cimport FeasibleSet, shore_support
from shore.capi cimport shore_constraint


cdef size_t project_bytes(int64_t sparsity) noexcept nogil

cdef int64_t project_row(
    const real_t *v, int64_t n_outputs, const shore_constraint *constraint, const shore_support *support,
    int64_t sparsity, char *workspace, int64_t *index, real_t *value) noexcept nogil


cdef class RowProjector:
    cdef FeasibleSet feasible
    cdef shore_support permit
    cdef int64_t n_outputs
    cdef int64_t sparsity
    cdef readonly bint is_double
    cdef readonly size_t workspace_bytes

    cdef int64_t project(self, const void *row, char *workspace, int64_t *index, void *value) noexcept nogil
