from shore._core._typedefs cimport int64_t
from shore._core.compression cimport Phi, shore_compression
from shore._core.feasible cimport FeasibleSet, shore_constraint, shore_support


cdef extern from "decode_options.h" nogil:
    ctypedef struct shore_decode_options:
        int method
        const shore_compression *phi
        const shore_constraint *constraint
        const shore_constraint *search
        int64_t sparsity
        int64_t keep
        int64_t max_iter
        double step
        double tol
        double l1
        double note_quantile
        int screening
        int64_t max_rows
    ctypedef struct shore_decode_outcome:
        int64_t n_iter
        int64_t full_passes
        double residual
        double step
        int64_t converged


cdef class RowDecoder:
    cdef shore_decode_options options
    cdef shore_constraint by_size
    cdef shore_support permit
    cdef Phi phi
    cdef FeasibleSet feasible
    cdef readonly bint is_double
    cdef int level
    cdef readonly size_t workspace_bytes

    cdef int64_t decode(self, const void *b, char *workspace, int64_t *index, void *value) noexcept nogil
