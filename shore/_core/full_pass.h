/* Template part of decode_kernel.h: every output offers φ_jᵀr to every row in work.
 *
 * Rows lie across the lanes of vectors, outputs go by. A number is compared with its row's limit in the register
 * that it was computed in; only what passes is stored and offered. For one or a few rows there is a path with
 * outputs across the lanes. Both add in the same order.
 */

/* Lanes of a block: three vectors for a dense Φ, a cache line for sparse signs. */
#define DENSE_VECTORS 3
#define SIGN_LANES (64 / (int)sizeof(REAL))
#define SIGN_VECTORS (SIGN_LANES / V_LANES)
/* Outputs whose sums are in registers together. */
#define DENSE_OUTPUTS (SHORE_LEVEL == SHORE_AVX512 ? 8 : 4)
#define MAX_LANES (DENSE_VECTORS * V_LANES > SIGN_LANES ? DENSE_VECTORS * V_LANES : SIGN_LANES)

typedef struct {
    const shore_decode_options *options;
    NAME(row_state) **rows;
    int64_t n_rows;
    REAL *block;      /* residuals, lane by lane: (residual size, lanes) */
    const int64_t *list; /* outputs to pass over, or NULL for all */
    int64_t n_outputs;   /* how many that are */
    REAL limits[MAX_LANES];
} NAME(pass);

SHORE_INLINE int64_t NAME(pass_output)(const NAME(pass) *p, int64_t at) { return p->list ? p->list[at] : at; }

/* The lanes in `bits`, from lane `first` on, hold a number above their limit. */
static void NAME(offer_lanes)(NAME(pass) *p, int64_t j, const REAL *sums, int first, unsigned bits, REAL scale,
                              REAL limit_scale) {
    for (; bits; bits &= bits - 1) {
        const int lane = shore_lowest_bit(bits);
        NAME(row_state) *row = p->rows[first + lane];
        NAME(offer)(p->options, row, j, sums[lane] * scale);
        p->limits[first + lane] = limit_scale == 1 ? row->limit : NAME(below)((double)row->limit * (double)limit_scale);
    }
}

/* ---------------------------------------------------------------- a dense Φ */

SHORE_INLINE void NAME(dense_block)(NAME(pass) *p, const int vectors, const int absolute) {
    const shore_compression *phi = p->options->phi;
    const int64_t m = phi->n_components, lanes = (int64_t)vectors * V_LANES;
    const REAL *columns = phi->columns;
    V limit[DENSE_VECTORS];
    for (int v = 0; v < vectors; v++) limit[v] = V_LOAD(p->limits + v * V_LANES);
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
        for (int64_t o = 0; o < DENSE_OUTPUTS && start + o < p->n_outputs; o++)
            for (int v = 0; v < vectors; v++) {
                const unsigned bits = V_GT_BITS(absolute ? V_ABS(sum[o][v]) : sum[o][v], limit[v]);
                if (!bits) continue;
                REAL out[V_LANES];
                V_STORE(out, sum[o][v]);
                NAME(offer_lanes)(p, NAME(pass_output)(p, start + o), out, v * V_LANES, bits, 1, 1);
                limit[v] = V_LOAD(p->limits + v * V_LANES);
            }
    }
}

static void NAME(dense_block_1)(NAME(pass) *p, int absolute) {
    if (absolute)
        NAME(dense_block)(p, 1, 1);
    else
        NAME(dense_block)(p, 1, 0);
}

static void NAME(dense_block_2)(NAME(pass) *p, int absolute) {
    if (absolute)
        NAME(dense_block)(p, 2, 1);
    else
        NAME(dense_block)(p, 2, 0);
}

static void NAME(dense_block_3)(NAME(pass) *p, int absolute) {
    if (absolute)
        NAME(dense_block)(p, 3, 1);
    else
        NAME(dense_block)(p, 3, 0);
}

static void NAME(dense_pass)(NAME(pass) *p, int absolute) {
    const int vectors = (int)((p->n_rows + V_LANES - 1) / V_LANES);
    const int64_t m = p->options->phi->n_components, lanes = (int64_t)vectors * V_LANES;
    for (int64_t lane = 0; lane < lanes; lane++) {
        p->limits[lane] = lane < p->n_rows ? p->rows[lane]->limit : (REAL)INFINITY;
        const REAL *r = lane < p->n_rows ? p->rows[lane]->r : NULL;
        for (int64_t i = 0; i < m; i++) p->block[i * lanes + lane] = r ? r[i] : 0;
    }
    if (vectors == 1)
        NAME(dense_block_1)(p, absolute);
    else if (vectors == 2)
        NAME(dense_block_2)(p, absolute);
    else
        NAME(dense_block_3)(p, absolute);
}

/* ---------------------------------------------------------------- sparse signs */

SHORE_INLINE void NAME(signs_block)(NAME(pass) *p, const int64_t nnz, const int wide, const int absolute) {
    const shore_compression *phi = p->options->phi;
    const uint16_t *narrow_tables = phi->tables;
    const uint32_t *wide_tables = phi->tables;
    const REAL scale = (REAL)phi->scale, limit_scale = (REAL)(1 / phi->scale);
    const REAL *block = p->block;
    V limit[SIGN_VECTORS];
    for (int v = 0; v < SIGN_VECTORS; v++) limit[v] = V_LOAD(p->limits + v * V_LANES);
    for (int64_t at = 0; at < p->n_outputs; at++) {
        const int64_t j = NAME(pass_output)(p, at);
        const int64_t first = j / SHORE_TILE * nnz * SHORE_TILE + j % SHORE_TILE;
        V sum[SIGN_VECTORS];
        for (int64_t k = 0; k < nnz; k++) {
            const size_t place = wide ? wide_tables[first + k * SHORE_TILE] : narrow_tables[first + k * SHORE_TILE];
            const REAL *r = block + place * SIGN_LANES;
            for (int v = 0; v < SIGN_VECTORS; v++)
                sum[v] = k ? V_ADD(sum[v], V_LOAD(r + v * V_LANES)) : V_LOAD(r + v * V_LANES);
        }
        for (int v = 0; v < SIGN_VECTORS; v++) {
            const unsigned bits = V_GT_BITS(absolute ? V_ABS(sum[v]) : sum[v], limit[v]);
            if (!SHORE_UNLIKELY(bits)) continue;
            REAL out[V_LANES];
            V_STORE(out, sum[v]);
            NAME(offer_lanes)(p, j, out, v * V_LANES, bits, scale, limit_scale);
            limit[v] = V_LOAD(p->limits + v * V_LANES);
        }
    }
}

static void NAME(signs_block_16)(NAME(pass) *p, int absolute) {
    if (absolute)
        NAME(signs_block)(p, 16, 0, 1);
    else
        NAME(signs_block)(p, 16, 0, 0);
}

static void NAME(signs_block_any)(NAME(pass) *p, int absolute) {
    const shore_compression *phi = p->options->phi;
    if (phi->wide)
        NAME(signs_block)(p, phi->nnz, 1, absolute);
    else
        NAME(signs_block)(p, phi->nnz, 0, absolute);
}

static void NAME(signs_pass)(NAME(pass) *p, int absolute) {
    const shore_compression *phi = p->options->phi;
    for (int64_t lane = 0; lane < SIGN_LANES; lane++) {
        const NAME(row_state) *row = lane < p->n_rows ? p->rows[lane] : NULL;
        p->limits[lane] = row ? NAME(below)((double)row->limit / phi->scale) : (REAL)INFINITY;
        for (int64_t k = 0; k < phi->nnz; k++) {
            const int64_t first = k * 2 * phi->pad, size = phi->starts[k + 1] - phi->starts[k];
            for (int64_t i = first; i < first + size; i++) {
                const REAL r = row ? row->r[i] : 0;
                p->block[i * SIGN_LANES + lane] = r;
                p->block[(i + phi->pad) * SIGN_LANES + lane] = -r;
            }
        }
    }
    if (phi->nnz == 16 && !phi->wide)
        NAME(signs_block_16)(p, absolute);
    else
        NAME(signs_block_any)(p, absolute);
}

/* ---------------------------------------------------------------- one row */

#if REAL_BITS == 32 && defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512
#define ONE_ROW_IS_CHEAP(phi) (phi->kind == SHORE_SIGNS && !phi->wide && phi->pad <= 64)

/* Sixteen outputs across the lanes. A segment of up to 64 residuals stays in registers and is looked up there:
 * bits 0-4 of a place select in a pair of registers, bit 5 between the pairs (if pad is 64), the pad bit is the
 * sign. */
SHORE_INLINE void NAME(signs_row_in_lanes)(const shore_decode_options *o, NAME(row_state) *s, const int pairs,
                                           const int absolute) {
    const shore_compression *phi = o->phi;
    const uint16_t *tables = phi->tables;
    const int64_t nnz = phi->nnz, pad = 32 * pairs;
    const REAL scale = (REAL)phi->scale;
    const unsigned sign_shift = pairs == 1 ? 26 : 25;
    const __m512i sign_bit = _mm512_set1_epi32((int)0x80000000u);
    for (int64_t first = 0; first < phi->n_outputs; first += SHORE_TILE) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t k = 0; k < nnz; k++) {
            const float *segment = s->r + k * 2 * pad;
            const __m512i place =
                _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(tables + first * nnz + k * SHORE_TILE)));
            __m512 r = _mm512_permutex2var_ps(_mm512_loadu_ps(segment), place, _mm512_loadu_ps(segment + 16));
            if (pairs == 2) {
                const __m512 upper =
                    _mm512_permutex2var_ps(_mm512_loadu_ps(segment + 32), place, _mm512_loadu_ps(segment + 48));
                r = _mm512_mask_mov_ps(r, _mm512_test_epi32_mask(place, _mm512_set1_epi32(32)), upper);
            }
            /* r ^ (place << shift & sign bit) */
            r = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
                _mm512_castps_si512(r), _mm512_sll_epi32(place, _mm_cvtsi32_si128((int)sign_shift)), sign_bit, 0x78));
            sum = k ? _mm512_add_ps(sum, r) : r;
        }
        const __m512 limit = _mm512_set1_ps(NAME(below)((double)s->limit / phi->scale));
        unsigned bits = V_GT_BITS(absolute ? V_ABS(sum) : sum, limit);
        if (!SHORE_UNLIKELY(bits)) continue;
        REAL out[SHORE_TILE];
        V_STORE(out, sum);
        for (; bits; bits &= bits - 1) {
            const int lane = shore_lowest_bit(bits);
            if (first + lane < phi->n_outputs) NAME(offer)(o, s, first + lane, out[lane] * scale);
        }
    }
}

static int NAME(signs_row)(const shore_decode_options *o, NAME(row_state) *s, int absolute) {
    if (!ONE_ROW_IS_CHEAP(o->phi)) return 0;
    if (o->phi->pad == 32)
        NAME(signs_row_in_lanes)(o, s, 1, absolute);
    else
        NAME(signs_row_in_lanes)(o, s, 2, absolute);
    return 1;
}
#else
#define ONE_ROW_IS_CHEAP(phi) 0
static int NAME(signs_row)(const shore_decode_options *o, NAME(row_state) *s, int absolute) { return 0; }
#endif

#define ASK 64

/* One row, a few outputs at a time. */
static void NAME(pass_one)(const shore_decode_options *o, NAME(row_state) *s, const int64_t *list, int64_t n) {
    const int absolute = shore_is_absolute(o->constraint);
    if (!list && o->phi->kind == SHORE_SIGNS && NAME(signs_row)(o, s, absolute)) return;
    int64_t outputs[ASK];
    REAL g[ASK];
    for (int64_t start = 0; start < n; start += ASK) {
        const int64_t size = start + ASK < n ? ASK : n - start;
        for (int64_t i = 0; i < size; i++) outputs[i] = list ? list[start + i] : start + i;
        NAME(dots)(o->phi, outputs, size, s->r, g);
        for (int64_t i = 0; i < size; i++)
            if ((absolute ? V_SIZE(g[i]) : g[i]) > s->limit) NAME(offer)(o, s, outputs[i], g[i]);
    }
}

/* ---------------------------------------------------------------- */

/* Rows that are passed over one by one rather than in a block. */
SHORE_INLINE int64_t NAME(few_rows)(const shore_compression *phi) { return ONE_ROW_IS_CHEAP(phi) ? 4 : 2; }

static void NAME(full_pass)(NAME(pass) *p) {
    const shore_decode_options *o = p->options;
    const shore_support *permit = &p->rows[0]->permit;
    const int own_lists = !p->list && permit->list && permit->list_allows;
    for (int64_t i = 0; i < p->n_rows; i++) NAME(begin_pass)(o, p->rows[i]);
    if (own_lists)
        for (int64_t i = 0; i < p->n_rows; i++) {
            permit = &p->rows[i]->permit;
            NAME(pass_one)(o, p->rows[i], permit->list, permit->n_list);
        }
    else if (p->n_rows <= NAME(few_rows)(o->phi))
        for (int64_t i = 0; i < p->n_rows; i++) NAME(pass_one)(o, p->rows[i], p->list, p->n_outputs);
    else if (o->phi->kind == SHORE_DENSE)
        NAME(dense_pass)(p, shore_is_absolute(o->constraint));
    else
        NAME(signs_pass)(p, shore_is_absolute(o->constraint));
    for (int64_t i = 0; i < p->n_rows; i++) NAME(end_pass)(o, p->rows[i]);
}

#undef ASK
#undef ONE_ROW_IS_CHEAP
