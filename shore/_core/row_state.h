/* Template part of decode_kernel.h: one row in work. All of Algorithm 2 but the full pass.
 *
 * An iteration has two halves. First every output makes its offer, v_j + step·φ_jᵀr, and the best s are found:
 * by a full pass (full_pass.h offers all K outputs), or screened (below: support and noted outputs offer, and a
 * certificate says that nobody else could have won). Then take_step projects, computes the new residual and
 * decides whether the row is done.
 *
 * Numbers φ_jᵀr are computed in one order of additions on every path, so all paths give the same bits. What
 * follows from them (offers, values, norms) is computed in double for both dtypes.
 */

typedef struct {
    int64_t *index; /* sorted */
    double *value;
    int64_t size;
} NAME(sparse_vector);

typedef struct {
    int64_t row;
    const REAL *b;        /* (m,) */
    shore_support permit; /* outputs this row may use */
    REAL *r;              /* (m,) b - Φv */
    REAL *r_signed;       /* the same for sparse signs, in the layout of compression.h */
    REAL *r_noted;        /* r at the last pass that noted */
    NAME(sparse_vector) v, v_1, v_2; /* v⁽ᵗ⁾ and the two before */
    shore_topk top;       /* the best offers of this iteration */
    int64_t *noted; /* outputs that a pass found: afterwards, all with φ_jᵀr_noted > beta */
    double *noted_g;
    int64_t n_noted, n_exact; /* the first n_exact have exact numbers, the others a coarse pass's */
    int64_t *asked; /* outputs whose φ_jᵀr is wanted, and the answers */
    REAL *answer;
    double beta, limit; /* in a pass: a number φ_jᵀr that is not above the limit (in size) is of no interest */
    double error;       /* of the numbers of a coarse pass */
    int noting, certifying, failed;
    double step, norm_b, norm_r, norm_r_noted, divergence;
    int64_t n_iter, full_passes, halvings;
    int converged;
} NAME(row_state);

/* ---------------------------------------------------------------- φ_jᵀr */

SHORE_INLINE REAL NAME(signs_dot)(const shore_compression *phi, int64_t j, const REAL *r) {
    REAL sum = r[shore_place(phi, j, 0)];
    for (int64_t k = 1; k < phi->nnz; k++) sum += r[shore_place(phi, j, k)];
    return sum * (REAL)phi->scale;
}

/* Eight columns at once: eight chains of additions hide each other's latency. */
static void NAME(dense_dots)(const shore_compression *phi, const int64_t *j, int64_t n, const REAL *r, REAL *out) {
    const int64_t m = phi->n_components;
    const REAL *columns = phi->columns;
    for (int64_t start = 0; start < n; start += 8) {
        const REAL *c[8];
        REAL sum[8] = {0};
        for (int64_t o = 0; o < 8; o++) c[o] = columns + j[start + o < n ? start + o : n - 1] * m;
        for (int64_t i = 0; i < m; i++)
            for (int o = 0; o < 8; o++) sum[o] = FMA(c[o][i], r[i], sum[o]);
        for (int64_t o = 0; o < 8 && start + o < n; o++) out[start + o] = sum[o];
    }
}

/* out := φ_jᵀr for the listed outputs */
static void NAME(dots)(const shore_compression *phi, const int64_t *j, int64_t n, const NAME(row_state) *s, REAL *out) {
    if (phi->kind == SHORE_DENSE) {
        NAME(dense_dots)(phi, j, n, s->r, out);
        return;
    }
    for (int64_t o = 0; o < n; o++) out[o] = NAME(signs_dot)(phi, j[o], s->r_signed);
}

/* ---------------------------------------------------------------- norms, in double, in one fixed order */

static double NAME(scaled_norm)(const REAL *x, int64_t n) {
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)x[i]));
    if (!(largest > 0 && largest <= DBL_MAX)) return largest;
    for (int64_t i = 0; i < n; i++) sum += ((double)x[i] / largest) * ((double)x[i] / largest);
    return largest * sqrt(sum);
}

static double NAME(norm)(const REAL *x, int64_t n) {
    double sum[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) sum[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < n; i++, l++) sum[l] += (double)x[i] * (double)x[i];
    const double total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    if (SHORE_UNLIKELY(total < 1e-280 || total > 1e280)) return NAME(scaled_norm)(x, n);
    return sqrt(total);
}

/* At least ‖x - y‖: where squares vanish, a bound. */
static double NAME(distance)(const REAL *x, const REAL *y, int64_t n) {
    double sum[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) {
            const double d = (double)x[i + l] - (double)y[i + l];
            sum[l] += d * d;
        }
    for (int l = 0; i < n; i++, l++) {
        const double d = (double)x[i] - (double)y[i];
        sum[l] += d * d;
    }
    const double total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    return sqrt(total) + (total < 1e-280 ? 1e-140 * sqrt((double)n) : 0);
}

/* ---------------------------------------------------------------- the residual */

/* r := b */
static void NAME(load_b)(const shore_compression *phi, NAME(row_state) *s) {
    memcpy(s->r, s->b, sizeof(REAL) * (size_t)phi->n_components);
    if (phi->kind == SHORE_DENSE) return;
    for (int64_t k = 0; k < phi->nnz; k++) {
        const REAL *b = s->b + phi->starts[k];
        REAL *plus = s->r_signed + (k << phi->shift), *minus = plus + phi->pad;
        const int64_t size = phi->starts[k + 1] - phi->starts[k];
        for (int64_t i = 0; i < size; i++) {
            plus[i] = b[i];
            minus[i] = -b[i];
        }
    }
}

#define SHORE_STRIP 64

static void NAME(set_residual_dense)(const shore_compression *phi, NAME(row_state) *s) {
    const int64_t m = phi->n_components;
    const REAL *columns = phi->columns;
    for (int64_t start = 0; start < m; start += SHORE_STRIP) {
        const int64_t size = start + SHORE_STRIP < m ? SHORE_STRIP : m - start;
        double sum[SHORE_STRIP];
        for (int64_t i = 0; i < size; i++) sum[i] = s->b[start + i];
        for (int64_t e = 0; e < s->v.size; e++) {
            const REAL *column = columns + s->v.index[e] * m + start;
            const double value = s->v.value[e];
            for (int64_t i = 0; i < size; i++) sum[i] -= (double)column[i] * value;
        }
        for (int64_t i = 0; i < size; i++) s->r[start + i] = (REAL)sum[i];
    }
}

#undef SHORE_STRIP

/* Column j of sparse signs: r := b in its rows, or r := r - value there, by the sign of the entry. */
SHORE_INLINE void NAME(touch_rows)(const shore_compression *phi, NAME(row_state) *s, int64_t j, double value,
                                   const int reset, const int wide) {
    const int64_t nnz = phi->nnz, pad = phi->pad, *starts = phi->starts;
    const int64_t first = j / SHORE_TILE * nnz * SHORE_TILE + j % SHORE_TILE;
    const uint16_t *narrow_tables = (const uint16_t *)phi->tables + first;
    const uint32_t *wide_tables = (const uint32_t *)phi->tables + first;
    const REAL *b = s->b;
    REAL *r = s->r, *plus = s->r_signed, *minus = s->r_signed + pad;
    for (int64_t k = 0; k < nnz; k++) {
        const int64_t place = wide ? (int64_t)wide_tables[k * SHORE_TILE] : (int64_t)narrow_tables[k * SHORE_TILE];
        const int64_t row = starts[k] + (place & (pad - 1)), at = place & ~pad;
        const REAL moved = reset ? b[row] : (REAL)((double)r[row] - (place & pad ? -value : value));
        r[row] = moved;
        plus[at] = moved;
        minus[at] = -moved;
    }
}

/* r differs from b only in the rows that the columns of the support touch. */
static void NAME(set_residual_signs)(const shore_compression *phi, NAME(row_state) *s) {
    for (int64_t e = 0; e < s->v_1.size; e++)
        if (phi->wide)
            NAME(touch_rows)(phi, s, s->v_1.index[e], 0, 1, 1);
        else
            NAME(touch_rows)(phi, s, s->v_1.index[e], 0, 1, 0);
    for (int64_t e = 0; e < s->v.size; e++) {
        const double value = s->v.value[e] * phi->scale;
        if (phi->wide)
            NAME(touch_rows)(phi, s, s->v.index[e], value, 0, 1);
        else
            NAME(touch_rows)(phi, s, s->v.index[e], value, 0, 0);
    }
}

/* r := b - Φv, where before it was b - Φv_1 */
static void NAME(set_residual)(const shore_compression *phi, NAME(row_state) *s) {
    if (phi->kind == SHORE_DENSE)
        NAME(set_residual_dense)(phi, s);
    else
        NAME(set_residual_signs)(phi, s);
    s->norm_r = NAME(norm)(s->r, phi->n_components);
}

/* ---------------------------------------------------------------- offers */

SHORE_INLINE int NAME(in_support)(const NAME(row_state) *s, int64_t j) {
    int64_t low = 0, high = s->v.size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (s->v.index[middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->v.size && s->v.index[low] == j;
}

/* What a pass looks for: numbers above half of what the s-th best offer takes where it notes, else above that. */
static void NAME(set_limit)(NAME(row_state) *s) {
    const double threshold = shore_topk_threshold(&s->top) / s->step;
    s->beta = s->noting && threshold > 0 ? 0.5 * threshold : threshold;
    s->limit = s->beta - fabs(s->beta) * 1e-12 - s->error;
}

/* Drops what was found but is not above the limit any more. */
static void NAME(thin)(NAME(row_state) *s, int absolute) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n_noted; i++) {
        if (!((absolute ? fabs(s->noted_g[i]) : s->noted_g[i]) > s->limit)) continue;
        s->noted[kept] = s->noted[i];
        s->noted_g[kept++] = s->noted_g[i];
    }
    s->n_noted = kept;
}

/* Room for one more found output: if thinning does not make it, the row stops noting; and if that is not enough,
 * far too many outputs are as good as the s-th best, and it fails. */
static int NAME(make_room)(NAME(row_state) *s, int absolute, int64_t capacity) {
    if (s->n_noted < capacity) return 1;
    NAME(thin)(s, absolute);
    if (s->n_noted > capacity / 2) {
        s->noting = 0;
        NAME(set_limit)(s);
        NAME(thin)(s, absolute);
    }
    if (s->n_noted > capacity / 2) s->failed = 1;
    return !s->failed;
}

/* Output j, in an exact pass, with g = φ_jᵀr above the row's limit. */
static void NAME(offer)(const shore_decode_options *o, NAME(row_state) *s, int64_t j, REAL g) {
    const double v = s->step * (double)g, key = shore_key(o->constraint, v);
    if (NAME(in_support)(s, j) || !shore_permits(&s->permit, j)) return;
    if (s->noting && NAME(make_room)(s, shore_is_absolute(o->constraint), shore_note_capacity(o->sparsity)) &&
        s->noting) {
        s->noted[s->n_noted] = j;
        s->noted_g[s->n_noted++] = g;
    }
    shore_topk_push(&s->top, key, v, j);
    NAME(set_limit)(s);
}

/* The first n asked outputs offer v_j + step·φ_jᵀr; the support stands first among them. */
static void NAME(offer_answers)(const shore_decode_options *o, NAME(row_state) *s, int64_t n) {
    shore_topk_reset(&s->top, shore_floor(o->constraint));
    for (int64_t e = 0; e < n; e++) {
        const double v = (e < s->v.size ? s->v.value[e] : 0.0) + s->step * (double)s->answer[e];
        shore_topk_push(&s->top, shore_key(o->constraint, v), v, s->asked[e]);
    }
}

/* The support offers, and with `with_noted` the noted outputs outside it. */
static void NAME(offer_known)(const shore_decode_options *o, NAME(row_state) *s, int with_noted) {
    int64_t n = s->v.size;
    memcpy(s->asked, s->v.index, sizeof(int64_t) * (size_t)n);
    if (with_noted)
        for (int64_t i = 0; i < s->n_noted; i++)
            if (!NAME(in_support)(s, s->noted[i])) s->asked[n++] = s->noted[i];
    NAME(dots)(o->phi, s->asked, n, s, s->answer);
    NAME(offer_answers)(o, s, n);
}

/* A bound on the error of a computed φ_jᵀr: N·u/(1 - N·u)·‖φ_j‖·‖r‖ for N terms and unit roundoff u, and what is lost
 * of N products that leave the normal range. */
SHORE_INLINE double NAME(rounding)(const shore_compression *phi, double norm_r) {
    const double unit = REAL_BITS == 32 ? 0x1p-24 : 0x1p-53, tiny = REAL_BITS == 32 ? 0x1p-149 : 0x1p-1074;
    const double n = (double)(phi->n_terms + 4), terms = n * unit;
    return terms < 0.5 ? terms / (1 - terms) * phi->max_norm * norm_r + n * tiny : INFINITY;
}

/* Whether support and noted outputs decide this iteration. An output that was not noted has, computed at r_noted,
 * g ≤ beta, so by Cauchy-Schwarz its computed g is now at most
 *     beta + ‖φ_j‖ ‖r - r_noted‖ + error(r) + error(r_noted). */
static int NAME(screen)(const shore_decode_options *o, NAME(row_state) *s) {
    const shore_compression *phi = o->phi;
    if (!s->certifying) return 0;
    const double moved = NAME(distance)(s->r, s->r_noted, phi->n_components);
    const double error = NAME(rounding)(phi, s->norm_r) + NAME(rounding)(phi, s->norm_r_noted);
    const double exact = (s->beta + phi->max_norm * moved + error) * s->step, bound = exact + fabs(exact) * 1e-9;
    NAME(offer_known)(o, s, 1);
    /* strictly below: at equality an output of lower index would win the tie */
    return bound < shore_topk_threshold(&s->top);
}

/* What a coarse pass has found since it was last resolved offers exactly. */
static void NAME(resolve)(const shore_decode_options *o, NAME(row_state) *s) {
    const int64_t n = s->v.size, fresh = s->n_noted - s->n_exact;
    REAL *answer = s->answer + n;
    NAME(dots)(o->phi, s->noted + s->n_exact, fresh, s, answer);
    for (int64_t i = 0; i < fresh; i++) s->noted_g[s->n_exact + i] = answer[i];
    NAME(offer_answers)(o, s, n);
    for (int64_t i = 0; i < s->n_noted; i++) {
        const double v = s->step * s->noted_g[i];
        shore_topk_push(&s->top, shore_key(o->constraint, v), v, s->noted[i]);
    }
    const double error = s->error;
    s->error = 0; /* of what is found so far */
    NAME(set_limit)(s);
    NAME(thin)(s, shore_is_absolute(o->constraint));
    s->n_exact = s->n_noted;
    s->error = error;
    NAME(set_limit)(s);
}

/* Output j, in a coarse pass, with a φ_jᵀr that is within the row's error of g, and g above the limit. Until it
 * offers exactly, the list of best offers takes the least that it may offer. */
static void NAME(offer_coarse)(const shore_decode_options *o, NAME(row_state) *s, int64_t j, double g) {
    const shore_constraint *c = o->constraint;
    const int absolute = shore_is_absolute(c);
    if (s->failed || NAME(in_support)(s, j) || !shore_permits(&s->permit, j)) return;
    s->noted[s->n_noted] = j;
    s->noted_g[s->n_noted++] = g;
    const double size = absolute ? fabs(g) - s->error : g - s->error;
    const double v = s->step * (!absolute ? size : size > 0 ? copysign(size, g) : 0);
    shore_topk_push(&s->top, shore_key(c, v), v, j);
    if (s->n_noted - s->n_exact == SHORE_RESOLVE) {
        NAME(resolve)(o, s);
        const int64_t room = shore_note_capacity(o->sparsity) - SHORE_RESOLVE;
        if (s->n_noted > room) {
            s->noting = 0;
            NAME(resolve)(o, s);
            s->failed = s->n_noted > room;
        }
    }
    NAME(set_limit)(s);
}

/* Before a pass: the support has offered, and what to look for is set. */
static void NAME(begin_pass)(const shore_decode_options *o, NAME(row_state) *s) {
    NAME(offer_known)(o, s, 0);
    s->noting = o->screening && s->v.size > 0;
    s->n_noted = s->n_exact = s->failed = 0;
    s->error = 0;
    NAME(set_limit)(s);
}

/* After any pass: noted are the support, and outside it the outputs with φ_jᵀr above beta, half of what the s-th
 * best offer took. */
static void NAME(end_pass)(const shore_decode_options *o, NAME(row_state) *s) {
    s->full_passes++;
    s->certifying = s->noting;
    if (!s->certifying) return;
    s->error = 0;
    NAME(set_limit)(s);
    NAME(thin)(s, shore_is_absolute(o->constraint));
    /* the support did not pass by: whoever leaves it later must be among the noted */
    for (int64_t e = 0; e < s->v.size; e++) {
        s->noted[s->n_noted] = s->v.index[e];
        s->noted_g[s->n_noted++] = INFINITY;
    }
    memcpy(s->r_noted, s->r, sizeof(REAL) * (size_t)o->phi->n_components);
    s->norm_r_noted = s->norm_r;
}

/* ---------------------------------------------------------------- steps */

static void NAME(restart)(const shore_decode_options *o, NAME(row_state) *s) {
    s->v.size = s->v_1.size = s->v_2.size = 0;
    s->n_iter = 0;
    s->converged = s->certifying = 0;
    NAME(load_b)(o->phi, s);
    s->norm_r = s->norm_b;
}

static void NAME(begin_row)(const shore_decode_options *o, NAME(row_state) *s, int64_t row, const REAL *b,
                            const shore_support *permit) {
    s->row = row;
    s->b = b;
    s->permit = *permit;
    s->step = o->step;
    s->full_passes = s->halvings = 0;
    s->norm_b = NAME(norm)(b, o->phi->n_components);
    s->divergence = 10 * s->norm_b;
    if (o->constraint->kind == SHORE_SIMPLEX) { /* feasible points themselves are that far from a small b */
        const double reach = 10 * o->phi->max_norm * o->constraint->total;
        if (reach > s->divergence) s->divergence = reach;
    }
    NAME(restart)(o, s);
}

/* ‖a - b‖₂ of two sparse vectors */
static double NAME(change)(const NAME(sparse_vector) *a, const NAME(sparse_vector) *b) {
    double sum = 0;
    int64_t i = 0, k = 0;
    while (i < a->size || k < b->size) {
        double d;
        if (k == b->size || (i < a->size && a->index[i] < b->index[k]))
            d = a->value[i++];
        else if (i == a->size || b->index[k] < a->index[i])
            d = b->value[k++];
        else
            d = a->value[i++] - b->value[k++];
        sum += d * d;
    }
    return sqrt(sum);
}

static int NAME(equal)(const NAME(sparse_vector) *a, const NAME(sparse_vector) *b) {
    if (a->size != b->size) return 0;
    for (int64_t i = 0; i < a->size; i++)
        if (a->index[i] != b->index[i] || a->value[i] != b->value[i]) return 0;
    return 1;
}

static double NAME(length)(const NAME(sparse_vector) *a) {
    double sum = 0;
    for (int64_t i = 0; i < a->size; i++) sum += a->value[i] * a->value[i];
    return sqrt(sum);
}

/* v⁽ᵗ⁺¹⁾ := Π(offers), r := b - Φv⁽ᵗ⁺¹⁾. Returns 1 when the row is done. */
static int NAME(take_step)(const shore_decode_options *o, NAME(row_state) *s) {
    shore_settle(&s->top, o->constraint);
    const NAME(sparse_vector) oldest = s->v_2;
    s->v_2 = s->v_1;
    s->v_1 = s->v;
    s->v = oldest;
    s->v.size = s->top.size;
    for (int64_t e = 0; e < s->top.size; e++) {
        s->v.index[e] = s->top.entries[e].index;
        s->v.value[e] = s->top.entries[e].value;
    }
    s->n_iter++;
    NAME(set_residual)(o->phi, s);

    if (SHORE_UNLIKELY(!(s->norm_r <= s->divergence))) { /* also when it is not a number */
        /* no step helps where φ_jᵀb itself overflows */
        const int hopeless = s->n_iter == 1 && s->step <= 1 && !(NAME(length)(&s->v) <= DBL_MAX);
        if (hopeless || s->halvings == SHORE_MAX_HALVINGS) {
            NAME(restart)(o, s);
            return 1;
        }
        s->halvings++;
        s->step *= 0.5;
        NAME(restart)(o, s);
        return 0;
    }
    s->converged = s->n_iter >= 2 && NAME(change)(&s->v, &s->v_2) <= o->tol * (0.01 + NAME(length)(&s->v));
    if (o->tol > 0 ? s->converged : NAME(equal)(&s->v, &s->v_1)) {
        if (o->tol <= 0) { /* a fixed point: the steps that are left change nothing */
            s->n_iter = o->max_iter;
            s->converged = 1;
        }
        return 1;
    }
    return s->n_iter >= o->max_iter;
}

/* Screened steps for as long as the certificate holds. Returns 1 when the row is done, 0 when it needs a pass. */
static int NAME(run)(const shore_decode_options *o, NAME(row_state) *s) {
    for (;;) {
        if (NAME(take_step)(o, s)) return 1;
        if (!NAME(screen)(o, s)) return 0;
    }
}
