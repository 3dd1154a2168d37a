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
    REAL *r;              /* (m,) b - Φv, or for sparse signs the signed residual */
    REAL *r_noted;        /* r at the last pass that noted */
    NAME(sparse_vector) v, v_1, v_2; /* v⁽ᵗ⁾ and the two before */
    shore_topk top;       /* the best offers of this iteration */
    int64_t *noted;       /* outputs with φ_jᵀr_noted > beta */
    REAL *noted_g;
    int64_t n_noted;
    int64_t *asked; /* outputs whose φ_jᵀr is wanted, and the answers */
    REAL *answer;
    double beta;
    int noting, certifying;
    REAL limit; /* in a pass: a number φ_jᵀr that is not above this (in size) is of no interest */
    double step, norm_b, norm_r, norm_r_noted, divergence;
    int64_t n_iter, full_passes, halvings;
    int converged;
} NAME(row_state);

/* ---------------------------------------------------------------- φ_jᵀr */

/* The signed residual of sparse signs and the plain one differ in layout only. */
SHORE_INLINE int64_t NAME(residual_size)(const shore_compression *phi) {
    return phi->kind == SHORE_SIGNS ? shore_signed_size(phi) : phi->n_components;
}

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
static void NAME(dots)(const shore_compression *phi, const int64_t *j, int64_t n, const REAL *r, REAL *out) {
    if (phi->kind == SHORE_DENSE) {
        NAME(dense_dots)(phi, j, n, r, out);
        return;
    }
    for (int64_t o = 0; o < n; o++) out[o] = NAME(signs_dot)(phi, j[o], r);
}

/* ---------------------------------------------------------------- norms, in double, in one fixed order */

static double NAME(norm)(const REAL *x, int64_t n) {
    double sum[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) sum[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < n; i++, l++) sum[l] += (double)x[i] * (double)x[i];
    return sqrt(((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])));
}

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
    return sqrt(((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])));
}

/* The signed residual holds every number twice. */
SHORE_INLINE double NAME(residual_scale)(const shore_compression *phi) {
    return phi->kind == SHORE_SIGNS ? 0.70710678118654752 : 1.0;
}

/* ---------------------------------------------------------------- the residual */

static void NAME(load_b)(const shore_compression *phi, NAME(row_state) *s) {
    if (phi->kind == SHORE_DENSE) {
        memcpy(s->r, s->b, sizeof(REAL) * (size_t)phi->n_components);
        return;
    }
    for (int64_t k = 0; k < phi->nnz; k++) {
        REAL *plus = s->r + k * 2 * phi->pad, *minus = plus + phi->pad;
        const int64_t first = phi->starts[k], size = phi->starts[k + 1] - first;
        for (int64_t i = 0; i < size; i++) {
            plus[i] = s->b[first + i];
            minus[i] = -s->b[first + i];
        }
    }
}

#define SHORE_STRIP 64

/* r := b - Φv */
static void NAME(set_residual)(const shore_compression *phi, NAME(row_state) *s) {
    const int64_t m = phi->n_components;
    if (phi->kind == SHORE_DENSE) {
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
    } else {
        NAME(load_b)(phi, s);
        for (int64_t e = 0; e < s->v.size; e++) {
            const double value = s->v.value[e] * phi->scale;
            for (int64_t k = 0; k < phi->nnz; k++) {
                /* the place of the entry's own sign holds sign·r: minus value there, plus at its mirror */
                const int64_t place = shore_place(phi, s->v.index[e], k), mirror = place ^ phi->pad;
                const REAL moved = (REAL)((double)s->r[place] - value);
                s->r[place] = moved;
                s->r[mirror] = -moved;
            }
        }
    }
    s->norm_r = NAME(norm)(s->r, NAME(residual_size)(phi)) * NAME(residual_scale)(phi);
}

#undef SHORE_STRIP

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

SHORE_INLINE REAL NAME(below)(double x) {
    /* a REAL that is surely not above x·(1 - a few roundings) */
    const double eps = REAL_BITS == 32 ? 0x1p-21 : 0x1p-50, tiny = REAL_BITS == 32 ? 0x1p-148 : 0x1p-1073;
    return (REAL)(x - fabs(x) * eps - tiny);
}

/* What a pass compares φ_jᵀr with: half of the s-th best offer where it notes, else that offer itself. */
static void NAME(set_limit)(NAME(row_state) *s) {
    const double threshold = shore_topk_threshold(&s->top) / s->step;
    if (s->noting) {
        s->beta = threshold > 0 ? 0.5 * threshold : threshold;
        s->limit = NAME(below)(s->beta);
    } else {
        s->limit = NAME(below)(threshold);
    }
}

/* The s-th best offer has risen: what was noted below the new half goes, and if too much stays, all goes. */
static void NAME(thin_notes)(NAME(row_state) *s, int absolute, int64_t capacity) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n_noted; i++) {
        const double g = absolute ? fabs((double)s->noted_g[i]) : (double)s->noted_g[i];
        if (!(g > s->beta)) continue;
        s->noted[kept] = s->noted[i];
        s->noted_g[kept++] = s->noted_g[i];
    }
    s->n_noted = kept;
    if (kept > capacity / 2) s->noting = 0;
}

/* Output j, in a pass, with g = φ_jᵀr above the row's limit. */
static void NAME(offer)(const shore_decode_options *o, NAME(row_state) *s, int64_t j, REAL g) {
    const shore_constraint *c = o->constraint;
    const double v = s->step * (double)g, key = shore_key(c, v);
    const int absolute = shore_is_absolute(c);
    const int note = s->noting && (absolute ? fabs((double)g) : (double)g) > s->beta;
    const double threshold = shore_topk_threshold(&s->top);
    if (!note && !(key >= threshold)) return;
    if (NAME(in_support)(s, j) || !shore_permits(&s->permit, j)) return;
    if (note) {
        const int64_t capacity = shore_note_capacity(o->sparsity);
        if (s->n_noted == capacity) NAME(thin_notes)(s, absolute, capacity);
        if (s->noting) {
            s->noted[s->n_noted] = j;
            s->noted_g[s->n_noted++] = g;
        }
    }
    if (key >= threshold) shore_topk_push(&s->top, key, v, j);
    NAME(set_limit)(s);
}

/* The offers of the support, v_j + step·φ_jᵀr, and with `with_noted` those of the noted outputs outside it. */
static void NAME(offer_known)(const shore_decode_options *o, NAME(row_state) *s, int with_noted) {
    int64_t n = s->v.size;
    memcpy(s->asked, s->v.index, sizeof(int64_t) * (size_t)n);
    if (with_noted)
        for (int64_t i = 0; i < s->n_noted; i++)
            if (!NAME(in_support)(s, s->noted[i])) s->asked[n++] = s->noted[i];
    NAME(dots)(o->phi, s->asked, n, s->r, s->answer);
    shore_topk_reset(&s->top, shore_floor(o->constraint));
    for (int64_t e = 0; e < n; e++) {
        const double v = (e < s->v.size ? s->v.value[e] : 0.0) + s->step * (double)s->answer[e];
        shore_topk_push(&s->top, shore_key(o->constraint, v), v, s->asked[e]);
    }
}

/* Whether support and noted outputs decide this iteration. An output that was not noted has, computed at r_noted,
 * g ≤ beta, so by Cauchy-Schwarz its computed g is now at most
 *     beta + ‖φ_j‖ ‖r - r_noted‖ + error(r) + error(r_noted),
 * the error of a computed sum of N products being at most N·u/(1 - N·u)·‖φ_j‖·‖r‖ (u the unit roundoff). */
static int NAME(screen)(const shore_decode_options *o, NAME(row_state) *s) {
    const shore_compression *phi = o->phi;
    if (!s->certifying) return 0;
    const double moved =
        NAME(distance)(s->r, s->r_noted, NAME(residual_size)(phi)) * NAME(residual_scale)(phi);
    const double unit = REAL_BITS == 32 ? 0x1p-24 : 0x1p-53;
    const double terms = (double)(phi->n_terms + 4) * unit;
    const double error = terms / (1 - terms) * (s->norm_r + s->norm_r_noted);
    const double bound = (s->beta + phi->max_norm * (moved + error)) * s->step * (1 + 1e-9);
    NAME(offer_known)(o, s, 1);
    /* strictly below: at equality an output of lower index would win the tie */
    return terms < 0.5 && bound < shore_topk_threshold(&s->top);
}

/* Before a pass: the support has offered, and what to look for is set. */
static void NAME(begin_pass)(const shore_decode_options *o, NAME(row_state) *s) {
    s->full_passes++;
    NAME(offer_known)(o, s, 0);
    s->noting = s->certifying = o->screening && s->v.size > 0;
    s->n_noted = 0;
    NAME(set_limit)(s);
}

static void NAME(end_pass)(const shore_decode_options *o, NAME(row_state) *s) {
    s->certifying = s->noting;
    if (!s->certifying) return;
    memcpy(s->r_noted, s->r, sizeof(REAL) * (size_t)NAME(residual_size)(o->phi));
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
        if (s->halvings == SHORE_MAX_HALVINGS) {
            NAME(restart)(o, s);
            return 1;
        }
        s->halvings++;
        s->step *= 0.5;
        NAME(restart)(o, s);
        return 0;
    }
    s->converged = s->n_iter >= 2 && NAME(change)(&s->v, &s->v_2) <= o->tol * (0.01 + NAME(length)(&s->v));
    if (o->tol > 0 ? s->converged : NAME(change)(&s->v, &s->v_1) == 0) {
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
