/* Template part of full_pass.h: the coarse pass of a dense Φ.
 *
 * Residuals and columns are rounded to 8 bits, and one instruction multiplies and adds four of them in every lane
 * (AVX-512 VNNI: unsigned times signed, so residuals are shifted by 128 and the sums start at the column's
 * offset). By Cauchy-Schwarz, with r = r̂ + ρ and φ = φ̂ + σ, the numbers are off by at most
 * ‖φ‖ ‖ρ‖ + ‖σ‖ ‖r̂‖.
 */
#if defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512

/* sum += r · phi in fours. In assembly because GCC moves the sums of the intrinsic from register to register. */
#define SHORE_DPBUSD(sum, r, phi) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(r), "v"(phi))

/* At most the limit, as float, the products that it is compared with being rounded too. */
SHORE_INLINE float NAME(limit_coarse)(double limit) { return (float)(limit - fabs(limit) * 1e-6 - 1e-30); }

/* One output's sums for all rows. */
static SHORE_NOINLINE void NAME(offer_coarse_output)(NAME(pass) *p, int64_t j, const int32_t *sums, float *limits,
                                                     int absolute) {
    const float scale = p->options->phi->coarse_scale[j];
    for (int64_t row = 0; row < p->n_rows; row++) {
        const float g = (float)sums[row] * scale;
        if (!((absolute ? fabsf(g) : g) > limits[row])) continue;
        NAME(row_state) *s = p->rows[row];
        NAME(offer_coarse)(p->options, s, j, (double)sums[row] * (double)scale * p->unit[row]);
        limits[row] = s->failed ? INFINITY : NAME(limit_coarse)(s->limit / p->unit[row]);
    }
}

SHORE_INLINE void NAME(coarse_block)(NAME(pass) *p, float *limits, const int vectors, const int absolute) {
    const shore_compression *phi = p->options->phi;
    const int64_t stride = phi->coarse_stride, lanes = 16 * (int64_t)vectors;
    __m512 limit[DENSE_VECTORS];
    for (int v = 0; v < vectors; v++) limit[v] = _mm512_loadu_ps(limits + 16 * v);
    for (int64_t start = 0; start < p->n_outputs; start += DENSE_OUTPUTS) {
        int64_t j[DENSE_OUTPUTS];
        const int8_t *c[DENSE_OUTPUTS];
        __m512i sum[DENSE_OUTPUTS][DENSE_VECTORS];
        for (int64_t o = 0; o < DENSE_OUTPUTS; o++) {
            j[o] = NAME(pass_output)(p, start + o < p->n_outputs ? start + o : p->n_outputs - 1);
            c[o] = phi->coarse + j[o] * stride;
            for (int v = 0; v < vectors; v++) sum[o][v] = _mm512_set1_epi32(phi->coarse_offset[j[o]]);
        }
        const uint8_t *r = p->block;
        for (int64_t i = 0; i < stride; i += 4, r += 4 * lanes) {
            __m512i four_rows[DENSE_VECTORS];
            for (int v = 0; v < vectors; v++) four_rows[v] = _mm512_loadu_si512(r + 64 * v);
            for (int o = 0; o < DENSE_OUTPUTS; o++) {
                int32_t four;
                memcpy(&four, c[o] + i, 4);
                const __m512i phi_ij = _mm512_set1_epi32(four);
                for (int v = 0; v < vectors; v++)
                    SHORE_DPBUSD(sum[o][v], four_rows[v], phi_ij);
            }
        }
        unsigned any = 0;
        for (int o = 0; o < DENSE_OUTPUTS; o++) {
            const __m512 scale = _mm512_set1_ps(phi->coarse_scale[j[o]]);
            for (int v = 0; v < vectors; v++) {
                const __m512 g = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[o][v]), scale);
                any |= _mm512_cmp_ps_mask(absolute ? _mm512_abs_ps(g) : g, limit[v], _CMP_GT_OQ);
            }
        }
        if (!SHORE_UNLIKELY(any)) continue;
        int32_t out[DENSE_OUTPUTS][16 * DENSE_VECTORS]; /* a copy, so that the sums can stay in registers */
        for (int o = 0; o < DENSE_OUTPUTS; o++)
            for (int v = 0; v < vectors; v++) _mm512_storeu_si512(out[o] + 16 * v, sum[o][v]);
        for (int64_t o = 0; o < DENSE_OUTPUTS && start + o < p->n_outputs; o++)
            NAME(offer_coarse_output)(p, j[o], out[o], limits, absolute);
        for (int v = 0; v < vectors; v++) limit[v] = _mm512_loadu_ps(limits + 16 * v);
    }
}

#define COARSE_BLOCK(vectors)                                                                                 \
    static SHORE_NOINLINE void NAME(coarse_block_##vectors)(NAME(pass) * p, float *limits, int absolute) {                   \
        if (absolute)                                                                                         \
            NAME(coarse_block)(p, limits, vectors, 1);                                                        \
        else                                                                                                  \
            NAME(coarse_block)(p, limits, vectors, 0);                                                        \
    }
COARSE_BLOCK(1)
COARSE_BLOCK(2)
COARSE_BLOCK(3)
#undef COARSE_BLOCK

/* The row's residual in 8 bits into its lane. Returns the limit. */
static float NAME(pack_coarse)(NAME(pass) *p, int64_t lane, int64_t lanes) {
    const shore_compression *phi = p->options->phi;
    const int64_t m = phi->n_components;
    NAME(row_state) *s = p->rows[lane];
    uint8_t *block = (uint8_t *)p->block + 4 * lane;
    const double largest = NAME(largest)(s->r, m), inverse = 127 / largest, unit = largest / 127;
    if (!(largest > 0 && inverse <= DBL_MAX)) { /* r = 0, or too small to scale */
        s->failed = 1;
        return INFINITY;
    }
    double lost[4] = {0}, kept[4] = {0};
    for (int64_t i = 0; i < phi->coarse_stride; i += 4) {
        uint8_t four[4];
        for (int l = 0; l < 4; l++) {
            const double r = i + l < m ? (double)s->r[i + l] : 0, scaled = r * inverse;
            const int q = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
            const double rounded = q * unit, rest = r - rounded;
            kept[l] += rounded * rounded;
            lost[l] += rest * rest;
            four[l] = (uint8_t)(q + 128);
        }
        memcpy(block + i * lanes, four, 4);
    }
    p->unit[lane] = unit;
    const double error = phi->max_norm * sqrt((lost[0] + lost[1]) + (lost[2] + lost[3])) +
                         phi->coarse_error * sqrt((kept[0] + kept[1]) + (kept[2] + kept[3]));
    s->error = error * (1 + 1e-6) + NAME(rounding)(phi, s->norm_r);
    NAME(set_limit)(s);
    return NAME(limit_coarse)(s->limit / unit);
}

/* 0 where there is no coarse copy of Φ. */
static int NAME(dense_pass_coarse)(NAME(pass) *p, int absolute) {
    if (!p->options->phi->coarse) return 0;
    const int vectors = (int)((p->n_rows + 15) / 16);
    const int64_t lanes = 16 * (int64_t)vectors;
    float limits[16 * DENSE_VECTORS];
    for (int64_t lane = 0; lane < lanes; lane++)
        limits[lane] = lane < p->n_rows ? NAME(pack_coarse)(p, lane, lanes) : INFINITY;
    if (vectors == 1)
        NAME(coarse_block_1)(p, limits, absolute);
    else if (vectors == 2)
        NAME(coarse_block_2)(p, limits, absolute);
    else
        NAME(coarse_block_3)(p, limits, absolute);
    return 1;
}
#undef SHORE_DPBUSD
#define COARSE_LANES 16

#else
#define COARSE_LANES 0
static int NAME(dense_pass_coarse)(NAME(pass) *p, int absolute) { return 0; }
#endif
