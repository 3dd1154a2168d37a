/* Making of Φ, and the kernels of compression_kernel.h by dtype and level. */
#ifndef SHORE_COMPRESSION_TABLES_H
#define SHORE_COMPRESSION_TABLES_H

#include <string.h>
#include "compression.h"
#include "philox.h"

/* Column j of a Gaussian Φ, as double: i.i.d. N(0, 1) times scale. */
static void shore_gaussian_column(uint64_t seed, int64_t j, int64_t m, double scale, double *out) {
    for (int64_t i = 0; i < m; i += 2) {
        const shore_random_block random = shore_philox(seed, (uint64_t)j, (uint64_t)(i / 2));
        out[i] = shore_normal(shore_uniform(random.word[0], random.word[1])) * scale;
        if (i + 1 < m) out[i + 1] = shore_normal(shore_uniform(random.word[2], random.word[3])) * scale;
    }
}

/* The table entries of one tile of sparse signs; columns past the last one get the entries that theirs would be. */
static void shore_sign_tile(uint64_t seed, int64_t tile, const shore_compression *phi, void *tables) {
    for (int64_t o = 0; o < SHORE_TILE; o++) {
        const int64_t t = tile * SHORE_TILE + o;
        shore_random_block random = {{0}};
        for (int64_t k = 0; k < phi->nnz; k++) {
            if (k % 4 == 0) random = shore_philox(seed, (uint64_t)t, (uint64_t)(k / 4));
            const uint32_t word = random.word[k % 4];
            const uint64_t size = (uint64_t)(phi->starts[k + 1] - phi->starts[k]);
            const uint64_t within = (word >> 1) * size >> 31; /* bit 0 is the sign */
            const uint64_t place = (uint64_t)(k * 2 * phi->pad) + (word & 1 ? (uint64_t)phi->pad : 0) + within;
            const int64_t at = (tile * phi->nnz + k) * SHORE_TILE + o;
            if (phi->wide)
                ((uint32_t *)tables)[at] = (uint32_t)place;
            else
                ((uint16_t *)tables)[at] = (uint16_t)place;
        }
    }
}

/* How many entries of a tile are no place of their segment. */
static int64_t shore_illegal_places(const shore_compression *phi, int64_t tile) {
    int64_t illegal = 0;
    for (int64_t k = 0; k < phi->nnz; k++) {
        const int64_t at = (tile * phi->nnz + k) * SHORE_TILE;
        const uint32_t first = (uint32_t)(k * 2 * phi->pad), last = (uint32_t)(2 * phi->pad - 1);
        const uint32_t within = (uint32_t)phi->pad - 1, size = (uint32_t)(phi->starts[k + 1] - phi->starts[k]);
        uint32_t here = 0;
        for (int o = 0; o < SHORE_TILE; o++) {
            const uint32_t place =
                (phi->wide ? ((const uint32_t *)phi->tables)[at + o] : ((const uint16_t *)phi->tables)[at + o]) - first;
            here += (uint32_t)(place > last) | (uint32_t)((place & within) >= size);
        }
        illegal += here;
    }
    return illegal;
}

#define SHORE_TEMPLATE "compression_kernel.h"
#include "multiversion.h"

#define SHORE_DECLARE(REAL)                                                                                   \
    typedef void (*shore_compress_row_##REAL##_fn)(const shore_compression *, const REAL *, const void *, int, \
                                                   int64_t, REAL *);                                          \
    typedef void (*shore_correlate_row_##REAL##_fn)(const shore_compression *, const REAL *, REAL *, REAL *); \
    typedef double (*shore_coarse_column_##REAL##_fn)(const REAL *, int64_t, int8_t *, float *, int32_t *);    \
    static const shore_coarse_column_##REAL##_fn shore_coarse_column_##REAL[] =                               \
        SHORE_TABLE(shore_coarse_column, REAL);                                                               \
    static const shore_compress_row_##REAL##_fn shore_compress_row_##REAL[] =                                 \
        SHORE_TABLE(shore_compress_row, REAL);                                                                \
    static const shore_correlate_row_##REAL##_fn shore_correlate_row_##REAL[] =                               \
        SHORE_TABLE(shore_correlate_row, REAL);
SHORE_DECLARE(float)
SHORE_DECLARE(double)
#undef SHORE_DECLARE

#endif
