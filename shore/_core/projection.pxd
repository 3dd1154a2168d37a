from shore._core._typedefs cimport int64_t
from shore._core.feasible cimport FeasibleSet, shore_support


cdef class RowProjector:
    cdef FeasibleSet feasible
    cdef shore_support permit
    cdef int64_t n_outputs
    cdef int64_t sparsity
    cdef readonly bint is_double
    cdef int level
    cdef readonly size_t workspace_bytes

    cdef int64_t project(self, const void *row, char *workspace, int64_t *index, void *value) noexcept nogil
