/* Template (see multiversion.h): one row onto {s-sparse} ∩ F.
 *
 * A row is read in blocks. One vectorised look at a block says whether anything in it passes the current s-th
 * best, and whether anything is not finite; only blocks with a winner are read again entry by entry.
 */

enum { NAME(WINNER) = 1, NAME(NOT_FINITE) = 2 };

#define BLOCK 128

/* The largest REAL that is not above the key: |v| > it for every v whose key is above. */
static inline REAL NAME(round_down)(double key) {
    REAL rounded = (REAL)key;
#if REAL_BITS == 32
    if ((double)rounded > key) rounded = nextafterf(rounded, -INFINITY);
#endif
    return rounded;
}

static inline int NAME(look_at)(const REAL *v, int64_t n, REAL threshold, int absolute) {
    int winner = 0, not_finite = 0;
    if (absolute)
        for (int64_t i = 0; i < n; i++) {
            const REAL size = v[i] < 0 ? -v[i] : v[i];
            winner |= size > threshold;
            not_finite |= !(size <= REAL_MAX);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const REAL size = v[i] < 0 ? -v[i] : v[i];
            winner |= v[i] > threshold;
            not_finite |= !(size <= REAL_MAX);
        }
    return winner * NAME(WINNER) | not_finite * NAME(NOT_FINITE);
}

static inline int64_t NAME(column)(const void *columns, int wide, int64_t at) {
    return !columns ? at : wide ? ((const int64_t *)columns)[at] : ((const int32_t *)columns)[at];
}

/* Offers the n values at v, of the outputs `columns` (or 0 … n-1), to the list. 0 if one is not finite. */
static int NAME(offer_values)(const REAL *v, int64_t n, const void *columns, int wide,
                              const shore_constraint *c, const shore_support *support, shore_topk *top) {
    const int absolute = shore_is_absolute(c);
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t end = start + BLOCK < n ? start + BLOCK : n;
        const REAL threshold = NAME(round_down)(shore_topk_threshold(top));
        const int state = end - start == BLOCK ? NAME(look_at)(v + start, BLOCK, threshold, absolute)
                                               : NAME(look_at)(v + start, end - start, threshold, absolute);
        if (!state) continue;
        if (state & NAME(NOT_FINITE)) return 0;
        for (int64_t i = start; i < end; i++) {
            const double key = shore_key(c, v[i]);
            if (!(key > shore_topk_threshold(top))) continue;
            const int64_t index = NAME(column)(columns, wide, i);
            if (shore_permits(support, index)) shore_topk_push(top, key, v[i], index);
        }
    }
    return 1;
}

static int NAME(all_finite)(const REAL *v, int64_t n) {
    int not_finite = 0;
    for (int64_t start = 0; start < n && !not_finite; start += 4096) {
        const int64_t end = start + 4096 < n ? start + 4096 : n;
        for (int64_t i = start; i < end; i++) not_finite |= !((v[i] < 0 ? -v[i] : v[i]) <= REAL_MAX);
    }
    return !not_finite;
}

static inline int64_t NAME(write_row)(shore_topk *top, const shore_constraint *c, int64_t *index, REAL *value) {
    shore_settle(top, c);
    int64_t count = 0;
    for (int64_t i = 0; i < top->size; i++) {
        const REAL rounded = (REAL)top->entries[i].value;
        if (rounded == 0) continue; /* a simplex share that vanishes in this dtype */
        index[count] = top->entries[i].index;
        value[count++] = rounded;
    }
    return count;
}

/* One dense row. Returns how many entries were written, or -1 if the row holds NaN or infinity. */
static int64_t NAME(shore_project_dense)(const REAL *v, int64_t n_outputs, const shore_constraint *c,
                                         const shore_support *support, shore_topk *top, int64_t *index,
                                         REAL *value) {
    shore_topk_reset(top, shore_floor(c));
    if (support->list && support->list_allows) {
        if (!NAME(all_finite)(v, n_outputs)) return -1;
        for (int64_t i = 0; i < support->n_list; i++) {
            const int64_t j = support->list[i];
            const double key = shore_key(c, v[j]);
            if (key > shore_topk_threshold(top)) shore_topk_push(top, key, v[j], j);
        }
    } else if (!NAME(offer_values)(v, n_outputs, NULL, 0, c, support, top)) {
        return -1;
    }
    return NAME(write_row)(top, c, index, value);
}

/* One CSR row in canonical form: the same, with the entries that are not stored read as 0. */
static int64_t NAME(shore_project_csr)(const REAL *v, const void *columns, int wide, int64_t n_stored,
                                       int64_t n_outputs, const shore_constraint *c,
                                       const shore_support *support, shore_topk *top, int64_t *index,
                                       REAL *value) {
    shore_topk_reset(top, shore_floor(c));
    if (!NAME(offer_values)(v, n_stored, columns, wide, c, support, top)) return -1;
    if (c->kind == SHORE_SIMPLEX) {
        /* Only here a 0 can be among the best: the first `capacity` outputs that are not stored compete. */
        int64_t at = 0, offered = 0;
        for (int64_t j = 0; j < n_outputs && offered < top->capacity; j++) {
            if (at < n_stored && NAME(column)(columns, wide, at) == j) {
                at++;
            } else if (shore_permits(support, j)) {
                shore_topk_push(top, 0.0, 0.0, j);
                offered++;
            }
        }
    }
    return NAME(write_row)(top, c, index, value);
}

#undef BLOCK
