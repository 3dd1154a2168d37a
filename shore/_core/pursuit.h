/* Template part of decode_kernel.h: orthogonal matching pursuit.
 *
 * A pass finds the output whose column has the largest |φ_jᵀr|; it joins the support, the values on the support are
 * those of least squares, and so on until there are s. The Cholesky factor of Φ_SᵀΦ_S grows by a row with every
 * output, so a step costs O(|S|·m) beside the pass. All of it is in double.
 */

/* The unit to take column j in: 1, or where its square would leave the range of numbers, a power of two that brings its
 * largest entry near 1. */
static double NAME(unit_of_column)(const shore_compression *phi, int64_t j) {
    if (phi->kind == SHORE_SIGNS) return 1;
    const double largest = NAME(largest)((const REAL *)phi->columns + j * phi->n_components, phi->n_components);
    if ((largest > 0x1p-450 && largest < 0x1p450) || !(largest > 0 && largest <= DBL_MAX)) return 1;
    const int exponent = -ilogb(largest);
    return ldexp(1, exponent < DBL_MAX_EXP ? exponent : DBL_MAX_EXP - 1);
}

/* φ_iᵀφ_j in their units */
static double NAME(column_product)(const shore_compression *phi, int64_t i, double unit_i, int64_t j, double unit_j) {
    double sum = 0;
    if (phi->kind == SHORE_SIGNS) {
        int i_owns, j_owns;
        const int64_t t = shore_number(phi, i, &i_owns), u = shore_number(phi, j, &j_owns);
        if (i_owns || j_owns) return i == j;
        for (int64_t k = 0; k < phi->nnz; k++) { /* both have one entry in every segment */
            const int64_t differ = shore_place(phi, t, k) ^ shore_place(phi, u, k);
            sum += differ == 0 ? 1 : differ == phi->pad ? -1 : 0;
        }
        return sum * phi->scale * phi->scale;
    }
    const REAL *a = (const REAL *)phi->columns + i * phi->n_components;
    const REAL *b = (const REAL *)phi->columns + j * phi->n_components;
    for (int64_t r = 0; r < phi->n_components; r++) sum += (unit_i * (double)a[r]) * (unit_j * (double)b[r]);
    return sum;
}

/* φ_jᵀb in the unit of j */
static double NAME(column_dot)(const shore_compression *phi, int64_t j, double unit, const REAL *b) {
    double sum = 0;
    if (phi->kind == SHORE_SIGNS) {
        int owns, negative;
        const int64_t t = shore_number(phi, j, &owns);
        if (owns) return b[t];
        for (int64_t k = 0; k < phi->nnz; k++) {
            const int64_t row = shore_place_row(phi, shore_place(phi, t, k), &negative);
            sum += negative ? -(double)b[row] : (double)b[row];
        }
        return sum * phi->scale;
    }
    const REAL *a = (const REAL *)phi->columns + j * phi->n_components;
    for (int64_t r = 0; r < phi->n_components; r++) sum += (unit * (double)a[r]) * (double)b[r];
    return sum;
}

/* Adds column j as number n of the chosen; `square` is ‖φ_j‖₂² in its unit. 0 if it depends on the others. */
static int NAME(add_column)(const shore_compression *phi, NAME(row_state) *s, int64_t j, double unit, double square,
                            int64_t n) {
    NAME(least_squares) *fit = &s->fit;
    double *row = fit->L + n * (n + 1) / 2;
    double pivot = square, target = NAME(column_dot)(phi, j, unit, s->b);
    for (int64_t k = 0; k < n; k++) {
        const double *above = fit->L + k * (k + 1) / 2;
        double entry = NAME(column_product)(phi, fit->chosen[k], fit->unit[k], j, unit);
        for (int64_t l = 0; l < k; l++) entry -= above[l] * row[l];
        row[k] = entry / above[k];
        pivot -= row[k] * row[k];
        target -= row[k] * fit->z[k];
    }
    if (!(pivot > 1e-12 * square)) return 0;
    row[n] = sqrt(pivot);
    fit->z[n] = target / row[n];
    fit->chosen[n] = j;
    fit->unit[n] = unit;
    return 1;
}

/* v := the least squares solution on the n chosen columns, sorted by output */
static void NAME(solve_chosen)(NAME(row_state) *s, int64_t n) {
    const NAME(least_squares) *fit = &s->fit;
    for (int64_t k = n - 1; k >= 0; k--) { /* Lᵀx = z */
        double entry = fit->z[k];
        for (int64_t l = k + 1; l < n; l++) entry -= fit->L[l * (l + 1) / 2 + k] * fit->x[l];
        fit->x[k] = entry / fit->L[k * (k + 1) / 2 + k];
    }
    for (int64_t k = 0; k < n; k++) s->top.entries[k] = (shore_entry){0, fit->unit[k] * fit->x[k], fit->chosen[k]};
    shore_entries_sort(s->top.entries, n, shore_by_index);
    s->v.size = n;
    for (int64_t k = 0; k < n; k++) {
        s->v.index[k] = s->top.entries[k].index;
        s->v.value[k] = s->top.entries[k].value;
    }
}

/* The output that the pass found joins the support. Returns 1 when the row is done. */
static int NAME(run_omp)(const shore_decode_options *o, NAME(row_state) *s) {
    const int64_t n = s->v.size, most = o->sparsity < o->phi->n_components ? o->sparsity : o->phi->n_components;
    if (!s->top.size) return NAME(conclude)(o, s, &s->v, 1); /* r is orthogonal to all that the row may use */
    const double best = s->top.entries[0].key;
    const int64_t j = s->top.entries[0].index;
    const double unit = NAME(unit_of_column)(o->phi, j), square = NAME(column_product)(o->phi, j, unit, j, unit);
    const double norm = sqrt(square) / unit;
    if (!(best <= DBL_MAX && norm <= DBL_MAX)) return NAME(conclude)(o, s, &s->v, 0);
    /* what is left of b is its rounding, or nothing that the row may use explains it */
    if (!(best > NAME(rounding_of)(o->phi, norm, s->norm_b)) || !NAME(add_column)(o->phi, s, j, unit, square, n))
        return NAME(conclude)(o, s, &s->v, 1);
    NAME(solve_chosen)(s, n + 1);
    NAME(renew_residual)(o->phi, s);
    if (!(s->norm_r <= DBL_MAX)) { /* values beyond the range of numbers: those without this column stay */
        NAME(solve_chosen)(s, n);
        return NAME(conclude)(o, s, &s->v, 0);
    }
    s->n_iter++;
    return n + 1 == most ? NAME(conclude)(o, s, &s->v, 1) : 0;
}
