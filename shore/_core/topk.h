/* The best s of a stream of entries: a sorted list while s is small, a heap when it is large.
 *
 * Entries are ranked by key, equal keys by the lower index, whatever the order in which they arrive. Only
 * entries with key > floor are taken ("nothing to gain is not kept"). Keys are double for both dtypes: every
 * float is one exactly.
 */
#ifndef SHORE_TOPK_H
#define SHORE_TOPK_H

#include <stdint.h>
#include <stdlib.h>

/* Up to here an insertion into a sorted list beats a heap. */
#define SHORE_INSERTION_MAX 32

typedef struct {
    double key;
    double value;
    int64_t index;
} shore_entry;

typedef struct {
    shore_entry *entries; /* capacity of them; sorted best first, or a heap with the worst at 0 */
    int64_t size;
    int64_t capacity;
    double floor;
} shore_topk;

static inline int shore_better(const shore_entry *a, const shore_entry *b) {
    return a->key > b->key || (a->key == b->key && a->index < b->index);
}

static inline void shore_topk_reset(shore_topk *top, double floor) {
    top->size = 0;
    top->floor = floor;
}

static inline int shore_topk_is_list(const shore_topk *top) { return top->capacity <= SHORE_INSERTION_MAX; }

/* An entry whose key is below this cannot get in; one whose key is equal can, by its index, in a full list. */
static inline double shore_topk_threshold(const shore_topk *top) {
    if (top->size < top->capacity) return top->floor;
    return shore_topk_is_list(top) ? top->entries[top->size - 1].key : top->entries[0].key;
}

static inline void shore_list_push(shore_topk *top, shore_entry entry) {
    shore_entry *entries = top->entries;
    int64_t at;
    if (top->size < top->capacity)
        at = top->size++;
    else if (shore_better(&entry, &entries[top->size - 1]))
        at = top->size - 1;
    else
        return;
    for (; at > 0 && shore_better(&entry, &entries[at - 1]); at--) entries[at] = entries[at - 1];
    entries[at] = entry;
}

/* Puts `entry` where the hole at 0 of a heap of `size` entries leads. */
static inline void shore_heap_sift_down(shore_entry *entries, int64_t size, shore_entry entry) {
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= size) break;
        if (child + 1 < size && shore_better(&entries[child], &entries[child + 1])) child++; /* the worse one */
        if (!shore_better(&entry, &entries[child])) break;
        entries[at] = entries[child];
        at = child;
    }
    entries[at] = entry;
}

static inline void shore_heap_push(shore_topk *top, shore_entry entry) {
    shore_entry *entries = top->entries;
    if (top->size < top->capacity) {
        int64_t at = top->size++;
        while (at > 0 && shore_better(&entries[(at - 1) / 2], &entry)) {
            entries[at] = entries[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        entries[at] = entry;
    } else if (shore_better(&entry, &entries[0])) {
        shore_heap_sift_down(entries, top->size, entry);
    }
}

static inline void shore_topk_push(shore_topk *top, double key, double value, int64_t index) {
    shore_entry entry = {key, value, index};
    if (!(key > top->floor)) return;
    if (shore_topk_is_list(top))
        shore_list_push(top, entry);
    else
        shore_heap_push(top, entry);
}

static int shore_by_index(const void *a, const void *b) {
    const int64_t i = ((const shore_entry *)a)->index, j = ((const shore_entry *)b)->index;
    return (i > j) - (i < j);
}

static int shore_by_rank(const void *a, const void *b) {
    return shore_better((const shore_entry *)b, (const shore_entry *)a) ? 1 : -1;
}

static inline void shore_entries_sort(shore_entry *entries, int64_t size,
                                      int (*order)(const void *, const void *)) {
    if (size > SHORE_INSERTION_MAX) {
        qsort(entries, (size_t)size, sizeof(shore_entry), order);
        return;
    }
    for (int64_t i = 1; i < size; i++) {
        const shore_entry entry = entries[i];
        int64_t at = i;
        for (; at > 0 && order(&entries[at - 1], &entry) > 0; at--) entries[at] = entries[at - 1];
        entries[at] = entry;
    }
}

/* Best first. */
static inline void shore_topk_rank(shore_topk *top) {
    if (!shore_topk_is_list(top)) shore_entries_sort(top->entries, top->size, shore_by_rank);
}

#endif
