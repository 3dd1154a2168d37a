/* Stage 1 on CSR data: the kernels of linear_kernel.h by dtype and level. */
#ifndef SHORE_LINEAR_H
#define SHORE_LINEAR_H

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define SHORE_INLINE static inline __attribute__((always_inline))
#else
#define SHORE_INLINE static inline
#endif

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

#endif
