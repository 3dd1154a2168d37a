/* Template part of decode_kernel.h: one row in work, and the arithmetic that all methods share.
 *
 * Numbers φ_jᵀr are computed in one order of additions on every path, so all paths give the same bits. What
 * follows from them (offers, values, norms) is computed in double for both dtypes.
 */

typedef struct {
    int64_t *index; /* sorted */
    double *value;
    int64_t size;
} NAME(sparse_vector);

/* Least squares on the chosen columns, in the order in which they were chosen and each in a unit of its own (D, diagonal):
 * LLᵀ = D Φ_Sᵀ Φ_S D, z = L⁻¹ D Φ_Sᵀ b, x = L⁻ᵀ z; the values are Dx. */
typedef struct {
    int64_t *chosen;
    double *unit;
    double *L; /* rows of the lower triangle, one behind the other */
    double *z;
    double *x;
} NAME(least_squares);

typedef struct {
    int64_t row;
    const REAL *b;        /* (m,) */
    shore_support permit; /* outputs this row may use */
    REAL *r;              /* (m,) b - Φv */
    REAL *r_signed;       /* the same for sparse signs, in the layout of compression.h */
    REAL *r_noted;        /* r at the last pass that noted */
    NAME(sparse_vector) v;        /* where r is taken: v⁽ᵗ⁾, with fista the point that momentum leads to */
    NAME(sparse_vector) v_1, v_2; /* pgd: the two before; fista: the last iterate, and room for the next */
    shore_topk top;       /* the best offers of this iteration */
    int64_t *noted; /* outputs that a pass found: afterwards, all with φ_jᵀr_noted > beta */
    double *noted_g;
    int64_t n_noted, n_exact; /* the first n_exact have exact numbers, the others a coarse pass's */
    int64_t *asked; /* outputs whose φ_jᵀr is wanted, and the answers */
    REAL *answer;
    double beta, limit; /* in a pass: a number φ_jᵀr that is not above the limit (in size) is of no interest */
    double error;       /* of the numbers of a coarse pass */
    double note_floor;  /* not noted below this: it would be noise */
    int noting, certifying, failed;
    int tried, fresh;         /* this pass began to note; its notes have not been asked yet */
    int64_t in_vain, without; /* notes in a row that certified nothing; passes to go without them after that */
    int collecting;       /* fista: a pass finds all outputs above beta, not the best */
    int64_t found_before; /* fista: in the last pass */
    double step, norm_b, norm_r, norm_r_noted, divergence;
    int64_t n_iter, full_passes, halvings;
    int converged;
    NAME(least_squares) fit; /* omp */
    double momentum, weight; /* fista: t⁽ᵏ⁾ and the weight of ‖v‖₁ */
} NAME(row_state);

/* ---------------------------------------------------------------- φ_jᵀr */

/* Four columns at once: four chains of additions hide each other's latency. */
SHORE_INLINE void NAME(signs_dots)(const shore_compression *phi, const int64_t *j, int64_t n,
                                   const NAME(row_state) *s, REAL *out, const int wide) {
    const uint16_t *narrow_tables = phi->tables;
    const uint32_t *wide_tables = phi->tables;
    const REAL *r = s->r_signed;
    int64_t first[4], at[4], n_tail = 0;
    for (int64_t o = 0; o < n; o++) {
        int owns;
        const int64_t t = shore_number(phi, j[o], &owns);
        if (owns) {
            out[o] = s->r[t];
        } else {
            first[n_tail] = t / SHORE_TILE * phi->nnz * SHORE_TILE + t % SHORE_TILE;
            at[n_tail++] = o;
        }
        if (n_tail < 4 && (o < n - 1 || !n_tail)) continue;
        for (int64_t c = n_tail; c < 4; c++) first[c] = first[0], at[c] = at[0];
        REAL sum[4] = {0};
        for (int64_t k = 0; k < phi->nnz; k++)
            for (int c = 0; c < 4; c++) {
                const REAL here = r[wide ? wide_tables[first[c] + k * SHORE_TILE] : narrow_tables[first[c] + k * SHORE_TILE]];
                sum[c] = k ? sum[c] + here : here;
            }
        for (int c = 0; c < 4; c++) out[at[c]] = sum[c] * (REAL)phi->scale;
        n_tail = 0;
    }
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
    if (phi->wide)
        NAME(signs_dots)(phi, j, n, s, out, 1);
    else
        NAME(signs_dots)(phi, j, n, s, out, 0);
}

/* ---------------------------------------------------------------- norms, in double, in one fixed order */

static double NAME(scaled_norm)(const REAL *x, int64_t n) {
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)x[i]));
    if (!(largest > 0 && largest <= DBL_MAX)) return largest;
    for (int64_t i = 0; i < n; i++) sum += ((double)x[i] / largest) * ((double)x[i] / largest);
    return largest * sqrt(sum);
}

/* Four sums of eight lanes each: one alone would wait for its last addition. */
SHORE_INLINE double NAME(total)(double sum[4][8]) {
    for (int l = 0; l < 8; l++) sum[0][l] = (sum[0][l] + sum[1][l]) + (sum[2][l] + sum[3][l]);
    return ((sum[0][0] + sum[0][1]) + (sum[0][2] + sum[0][3])) + ((sum[0][4] + sum[0][5]) + (sum[0][6] + sum[0][7]));
}

static double NAME(norm)(const REAL *x, int64_t n) {
    double sum[4][8] = {{0}};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int l = 0; l < 8; l++) {
            sum[0][l] += (double)x[i + l] * (double)x[i + l];
            sum[1][l] += (double)x[i + 8 + l] * (double)x[i + 8 + l];
            sum[2][l] += (double)x[i + 16 + l] * (double)x[i + 16 + l];
            sum[3][l] += (double)x[i + 24 + l] * (double)x[i + 24 + l];
        }
    for (int l = 0; i < n; i++, l++) sum[l / 8][l % 8] += (double)x[i] * (double)x[i];
    const double total = NAME(total)(sum);
    if (SHORE_UNLIKELY(total < 1e-280 || total > 1e280)) return NAME(scaled_norm)(x, n);
    return sqrt(total);
}

SHORE_INLINE double NAME(square)(REAL x, REAL y) {
    const double d = (double)x - (double)y;
    return d * d;
}

/* At least ‖x - y‖: where squares vanish, a bound. */
static double NAME(distance)(const REAL *x, const REAL *y, int64_t n) {
    double sum[4][8] = {{0}};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int l = 0; l < 8; l++) {
            sum[0][l] += NAME(square)(x[i + l], y[i + l]);
            sum[1][l] += NAME(square)(x[i + 8 + l], y[i + 8 + l]);
            sum[2][l] += NAME(square)(x[i + 16 + l], y[i + 16 + l]);
            sum[3][l] += NAME(square)(x[i + 24 + l], y[i + 24 + l]);
        }
    for (int l = 0; i < n; i++, l++) sum[l / 8][l % 8] += NAME(square)(x[i], y[i]);
    const double total = NAME(total)(sum);
    return sqrt(total) + (total < 1e-280 ? 1e-140 * sqrt((double)n) : 0);
}

/* The largest size of an entry. */
static double NAME(largest)(const REAL *x, int64_t n) {
    V most = V_SET1(0);
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) most = V_MAX(V_ABS(V_LOAD(x + i)), most);
    REAL lanes[V_LANES], largest = 0;
    V_STORE(lanes, most);
    for (int l = 0; l < V_LANES; l++) largest = lanes[l] > largest ? lanes[l] : largest;
    for (; i < n; i++) largest = V_SIZE(x[i]) > largest ? V_SIZE(x[i]) : largest;
    return (double)largest;
}

/* ---------------------------------------------------------------- the residual */

/* r := b */
static void NAME(load_b)(const shore_compression *phi, NAME(row_state) *s) {
    memcpy(s->r, s->b, sizeof(REAL) * (size_t)phi->n_components);
    if (phi->kind == SHORE_DENSE) return;
    for (int64_t k = 0; k < phi->nnz; k++) {
        const REAL *restrict b = s->b + phi->starts[k];
        REAL *restrict plus = s->r_signed + (k << phi->shift);
        REAL *restrict minus = s->r_signed + (k << phi->shift) + phi->pad;
        const int64_t size = phi->starts[k + 1] - phi->starts[k];
        for (int64_t i = 0; i < size; i++) {
            plus[i] = b[i];
            minus[i] = -b[i];
        }
    }
}

#define SHORE_STRIP 512

/* sum -= value·column. Not inlined: joined with its neighbours, the loop over columns would lose its vectors. */
static SHORE_NOINLINE void NAME(subtract_column)(double *restrict sum, const REAL *restrict column, double value,
                                                 int64_t n) {
    for (int64_t i = 0; i < n; i++) sum[i] -= (double)column[i] * value;
}

static void NAME(set_residual_dense)(const shore_compression *phi, NAME(row_state) *s) {
    const int64_t m = phi->n_components;
    const REAL *columns = phi->columns;
    for (int64_t start = 0; start < m; start += SHORE_STRIP) {
        const int64_t size = start + SHORE_STRIP < m ? SHORE_STRIP : m - start;
        double sum[SHORE_STRIP];
        for (int64_t i = 0; i < size; i++) sum[i] = s->b[start + i];
        for (int64_t e = 0; e < s->v.size; e++)
            NAME(subtract_column)(sum, columns + s->v.index[e] * m + start, s->v.value[e], size);
        for (int64_t i = 0; i < size; i++) s->r[start + i] = (REAL)sum[i];
    }
}

#undef SHORE_STRIP

/* Column j of sparse signs: r := b in its rows, or r := r - value·φ_j. */
SHORE_INLINE void NAME(touch_rows)(const shore_compression *phi, NAME(row_state) *s, int64_t j, double value,
                                   const int reset, const int wide) {
    const int64_t nnz = phi->nnz, pad = phi->pad, *starts = phi->starts;
    int owns;
    const int64_t t = shore_number(phi, j, &owns);
    if (owns) {
        s->r[t] = reset ? s->b[t] : (REAL)((double)s->r[t] - value);
        return;
    }
    const int64_t first = t / SHORE_TILE * nnz * SHORE_TILE + t % SHORE_TILE;
    const double entry = value * phi->scale;
    const uint16_t *narrow_tables = (const uint16_t *)phi->tables + first;
    const uint32_t *wide_tables = (const uint32_t *)phi->tables + first;
    const REAL *b = s->b;
    REAL *r = s->r, *plus = s->r_signed, *minus = s->r_signed + pad;
    for (int64_t k = 0; k < nnz; k++) {
        const int64_t place = wide ? (int64_t)wide_tables[k * SHORE_TILE] : (int64_t)narrow_tables[k * SHORE_TILE];
        const int64_t row = starts[k] + (place & (pad - 1)), at = place & ~pad;
        const REAL moved = reset ? b[row] : (REAL)((double)r[row] - (place & pad ? -entry : entry));
        r[row] = moved;
        plus[at] = moved;
        minus[at] = -moved;
    }
}

/* r := b - Φv for r = b */
static void NAME(subtract_signs)(const shore_compression *phi, NAME(row_state) *s) {
    for (int64_t e = 0; e < s->v.size; e++)
        if (phi->wide)
            NAME(touch_rows)(phi, s, s->v.index[e], s->v.value[e], 0, 1);
        else
            NAME(touch_rows)(phi, s, s->v.index[e], s->v.value[e], 0, 0);
}

/* The same for r = b - Φv_1, which differs from b only in the rows that the columns of v_1 touch. */
static void NAME(set_residual_signs)(const shore_compression *phi, NAME(row_state) *s) {
    for (int64_t e = 0; e < s->v_1.size; e++)
        if (phi->wide)
            NAME(touch_rows)(phi, s, s->v_1.index[e], 0, 1, 1);
        else
            NAME(touch_rows)(phi, s, s->v_1.index[e], 0, 1, 0);
    NAME(subtract_signs)(phi, s);
}

/* r := b - Φv, where before it was b - Φv_1 */
static void NAME(set_residual)(const shore_compression *phi, NAME(row_state) *s) {
    if (phi->kind == SHORE_DENSE)
        NAME(set_residual_dense)(phi, s);
    else
        NAME(set_residual_signs)(phi, s);
    s->norm_r = NAME(norm)(s->r, phi->n_components);
}

/* r := b - Φv, whatever it was before */
static void NAME(renew_residual)(const shore_compression *phi, NAME(row_state) *s) {
    if (phi->kind == SHORE_DENSE) {
        NAME(set_residual_dense)(phi, s);
    } else {
        NAME(load_b)(phi, s);
        NAME(subtract_signs)(phi, s);
    }
    s->norm_r = NAME(norm)(s->r, phi->n_components);
}

/* ---------------------------------------------------------------- sparse vectors */

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

/* ---------------------------------------------------------------- the life of a row */

static void NAME(restart)(const shore_decode_options *o, NAME(row_state) *s) {
    s->v.size = s->v_1.size = s->v_2.size = 0;
    s->n_iter = 0;
    s->converged = s->certifying = 0;
    s->in_vain = s->without = 0;
    s->momentum = 1;
    NAME(load_b)(o->phi, s);
    s->norm_r = s->norm_b;
}

static void NAME(begin_row)(const shore_decode_options *o, NAME(row_state) *s, int64_t row, const REAL *b,
                            const shore_support *permit) {
    s->row = row;
    s->b = b;
    s->permit = *permit;
    s->step = o->step;
    s->full_passes = s->halvings = s->collecting = 0;
    s->found_before = o->phi->n_outputs;
    s->top.capacity = o->method == SHORE_PGD || o->method == SHORE_CD ? o->sparsity : 1;
    s->norm_b = NAME(norm)(b, o->phi->n_components);
    s->divergence = o->method == SHORE_CD ? DBL_MAX : 10 * s->norm_b;
    if (o->constraint->kind == SHORE_SIMPLEX) { /* feasible points themselves are that far from a small b */
        const double reach = 10 * o->phi->max_norm * o->constraint->total;
        if (reach > s->divergence) s->divergence = fmin(reach, DBL_MAX);
    }
    NAME(restart)(o, s);
}

/* After divergence: from 0 with half the step, or if that is `hopeless`, an end without a result. */
static int NAME(start_again)(const shore_decode_options *o, NAME(row_state) *s, int hopeless) {
    NAME(restart)(o, s);
    if (hopeless || s->halvings == SHORE_MAX_HALVINGS) return 1;
    s->halvings++;
    s->step *= 0.5;
    return 0;
}

/* v := Π(the best offers). Returns 0 if they overflow so that no point of a simplex is the nearest. */
static int NAME(project_offers)(const shore_decode_options *o, NAME(row_state) *s) {
    shore_settle(&s->top, o->constraint);
    s->v.size = s->top.size;
    for (int64_t e = 0; e < s->top.size; e++) {
        s->v.index[e] = s->top.entries[e].index;
        s->v.value[e] = s->top.entries[e].value;
    }
    return s->top.size || o->constraint->kind != SHORE_SIMPLEX;
}

/* v := Π(the best offers), r := b - Φv. Returns 1: the row is done. */
static int NAME(settle)(const shore_decode_options *o, NAME(row_state) *s, int converged) {
    const int feasible = NAME(project_offers)(o, s);
    NAME(renew_residual)(o->phi, s);
    if (!feasible || !(s->norm_r <= DBL_MAX)) return NAME(start_again)(o, s, 1); /* far away from b, though the offers were not */
    s->converged = converged;
    return 1;
}

/* v := Π(x), the last projection of methods that know nothing of F; r := b - Φv. Returns 1: the row is done.
 * x may be v itself. */
static int NAME(conclude)(const shore_decode_options *o, NAME(row_state) *s, const NAME(sparse_vector) *x,
                          int converged) {
    const shore_constraint *c = o->constraint;
    s->top.capacity = o->keep;
    shore_topk_reset(&s->top, shore_floor(c));
    for (int64_t e = 0; e < x->size; e++) shore_topk_push(&s->top, shore_key(c, x->value[e]), x->value[e], x->index[e]);
    if (c->kind == SHORE_SIMPLEX) { /* only here a 0 can be among the best */
        int64_t at = 0, offered = 0;
        for (int64_t j = 0; j < o->phi->n_outputs && offered < o->keep; j++) {
            if (at < x->size && x->index[at] == j) {
                at++;
            } else if (shore_permits(&s->permit, j)) {
                shore_topk_push(&s->top, 0.0, 0.0, j);
                offered++;
            }
        }
    }
    return NAME(settle)(o, s, converged);
}
