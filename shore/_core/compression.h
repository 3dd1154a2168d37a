/* Φ as the kernels read it: a matrix stored by columns, or tables of sparse signs.
 *
 * Sparse signs. Column j has nnz entries ±scale, one in each of nnz segments of the m rows; segment k is the rows
 * [⌊k·m/nnz⌋, ⌊(k+1)·m/nnz⌋). A pass does not multiply by the sign: it reads from a *signed* residual that
 * holds, for every segment, its rows and then their negatives, both padded to a power of two `pad`. A table entry
 * is the place in it,
 *     place = k·2·pad + (negative ? pad : 0) + (row - ⌊k·m/nnz⌋),
 * in 16 bits while they suffice. Tables are stored in tiles of 16 outputs, entry k of all 16 side by side:
 * tables[(j / 16 · nnz + k) · 16 + j mod 16].
 */
#ifndef SHORE_COMPRESSION_H
#define SHORE_COMPRESSION_H

#include <stdint.h>

#define SHORE_TILE 16

enum { SHORE_DENSE = 0, SHORE_SIGNS = 1 };

typedef struct {
    int kind;
    int64_t n_components; /* m */
    int64_t n_outputs;    /* K */
    const void *columns;  /* dense: (K, m) of REAL */
    const void *tables;   /* signs: uint16 or, if wide, uint32 */
    int wide;
    int64_t nnz;
    int64_t pad;           /* a power of two */
    int shift;             /* log2 of 2·pad */
    const int64_t *starts; /* (nnz + 1,) first rows of the segments */
    double scale;
    double max_norm; /* of a column, an upper bound */
    /* Dense, for coarse passes: column j is about coarse_scale[j] times the integers coarse[j · coarse_stride …].
     * NULL where the machine has no use for it. */
    const int8_t *coarse;
    int64_t coarse_stride;       /* a multiple of 4, zeros behind row m */
    const float *coarse_scale;
    const int32_t *coarse_offset; /* -128 times the sum of the column's integers */
    double coarse_error;          /* the largest norm of a column minus its coarse copy, an upper bound */
    int64_t n_terms; /* in the sum φ_jᵀr: what its rounding error grows with */
} shore_compression;

static inline int64_t shore_signed_size(const shore_compression *phi) { return phi->nnz * 2 * phi->pad; }

static inline int64_t shore_place(const shore_compression *phi, int64_t j, int64_t k) {
    const int64_t at = (j / SHORE_TILE * phi->nnz + k) * SHORE_TILE + j % SHORE_TILE;
    return phi->wide ? (int64_t)((const uint32_t *)phi->tables)[at] : (int64_t)((const uint16_t *)phi->tables)[at];
}

/* The row of Φ and the sign that a place stands for. */
static inline int64_t shore_place_row(const shore_compression *phi, int64_t place, int *negative) {
    *negative = (place & phi->pad) != 0;
    return phi->starts[place >> phi->shift] + (place & (phi->pad - 1));
}

#endif
