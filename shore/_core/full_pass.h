/* Template part of decode_kernel.h: every output offers φ_jᵀr to every row in work.
 *
 * Rows lie across the lanes of vectors, outputs go by. A number is compared with its row's limit in the register
 * that it was computed in; only what passes leaves it.
 *
 *     signs_pass     sparse signs, coarse: residuals rounded to 16 bits, 32 rows to a cache line
 *     offer_heads    outputs with a row of their own: its residual as it is
 *     dense_pass     dense Φ: coarse in 8 bits where the machine has the instruction (dense_coarse.h), else exact
 *     pass_one       one or a few rows, exact, outputs across the lanes
 *
 * A coarse pass knows how far its numbers may be off. It keeps every output that could be among the best, and
 * those offer again with exact numbers afterwards: what is decided, and every bit of it, is the same.
 */

#define SIGN_LANES 32
#define SIGN_VECTORS (SIGN_LANES / W_LANES)
#define DENSE_VECTORS 3
/* Outputs whose sums are in registers together. */
#define DENSE_OUTPUTS (SHORE_LEVEL == SHORE_AVX512 ? 8 : 4)
#define MAX_LANES 64

typedef struct {
    const shore_decode_options *options;
    NAME(row_state) **rows;
    int64_t n_rows;
    void *block;         /* residuals, lane by lane */
    int16_t *scratch;    /* residuals in 16 bits, row by row, each shore_scratch_stride from the next */
    const int64_t *list; /* outputs to pass over, or NULL for all */
    int64_t n_outputs;   /* how many that are */
    double unit[MAX_LANES]; /* of a lane's integers, in a coarse pass */
} NAME(pass);

SHORE_INLINE int64_t NAME(pass_output)(const NAME(pass) *p, int64_t at) { return p->list ? p->list[at] : at; }

/* The largest integer that a number above `limit` units surely exceeds, for comparison in 16 bits. */
SHORE_INLINE int16_t NAME(limit_16)(double limit) {
    return limit >= 32767 ? 32767 : limit <= -32767 ? -32768 : (int16_t)(floor(limit) - 1);
}

/* At most the limit, as REAL. */
SHORE_INLINE REAL NAME(limit_real)(double limit) {
    const double eps = REAL_BITS == 32 ? 0x1p-22 : 0x1p-51, tiny = REAL_BITS == 32 ? 0x1p-148 : 0x1p-1073;
    return (REAL)(limit - fabs(limit) * eps - tiny);
}

/* ---------------------------------------------------------------- sparse signs */

/* Outputs with a row of their own offer its residual, which lie side by side. */
static void NAME(offer_heads)(const shore_decode_options *o, NAME(row_state) *s, int absolute, int coarse) {
    const shore_compression *phi = o->phi;
    REAL limit = NAME(limit_real)(s->limit);
    for (int64_t start = 0; start < phi->n_head; start += V_LANES) {
        const REAL *r = s->r + start;
        const int64_t size = start + V_LANES < phi->n_head ? V_LANES : phi->n_head - start;
        unsigned bits = 0;
        if (size == V_LANES) {
            const V here = V_LOAD(r);
            bits = V_GT_BITS(absolute ? V_ABS(here) : here, V_SET1(limit));
        } else {
            for (int64_t i = 0; i < size; i++) bits |= (unsigned)((absolute ? V_SIZE(r[i]) : r[i]) > limit) << i;
        }
        for (; SHORE_UNLIKELY(bits); bits &= bits - 1) {
            const int i = shore_lowest_bit(bits);
            if (!((absolute ? V_SIZE(r[i]) : r[i]) > limit)) continue; /* the limit has risen since */
            if (coarse)
                NAME(offer_coarse)(o, s, phi->head_outputs[start + i], r[i]);
            else
                NAME(offer)(o, s, phi->head_outputs[start + i], r[i]);
            limit = NAME(limit_real)(s->limit);
        }
    }
}

SHORE_INLINE void NAME(signs_block)(NAME(pass) *p, int16_t *limits, const int64_t nnz, const int wide,
                                    const int absolute) {
    const shore_compression *phi = p->options->phi;
    const uint16_t *narrow_tables = phi->tables;
    const uint32_t *wide_tables = phi->tables;
    const int16_t *block = p->block;
    W limit[SIGN_VECTORS];
    for (int v = 0; v < SIGN_VECTORS; v++) limit[v] = W_LOAD(limits + v * W_LANES);
    const int64_t n = p->list ? p->n_outputs : phi->n_tail;
    for (int64_t at = 0; at < n; at++) {
        int64_t t = at;
        if (p->list) {
            int owns;
            t = shore_number(phi, p->list[at], &owns);
            if (owns) continue;
        }
        const uint64_t first = (uint64_t)t / SHORE_TILE * (uint64_t)(nnz * SHORE_TILE) + (uint64_t)t % SHORE_TILE;
        W sum[SIGN_VECTORS];
        for (int64_t k = 0; k < nnz; k++) {
            const size_t place = wide ? wide_tables[first + k * SHORE_TILE] : narrow_tables[first + k * SHORE_TILE];
            const int16_t *r = block + place * SIGN_LANES;
            for (int v = 0; v < SIGN_VECTORS; v++)
                sum[v] = k ? W_ADD(sum[v], W_LOAD(r + v * W_LANES)) : W_LOAD(r + v * W_LANES);
        }
        for (int v = 0; v < SIGN_VECTORS; v++) {
            unsigned bits = W_GT_BITS(absolute ? W_ABS(sum[v]) : sum[v], limit[v]);
            if (!SHORE_UNLIKELY(bits)) continue;
            int16_t out[W_LANES];
            W_STORE(out, sum[v]);
            const int64_t j = shore_tail_output(phi, t);
            for (; bits; bits &= bits - 1) {
                const int lane = shore_lowest_bit(bits), row = v * W_LANES + lane;
                NAME(row_state) *s = p->rows[row];
                NAME(offer_coarse)(p->options, s, j, (double)out[lane] * p->unit[row]);
                limits[row] = s->failed ? 32767 : NAME(limit_16)(s->limit / p->unit[row]);
            }
            limit[v] = W_LOAD(limits + v * W_LANES);
        }
    }
}

static SHORE_NOINLINE void NAME(signs_block_16)(NAME(pass) *p, int16_t *limits, int absolute) {
    if (absolute)
        NAME(signs_block)(p, limits, 16, 0, 1);
    else
        NAME(signs_block)(p, limits, 16, 0, 0);
}

static void NAME(signs_block_any)(NAME(pass) *p, int16_t *limits, int absolute) {
    const shore_compression *phi = p->options->phi;
    if (phi->wide)
        NAME(signs_block)(p, limits, phi->nnz, 1, absolute);
    else
        NAME(signs_block)(p, limits, phi->nnz, 0, absolute);
}

/* The residual of a row's tail in 16 bits, so coarse that nnz of them cannot overflow, into its part of the scratch;
 * and its head offers. Returns the limit. */
static int16_t NAME(round_signs)(NAME(pass) *p, int64_t lane, int absolute) {
    const shore_compression *phi = p->options->phi;
    NAME(row_state) *s = p->rows[lane];
    int16_t *restrict q = p->scratch + lane * shore_scratch_stride(phi);
    const REAL *restrict r = s->r + phi->n_head;
    const int64_t n = phi->n_components - phi->n_head;
    const double most = (double)(32767 / phi->nnz), least = 1e-9 * s->norm_r; /* next to the head the tail may be 0 */
    const double size = NAME(largest)(r, n);
    const double largest = size > least ? size : least, unit = largest / most;
    const REAL inverse = (REAL)(most / largest);
    if (!(most >= 1 && largest > 0 && inverse <= REAL_MAX)) { /* no bits left, r = 0, or too small to scale */
        s->failed = 1;
        return 32767;
    }
    for (int64_t i = 0; i < n; i++) {
        const REAL scaled = r[i] * inverse;
        q[i] = (int16_t)(int32_t)(scaled + (scaled < 0 ? (REAL)-0.5 : (REAL)0.5));
    }
    p->unit[lane] = unit * phi->scale;
    /* half a unit and some rounding for each of nnz terms, and the rounding of the exact number itself */
    s->error = 0.502 * (double)phi->nnz * p->unit[lane] + NAME(rounding)(phi, s->norm_r);
    NAME(set_limit)(s);
    NAME(offer_heads)(p->options, s, absolute, 1);
    return s->failed ? 32767 : NAME(limit_16)(s->limit / p->unit[lane]);
}

/* A segment of the scratch of all rows, `size` numbers each, into the lanes of the block, and its negatives. */
static void NAME(interleave)(const int16_t *q, int64_t stride, int64_t size, int16_t *plus, int16_t *minus) {
    int64_t start = 0;
#ifdef SHORE_X86_LEVELS
    for (; start + 8 <= size; start += 8)
        for (int lane = 0; lane < SIGN_LANES; lane += 8) {
            __m128i a[8], b[8]; /* eight rows of eight: pairs, then fours, then eights of rows side by side */
            for (int i = 0; i < 8; i++) a[i] = _mm_loadu_si128((const __m128i *)(q + (lane + i) * stride + start));
            for (int i = 0; i < 4; i++) {
                b[i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
                b[4 + i] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
            }
            for (int h = 0; h < 2; h++)
                for (int i = 0; i < 2; i++) {
                    a[4 * h + i] = _mm_unpacklo_epi32(b[4 * h + 2 * i], b[4 * h + 2 * i + 1]);
                    a[4 * h + 2 + i] = _mm_unpackhi_epi32(b[4 * h + 2 * i], b[4 * h + 2 * i + 1]);
                }
            for (int i = 0; i < 4; i++) {
                b[2 * i] = _mm_unpacklo_epi64(a[2 * i], a[2 * i + 1]);
                b[2 * i + 1] = _mm_unpackhi_epi64(a[2 * i], a[2 * i + 1]);
            }
            for (int i = 0; i < 8; i++) {
                const int64_t at = (start + i) * SIGN_LANES + lane;
                _mm_storeu_si128((__m128i *)(plus + at), b[i]);
                _mm_storeu_si128((__m128i *)(minus + at), _mm_sub_epi16(_mm_setzero_si128(), b[i]));
            }
        }
#endif
    for (; start < size; start++)
        for (int64_t lane = 0; lane < SIGN_LANES; lane++) {
            const int16_t here = q[lane * stride + start];
            plus[start * SIGN_LANES + lane] = here;
            minus[start * SIGN_LANES + lane] = (int16_t)-here;
        }
}

static void NAME(signs_pass)(NAME(pass) *p, int absolute) {
    const shore_compression *phi = p->options->phi;
    int16_t limits[SIGN_LANES];
    for (int64_t lane = 0; lane < SIGN_LANES; lane++)
        limits[lane] = lane < p->n_rows ? NAME(round_signs)(p, lane, absolute) : 32767;
    for (int64_t k = 0; k < phi->nnz; k++) {
        int16_t *plus = (int16_t *)p->block + (k << phi->shift) * SIGN_LANES;
        NAME(interleave)(p->scratch + phi->starts[k] - phi->n_head, shore_scratch_stride(phi),
                         phi->starts[k + 1] - phi->starts[k], plus, plus + phi->pad * SIGN_LANES);
    }
    if (phi->nnz == 16 && !phi->wide)
        NAME(signs_block_16)(p, limits, absolute);
    else
        NAME(signs_block_any)(p, limits, absolute);
}

/* ---------------------------------------------------------------- a dense Φ */

/* One output's numbers for all rows. */
static SHORE_NOINLINE void NAME(offer_output)(NAME(pass) *p, int64_t j, const REAL *g, REAL *limits, int absolute) {
    for (int64_t row = 0; row < p->n_rows; row++) {
        if (!((absolute ? V_SIZE(g[row]) : g[row]) > limits[row])) continue;
        NAME(offer)(p->options, p->rows[row], j, g[row]);
        limits[row] = NAME(limit_real)(p->rows[row]->limit);
    }
}

SHORE_INLINE void NAME(dense_block)(NAME(pass) *p, REAL *limits, const int vectors, const int absolute) {
    const shore_compression *phi = p->options->phi;
    const int64_t m = phi->n_components, lanes = (int64_t)vectors * V_LANES;
    const REAL *columns = phi->columns;
    V limit[DENSE_VECTORS];
    for (int v = 0; v < vectors; v++) limit[v] = V_LOAD(limits + v * V_LANES);
    for (int64_t start = 0; start < p->n_outputs; start += DENSE_OUTPUTS) {
        const REAL *c[DENSE_OUTPUTS];
        for (int64_t o = 0; o < DENSE_OUTPUTS; o++) {
            const int64_t at = start + o < p->n_outputs ? start + o : p->n_outputs - 1;
            c[o] = columns + NAME(pass_output)(p, at) * m;
        }
        V sum[DENSE_OUTPUTS][DENSE_VECTORS];
        for (int o = 0; o < DENSE_OUTPUTS; o++)
            for (int v = 0; v < vectors; v++) sum[o][v] = V_SET1(0);
        const REAL *r = p->block;
        for (int64_t i = 0; i < m; i++, r += lanes)
            for (int o = 0; o < DENSE_OUTPUTS; o++) {
                const V phi_ij = V_SET1(c[o][i]);
                for (int v = 0; v < vectors; v++)
                    sum[o][v] = V_FMA(phi_ij, V_LOAD(r + v * V_LANES), sum[o][v]);
            }
        unsigned any = 0;
        for (int o = 0; o < DENSE_OUTPUTS; o++)
            for (int v = 0; v < vectors; v++) any |= V_GT_BITS(absolute ? V_ABS(sum[o][v]) : sum[o][v], limit[v]);
        if (!SHORE_UNLIKELY(any)) continue;
        REAL out[DENSE_OUTPUTS][DENSE_VECTORS * V_LANES]; /* a copy, so that the sums can stay in registers */
        for (int o = 0; o < DENSE_OUTPUTS; o++)
            for (int v = 0; v < vectors; v++) V_STORE(out[o] + v * V_LANES, sum[o][v]);
        for (int64_t o = 0; o < DENSE_OUTPUTS && start + o < p->n_outputs; o++)
            NAME(offer_output)(p, NAME(pass_output)(p, start + o), out[o], limits, absolute);
        for (int v = 0; v < vectors; v++) limit[v] = V_LOAD(limits + v * V_LANES);
    }
}

#define DENSE_BLOCK(vectors)                                                                                  \
    static SHORE_NOINLINE void NAME(dense_block_##vectors)(NAME(pass) * p, REAL * limits, int absolute) {                    \
        if (absolute)                                                                                         \
            NAME(dense_block)(p, limits, vectors, 1);                                                         \
        else                                                                                                  \
            NAME(dense_block)(p, limits, vectors, 0);                                                         \
    }
DENSE_BLOCK(1)
DENSE_BLOCK(2)
DENSE_BLOCK(3)
#undef DENSE_BLOCK

static void NAME(dense_pass_exact)(NAME(pass) *p, int absolute) {
    const int vectors = (int)((p->n_rows + V_LANES - 1) / V_LANES);
    const int64_t m = p->options->phi->n_components, lanes = (int64_t)vectors * V_LANES;
    REAL limits[DENSE_VECTORS * V_LANES], *block = p->block;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const REAL *r = lane < p->n_rows ? p->rows[lane]->r : NULL;
        limits[lane] = r ? NAME(limit_real)(p->rows[lane]->limit) : (REAL)INFINITY;
        for (int64_t i = 0; i < m; i++) block[i * lanes + lane] = r ? r[i] : 0;
    }
    if (vectors == 1)
        NAME(dense_block_1)(p, limits, absolute);
    else if (vectors == 2)
        NAME(dense_block_2)(p, limits, absolute);
    else
        NAME(dense_block_3)(p, limits, absolute);
}

#include "dense_coarse.h"

/* ---------------------------------------------------------------- one row */

#include "one_row.h"

/* ---------------------------------------------------------------- */

/* Whether rows collect so many outputs of a dense Φ that asking each again exactly costs more than an exact pass. */
static int NAME(many_found)(const NAME(pass) *p) {
    int64_t found = 0;
    if (p->n_rows > DENSE_VECTORS * V_LANES) return 0; /* an exact pass has fewer lanes for double */
    for (int64_t i = 0; i < p->n_rows; i++) found += p->rows[i]->collecting ? p->rows[i]->found_before : 0;
    return found > p->n_rows * p->n_outputs / 100;
}

/* A block of rows: coarse if it returns 1. */
static int NAME(pass_block)(NAME(pass) *p) {
    const shore_compression *phi = p->options->phi;
    const int absolute = shore_is_absolute(p->options->search);
    if (phi->kind == SHORE_SIGNS && phi->n_tail) {
        NAME(signs_pass)(p, absolute);
        return 1;
    }
    if (phi->kind == SHORE_SIGNS) {
        for (int64_t i = 0; i < p->n_rows; i++) NAME(offer_heads)(p->options, p->rows[i], absolute, 0);
        return 0;
    }
    if (!NAME(many_found)(p) && NAME(dense_pass_coarse)(p, absolute)) return 1;
    NAME(dense_pass_exact)(p, absolute);
    return 0;
}

static void NAME(full_pass)(NAME(pass) *p) {
    const shore_decode_options *o = p->options;
    const shore_support *permit = &p->rows[0]->permit;
    const int own_lists = !p->list && permit->list && permit->list_allows;
    for (int64_t i = 0; i < p->n_rows; i++) NAME(begin_pass)(o, p->rows[i]);
    if (own_lists) {
        for (int64_t i = 0; i < p->n_rows; i++) {
            permit = &p->rows[i]->permit;
            NAME(pass_one)(o, p->rows[i], permit->list, permit->n_list);
        }
    } else if (p->n_rows <= NAME(few_rows)(o->phi)) {
        for (int64_t i = 0; i < p->n_rows; i++) NAME(pass_one)(o, p->rows[i], p->list, p->n_outputs);
    } else if (NAME(pass_block)(p)) {
        for (int64_t i = 0; i < p->n_rows; i++)
            if (!p->rows[i]->failed) {
                NAME(resolve)(o, p->rows[i]);
            } else { /* too much of it is too close: exactly, then */
                NAME(begin_pass)(o, p->rows[i]);
                NAME(pass_one)(o, p->rows[i], p->list, p->n_outputs);
            }
    }
    for (int64_t i = 0; i < p->n_rows; i++) NAME(end_pass)(o, p->rows[i]);
}
