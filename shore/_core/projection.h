/* The projection kernels by dtype and SIMD level. */
#ifndef SHORE_PROJECTION_H
#define SHORE_PROJECTION_H

#include "constraint.h"
#include "topk.h"

#define SHORE_TEMPLATE "projection_kernel.h"
#include "multiversion.h"

#define SHORE_DECLARE(REAL)                                                                                   \
    typedef int64_t (*shore_project_dense_##REAL##_fn)(const REAL *, int64_t, const shore_constraint *,       \
                                                       const shore_support *, shore_topk *, int64_t *,        \
                                                       REAL *);                                               \
    typedef int64_t (*shore_project_csr_##REAL##_fn)(const REAL *, const void *, int, int64_t, int64_t,       \
                                                     const shore_constraint *, const shore_support *,         \
                                                     shore_topk *, int64_t *, REAL *);                        \
    static const shore_project_dense_##REAL##_fn shore_project_dense_##REAL[] =                               \
        SHORE_TABLE(shore_project_dense, REAL);                                                               \
    static const shore_project_csr_##REAL##_fn shore_project_csr_##REAL[] =                                   \
        SHORE_TABLE(shore_project_csr, REAL);
SHORE_DECLARE(float)
SHORE_DECLARE(double)
#undef SHORE_DECLARE

#endif
