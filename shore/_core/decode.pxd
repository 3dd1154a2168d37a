from shore._core._typedefs cimport int64_t, real_t
from shore._core.compression cimport Phi, shore_compression
from shore._core.feasible cimport FeasibleSet, shore_support
from shore.capi cimport shore_constraint, shore_decode_outcome


cdef extern from "decode_options.h" nogil:
    ctypedef struct shore_interrupt:
        int (*ask)() noexcept nogil
        double asked
        int stop
        int at_work
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
        shore_interrupt *interrupt
        int asks


cdef enum:
    STOPPED = -2                       # instead of a number of entries; the error is set


cdef int pending_error() except -1

cdef void set_options(
    shore_decode_options *options, shore_constraint *by_size, int method, const shore_compression *phi,
    const shore_constraint *constraint, int64_t sparsity, int64_t keep, double step, int64_t max_iter, double tol,
    double l1) noexcept nogil

cdef size_t set_max_rows(shore_decode_options *options, bint is_double, int64_t most) noexcept nogil

cdef void run_engine(
    const shore_decode_options *options, const real_t *B, int64_t n, const shore_support *permits, bint one_permit,
    int64_t *counter, char *workspace, int64_t *index, real_t *value, int64_t *count,
    shore_decode_outcome *outcome) noexcept nogil


cdef class RowDecoder:
    cdef shore_decode_options options
    cdef shore_constraint by_size
    cdef shore_support permit
    cdef Phi phi
    cdef FeasibleSet feasible
    cdef readonly bint is_double
    cdef readonly size_t workspace_bytes

    cdef int64_t decode(self, const void *b, char *workspace, int64_t *index, void *value) noexcept nogil
