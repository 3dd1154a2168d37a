/* Template part of decode_kernel.h: the fast iterative shrinkage-thresholding algorithm, for
 *
 *     min ½‖Φx - b‖₂² + weight·‖x‖₁,    weight = l1 · max_j |φ_jᵀb|.
 *
 * An iterate is x := soft(y + step·Φᵀ(b - Φy), step·weight), where y is the iterate before and some of the step that
 * led to it. An output outside the support of y gets a value only if |φ_jᵀr| is above the weight, so a pass collects
 * those and no others. A first pass finds the weight.
 */

/* |v| less by the threshold, 0 if it is not above it */
SHORE_INLINE double NAME(shrink)(double v, double threshold) {
    return v > threshold ? v - threshold : v < -threshold ? v + threshold : 0;
}

SHORE_INLINE void NAME(append)(NAME(sparse_vector) *x, int64_t j, double value) {
    if (value == 0) return;
    x->index[x->size] = j;
    x->value[x->size++] = value;
}

/* Heads are collected before the tail: brings two ascending runs of outputs into one order. */
static void NAME(merge_collected)(NAME(row_state) *s) {
    int64_t first = 1, i = 0;
    while (first < s->n_noted && s->noted[first - 1] < s->noted[first]) first++;
    if (first >= s->n_noted) return;
    for (int64_t k = 0; k < first; k++) { /* numbers are exact here: REAL holds them */
        s->asked[k] = s->noted[k];
        s->answer[k] = (REAL)s->noted_g[k];
    }
    for (int64_t k = first, at = 0; i < first; at++) /* at never catches up with k */
        if (k < s->n_noted && s->noted[k] < s->asked[i]) {
            s->noted[at] = s->noted[k];
            s->noted_g[at] = s->noted_g[k++];
        } else {
            s->noted[at] = s->asked[i];
            s->noted_g[at] = s->answer[i++];
        }
}

/* x := soft(y + step·φ_jᵀr, step·weight) for y = s->v, over its support and what the pass collected */
static void NAME(shrunk_step)(const shore_decode_options *o, NAME(row_state) *s, NAME(sparse_vector) *x) {
    const NAME(sparse_vector) *y = &s->v;
    const double threshold = s->step * s->weight;
    int64_t i = 0, k = 0;
    NAME(dots)(o->phi, y->index, y->size, s, s->answer);
    x->size = 0;
    while (i < y->size || k < s->n_noted)
        if (k == s->n_noted || (i < y->size && y->index[i] < s->noted[k])) {
            NAME(append)(x, y->index[i], NAME(shrink)(y->value[i] + s->step * (double)s->answer[i], threshold));
            i++;
        } else {
            NAME(append)(x, s->noted[k], NAME(shrink)(s->step * s->noted_g[k], threshold));
            k++;
        }
}

/* y := x + share·(x - before), in s->v */
static void NAME(carry_on)(NAME(row_state) *s, const NAME(sparse_vector) *x, const NAME(sparse_vector) *before,
                           double share) {
    int64_t i = 0, k = 0;
    s->v.size = 0;
    while (i < x->size || k < before->size)
        if (k == before->size || (i < x->size && x->index[i] < before->index[k])) {
            NAME(append)(&s->v, x->index[i], x->value[i] + share * x->value[i]);
            i++;
        } else if (i == x->size || before->index[k] < x->index[i]) {
            NAME(append)(&s->v, before->index[k], -share * before->value[k]);
            k++;
        } else {
            NAME(append)(&s->v, x->index[i], x->value[i] + share * (x->value[i] - before->value[k]));
            i++;
            k++;
        }
}

/* After a pass. Returns 1 when the row is done. */
static int NAME(run_fista)(const shore_decode_options *o, NAME(row_state) *s) {
    if (!s->collecting) {
        const double best = s->top.size ? s->top.entries[0].key / s->step : 0;
        if (!(best <= DBL_MAX)) return NAME(start_again)(o, s, 1);
        s->weight = s->beta = o->l1 * best;
        s->collecting = 1;
        return best > 0 ? 0 : NAME(conclude)(o, s, &s->v, 1);
    }
    s->found_before = s->n_noted;
    if (o->phi->n_head) NAME(merge_collected)(s);
    const NAME(sparse_vector) before = s->v_1, next = s->v_2;
    s->v_1 = next;
    s->v_2 = before;
    NAME(shrunk_step)(o, s, &s->v_1);
    s->n_iter++;
    const double size = NAME(length)(&s->v_1);
    s->converged = s->n_iter >= 2 && NAME(change)(&s->v_1, &s->v_2) <= o->tol * (0.01 + size);
    const int last = (o->tol > 0 && s->converged) || s->n_iter >= o->max_iter;
    const double momentum = 0.5 * (1 + sqrt(1 + 4 * s->momentum * s->momentum));
    NAME(carry_on)(s, &s->v_1, &s->v_2, last ? 0 : (s->momentum - 1) / momentum);
    s->momentum = momentum;
    NAME(renew_residual)(o->phi, s);
    if (SHORE_UNLIKELY(!(s->norm_r <= s->divergence)))
        return NAME(start_again)(o, s, s->n_iter == 1 && s->step <= 1 && !(size <= DBL_MAX));
    return last ? NAME(conclude)(o, s, &s->v, s->converged) : 0;
}
