/* The feasible sets F and the rule that says which outputs a row may use.
 *
 * The projection onto {s-sparse} ∩ F keeps the s entries that gain most, ranked by a key:
 *     real      key |v|                                    value v
 *     nonneg    key v, must be > 0                         value v
 *     binary    key v, must be > 1/2                       value 1
 *     box       key √gain, gain = v² - (v - clip(v))²      value clip(v)
 *     simplex   key v                                      value max(v - θ, 0), summing to the total
 */
#ifndef SHORE_CONSTRAINT_H
#define SHORE_CONSTRAINT_H

#include <math.h>
#include <stdint.h>
#include "shore.h" /* shore_constraint */
#include "topk.h"

/* Which outputs a row may use: all but those marked in `forbidden`, and only (or none of) those listed. */
typedef struct {
    const uint8_t *forbidden; /* one byte an output, or NULL */
    const int64_t *list;      /* sorted outputs of this row, or NULL */
    int64_t n_list;
    int list_allows;          /* 1: only the listed ones, 0: none of them */
} shore_support;

static inline int shore_is_absolute(const shore_constraint *c) {
    return c->kind == SHORE_REAL || (c->kind == SHORE_BOX && c->low < 0);
}

/* Entries whose key is not above this gain nothing. */
static inline double shore_floor(const shore_constraint *c) {
    return c->kind == SHORE_BINARY ? 0.5 : c->kind == SHORE_SIMPLEX ? -INFINITY : 0.0;
}

/* Never above |v|, so that |v| > threshold finds every entry whose key is; monotone in v on both sides of 0. */
static inline double shore_box_key(double v, double low, double high) {
    const double size = fabs(v), bound = v > 0 ? high : -low;
    if (size <= bound) return size;
    if (bound == 0) return 0;
    /* √(v² - (v - c)²) = √(c (2v - c)), in parts where the product would overflow or vanish */
    const double gain = bound * (2 * size - bound);
    const double key = gain > 1e-280 && gain < 1e280 ? sqrt(gain)
                                                     : sqrt(bound) * sqrt(size - 0.5 * bound) * 1.4142135623730951;
    return key < bound ? bound : key > size ? size : key;
}

static inline double shore_key(const shore_constraint *c, double v) {
    switch (c->kind) {
    case SHORE_REAL: return fabs(v);
    case SHORE_BOX: return shore_box_key(v, c->low, c->high);
    default: return v;
    }
}

static inline int shore_permits(const shore_support *support, int64_t index) {
    if (support->forbidden && support->forbidden[index]) return 0;
    if (!support->list) return 1;
    int64_t low = 0, high = support->n_list;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (support->list[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return (low < support->n_list && support->list[low] == index) == support->list_allows;
}

/* The selected entries projected onto the simplex, those that end at 0 dropped. The largest value is taken off
 * first: the projection does not change, and huge values lose no digits of the total. */
static inline void shore_simplex(shore_topk *top, double total) {
    if (!top->size) return;
    shore_topk_rank(top);
    shore_entry *entries = top->entries;
    const double largest = entries[0].value;
    double sum = 0, theta = 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < top->size; i++) {
        const double value = entries[i].value - largest; /* ≤ 0, -∞ where it overflows */
        const double next = (sum + value - total) / (double)(i + 1);
        if (!(value > next)) break;
        sum += value;
        theta = next;
        kept = i + 1;
    }
    for (int64_t i = 0; i < kept; i++) entries[i].value = entries[i].value - largest - theta;
    top->size = kept;
}

/* Turns the selected entries into the projection: values in F, sorted by index. */
static inline void shore_settle(shore_topk *top, const shore_constraint *c) {
    if (c->kind == SHORE_SIMPLEX) shore_simplex(top, c->total);
    for (int64_t i = 0; i < top->size; i++) {
        double *value = &top->entries[i].value;
        if (c->kind == SHORE_BINARY) *value = 1;
        if (c->kind == SHORE_BOX) *value = *value < c->low ? c->low : *value > c->high ? c->high : *value;
    }
    shore_entries_sort(top->entries, top->size, shore_by_index);
}

#endif
