"""Stage 1: products of rows with dense matrices, Gram matrices of CSR rows, block conjugate gradients."""

from cython.parallel cimport parallel, prange

from shore._core._typedefs cimport index_t, int32_t, int64_t, real_t
from shore._core.runtime cimport simd_level

import numpy as np

from libc.stdint cimport uint16_t


cdef extern from "linear.h" nogil:
    int SHORE_CG_SCALARS
    ctypedef struct shore_csr:
        const void *data
        const void *indices
        const void *indptr
        int wide
        int64_t n_rows
        int64_t n_columns
    ctypedef struct shore_cg:
        shore_csr X
        shore_csr Xt
        const void *mean
        const void *shift
        double alpha
        double tol
        int64_t width
        void *W
        void *R
        void *P
        void *Q
        void *row
        double *scalars
    ctypedef void (*csr_times_float_fn)(
        const float *, const void *, int, int64_t, const float *, int64_t, int64_t, float *) noexcept
    ctypedef void (*csr_times_double_fn)(
        const double *, const void *, int, int64_t, const double *, int64_t, int64_t, double *) noexcept
    ctypedef void (*dense_times_float_fn)(
        const float *, int64_t, int64_t, const float *, int64_t, float *) noexcept
    ctypedef void (*dense_times_double_fn)(
        const double *, int64_t, int64_t, const double *, int64_t, double *) noexcept
    ctypedef void (*csr_times_half_fn)(
        const float *, const void *, int, int64_t, const uint16_t *, int64_t, int64_t, float *) noexcept
    ctypedef void (*dense_times_half_fn)(
        const float *, int64_t, int64_t, const uint16_t *, int64_t, float *) noexcept
    ctypedef void (*gram_float_fn)(const shore_csr *, const shore_csr *, int64_t, float *) noexcept
    ctypedef void (*gram_double_fn)(const shore_csr *, const shore_csr *, int64_t, double *) noexcept
    ctypedef void (*cg_begin_fn)(const shore_cg *, int) noexcept
    ctypedef int64_t (*cg_iterate_fn)(const shore_cg *, int64_t) noexcept
    csr_times_float_fn *shore_csr_row_times_float
    csr_times_double_fn *shore_csr_row_times_double
    dense_times_float_fn *shore_dense_rows_times_float
    dense_times_double_fn *shore_dense_rows_times_double
    csr_times_half_fn *shore_csr_row_times_half
    dense_times_half_fn *shore_dense_rows_times_half
    gram_float_fn *shore_gram_row_float
    gram_double_fn *shore_gram_row_double
    cg_begin_fn *shore_cg_begin_float
    cg_begin_fn *shore_cg_begin_double
    cg_iterate_fn *shore_cg_iterate_float
    cg_iterate_fn *shore_cg_iterate_double


def csr_times(
    const real_t[::1] data,            # IN   CSR (n, d)
    const index_t[::1] indices,        # IN
    const index_t[::1] indptr,         # IN
    const real_t[:, ::1] P,            # IN   (d, w)
    real_t[:, ::1] out,                # OUT  (n, w)
    int n_threads,
):
    """out := X P."""
    cdef int64_t n = indptr.shape[0] - 1, i
    cdef int level = simd_level()
    if n == 0 or P.shape[1] == 0:
        return
    if data.shape[0] == 0 or P.shape[0] == 0:
        out[:, :] = 0
        return
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for i in prange(n, schedule="dynamic", chunksize=16):
            _csr_row_times(data, indices, indptr, P, out, i, level)


cdef inline void _csr_row_times(
    const real_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, const real_t[:, ::1] P,
    real_t[:, ::1] out, int64_t i, int level,
) noexcept nogil:
    cdef int64_t start = indptr[i], stored = indptr[i + 1] - indptr[i]
    cdef bint wide = index_t is int64_t
    cdef const real_t *x = &data[0] + start
    cdef const void *columns = <const void *> (&indices[0] + start)
    if real_t is float:
        shore_csr_row_times_float[level](x, columns, wide, stored, &P[0, 0], P.shape[1], P.shape[1], &out[i, 0])
    else:
        shore_csr_row_times_double[level](x, columns, wide, stored, &P[0, 0], P.shape[1], P.shape[1], &out[i, 0])


def dense_times(
    const real_t[:, ::1] X,            # IN   (n, d)
    const real_t[:, ::1] P,            # IN   (d, w)
    real_t[:, ::1] out,                # OUT  (n, w)
    int n_threads,
):
    """out := X P, each row the same bits whatever rows stand beside it (BLAS does not promise that)."""
    cdef int64_t n = X.shape[0], d = X.shape[1], w = P.shape[1], block, rows
    cdef int level = simd_level()
    if n == 0 or w == 0:
        return
    if d == 0:
        out[:, :] = 0
        return
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for block in prange((n + 3) // 4, schedule="static"):
            rows = n - 4 * block
            if rows > 4:
                rows = 4
            if real_t is float:
                shore_dense_rows_times_float[level](&X[4 * block, 0], rows, d, &P[0, 0], w, &out[4 * block, 0])
            else:
                shore_dense_rows_times_double[level](&X[4 * block, 0], rows, d, &P[0, 0], w, &out[4 * block, 0])


def csr_times_half(
    const float[::1] data,             # IN   CSR (n, d)
    const index_t[::1] indices,        # IN
    const index_t[::1] indptr,         # IN
    const uint16_t[:, ::1] P,          # IN   (d, w), the bits of half precision
    float[:, ::1] out,                 # OUT  (n, w)
    int n_threads,
):
    """out := X P, the same bits as of P expanded to float32."""
    cdef int64_t n = indptr.shape[0] - 1, w = P.shape[1], i, start
    cdef int level = simd_level()
    cdef bint wide = index_t is int64_t
    if n == 0 or w == 0:
        return
    if data.shape[0] == 0 or P.shape[0] == 0:
        out[:, :] = 0
        return
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for i in prange(n, schedule="dynamic", chunksize=16):
            start = indptr[i]
            shore_csr_row_times_half[level](
                &data[0] + start, <const void *> (&indices[0] + start), wide, indptr[i + 1] - start, &P[0, 0], w, w,
                &out[i, 0])


def dense_times_half(
    const float[:, ::1] X,             # IN   (n, d)
    const uint16_t[:, ::1] P,          # IN   (d, w), the bits of half precision
    float[:, ::1] out,                 # OUT  (n, w)
    int n_threads,
):
    """out := X P, the same bits as of P expanded to float32."""
    cdef int64_t n = X.shape[0], d = X.shape[1], w = P.shape[1], block, rows
    cdef int level = simd_level()
    if n == 0 or w == 0:
        return
    if d == 0:
        out[:, :] = 0
        return
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for block in prange((n + 3) // 4, schedule="static"):
            rows = n - 4 * block
            if rows > 4:
                rows = 4
            shore_dense_rows_times_half[level](&X[4 * block, 0], rows, d, &P[0, 0], w, &out[4 * block, 0])


cdef class RowTimes:
    """x W for one row x at a time, the same bits as csr_times and dense_times. Any number of threads may use it.

    Parameters
    ----------
    W : C-contiguous array of shape (d, w)
        Float, double or half, which is computed with as float; only read, and not copied.
    """

    def __cinit__(self, W):
        cdef const float[:, ::1] single
        cdef const double[:, ::1] double_
        cdef const uint16_t[:, ::1] half
        self.n_features, self.width = W.shape
        self.level = simd_level()
        self.is_double = W.dtype == np.float64
        self.is_half = W.dtype == np.float16
        if self.is_double:
            double_ = W
            self.owner = double_
            self.W = <const void *> &double_[0, 0]
        elif self.is_half:
            half = W.view(np.uint16)
            self.owner = half
            self.W = <const void *> &half[0, 0]
        else:
            single = W
            self.owner = single
            self.W = <const void *> &single[0, 0]

    cdef void sparse(
        self,
        const void *x,                 # IN   (n,)
        const void *columns,           # IN   (n,) int64 if wide, else int32; all in range
        bint wide,
        int64_t n,
        void *out,                     # OUT  (w,)
    ) noexcept nogil:
        if self.is_double:
            shore_csr_row_times_double[self.level](
                <const double *> x, columns, wide, n, <const double *> self.W, self.width, self.width, <double *> out)
        elif self.is_half:
            shore_csr_row_times_half[self.level](
                <const float *> x, columns, wide, n, <const uint16_t *> self.W, self.width, self.width, <float *> out)
        else:
            shore_csr_row_times_float[self.level](
                <const float *> x, columns, wide, n, <const float *> self.W, self.width, self.width, <float *> out)

    cdef void dense(
        self,
        const void *x,                 # IN   (d,)
        void *out,                     # OUT  (w,)
    ) noexcept nogil:
        if self.is_double:
            shore_dense_rows_times_double[self.level](
                <const double *> x, 1, self.n_features, <const double *> self.W, self.width, <double *> out)
        elif self.is_half:
            shore_dense_rows_times_half[self.level](
                <const float *> x, 1, self.n_features, <const uint16_t *> self.W, self.width, <float *> out)
        else:
            shore_dense_rows_times_float[self.level](
                <const float *> x, 1, self.n_features, <const float *> self.W, self.width, <float *> out)


cdef shore_csr _csr(
    const real_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, int64_t n_columns,
):
    cdef shore_csr X
    X.data = <const void *> &data[0]
    X.indices = <const void *> &indices[0]
    X.indptr = <const void *> &indptr[0]
    X.wide = index_t is int64_t
    X.n_rows, X.n_columns = indptr.shape[0] - 1, n_columns
    return X


def csr_gram(
    const real_t[::1] data,            # IN   X, CSR (n, d)
    const index_t[::1] indices,        # IN
    const index_t[::1] indptr,         # IN
    const real_t[::1] t_data,          # IN   Xᵀ, CSR (d, n)
    const index_t[::1] t_indices,      # IN
    const index_t[::1] t_indptr,       # IN
    int64_t first,                     # IN   number of the first row of `out`
    real_t[:, ::1] out,                # OUT  rows of (d, d)
    int n_threads,
):
    """out := rows of XᵀX."""
    cdef int64_t d = out.shape[1], f
    cdef int level = simd_level()
    cdef shore_csr X, Xt
    if data.shape[0] == 0:
        out[:, :] = 0
        return
    X = _csr(data, indices, indptr, d)
    Xt = _csr(t_data, t_indices, t_indptr, indptr.shape[0] - 1)
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        for f in prange(out.shape[0], schedule="dynamic", chunksize=16):
            if real_t is float:
                shore_gram_row_float[level](&X, &Xt, first + f, &out[f, 0])
            else:
                shore_gram_row_double[level](&X, &Xt, first + f, &out[f, 0])


cdef class ConjugateGradients:
    """Block conjugate gradients on a few blocks of columns, one thread a block.

    Parameters
    ----------
    X, Xt : (data, indices, indptr) of CSR (n, d) and of its transpose
    B : (n_blocks, n, width) array
        Right-hand sides; used as workspace.
    W : (n_blocks, d, width) array
        The solutions.
    mean, shift : arrays of length d and n or None
        Solve for X - shift·meanᵀ in place of X; a shift of None is ones.
    """

    cdef object keep
    cdef list blocks
    cdef bint is_double
    cdef readonly int64_t n_blocks
    cdef shore_cg[64] cg

    def __init__(self, X, Xt, B, W, double tol, mean, shift):
        self.n_blocks = B.shape[0]
        if self.n_blocks > 64:
            raise ValueError("at most 64 blocks at once")
        self.is_double = B.dtype == np.float64
        self.keep = []
        for block in range(self.n_blocks):
            if self.is_double:
                self._set_block[double](block, X, Xt, B[block], W[block], tol, mean, shift)
            else:
                self._set_block[float](block, X, Xt, B[block], W[block], tol, mean, shift)

    cdef _set_block(self, int64_t block, X, Xt, real_t[:, ::1] B, real_t[:, ::1] W, double tol,
                    mean, shift):
        cdef int64_t d = W.shape[0], w = W.shape[1]
        cdef shore_cg *cg = &self.cg[block]
        cdef real_t[:, ::1] R = np.empty((d, w), dtype=np.asarray(W).dtype)
        cdef real_t[:, ::1] P = np.empty((d, w), dtype=np.asarray(W).dtype)
        cdef real_t[::1] row = np.empty(w, dtype=np.asarray(W).dtype)
        cdef double[:, ::1] scalars = np.zeros((SHORE_CG_SCALARS, w))
        cdef const real_t[::1] mean_view, shift_view
        if X[1].dtype == np.int64:
            cg.X = _csr[real_t, int64_t](X[0], X[1], X[2], d)
            cg.Xt = _csr[real_t, int64_t](Xt[0], Xt[1], Xt[2], B.shape[0])
        else:
            cg.X = _csr[real_t, int32_t](X[0], X[1], X[2], d)
            cg.Xt = _csr[real_t, int32_t](Xt[0], Xt[1], Xt[2], B.shape[0])
        cg.mean = cg.shift = NULL
        if mean is not None:
            mean_view = mean
            cg.mean = <const void *> &mean_view[0]
        if shift is not None:
            shift_view = shift
            cg.shift = <const void *> &shift_view[0]
        cg.alpha, cg.tol, cg.width = 0, tol, w
        cg.W, cg.Q = <void *> &W[0, 0], <void *> &B[0, 0]
        cg.R, cg.P = <void *> &R[0, 0], <void *> &P[0, 0]
        cg.row = <void *> &row[0]
        cg.scalars = &scalars[0, 0]
        self.keep.append((X, Xt, B, W, R, P, row, scalars, mean, shift))

    def begin(self, double alpha, int n_threads, bint warm=False):
        """The first residuals, for W = 0 and B; or warm, for the W that is there and B - Xc W in place of B."""
        cdef int64_t block
        for block in range(self.n_blocks):
            self.cg[block].alpha = alpha
        cdef int level = simd_level()
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            for block in prange(self.n_blocks, schedule="dynamic", chunksize=1):
                if self.is_double:
                    shore_cg_begin_double[level](&self.cg[block], warm)
                else:
                    shore_cg_begin_float[level](&self.cg[block], warm)

    def iterate(self, int64_t steps, int64_t[::1] taken, int n_threads):
        """Up to `steps` steps of every block; adds those taken. Returns whether all are done."""
        cdef int64_t block
        cdef bint done = True
        cdef int level = simd_level()
        cdef int64_t[::1] here = np.zeros(self.n_blocks, dtype=np.int64)
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            for block in prange(self.n_blocks, schedule="dynamic", chunksize=1):
                if self.is_double:
                    here[block] = shore_cg_iterate_double[level](&self.cg[block], steps)
                else:
                    here[block] = shore_cg_iterate_float[level](&self.cg[block], steps)
        for block in range(self.n_blocks):
            taken[block] += here[block]
            done = done and here[block] < steps
        return done
