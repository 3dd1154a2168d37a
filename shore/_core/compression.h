/* Φ as the kernels read it: a matrix stored by columns, or tables of sparse signs, perhaps with a head.
 *
 * Sparse signs. A column has nnz entries ±scale, one in each of nnz segments of the rows; segment k is the rows
 * [starts[k], starts[k + 1]). A pass does not multiply by the sign: it reads from a *signed* residual that
 * holds, for every segment, its rows and then their negatives, both padded to a power of two `pad`. A table entry
 * is the place in it,
 *     place = k·2·pad + (negative ? pad : 0) + (row - starts[k]),
 * in 16 bits while they suffice. Tables are stored in tiles of 16 columns, entry k of all 16 side by side:
 * tables[(t / 16 · nnz + k) · 16 + t mod 16] for column t.
 *
 * Head and tail. n_head outputs own a row each, the first rows of Φ, in the order of the outputs: the column of
 * the i-th of them is e_i, and φ_jᵀr is r[i]. The segments divide the rows behind them. The tables hold the columns
 * of the other outputs, the tail, numbered in the order of the outputs: output j is number t = j - (heads before j).
 * Plain sparse signs have no head, and t = j.
 */
#ifndef SHORE_COMPRESSION_H
#define SHORE_COMPRESSION_H

#include <stdint.h>

#define SHORE_TILE 16
#define SHORE_WORD 64

enum { SHORE_DENSE = 0, SHORE_SIGNS = 1 };

/* Which of SHORE_WORD outputs own a row, a bit each, and how many of all outputs before them do. */
typedef struct {
    uint64_t owners;
    int64_t before;
} shore_head_word;

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
    const int64_t *starts; /* (nnz + 1,) first rows of the segments; the first of all is n_head */
    int64_t n_head;
    int64_t n_tail;                    /* K - n_head */
    const int64_t *head_outputs;       /* (n_head,) sorted */
    const shore_head_word *head_words; /* (⌈K / SHORE_WORD⌉,) */
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

/* From the 16-bit residuals of one row to those of the next: an odd number of cache lines, so that the same residuals
 * of all rows do not compete for the same few places in the cache. */
static inline int64_t shore_scratch_stride(const shore_compression *phi) {
    return ((phi->n_components - phi->n_head + 31) / 32 | 1) * 32;
}

static inline int shore_count_bits(uint64_t bits) { /* a pattern that compilers know the instruction for */
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)(bits * 0x0101010101010101u >> 56);
}

/* The row that output j owns, with *owns = 1; or its number in the tail. */
static inline int64_t shore_number(const shore_compression *phi, int64_t j, int *owns) {
    *owns = 0;
    if (!phi->n_head) return j;
    const shore_head_word *word = &phi->head_words[j / SHORE_WORD];
    const uint64_t bit = (uint64_t)1 << j % SHORE_WORD;
    const int64_t before = word->before + shore_count_bits(word->owners & (bit - 1));
    *owns = (word->owners & bit) != 0;
    return *owns ? before : j - before;
}

/* The output that has number t in the tail. */
static inline int64_t shore_tail_output(const shore_compression *phi, int64_t t) {
    int64_t low = 0, high = phi->n_head; /* head i has i heads and head_outputs[i] - i of the tail before it */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (phi->head_outputs[middle] - middle > t)
            high = middle;
        else
            low = middle + 1;
    }
    return t + low;
}

/* Entry k of column t of the tables. */
static inline int64_t shore_place(const shore_compression *phi, int64_t t, int64_t k) {
    const int64_t at = (t / SHORE_TILE * phi->nnz + k) * SHORE_TILE + t % SHORE_TILE;
    return phi->wide ? (int64_t)((const uint32_t *)phi->tables)[at] : (int64_t)((const uint16_t *)phi->tables)[at];
}

/* The row of Φ and the sign that a place stands for. */
static inline int64_t shore_place_row(const shore_compression *phi, int64_t place, int *negative) {
    *negative = (place & phi->pad) != 0;
    return phi->starts[place >> phi->shift] + (place & (phi->pad - 1));
}

#endif
