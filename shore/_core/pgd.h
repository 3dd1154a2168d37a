/* Template part of decode_kernel.h: projected gradient descent, Algorithm 2, and correlation decoding, which is its
 * first step of size 1.
 *
 * An iteration has two halves. First the best offers are found (offers.h). Then pgd_step projects, computes the
 * new residual and decides whether the row is done.
 */

/* v⁽ᵗ⁺¹⁾ := Π(offers), r := b - Φv⁽ᵗ⁺¹⁾. Returns 1 when the row is done. */
static int NAME(pgd_step)(const shore_decode_options *o, NAME(row_state) *s) {
    const NAME(sparse_vector) oldest = s->v_2;
    s->v_2 = s->v_1;
    s->v_1 = s->v;
    s->v = oldest;
    const int feasible = NAME(project_offers)(o, s);
    s->n_iter++;
    NAME(set_residual)(o->phi, s);

    if (SHORE_UNLIKELY(!feasible || !(s->norm_r <= s->divergence))) { /* also when it is not a number */
        /* no step helps where φ_jᵀb itself overflows */
        const int hopeless = s->n_iter == 1 && s->step <= 1 && !(feasible && NAME(length)(&s->v) <= DBL_MAX);
        return NAME(start_again)(o, s, hopeless || o->method == SHORE_CD);
    }
    if (o->method == SHORE_CD) return s->converged = 1;
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

/* Of a support that is larger than what is kept, the best: a step more, in which nobody else offers. */
static int NAME(keep_best)(const shore_decode_options *o, NAME(row_state) *s) {
    if (s->v.size <= o->keep) return 1;
    s->top.capacity = o->keep;
    NAME(offer_known)(o, s, 0);
    return NAME(settle)(o, s, s->converged);
}

/* Screened steps for as long as the certificate holds. Returns 1 when the row is done, 0 when it needs a pass. */
static int NAME(run_pgd)(const shore_decode_options *o, NAME(row_state) *s) {
    for (;;) {
        if (NAME(pgd_step)(o, s)) return NAME(keep_best)(o, s);
        if (!NAME(screen)(o, s)) return 0;
        if (SHORE_UNLIKELY(s->n_iter % SHORE_STEPS_UNASKED == 0) && shore_is_stopped(o)) return 0;
    }
}
