"""The OpenMP façade (openmp.h): the thread number is 0 where there is no OpenMP."""

cdef extern from "openmp.h" nogil:
    const int SHORE_OPENMP_VERSION
    int omp_get_thread_num() noexcept
