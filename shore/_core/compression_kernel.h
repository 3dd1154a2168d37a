/* Template (see multiversion.h): products with Φ outside the decode engine. */

/* out := Σ_e value_e φ_{output_e}, one compressed row */
static void NAME(shore_compress_row)(const shore_compression *phi, const REAL *value, const void *output, int wide,
                                     int64_t n, REAL *out) {
    const int64_t m = phi->n_components;
    memset(out, 0, sizeof(REAL) * (size_t)m);
    for (int64_t e = 0; e < n; e++) {
        const int64_t j = wide ? ((const int64_t *)output)[e] : ((const int32_t *)output)[e];
        if (phi->kind == SHORE_DENSE) {
            const REAL *column = (const REAL *)phi->columns + j * m, y = value[e];
            for (int64_t i = 0; i < m; i++) out[i] += column[i] * y;
            continue;
        }
        int owns;
        const int64_t t = shore_number(phi, j, &owns);
        if (owns) {
            out[t] += value[e];
            continue;
        }
        const REAL y = value[e] * (REAL)phi->scale;
        for (int64_t k = 0; k < phi->nnz; k++) {
            int negative;
            const int64_t row = shore_place_row(phi, shore_place(phi, t, k), &negative);
            out[row] += negative ? -y : y;
        }
    }
}

/* A column in 8 bits: φ ≈ *scale · out. Returns ‖φ - *scale · out‖₂. */
static double NAME(shore_coarse_column)(const REAL *column, int64_t m, int8_t *out, float *scale, int32_t *offset) {
    double largest = 0, lost = 0;
    int32_t sum = 0;
    for (int64_t i = 0; i < m; i++) largest = fmax(largest, fabs((double)column[i]));
    *scale = (float)(largest / 127);
    const double unit = *scale;
    for (int64_t i = 0; i < m; i++) {
        double q = unit > 0 ? rint((double)column[i] / unit) : 0;
        q = q > 127 ? 127 : q < -127 ? -127 : q;
        const double rest = (double)column[i] - q * unit;
        lost += rest * rest;
        out[i] = (int8_t)q;
        sum += (int32_t)q;
    }
    *offset = -128 * sum;
    return sqrt(lost);
}

/* out := Φᵀr for sparse signs; `signed_r` is room for the signed residual */
static void NAME(shore_correlate_row)(const shore_compression *phi, const REAL *r, REAL *signed_r, REAL *out) {
    for (int64_t k = 0; k < phi->nnz; k++) {
        REAL *plus = signed_r + k * 2 * phi->pad, *minus = plus + phi->pad;
        const int64_t first = phi->starts[k], size = phi->starts[k + 1] - first;
        for (int64_t i = 0; i < size; i++) {
            plus[i] = r[first + i];
            minus[i] = -r[first + i];
        }
    }
    for (int64_t j = 0, head = 0; j < phi->n_outputs; j++) {
        if (head < phi->n_head && phi->head_outputs[head] == j) {
            out[j] = r[head++];
            continue;
        }
        const int64_t t = j - head;
        REAL sum = signed_r[shore_place(phi, t, 0)];
        for (int64_t k = 1; k < phi->nnz; k++) sum += signed_r[shore_place(phi, t, k)];
        out[j] = sum * (REAL)phi->scale;
    }
}
