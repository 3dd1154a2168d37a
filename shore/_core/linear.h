/* Stage 1 on CSR data: the kernels of linear_kernel.h by dtype and level. */
#ifndef SHORE_LINEAR_H
#define SHORE_LINEAR_H

#include <stdint.h>
#include <string.h>
#include "simd.h"

#if defined(__GNUC__) || defined(__clang__)
#define SHORE_INLINE static inline __attribute__((always_inline))
#else
#define SHORE_INLINE static inline
#endif

/* A number of half precision (IEEE binary16). No step meets a subnormal float: a process may have switched those off. */
static inline float shore_half(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = h & 0x7fff;
    union {
        uint32_t bits;
        float value;
    } f;
    if (size < 0x400)
        f.value = (float)size * 0x1p-24f;
    else
        f.bits = (size << 13) + ((size < 0x7c00 ? 112u : 224u) << 23);
    f.bits |= sign;
    return f.value;
}

typedef struct {
    const void *data;    /* REAL */
    const void *indices; /* int64 if wide, else int32 */
    const void *indptr;
    int wide;
    int64_t n_rows, n_columns;
} shore_csr;

static inline int64_t shore_csr_start(const shore_csr *X, int64_t i) {
    return X->wide ? ((const int64_t *)X->indptr)[i] : ((const int32_t *)X->indptr)[i];
}

static inline int64_t shore_csr_column(const shore_csr *X, int64_t e) {
    return X->wide ? ((const int64_t *)X->indices)[e] : ((const int32_t *)X->indices)[e];
}

/* Numbers per column of a block. */
enum {
    SHORE_CG_RR,
    SHORE_CG_START,
    SHORE_CG_SHIFTED,
    SHORE_CG_CURVATURE,
    SHORE_CG_NEXT,
    SHORE_CG_STEP,
    SHORE_CG_BETA,
    SHORE_CG_SQUARES,
    SHORE_CG_LARGEST,
    SHORE_CG_SCALARS
};

typedef struct {
    shore_csr X, Xt;
    const void *mean;  /* (d,) of REAL, or NULL */
    const void *shift; /* (n,) of REAL, or NULL for ones */
    double alpha, tol;
    int64_t width;
    void *W, *R, *P; /* (d, width) */
    void *Q;         /* (n, width) */
    void *row;       /* (width,) */
    double *scalars; /* (SHORE_CG_SCALARS, width) */
} shore_cg;

#ifdef SHORE_X86_LEVELS
/* shore_half of four, where there is no instruction for it */
static inline __m128 shore_four_halves(const uint16_t *h) {
    const __m128i wide = _mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)h), _mm_setzero_si128());
    const __m128i size = _mm_and_si128(wide, _mm_set1_epi32(0x7fff));
    const __m128i sign = _mm_slli_epi32(_mm_xor_si128(wide, size), 16);
    const __m128i small = _mm_cmplt_epi32(size, _mm_set1_epi32(0x400));
    const __m128i endless = _mm_cmpgt_epi32(size, _mm_set1_epi32(0x7bff));
    const __m128i bias = _mm_set1_epi32(112 << 23);
    const __m128i large = _mm_add_epi32(_mm_add_epi32(_mm_slli_epi32(size, 13), bias), _mm_and_si128(endless, bias));
    const __m128i tiny = _mm_castps_si128(_mm_mul_ps(_mm_cvtepi32_ps(size), _mm_set1_ps(0x1p-24f)));
    const __m128i value = _mm_or_si128(_mm_and_si128(small, tiny), _mm_andnot_si128(small, large));
    return _mm_castsi128_ps(_mm_or_si128(value, sign));
}
#endif

#define SHORE_TEMPLATE "linear_kernel.h"
#include "multiversion.h"

#define SHORE_DECLARE(REAL)                                                                                     \
    typedef void (*shore_csr_row_times_##REAL##_fn)(const REAL *, const void *, int, int64_t, const REAL *,     \
                                                    int64_t, int64_t, REAL *);                                  \
    typedef void (*shore_dense_rows_times_##REAL##_fn)(const REAL *, int64_t, int64_t, const REAL *, int64_t,   \
                                                       REAL *);                                                 \
    typedef void (*shore_gram_row_##REAL##_fn)(const shore_csr *, const shore_csr *, int64_t, REAL *);          \
    typedef void (*shore_cg_begin_##REAL##_fn)(const shore_cg *, int);                                          \
    typedef int64_t (*shore_cg_iterate_##REAL##_fn)(const shore_cg *, int64_t);                                 \
    static const shore_csr_row_times_##REAL##_fn shore_csr_row_times_##REAL[] =                                 \
        SHORE_TABLE(shore_csr_row_times, REAL);                                                                 \
    static const shore_dense_rows_times_##REAL##_fn shore_dense_rows_times_##REAL[] =                           \
        SHORE_TABLE(shore_dense_rows_times, REAL);                                                              \
    static const shore_gram_row_##REAL##_fn shore_gram_row_##REAL[] = SHORE_TABLE(shore_gram_row, REAL);        \
    static const shore_cg_begin_##REAL##_fn shore_cg_begin_##REAL[] = SHORE_TABLE(shore_cg_begin, REAL);        \
    static const shore_cg_iterate_##REAL##_fn shore_cg_iterate_##REAL[] = SHORE_TABLE(shore_cg_iterate, REAL);
SHORE_DECLARE(float)
SHORE_DECLARE(double)
#undef SHORE_DECLARE

typedef void (*shore_csr_row_times_half_fn)(const float *, const void *, int, int64_t, const uint16_t *, int64_t, int64_t,
                                            float *);
typedef void (*shore_dense_rows_times_half_fn)(const float *, int64_t, int64_t, const uint16_t *, int64_t, float *);
static const shore_csr_row_times_half_fn shore_csr_row_times_half[] = SHORE_TABLE(shore_csr_row_times_half, float);
static const shore_dense_rows_times_half_fn shore_dense_rows_times_half[] =
    SHORE_TABLE(shore_dense_rows_times_half, float);

#endif
