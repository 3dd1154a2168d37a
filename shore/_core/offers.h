/* Template part of decode_kernel.h: what outputs offer to a row, and which of them the row keeps.
 *
 * Every output offers v_j + step·φ_jᵀr, and the best are found: by a full pass (full_pass.h offers all K outputs),
 * or screened (support and noted outputs offer, and a certificate says that nobody else could have won). Offers
 * are ranked as the options' `search` says: pgd and cd look for the best s by the rule of F, omp for the one
 * largest |φ_jᵀr| outside the support. fista collects instead: all outputs outside the support whose |φ_jᵀr| is
 * above the weight of its penalty.
 */

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

/* What a pass looks for: where it notes, numbers above half of what the s-th best offer takes, or above the floor; else
 * above what it takes; where it collects, above a beta that stays. */
static void NAME(set_limit)(NAME(row_state) *s) {
    if (!s->collecting) {
        const double threshold = shore_topk_threshold(&s->top) / s->step;
        s->beta = threshold;
        if (s->noting && threshold > 0) {
            const double least = 0.5 * threshold > s->note_floor ? 0.5 * threshold : s->note_floor;
            s->beta = least < threshold ? least : threshold;
        }
    }
    s->limit = s->beta - fabs(s->beta) * 1e-12 - s->error;
    if (s->top.floor < 0) s->limit -= DBL_MIN; /* where 0 can be among the best, an equal of lower index wins over it */
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

static void NAME(note)(NAME(row_state) *s, int64_t j, double g) {
    s->noted[s->n_noted] = j;
    s->noted_g[s->n_noted++] = g;
}

/* Output j, in an exact pass, with g = φ_jᵀr above the row's limit. */
static void NAME(offer)(const shore_decode_options *o, NAME(row_state) *s, int64_t j, REAL g) {
    const double v = s->step * (double)g, key = shore_key(o->search, v);
    if (NAME(in_support)(s, j) || !shore_permits(&s->permit, j)) return;
    if (s->collecting) {
        NAME(note)(s, j, g);
        return;
    }
    if (s->noting && NAME(make_room)(s, shore_is_absolute(o->search), shore_note_capacity(o)) && s->noting)
        NAME(note)(s, j, g);
    shore_topk_push(&s->top, key, v, j);
    NAME(set_limit)(s);
}

/* How many outputs of the support offer: with omp and fista, what is chosen does not compete again. */
SHORE_INLINE int64_t NAME(n_offering)(const shore_decode_options *o, const NAME(row_state) *s) {
    return o->method == SHORE_PGD ? s->v.size : 0;
}

/* The first n asked outputs offer v_j + step·φ_jᵀr; the support stands first among them. */
static void NAME(offer_answers)(const shore_decode_options *o, NAME(row_state) *s, int64_t n) {
    shore_topk_reset(&s->top, shore_floor(o->search));
    for (int64_t e = 0; e < n; e++) {
        const double v = (e < s->v.size ? s->v.value[e] : 0.0) + s->step * (double)s->answer[e];
        shore_topk_push(&s->top, shore_key(o->search, v), v, s->asked[e]);
    }
}

/* The support offers, and with `with_noted` the noted outputs outside it. */
static void NAME(offer_known)(const shore_decode_options *o, NAME(row_state) *s, int with_noted) {
    int64_t n = NAME(n_offering)(o, s);
    memcpy(s->asked, s->v.index, sizeof(int64_t) * (size_t)n);
    if (with_noted)
        for (int64_t i = 0; i < s->n_noted; i++)
            if (!NAME(in_support)(s, s->noted[i])) s->asked[n++] = s->noted[i];
    NAME(dots)(o->phi, s->asked, n, s, s->answer);
    NAME(offer_answers)(o, s, n);
}

/* A bound on the error of a computed φ_jᵀr: N·u/(1 - N·u)·‖φ_j‖·‖r‖ for N terms and unit roundoff u, and what is lost
 * of N products that leave the normal range. */
SHORE_INLINE double NAME(rounding_of)(const shore_compression *phi, double norm_column, double norm_r) {
    const double unit = REAL_BITS == 32 ? 0x1p-24 : 0x1p-53, tiny = REAL_BITS == 32 ? 0x1p-149 : 0x1p-1074;
    const double n = (double)(phi->n_terms + 4), terms = n * unit;
    return terms < 0.5 ? terms / (1 - terms) * norm_column * norm_r + n * tiny : INFINITY;
}

/* The same for any column. */
SHORE_INLINE double NAME(rounding)(const shore_compression *phi, double norm_r) {
    return NAME(rounding_of)(phi, phi->max_norm, norm_r);
}

/* Notes cost more than the pass itself where many outputs are near the best. After two in a row that certified nothing,
 * the next pass goes without, then the next two, and so on. */
static void NAME(judge_notes)(NAME(row_state) *s, int certified) {
    s->in_vain = certified ? 0 : s->in_vain + 1;
    s->without = s->in_vain < 2 ? 0 : s->in_vain < 8 ? (int64_t)1 << (s->in_vain - 2) : 64;
}

/* Whether support and noted outputs decide this iteration. An output that was not noted has, computed at r_noted,
 * g ≤ beta, so by Cauchy-Schwarz its computed g is now at most
 *     beta + ‖φ_j‖ ‖r - r_noted‖ + error(r) + error(r_noted).
 * Rows that outputs own do not count in ‖r - r_noted‖: the columns of the others are 0 there; and an output that owns
 * one but was not noted has not been in the support since, so that its own residual, its g, is what it was. */
static int NAME(screen)(const shore_decode_options *o, NAME(row_state) *s) {
    const shore_compression *phi = o->phi;
    if (!s->certifying) return 0;
    const int64_t head = phi->n_head;
    const double moved = NAME(distance)(s->r + head, s->r_noted + head, phi->n_components - head);
    const double error = NAME(rounding)(phi, s->norm_r) + NAME(rounding)(phi, s->norm_r_noted);
    const double exact = (s->beta + phi->max_norm * moved + error) * s->step, bound = exact + fabs(exact) * 1e-9;
    NAME(offer_known)(o, s, 1);
    /* strictly below: at equality an output of lower index would win the tie */
    const int certified = bound < shore_topk_threshold(&s->top);
    if (s->fresh) NAME(judge_notes)(s, certified);
    s->fresh = 0;
    return certified;
}

/* What a coarse pass has found since it was last resolved offers exactly. */
static void NAME(resolve)(const shore_decode_options *o, NAME(row_state) *s) {
    const int64_t n = NAME(n_offering)(o, s), fresh = s->n_noted - s->n_exact;
    REAL *answer = s->answer + n;
    NAME(dots)(o->phi, s->noted + s->n_exact, fresh, s, answer);
    for (int64_t i = 0; i < fresh; i++) s->noted_g[s->n_exact + i] = answer[i];
    if (!s->collecting) {
        NAME(offer_answers)(o, s, n);
        for (int64_t i = 0; i < s->n_noted; i++) {
            const double v = s->step * s->noted_g[i];
            shore_topk_push(&s->top, shore_key(o->search, v), v, s->noted[i]);
        }
    }
    const double error = s->error;
    s->error = 0; /* of what is found so far */
    NAME(set_limit)(s);
    NAME(thin)(s, shore_is_absolute(o->search));
    s->n_exact = s->n_noted;
    s->error = error;
    NAME(set_limit)(s);
}

/* Output j, in a coarse pass, with a φ_jᵀr that is within the row's error of g, and g above the limit. Until it
 * offers exactly, the list of best offers takes the least that it may offer. */
static void NAME(offer_coarse)(const shore_decode_options *o, NAME(row_state) *s, int64_t j, double g) {
    const shore_constraint *c = o->search;
    const int absolute = shore_is_absolute(c);
    if (s->failed || NAME(in_support)(s, j) || !shore_permits(&s->permit, j)) return;
    NAME(note)(s, j, g);
    if (s->collecting) return;
    const double size = absolute ? fabs(g) - s->error : g - s->error;
    const double v = s->step * (!absolute ? size : size > 0 ? copysign(size, g) : 0);
    shore_topk_push(&s->top, shore_key(c, v), v, j);
    if (s->n_noted - s->n_exact == SHORE_RESOLVE) {
        NAME(resolve)(o, s);
        const int64_t room = shore_note_capacity(o) - SHORE_RESOLVE;
        if (s->n_noted > room) {
            s->noting = 0;
            NAME(resolve)(o, s);
            s->failed = s->n_noted > room;
        }
    }
    NAME(set_limit)(s);
}

/* For a random Φ the numbers φ_jᵀr of outputs outside the support are about N(0, ‖r‖²/m), r and m without the rows that
 * outputs own. The floor lets about SHORE_NOISE_NOTES of them through, and no more for what a coarse pass is off by as a rule; whether this pass will be
 * coarse does not matter, so that rows need the same passes in any company. */
static double NAME(noise_floor)(const shore_decode_options *o, const NAME(row_state) *s) {
    const shore_compression *phi = o->phi;
    const double m = (double)(phi->n_components - phi->n_head);
    double error = 0;
    if (!phi->n_tail) return 0;
    if (phi->coarse)
        error = phi->max_norm * NAME(largest)(s->r, phi->n_components) / 127 * sqrt(m / 12) +
                phi->coarse_error * s->norm_r;
    const double norm = phi->n_head ? NAME(norm)(s->r + phi->n_head, phi->n_components - phi->n_head) : s->norm_r;
    return o->note_quantile * norm / sqrt(m) + error;
}

/* Before a pass: the support has offered, and what to look for is set. */
static void NAME(begin_pass)(const shore_decode_options *o, NAME(row_state) *s) {
    NAME(offer_known)(o, s, 0);
    s->tried = o->screening && NAME(n_offering)(o, s) > 0 && !s->without;
    if (s->tried) { /* with a floor near the s-th best offer notes certify nothing */
        s->note_floor = NAME(noise_floor)(o, s);
        s->tried = s->note_floor < 0.9 * shore_topk_threshold(&s->top) / s->step;
    }
    s->noting = s->tried;
    s->n_noted = s->n_exact = s->failed = 0;
    s->error = 0;
    NAME(set_limit)(s);
}

/* After any pass: noted are the support, and outside it the outputs with φ_jᵀr above beta, half of what the s-th
 * best offer took. */
static void NAME(end_pass)(const shore_decode_options *o, NAME(row_state) *s) {
    s->full_passes++;
    s->without -= s->without > 0;
    if (s->tried && !s->noting) NAME(judge_notes)(s, 0);
    s->certifying = s->fresh = s->noting;
    if (!s->certifying) return;
    s->error = 0;
    NAME(set_limit)(s);
    NAME(thin)(s, shore_is_absolute(o->search));
    /* the support did not pass by: whoever leaves it later must be among the noted */
    for (int64_t e = 0; e < s->v.size; e++) NAME(note)(s, s->v.index[e], INFINITY);
    memcpy(s->r_noted, s->r, sizeof(REAL) * (size_t)o->phi->n_components);
    s->norm_r_noted = s->norm_r;
}
