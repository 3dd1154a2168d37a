cdef int simd_level() noexcept nogil
