from shore._core._typedefs cimport int64_t


cdef class RowTimes:
    cdef object owner
    cdef const void *W
    cdef readonly int64_t n_features
    cdef readonly int64_t width
    cdef readonly bint is_double
    cdef readonly bint is_half
    cdef int level

    cdef void sparse(
        self, const void *x, const void *columns, bint wide, int64_t n, void *out) noexcept nogil
    cdef void dense(self, const void *x, void *out) noexcept nogil
