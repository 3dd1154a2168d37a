"""Φ: making it, and products with it outside the decode engine."""

from cython.parallel cimport parallel, prange

from shore._core._openmp cimport omp_get_thread_num
from shore._core._typedefs cimport index_t, int64_t, real_t
from shore._core.runtime cimport simd_level

import numpy as np

from libc.stdint cimport int8_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "simd.h" nogil:
    int SHORE_AVX512

# Sums of that many products of 8 bits stay within 32 bits.
cdef enum:
    MAX_COARSE_COMPONENTS = 60000

cdef extern from "compression_tables.h" nogil:
    void shore_gaussian_column(uint64_t, int64_t, int64_t, double, double *) noexcept
    void shore_sign_tile(uint64_t, int64_t, const shore_compression *, void *) noexcept
    int64_t shore_illegal_places(const shore_compression *, int64_t) noexcept
    ctypedef void (*compress_float_fn)(
        const shore_compression *, const float *, const void *, int, int64_t, float *) noexcept
    ctypedef void (*compress_double_fn)(
        const shore_compression *, const double *, const void *, int, int64_t, double *) noexcept
    ctypedef void (*correlate_float_fn)(const shore_compression *, const float *, float *, float *) noexcept
    ctypedef void (*correlate_double_fn)(const shore_compression *, const double *, double *, double *) noexcept
    compress_float_fn *shore_compress_row_float
    compress_double_fn *shore_compress_row_double
    ctypedef double (*coarse_float_fn)(const float *, int64_t, int8_t *, float *, int32_t *) noexcept
    ctypedef double (*coarse_double_fn)(const double *, int64_t, int8_t *, float *, int32_t *) noexcept
    coarse_float_fn *shore_coarse_column_float
    coarse_double_fn *shore_coarse_column_double
    correlate_float_fn *shore_correlate_row_float
    correlate_double_fn *shore_correlate_row_double

TILE = SHORE_TILE


cdef class Phi:
    """A compression as the kernels read it; keeps the arrays that it points into alive."""

    @staticmethod
    def dense(const real_t[:, ::1] columns, double max_norm, int n_threads):
        """From the columns of Φ, an array (K, m)."""
        cdef Phi phi = Phi.__new__(Phi)
        phi.owner = columns
        phi.is_double = real_t is double
        phi.c.kind = SHORE_DENSE
        phi.c.n_outputs, phi.c.n_components = columns.shape[0], columns.shape[1]
        phi.c.columns = <const void *> &columns[0, 0]
        phi.c.nnz = phi.c.n_terms = phi.c.n_components
        phi.c.n_tail = phi.c.n_outputs
        phi.c.max_norm = max_norm
        phi.c.scale = 1.0
        if simd_level() == SHORE_AVX512 and phi.c.n_components <= MAX_COARSE_COMPONENTS:
            _add_coarse_copy(phi, columns, n_threads)
        return phi

    @staticmethod
    def signs(tables, const int64_t[::1] head, int64_t n_components, int64_t n_outputs, int64_t nnz, int64_t pad,
              bint is_double):
        """From tables of sparse signs, uint16 or uint32, as sign_layout and make_sign_tables give them, and the outputs
        that own a row, sorted."""
        cdef Phi phi = Phi.__new__(Phi)
        cdef const uint16_t[::1] narrow
        cdef const uint32_t[::1] wide
        cdef int64_t n_head = head.shape[0]
        cdef const int64_t[::1] starts = n_head + np.arange(nnz + 1, dtype=np.int64) * (n_components - n_head) // nnz
        phi.is_double = is_double
        phi.c.kind = SHORE_SIGNS
        phi.c.n_components, phi.c.n_outputs = n_components, n_outputs
        phi.c.n_head, phi.c.n_tail = n_head, n_outputs - n_head
        if n_head:
            _add_head(phi, head)
        phi.c.wide = tables.dtype == np.uint32
        if phi.c.n_tail == 0:
            pass
        elif phi.c.wide:
            wide = tables
            phi.c.tables = <const void *> &wide[0]
            phi.owner = wide
        else:
            narrow = tables
            phi.c.tables = <const void *> &narrow[0]
            phi.owner = narrow
        phi.starts_owner = starts
        phi.c.starts = &starts[0]
        phi.c.nnz = phi.c.n_terms = nnz
        phi.c.pad = pad
        phi.c.shift = int(2 * pad).bit_length() - 1
        phi.c.scale = 1 / np.sqrt(<double> nnz)
        phi.c.max_norm = 1 + 1e-6  # of the column as its entries are rounded
        return phi


cdef _add_head(Phi phi, const int64_t[::1] head):
    """The outputs that own a row, and where they stand among all."""
    cdef int64_t n_words = (phi.c.n_outputs + SHORE_WORD - 1) // SHORE_WORD, i, word, before = 0
    cdef uint8_t[::1] memory = np.zeros(n_words * sizeof(shore_head_word), dtype=np.uint8)
    cdef shore_head_word *words = <shore_head_word *> &memory[0]
    for i in range(head.shape[0]):
        words[head[i] // SHORE_WORD].owners |= (<uint64_t> 1) << <int> (head[i] % SHORE_WORD)
        words[head[i] // SHORE_WORD].before += 1
    for word in range(n_words):
        words[word].before, before = before, before + words[word].before
    phi.head_owner = (head, memory)
    phi.c.head_outputs = &head[0]
    phi.c.head_words = words


cdef _add_coarse_copy(Phi phi, const real_t[:, ::1] columns, int n_threads):
    """The columns in 8 bits, for coarse passes."""
    cdef int64_t n_outputs = columns.shape[0], m = columns.shape[1], j, stride = (m + 3) // 4 * 4
    cdef int8_t[:, ::1] coarse = np.zeros((n_outputs, stride), dtype=np.int8)
    cdef float[::1] scale = np.empty(n_outputs, dtype=np.float32)
    cdef int32_t[::1] offset = np.empty(n_outputs, dtype=np.int32)
    cdef double[::1] lost = np.empty(n_outputs)
    cdef int level = simd_level()
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for j in prange(n_outputs, schedule="static"):
            if real_t is float:
                lost[j] = shore_coarse_column_float[level](&columns[j, 0], m, &coarse[j, 0], &scale[j], &offset[j])
            else:
                lost[j] = shore_coarse_column_double[level](&columns[j, 0], m, &coarse[j, 0], &scale[j], &offset[j])
    error = float(np.max(lost)) * (1 + 1e-9)
    # Columns so small or so large that their scale leaves the range of float stay without.
    if np.isfinite(scale).all() and (np.asarray(scale) >= 1e-30).all() and (np.asarray(scale) <= 1e30).all():
        phi.coarse_owner = (coarse, scale, offset)
        phi.c.coarse = &coarse[0, 0]
        phi.c.coarse_stride = stride
        phi.c.coarse_scale = &scale[0]
        phi.c.coarse_offset = &offset[0]
        phi.c.coarse_error = error


def make_gaussian(real_t[:, ::1] columns, uint64_t seed, int n_threads, int64_t first=0):
    """Fill columns of Φ from number `first` on, an array (K, m), with i.i.d. N(0, 1/m)."""  # OUT columns
    cdef int64_t n_outputs = columns.shape[0], m = columns.shape[1], i, j
    cdef double scale = 1 / np.sqrt(<double> m)
    cdef double[:, ::1] workspace = np.empty((n_threads, m))
    cdef int thread
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for j in prange(n_outputs, schedule="static"):
            thread = omp_get_thread_num()
            shore_gaussian_column(seed, first + j, m, scale, &workspace[thread, 0])
            for i in range(m):
                columns[j, i] = <real_t> workspace[thread, i]


def sign_layout(int64_t n_rows, int64_t n_columns, int64_t nnz):
    """The pad of a segment, and the shape and dtype of the tables."""
    longest = (n_rows + nnz - 1) // nnz
    pad = max(32, 1 << max(0, longest - 1).bit_length())
    if nnz * 2 * pad > 1 << 32:
        raise ValueError(f"n_components={n_rows} is too large for sparse signs with {nnz} per output")
    dtype = np.uint16 if nnz * 2 * pad <= 1 << 16 else np.uint32
    return pad, (n_columns + SHORE_TILE - 1) // SHORE_TILE * nnz * SHORE_TILE, dtype


cdef int64_t _n_tiles(Phi phi) noexcept nogil:
    return (phi.c.n_tail + SHORE_TILE - 1) // SHORE_TILE


def make_sign_tables(Phi phi, tables, uint64_t seed, int n_threads, int64_t first=0, int64_t end=-1):
    """Fill the tables that `phi` points to with random rows and signs: tiles from `first` to `end`, or all of them."""
    cdef int64_t tile                  # OUT tables
    cdef uint16_t[::1] narrow
    cdef uint32_t[::1] wide
    cdef void *start
    if end < 0:
        end = _n_tiles(phi)
    if first >= end:
        return
    if phi.c.wide:
        wide = tables
        start = <void *> &wide[0]
    else:
        narrow = tables
        start = <void *> &narrow[0]
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for tile in prange(first, end, schedule="static"):
            shore_sign_tile(seed, tile, &phi.c, start)


def illegal_sign_places(Phi phi, int n_threads, int64_t first=0, int64_t end=-1):
    """How many entries of the tables, of tiles from `first` to `end` or all, are no place of their segment: with any, a
    kernel would leave its arrays."""
    cdef int64_t tile, illegal = 0
    if end < 0:
        end = _n_tiles(phi)
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for tile in prange(first, end, schedule="static"):
            illegal += shore_illegal_places(&phi.c, tile)
    return illegal


def signs_to_rows(Phi phi, int64_t[:, ::1] rows, signed char[:, ::1] signs):
    """Row numbers and signs of every entry of the tables, arrays (K - heads, nnz)."""  # OUT rows, signs
    cdef int64_t t, k
    cdef int negative = 0
    for t in range(phi.c.n_tail):
        for k in range(phi.c.nnz):
            rows[t, k] = shore_place_row(&phi.c, shore_place(&phi.c, t, k), &negative)
            signs[t, k] = -1 if negative else 1


def compress_csr(
    Phi phi,
    const real_t[::1] data,            # IN   CSR (n, K)
    const index_t[::1] indices,        # IN
    const index_t[::1] indptr,         # IN
    real_t[:, ::1] out,                # OUT  (n, m)
    int n_threads,
):
    """out := Y Φᵀ."""
    cdef int64_t n = indptr.shape[0] - 1, i
    cdef int level = simd_level()
    if n == 0:
        return
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for i in prange(n, schedule="dynamic", chunksize=16):
            _compress_row(&phi.c, data, indices, indptr, &out[i, 0], i, level)


cdef inline void _compress_row(
    const shore_compression *phi, const real_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    real_t *out, int64_t i, int level,
) noexcept nogil:
    cdef int64_t start = indptr[i], stored = indptr[i + 1] - indptr[i]
    cdef bint wide = index_t is int64_t
    cdef const real_t *values = NULL
    cdef const void *columns = NULL
    if stored:
        values = &data[start]
        columns = <const void *> &indices[start]
    if real_t is float:
        shore_compress_row_float[level](phi, values, columns, wide, stored, out)
    else:
        shore_compress_row_double[level](phi, values, columns, wide, stored, out)


def correlate_signs(
    Phi phi,
    const real_t[:, ::1] R,            # IN   (n, m)
    real_t[:, ::1] out,                # OUT  (n, K)
    int n_threads,
):
    """out := R Φ, for sparse signs."""
    cdef int64_t n = R.shape[0], i
    cdef int level = simd_level()
    cdef real_t[:, ::1] workspace
    if n == 0 or phi.c.n_outputs == 0:
        return
    workspace = np.zeros((n_threads, shore_signed_size(&phi.c)), dtype=np.float32 if real_t is float else np.float64)
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for i in prange(n, schedule="static"):
            if real_t is float:
                shore_correlate_row_float[level](
                    &phi.c, &R[i, 0], &workspace[omp_get_thread_num(), 0], &out[i, 0])
            else:
                shore_correlate_row_double[level](
                    &phi.c, &R[i, 0], &workspace[omp_get_thread_num(), 0], &out[i, 0])
