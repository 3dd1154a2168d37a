from shore._core._typedefs cimport int64_t, uint8_t
from shore.capi cimport shore_constraint


cdef extern from "constraint.h" nogil:
    int shore_is_absolute(const shore_constraint *c) noexcept

    ctypedef struct shore_support:
        const uint8_t *forbidden
        const int64_t *list
        int64_t n_list
        int list_allows


cdef class FeasibleSet:
    cdef shore_constraint constraint
    cdef const uint8_t[::1] forbidden
    cdef const int64_t[::1] indptr
    cdef const int64_t[::1] indices
    cdef bint has_forbidden
    cdef bint has_list
    cdef bint list_allows
    cdef bint list_is_shared

    cdef shore_support support_of(self, int64_t row) noexcept nogil
