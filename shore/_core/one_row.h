/* Template part of full_pass.h: exact passes over one row. */

#if REAL_BITS == 32 && defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512
#define ONE_ROW_IS_CHEAP(phi) (phi->kind == SHORE_SIGNS && !phi->wide && phi->pad <= 128)

/* Sixteen outputs across the lanes. A segment of up to 128 residuals is looked up in registers: bits 0-4 of a place
 * select in a pair of them, bits 5 and 6 between the pairs (if pad is 64 or 128), the pad bit is the sign. */
SHORE_INLINE void NAME(signs_row_in_lanes)(const shore_decode_options *o, NAME(row_state) *s, const int pairs,
                                           const int absolute) {
    const shore_compression *phi = o->phi;
    const uint16_t *tables = phi->tables;
    const int64_t nnz = phi->nnz, pad = 32 * pairs;
    const REAL scale = (REAL)phi->scale;
    const unsigned sign_shift = pairs == 1 ? 26 : pairs == 2 ? 25 : 24;
    const __m512i sign_bit = _mm512_set1_epi32((int)0x80000000u);
    for (int64_t first = 0; first < phi->n_tail; first += SHORE_TILE) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t k = 0; k < nnz; k++) {
            const float *segment = s->r_signed + k * 2 * pad;
            const __m512i place =
                _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(tables + first * nnz + k * SHORE_TILE)));
            __m512 r = _mm512_permutex2var_ps(_mm512_loadu_ps(segment), place, _mm512_loadu_ps(segment + 16));
            for (int pair = 1; pair < pairs; pair++) {
                const float *at = segment + 32 * pair;
                const __mmask16 here = _mm512_cmpeq_epi32_mask(
                    _mm512_and_si512(place, _mm512_set1_epi32(32 * (pairs - 1))), _mm512_set1_epi32(32 * pair));
                r = _mm512_mask_mov_ps(r, here, _mm512_permutex2var_ps(_mm512_loadu_ps(at), place, _mm512_loadu_ps(at + 16)));
            }
            /* r ^ (place << shift & sign bit) */
            r = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
                _mm512_castps_si512(r), _mm512_sll_epi32(place, _mm_cvtsi32_si128((int)sign_shift)), sign_bit, 0x78));
            sum = k ? _mm512_add_ps(sum, r) : r;
        }
        const __m512 limit = _mm512_set1_ps((float)(s->limit / phi->scale * (1 - 1e-6 * (s->limit < 0 ? -1 : 1)) - 1e-38));
        unsigned bits = V_GT_BITS(absolute ? V_ABS(sum) : sum, limit);
        if (!SHORE_UNLIKELY(bits)) continue;
        REAL out[SHORE_TILE];
        V_STORE(out, sum);
        for (; bits; bits &= bits - 1) {
            const int lane = shore_lowest_bit(bits);
            if (first + lane < phi->n_tail)
                NAME(offer)(o, s, shore_tail_output(phi, first + lane), out[lane] * scale);
        }
    }
}

static int NAME(signs_row)(const shore_decode_options *o, NAME(row_state) *s, int absolute) {
    if (!ONE_ROW_IS_CHEAP(o->phi)) return 0;
    NAME(offer_heads)(o, s, absolute, 0);
    if (o->phi->pad == 32)
        NAME(signs_row_in_lanes)(o, s, 1, absolute);
    else if (o->phi->pad == 64)
        NAME(signs_row_in_lanes)(o, s, 2, absolute);
    else
        NAME(signs_row_in_lanes)(o, s, 4, absolute);
    return 1;
}
#else
#define ONE_ROW_IS_CHEAP(phi) 0
static int NAME(signs_row)(const shore_decode_options *o, NAME(row_state) *s, int absolute) { return 0; }
#endif

#define ASK 64

/* One row, a few outputs at a time. */
static void NAME(pass_one)(const shore_decode_options *o, NAME(row_state) *s, const int64_t *list, int64_t n) {
    const int absolute = shore_is_absolute(o->search);
    if (!list && o->phi->kind == SHORE_SIGNS && NAME(signs_row)(o, s, absolute)) return;
    int64_t outputs[ASK];
    REAL g[ASK];
    for (int64_t start = 0; start < n; start += ASK) {
        const int64_t size = start + ASK < n ? ASK : n - start;
        for (int64_t i = 0; i < size; i++) outputs[i] = list ? list[start + i] : start + i;
        NAME(dots)(o->phi, outputs, size, s, g);
        for (int64_t i = 0; i < size; i++)
            if ((double)(absolute ? V_SIZE(g[i]) : g[i]) > s->limit) NAME(offer)(o, s, outputs[i], g[i]);
    }
}

/* Rows that are passed over one by one rather than in a block. */
SHORE_INLINE int64_t NAME(few_rows)(const shore_compression *phi) { return ONE_ROW_IS_CHEAP(phi) ? 4 : 2; }

#undef ASK
#undef ONE_ROW_IS_CHEAP
