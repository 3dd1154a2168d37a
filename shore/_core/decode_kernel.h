/* Template (see multiversion.h): the decode engine of one thread.
 *
 * The thread keeps as many rows in work as a pass has lanes. After every full pass each row goes on by itself, as its
 * method has it, for as long as it can; rows that are done leave and new ones take their place, so no row waits for
 * another.
 */
#include "vector.h"
#include "coarse_vector.h"
#define V_SIZE(x) ((x) < 0 ? -(x) : (x))
#include "row_state.h"
#include "offers.h"
#include "pgd.h"
#include "pursuit.h"
#include "fista.h"
#include "full_pass.h"

/* Rows that a thread has in work at most. */
static int64_t NAME(shore_decode_lanes)(const shore_compression *phi) {
    if (phi->kind == SHORE_SIGNS) return SIGN_LANES;
    return DENSE_VECTORS * (phi->coarse && COARSE_LANES ? COARSE_LANES : V_LANES);
}

/* Bytes of a pass's block of residuals. */
static size_t NAME(block_bytes)(const shore_decode_options *o) {
    const shore_compression *phi = o->phi;
    if (o->max_rows <= NAME(few_rows)(phi)) return 0;
    if (phi->kind == SHORE_SIGNS) return (size_t)shore_signed_size(phi) * SIGN_LANES * sizeof(int16_t);
    const size_t coarse = phi->coarse ? (size_t)phi->coarse_stride * DENSE_VECTORS * COARSE_LANES : 0;
    const size_t exact = (size_t)phi->n_components * DENSE_VECTORS * V_LANES * sizeof(REAL);
    return coarse && o->method != SHORE_FISTA ? coarse : exact > coarse ? exact : coarse;
}

/* Hands out pieces of a workspace; counts them if there is none yet. */
static void *NAME(piece)(char *workspace, size_t *used, size_t bytes) {
    void *start = workspace ? workspace + *used : NULL;
    *used += shore_align(bytes);
    return start;
}

static size_t NAME(lay_out)(const shore_decode_options *o, char *workspace, NAME(row_state) **rows, void **block,
                            int16_t **scratch) {
    const shore_compression *phi = o->phi;
    const size_t m = (size_t)phi->n_components, s = (size_t)o->sparsity;
    const size_t chosen = o->method != SHORE_OMP ? 0 : s < m ? s : m;
    const size_t support = o->method == SHORE_FISTA ? (size_t)phi->n_outputs : s;
    const size_t n_signed = phi->kind == SHORE_SIGNS ? (size_t)shore_signed_size(phi) : 0;
    const size_t notes = (size_t)shore_note_capacity(o), n_rows = (size_t)o->max_rows;
    size_t used = 0;
    *rows = NAME(piece)(workspace, &used, n_rows * sizeof(NAME(row_state)));
    *block = NAME(piece)(workspace, &used, NAME(block_bytes)(o));
    const size_t in_scratch = phi->kind == SHORE_SIGNS ? SIGN_LANES * (size_t)shore_scratch_stride(phi) : m;
    *scratch = NAME(piece)(workspace, &used, o->max_rows <= NAME(few_rows)(phi) ? 0 : in_scratch * sizeof(int16_t));
    for (size_t i = 0; i < n_rows; i++) {
        NAME(row_state) row = {0};
        row.r = NAME(piece)(workspace, &used, m * sizeof(REAL));
        row.r_noted = NAME(piece)(workspace, &used, m * sizeof(REAL));
        row.r_signed = NAME(piece)(workspace, &used, n_signed * sizeof(REAL));
        NAME(sparse_vector) *vectors[3] = {&row.v, &row.v_1, &row.v_2};
        for (int k = 0; k < 3; k++) {
            vectors[k]->index = NAME(piece)(workspace, &used, support * sizeof(int64_t));
            vectors[k]->value = NAME(piece)(workspace, &used, support * sizeof(double));
        }
        row.top.entries = NAME(piece)(workspace, &used, s * sizeof(shore_entry));
        row.noted = NAME(piece)(workspace, &used, (notes + s) * sizeof(int64_t));
        row.noted_g = NAME(piece)(workspace, &used, (notes + s) * sizeof(double));
        row.asked = NAME(piece)(workspace, &used, (notes + 2 * s) * sizeof(int64_t));
        row.answer = NAME(piece)(workspace, &used, (notes + 2 * s) * sizeof(REAL));
        row.fit.chosen = NAME(piece)(workspace, &used, chosen * sizeof(int64_t));
        row.fit.unit = NAME(piece)(workspace, &used, chosen * sizeof(double));
        row.fit.L = NAME(piece)(workspace, &used, chosen * (chosen + 1) / 2 * sizeof(double));
        row.fit.z = NAME(piece)(workspace, &used, chosen * sizeof(double));
        row.fit.x = NAME(piece)(workspace, &used, chosen * sizeof(double));
        if (workspace) (*rows)[i] = row;
    }
    return used;
}

/* Bytes of workspace for one thread, to be given zeroed. */
static size_t NAME(shore_decode_bytes)(const shore_decode_options *o) {
    NAME(row_state) *rows;
    void *block;
    int16_t *scratch;
    return NAME(lay_out)(o, NULL, &rows, &block, &scratch);
}

static void NAME(finish)(const NAME(row_state) *s, int64_t keep, int64_t *index, REAL *value, int64_t *count,
                         shore_decode_outcome *outcome) {
    int64_t n = 0;
    index += s->row * keep;
    value += s->row * keep;
    for (int64_t e = 0; e < s->v.size; e++) {
        const double v = s->v.value[e];
        const REAL rounded = v > REAL_MAX ? REAL_MAX : v < -REAL_MAX ? -REAL_MAX : (REAL)v;
        if (rounded == 0) continue;
        index[n] = s->v.index[e];
        value[n++] = rounded;
    }
    count[s->row] = n;
    outcome[s->row] = (shore_decode_outcome){s->n_iter, s->full_passes, s->norm_r, s->step, s->converged};
}

/* What a row does with what a pass found. Returns 1 when it is done, 0 when it needs a pass. */
static int NAME(run)(const shore_decode_options *o, NAME(row_state) *s) {
    switch (o->method) {
    case SHORE_OMP: return NAME(run_omp)(o, s);
    case SHORE_FISTA: return NAME(run_fista)(o, s);
    default: return NAME(run_pgd)(o, s);
    }
}

/* Decodes rows, which it takes one by one from the counter that all threads share, until there are no more, or until it
 * is told to stop. */
static void NAME(shore_decode_rows)(const shore_decode_options *o, const REAL *B, int64_t n,
                                    const shore_support *permits, int64_t *counter, int64_t one_permit,
                                    char *workspace, int64_t *index, REAL *value, int64_t *count,
                                    shore_decode_outcome *outcome) {
    NAME(row_state) *states;
    NAME(row_state) *rows[MAX_LANES];
    NAME(pass) pass = {.options = o, .rows = rows, .n_outputs = o->phi->n_outputs};
    NAME(lay_out)(o, workspace, &states, &pass.block, &pass.scratch);
    for (int64_t i = 0; i < o->max_rows; i++) rows[i] = &states[i];
    if (one_permit && permits->list && permits->list_allows) { /* all rows visit the same few outputs */
        pass.list = permits->list;
        pass.n_outputs = permits->n_list;
    }

    int more = 1;
    int64_t unasked = 0;
    for (;;) {
        while (more && pass.n_rows < o->max_rows) {
            const int64_t row = shore_take_next(counter);
            if (row >= n) {
                more = 0;
                break;
            }
            NAME(row_state) *s = rows[pass.n_rows];
            NAME(begin_row)(o, s, row, B + row * o->phi->n_components, permits + (one_permit ? 0 : row));
            if (s->norm_b <= SHORE_MAX_NORM) {
                pass.n_rows++;
            } else { /* or NaN that the caller did not look for */
                s->norm_r = INFINITY;
                NAME(finish)(s, o->keep, index, value, count, outcome);
            }
        }
        if (!pass.n_rows) break;
        NAME(full_pass)(&pass);
        for (int64_t i = 0; i < pass.n_rows;) {
            NAME(row_state) *s = rows[i];
            if (!NAME(run)(o, s)) {
                i++;
                continue;
            }
            NAME(finish)(s, o->keep, index, value, count, outcome);
            rows[i] = rows[--pass.n_rows];
            rows[pass.n_rows] = s;
        }
        unasked += 1 + pass.n_outputs;
        if (unasked >= SHORE_OUTPUTS_UNASKED) {
            if (shore_is_stopped(o)) return;
            unasked = 0;
        }
    }
}

#undef DENSE_VECTORS
#undef DENSE_OUTPUTS
#undef SIGN_LANES
#undef SIGN_VECTORS
#undef MAX_LANES
#undef COARSE_LANES
#undef V_SIZE
#include "vector_end.h"
