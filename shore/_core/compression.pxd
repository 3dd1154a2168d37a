from libc.stdint cimport int8_t, int32_t, uint64_t

from shore._core._typedefs cimport int64_t


cdef extern from "compression.h" nogil:
    int SHORE_DENSE
    int SHORE_SIGNS
    int SHORE_TILE
    int SHORE_WORD
    ctypedef struct shore_head_word:
        uint64_t owners
        int64_t before
    ctypedef struct shore_compression:
        int kind
        int64_t n_components
        int64_t n_outputs
        const void *columns
        const void *tables
        int wide
        int64_t nnz
        int64_t pad
        int shift
        const int64_t *starts
        int64_t n_head
        int64_t n_tail
        const int64_t *head_outputs
        const shore_head_word *head_words
        double scale
        double max_norm
        const int8_t *coarse
        int64_t coarse_stride
        const float *coarse_scale
        const int32_t *coarse_offset
        double coarse_error
        int64_t n_terms
    int64_t shore_signed_size(const shore_compression *phi) noexcept
    int64_t shore_place(const shore_compression *phi, int64_t t, int64_t k) noexcept
    int64_t shore_place_row(const shore_compression *phi, int64_t place, int *negative) noexcept


cdef class Phi:
    cdef shore_compression c
    cdef readonly bint is_double
    cdef object owner
    cdef object starts_owner
    cdef object head_owner
    cdef object coarse_owner
