/* Template (see multiversion.h): products of rows with a dense matrix, Gram matrices, and block conjugate gradients.
 *
 * Every number is a sum in the order of the row's entries, one fused multiply-add each, so it does not depend on
 * blocking, on threads, or on whether its neighbours are computed with it.
 */
#include "vector.h"

/* Long rows are summed in parts of this many entries: the error grows with the length of a part and their number. */
#define CHUNK 512

SHORE_INLINE int64_t NAME(column_at)(const void *columns, int wide, int64_t e) {
    return wide ? ((const int64_t *)columns)[e] : ((const int32_t *)columns)[e];
}

/* P is a matrix of REAL or, with the constant `half` (for float only), of half precision: expanded as it is loaded, so
 * that results are those of the expanded matrix. */
SHORE_INLINE V NAME(load)(const void *P, int64_t at, const int half) {
#if REAL_BITS == 32
    const uint16_t *h = (const uint16_t *)P + at;
#if defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512
    if (half) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
#elif defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX2
    if (half) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
#elif defined(SHORE_X86_LEVELS)
    if (half) return shore_four_halves(h);
#else
    if (half) return shore_half(*h);
#endif
#endif
    return V_LOAD((const REAL *)P + at);
}

SHORE_INLINE REAL NAME(load_one)(const void *P, int64_t at, const int half) {
    return half ? (REAL)shore_half(((const uint16_t *)P)[at]) : ((const REAL *)P)[at];
}

SHORE_INLINE void NAME(strip)(const REAL *x, const void *columns, int wide, int64_t n, const void *P, int64_t at,
                              int64_t stride, REAL *out, const int vectors, const int half) {
    V total[8];
    for (int v = 0; v < vectors; v++) total[v] = V_SET1(0);
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t end = start + CHUNK < n ? start + CHUNK : n;
        V sum[8];
        for (int v = 0; v < vectors; v++) sum[v] = V_SET1(0);
        for (int64_t e = start; e < end; e++) {
            const int64_t p = NAME(column_at)(columns, wide, e) * stride + at;
            const V x_e = V_SET1(x[e]);
            for (int v = 0; v < vectors; v++) sum[v] = V_FMA(x_e, NAME(load)(P, p + v * V_LANES, half), sum[v]);
        }
        for (int v = 0; v < vectors; v++) total[v] = V_ADD(total[v], sum[v]);
    }
    for (int v = 0; v < vectors; v++) V_STORE(out + at + v * V_LANES, total[v]);
}

/* out := Σ_e x_e P[column_e, :width], for one row of a CSR matrix */
SHORE_INLINE void NAME(csr_row)(const REAL *x, const void *columns, int wide, int64_t n, const void *P, int64_t stride,
                                int64_t width, REAL *out, const int half) {
    int64_t at = 0;
    for (; at + 8 * V_LANES <= width; at += 8 * V_LANES) NAME(strip)(x, columns, wide, n, P, at, stride, out, 8, half);
    for (; at + 4 * V_LANES <= width; at += 4 * V_LANES) NAME(strip)(x, columns, wide, n, P, at, stride, out, 4, half);
    for (; at + V_LANES <= width; at += V_LANES) NAME(strip)(x, columns, wide, n, P, at, stride, out, 1, half);
    for (; at < width; at++) {
        REAL total = 0;
        for (int64_t start = 0; start < n; start += CHUNK) {
            const int64_t end = start + CHUNK < n ? start + CHUNK : n;
            REAL sum = 0;
            for (int64_t e = start; e < end; e++)
                sum = FMA(x[e], NAME(load_one)(P, NAME(column_at)(columns, wide, e) * stride + at, half), sum);
            total += sum;
        }
        out[at] = total;
    }
}

static void NAME(shore_csr_row_times)(const REAL *x, const void *columns, int wide, int64_t n, const REAL *P,
                                      int64_t stride, int64_t width, REAL *out) {
    NAME(csr_row)(x, columns, wide, n, P, stride, width, out, 0);
}

#if REAL_BITS == 32
static void NAME(shore_csr_row_times_half)(const float *x, const void *columns, int wide, int64_t n, const uint16_t *P,
                                           int64_t stride, int64_t width, float *out) {
    NAME(csr_row)(x, columns, wide, n, P, stride, width, out, 1);
}
#endif

#undef CHUNK

#define ROWS 4
#define STRIP 4

SHORE_INLINE void NAME(dense_strip)(const REAL *const *x, int64_t d, const void *P, int64_t at, int64_t stride,
                                    REAL *const *out, const int rows, const int vectors, const int half) {
    V sum[ROWS][STRIP];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) sum[i][v] = V_SET1(0);
    for (int64_t f = 0; f < d; f++, at += stride) {
        V p[STRIP];
        for (int v = 0; v < vectors; v++) p[v] = NAME(load)(P, at + v * V_LANES, half);
        for (int i = 0; i < rows; i++) {
            const V x_if = V_SET1(x[i][f]);
            for (int v = 0; v < vectors; v++) sum[i][v] = V_FMA(x_if, p[v], sum[i][v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) V_STORE(out[i] + v * V_LANES, sum[i][v]);
}

/* out := X P for up to four dense rows */
SHORE_INLINE void NAME(dense_rows)(const REAL *X, int64_t n, int64_t d, const void *P, int64_t width, REAL *out,
                                   const int half) {
    const REAL *x[ROWS];
    REAL *here[ROWS];
    int64_t at = 0;
    for (int i = 0; i < ROWS; i++) x[i] = X + (i < n ? i : 0) * d;
    for (; at + V_LANES <= width;) {
        const int wide = at + STRIP * V_LANES <= width;
        for (int i = 0; i < ROWS; i++) here[i] = out + (i < n ? i : 0) * width + at;
        if (n == ROWS && wide)
            NAME(dense_strip)(x, d, P, at, width, here, ROWS, STRIP, half);
        else if (n == ROWS)
            NAME(dense_strip)(x, d, P, at, width, here, ROWS, 1, half);
        else
            for (int64_t i = 0; i < n; i++)
                if (wide)
                    NAME(dense_strip)(x + i, d, P, at, width, here + i, 1, STRIP, half);
                else
                    NAME(dense_strip)(x + i, d, P, at, width, here + i, 1, 1, half);
        at += wide ? STRIP * V_LANES : V_LANES;
    }
    for (; at < width; at++)
        for (int64_t i = 0; i < n; i++) {
            REAL sum = 0;
            for (int64_t f = 0; f < d; f++) sum = FMA(x[i][f], NAME(load_one)(P, f * width + at, half), sum);
            out[i * width + at] = sum;
        }
}

static void NAME(shore_dense_rows_times)(const REAL *X, int64_t n, int64_t d, const REAL *P, int64_t width, REAL *out) {
    NAME(dense_rows)(X, n, d, P, width, out, 0);
}

#if REAL_BITS == 32
static void NAME(shore_dense_rows_times_half)(const float *X, int64_t n, int64_t d, const uint16_t *P, int64_t width,
                                              float *out) {
    NAME(dense_rows)(X, n, d, P, width, out, 1);
}
#endif

#undef ROWS
#undef STRIP

/* Row f of XᵀX: out := Σ_i x_if x_i over the rows i that hold feature f */
static void NAME(shore_gram_row)(const shore_csr *X, const shore_csr *Xt, int64_t f, REAL *out) {
    const REAL *x = X->data, *xt = Xt->data;
    memset(out, 0, sizeof(REAL) * (size_t)X->n_columns);
    for (int64_t e = shore_csr_start(Xt, f); e < shore_csr_start(Xt, f + 1); e++) {
        const int64_t i = shore_csr_column(Xt, e);
        for (int64_t k = shore_csr_start(X, i); k < shore_csr_start(X, i + 1); k++)
            out[shore_csr_column(X, k)] += xt[e] * x[k];
    }
}

/* ---------------------------------------------------------------- block conjugate gradients
 *
 * (XcᵀXc + alpha I) W = XcᵀB for `width` columns of B at once, Xc = X - shift·meanᵀ. All columns share the products
 * with X and have step sizes of their own. Matrices of the block are (d, width) or (n, width), C-contiguous.
 */

static inline const void *NAME(columns_of)(const shore_csr *X, int64_t i) {
    const int64_t start = shore_csr_start(X, i);
    return X->wide ? (const void *)((const int64_t *)X->indices + start)
                   : (const void *)((const int32_t *)X->indices + start);
}

SHORE_INLINE void NAME(row_times)(const shore_csr *X, int64_t i, const REAL *P, int64_t width, REAL *out) {
    const int64_t start = shore_csr_start(X, i), n = shore_csr_start(X, i + 1) - start;
    NAME(shore_csr_row_times)((const REAL *)X->data + start, NAME(columns_of)(X, i), X->wide, n, P, width, width, out);
}

/* sums := meanᵀP */
static void NAME(mean_times)(const shore_cg *cg, const REAL *P, double *sums) {
    const REAL *mean = cg->mean;
    for (int64_t c = 0; c < cg->width; c++) sums[c] = 0;
    for (int64_t f = 0; f < cg->X.n_columns; f++)
        for (int64_t c = 0; c < cg->width; c++) sums[c] += (double)mean[f] * (double)P[f * cg->width + c];
}

/* t := row f of XcᵀQ */
SHORE_INLINE void NAME(transposed_row)(const shore_cg *cg, int64_t f, const double *shifted, REAL *t) {
    const REAL *mean = cg->mean;
    NAME(row_times)(&cg->Xt, f, cg->Q, cg->width, t);
    if (mean)
        for (int64_t c = 0; c < cg->width; c++) t[c] = (REAL)((double)t[c] - (double)mean[f] * shifted[c]);
}

/* Cold: W := 0, R := P := XcᵀB with B in Q, squared norms of the columns of R into rr and start. Warm: from a W that
 * is there, with B - Xc W in Q, and `start` as it was. */
static void NAME(shore_cg_begin)(const shore_cg *cg, int warm) {
    const int64_t d = cg->X.n_columns, n = cg->X.n_rows, w = cg->width;
    REAL *R = cg->R, *P = cg->P, *W = cg->W;
    const REAL *Q = cg->Q, *shift = cg->shift;
    double *shifted = cg->scalars + SHORE_CG_SHIFTED * w, *rr = cg->scalars + SHORE_CG_RR * w;
    for (int64_t c = 0; c < w; c++) shifted[c] = rr[c] = cg->scalars[SHORE_CG_LARGEST * w + c] = 0;
    if (cg->mean)
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < w; c++) shifted[c] += (shift ? (double)shift[i] : 1.0) * (double)Q[i * w + c];
    for (int64_t f = 0; f < d; f++) {
        NAME(transposed_row)(cg, f, shifted, R + f * w);
        for (int64_t c = 0; c < w; c++) {
            REAL r = R[f * w + c];
            if (warm)
                R[f * w + c] = r -= (REAL)(cg->alpha * (double)W[f * w + c]);
            else
                W[f * w + c] = 0;
            P[f * w + c] = r;
            rr[c] += (double)r * (double)r;
        }
    }
    for (int64_t c = 0; c < w; c++)
        if (!(rr[c] <= DBL_MAX)) W[c] = NAN;
    if (!warm) memcpy(cg->scalars + SHORE_CG_START * w, rr, sizeof(double) * (size_t)w);
}

/* Up to `steps` steps; returns how many were needed until every column's residual was at most tol of its start, or until
 * it could not go on: along a direction of so little curvature, next to the largest that was seen, rounding undoes as
 * much of the residual as the step does. `start` of such a column is infinite. */
static int64_t NAME(shore_cg_iterate)(const shore_cg *cg, int64_t steps) {
    const int64_t d = cg->X.n_columns, n = cg->X.n_rows, w = cg->width;
    REAL *R = cg->R, *P = cg->P, *W = cg->W, *Q = cg->Q, *t = cg->row;
    const REAL *shift = cg->shift;
    double *rr = cg->scalars + SHORE_CG_RR * w, *start = cg->scalars + SHORE_CG_START * w;
    double *shifted = cg->scalars + SHORE_CG_SHIFTED * w, *curvature = cg->scalars + SHORE_CG_CURVATURE * w;
    double *next = cg->scalars + SHORE_CG_NEXT * w, *squares = cg->scalars + SHORE_CG_SQUARES * w;
    double *largest = cg->scalars + SHORE_CG_LARGEST * w;
    const double eps = REAL_BITS == 32 ? 0x1p-23 : 0x1p-52;
    REAL *step = (REAL *)(cg->scalars + SHORE_CG_STEP * w), *beta = (REAL *)(cg->scalars + SHORE_CG_BETA * w);
    const REAL alpha = (REAL)cg->alpha;
    for (int64_t taken = 0; taken < steps; taken++) {
        int done = 1;
        for (int64_t c = 0; c < w; c++) done &= !(rr[c] > cg->tol * cg->tol * start[c]); /* NaN is done too */
        if (done) return taken;

        /* Q := Xc P, curvature := diag(Pᵀ (XcᵀXc + alpha) P) */
        for (int64_t c = 0; c < w; c++) curvature[c] = next[c] = squares[c] = 0;
        if (cg->mean) NAME(mean_times)(cg, P, shifted);
        for (int64_t i = 0; i < n; i++) {
            REAL *q = Q + i * w;
            NAME(row_times)(&cg->X, i, P, w, q);
            if (cg->mean)
                for (int64_t c = 0; c < w; c++)
                    q[c] = (REAL)((double)q[c] - (shift ? (double)shift[i] : 1.0) * shifted[c]);
            for (int64_t c = 0; c < w; c++) curvature[c] += (double)q[c] * (double)q[c];
        }
        for (int64_t f = 0; f < d; f++)
            for (int64_t c = 0; c < w; c++) squares[c] += (double)P[f * w + c] * (double)P[f * w + c];
        for (int64_t c = 0; c < w; c++) { /* columns that are done, or that are 0, stay as they are */
            curvature[c] += cg->alpha * squares[c];
            if (curvature[c] > largest[c] * squares[c]) largest[c] = curvature[c] / squares[c];
            const int go = rr[c] > cg->tol * cg->tol * start[c] && curvature[c] > eps * largest[c] * squares[c];
            if (!(curvature[c] <= DBL_MAX)) W[c] = NAN; /* overflow: the caller refuses the result */
            step[c] = go ? (REAL)(rr[c] / curvature[c]) : 0;
        }

        /* W += step P, R -= step (XcᵀQ + alpha P) */
        if (cg->mean) {
            for (int64_t c = 0; c < w; c++) shifted[c] = 0;
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = 0; c < w; c++) shifted[c] += (shift ? (double)shift[i] : 1.0) * (double)Q[i * w + c];
        }
        for (int64_t f = 0; f < d; f++) {
            REAL *r = R + f * w, *x = W + f * w;
            const REAL *p = P + f * w;
            NAME(transposed_row)(cg, f, shifted, t);
            for (int64_t c = 0; c < w; c++) {
                x[c] += step[c] * p[c];
                r[c] -= step[c] * (t[c] + alpha * p[c]);
                next[c] += (double)r[c] * (double)r[c];
            }
        }
        for (int64_t c = 0; c < w; c++) {
            beta[c] = step[c] != 0 && rr[c] > 0 ? (REAL)(next[c] / rr[c]) : 0;
            if (step[c] == 0 && rr[c] > cg->tol * cg->tol * start[c]) start[c] = INFINITY; /* cannot go on */
            rr[c] = next[c];
            if (!(rr[c] <= DBL_MAX)) W[c] = NAN; /* overflow, too */
        }
        for (int64_t f = 0; f < d; f++)
            for (int64_t c = 0; c < w; c++) P[f * w + c] = R[f * w + c] + beta[c] * P[f * w + c];
    }
    return steps;
}

#include "vector_end.h"
