/* Reading of the text of the Extreme Classification Repository, a line at a time, and of its numbers, exactly.
 *
 * A line is `label,label,... feature:value feature:value ...` and ends in '\n', so that no scan needs to look
 * for the end of its buffer. A number is decided by the first of these that can:
 *     up to 2^53 times or over a power of ten up to 10^22: both are doubles, and the one operation rounds once;
 *     64 bits of digits times 64 bits of the power of ten: the product is known to less than 2^64 in 2^128,
 *         which settles the rounding but for one case in a thousand (see shore_xmc_scale);
 *     the caller, who knows how to convert any decimal (SHORE_XMC_SLOW).
 * Nothing asks the locale.
 */
#ifndef SHORE_XMC_H
#define SHORE_XMC_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

enum {
    SHORE_XMC_DONE = 0,
    SHORE_XMC_SLOW,        /* convert `token`, store it at `value`, call again */
    SHORE_XMC_INDEX,       /* no index where one was expected */
    SHORE_XMC_RANGE_LABEL, /* index out of range: `number` */
    SHORE_XMC_RANGE_FEATURE,
    SHORE_XMC_LABELS,      /* junk behind a label */
    SHORE_XMC_COLON,       /* an index without ':' */
    SHORE_XMC_NO_VALUE,    /* nothing behind ':' */
    SHORE_XMC_VALUE,       /* no number behind ':' */
    SHORE_XMC_OVERFLOW,    /* past the largest number of the dtype; `number` is the index */
    SHORE_XMC_TWICE_LABEL, /* an index twice in a row: `number` */
    SHORE_XMC_TWICE_FEATURE,
    SHORE_XMC_EXTRA        /* a row too many */
};

enum { SHORE_XMC_AT_START = 0, SHORE_XMC_IN_LABELS, SHORE_XMC_IN_FEATURES };

typedef struct {
    int64_t index;
    double value;
} shore_xmc_entry;

typedef struct {
    shore_xmc_entry *entries;
    int64_t size;
    int ascending; /* indices so far, strictly */
} shore_xmc_list;

typedef struct {
    /* what the header and the caller say */
    int64_t n_features, n_outputs, base;
    int with_values; /* labels are label:value */
    int single;      /* values are to be rounded to float next */
    /* the line in work */
    const char *at;
    int stage;
    shore_xmc_list labels, features;
    /* what the caller is told */
    const char *token;
    int64_t token_length; /* of a slow number */
    double *value;
    int64_t number;
} shore_xmc_line;

/* ---- numbers ---- */

/* 10^q = (T + e) 2^E with 2^63 <= T < 2^64 and 0 <= e < 1; filled at import, only read afterwards. */
#define SHORE_XMC_LOWEST (-330)
#define SHORE_XMC_HIGHEST 310
static uint64_t shore_xmc_power[SHORE_XMC_HIGHEST - SHORE_XMC_LOWEST + 1];
static int32_t shore_xmc_power_exponent[SHORE_XMC_HIGHEST - SHORE_XMC_LOWEST + 1];

static const double shore_xmc_exact_power[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline int shore_xmc_leading_zeros(uint64_t x) { /* x > 0 */
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_clzll(x);
#else
    int zeros = 0;
    while (!(x >> 63)) {
        x <<= 1;
        zeros++;
    }
    return zeros;
#endif
}

/* The upper 64 bits of a product of two 64-bit numbers. */
static inline uint64_t shore_xmc_high(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    return (uint64_t)((unsigned __int128)a * b >> 64);
#else
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

/* digits * 10^q as the nearest double, if 64 bits of the power decide it.
 *
 * With W = digits shifted up to 64 bits, the true product is in [W T, W T + W), an interval of less than 2^64. Let
 * `high` be the upper 64 bits of W T, `rest` those of them below the 53 bits of the result, and half the weight of
 * the bit just below these. If rest >= half + 1 the true value is above the middle, and at most by 2^64 above the
 * next multiple, which rounds there too: up. If rest <= half - 2 it is below the middle: down. Else: not decided. */
static inline int shore_xmc_scale(uint64_t digits, int64_t q, double *value) {
    if (q < SHORE_XMC_LOWEST || q > SHORE_XMC_HIGHEST) return 0;
    const int zeros = shore_xmc_leading_zeros(digits);
    const uint64_t high = shore_xmc_high(digits << zeros, shore_xmc_power[q - SHORE_XMC_LOWEST]);
    const int below = (high >> 63) ? 11 : 10;
    const uint64_t rest = high & ((1ull << below) - 1), half = 1ull << (below - 1);
    const uint64_t mantissa = (high >> below) + (rest > half);
    if (rest == half || rest == half - 1) return 0;
    const int32_t exponent = shore_xmc_power_exponent[q - SHORE_XMC_LOWEST] - zeros + 64 + below + 52 + 1023;
    if (exponent < 1 || exponent > 2045) return 0; /* subnormal, or near the largest */
    /* adding keeps the carry of a mantissa that was rounded up to 2^53 */
    const uint64_t bits = ((uint64_t)exponent << 52) + (mantissa - (1ull << 52));
    memcpy(value, &bits, 8);
    return 1;
}

/* Whether rounding a double on to float could differ from rounding the decimal at once: it lies in the middle of two
 * floats, or where floats are subnormal and the middles are elsewhere. */
static inline int shore_xmc_rounds_twice(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return (bits & 0x1FFFFFFFu) == 0x10000000u || (fabs(value) < FLT_MIN && value != 0);
}

static inline int shore_xmc_is_digit(char c) { return (unsigned char)(c - '0') <= 9; }

/* The number at *at, which moves behind it. */
static inline int shore_xmc_number(const char **at, int single, double *value) {
    const char *p = *at;
    const int negative = *p == '-';
    if (*p == '-' || *p == '+') p++;

    const char *first = p;
    uint64_t digits = 0; /* may wrap around; not used then */
    while (shore_xmc_is_digit(*p)) digits = 10 * digits + (uint64_t)(*p++ - '0');
    int64_t n_digits = p - first, q = 0;
    if (*p == '.') {
        const char *point = p++;
        while (shore_xmc_is_digit(*p)) digits = 10 * digits + (uint64_t)(*p++ - '0');
        q = point + 1 - p;
        n_digits -= q;
    }
    if (!n_digits) {
        *at = p;
        return SHORE_XMC_VALUE;
    }
    if (n_digits > 19) /* leading zeros do not count */
        for (const char *zero = first; *zero == '0' || *zero == '.'; zero++) n_digits -= *zero == '0';
    if (*p == 'e' || *p == 'E') {
        p++;
        const int down = *p == '-';
        if (*p == '-' || *p == '+') p++;
        if (!shore_xmc_is_digit(*p)) {
            *at = p;
            return SHORE_XMC_VALUE;
        }
        int64_t exponent = 0;
        for (; shore_xmc_is_digit(*p); p++)
            if (exponent < 1000000000000) exponent = 10 * exponent + (*p - '0');
        q += down ? -exponent : exponent;
    }
    *at = p;

    double size;
    if (n_digits > 19) return SHORE_XMC_SLOW;
    if (!digits)
        size = 0;
#if FLT_EVAL_METHOD == 0
    else if (digits <= 1ull << 53 && q >= -22 && q <= 22)
        size = q < 0 ? (double)digits / shore_xmc_exact_power[-q] : (double)digits * shore_xmc_exact_power[q];
#endif
    else if (!shore_xmc_scale(digits, q, &size))
        return SHORE_XMC_SLOW;
    if (single && shore_xmc_rounds_twice(size)) return SHORE_XMC_SLOW;
    *value = negative ? -size : size;
    return SHORE_XMC_DONE;
}

/* ---- lines ---- */

static inline int shore_xmc_is_end(const char *p) { return *p == '\n' || (*p == '\r' && p[1] == '\n'); }

static inline int shore_xmc_is_gap(const char *p) { return *p == ' ' || *p == '\t' || shore_xmc_is_end(p); }

/* The digits of an index; more of them than any index has count as the largest number. */
static inline int shore_xmc_digits(const char **at, int64_t *number) {
    const char *p = *at;
    uint64_t found = 0;
    while (shore_xmc_is_digit(*p)) found = 10 * found + (uint64_t)(*p++ - '0');
    const int64_t n_digits = p - *at;
    *at = p;
    *number = n_digits > 18 ? INT64_MAX : (int64_t)found;
    return n_digits > 0;
}

static inline shore_xmc_entry *shore_xmc_append(shore_xmc_list *list, int64_t index, double value) {
    shore_xmc_entry *entry = &list->entries[list->size];
    list->ascending &= !list->size || entry[-1].index < index;
    list->size++;
    entry->index = index;
    entry->value = value;
    return entry;
}

static inline void shore_xmc_begin(shore_xmc_line *line, const char *at) {
    line->at = at;
    line->stage = SHORE_XMC_AT_START;
    line->labels.size = line->features.size = 0;
    line->labels.ascending = line->features.ascending = 1;
}

/* Reads on in the line; `at` is its end when that is reached. */
static inline int shore_xmc_read(shore_xmc_line *line) {
    const char *p = line->at;
    int64_t number;
    double value;
    if (line->stage == SHORE_XMC_AT_START)
        line->stage = shore_xmc_is_gap(p) ? SHORE_XMC_IN_FEATURES : SHORE_XMC_IN_LABELS;

    while (line->stage == SHORE_XMC_IN_LABELS) {
        int status = SHORE_XMC_DONE;
        line->token = p;
        if (!shore_xmc_digits(&p, &number)) return SHORE_XMC_INDEX;
        if (*p == ':' && !line->with_values && !line->labels.size) { /* a row without labels */
            p = line->token;
            line->stage = SHORE_XMC_IN_FEATURES;
            break;
        }
        line->number = number;
        if (number < line->base || number - line->base >= line->n_outputs) return SHORE_XMC_RANGE_LABEL;
        value = 1;
        if (line->with_values) {
            if (*p != ':') return SHORE_XMC_COLON;
            const char *text = ++p;
            if (shore_xmc_is_gap(p) || *p == ',') return SHORE_XMC_NO_VALUE;
            status = shore_xmc_number(&p, line->single, &value);
            if (status == SHORE_XMC_VALUE || !(shore_xmc_is_gap(p) || *p == ',')) return SHORE_XMC_VALUE;
            if (status == SHORE_XMC_SLOW) {
                line->token = text;
                line->token_length = p - text;
            }
        } else if (!shore_xmc_is_gap(p) && *p != ',') {
            return SHORE_XMC_LABELS;
        }
        shore_xmc_entry *entry = shore_xmc_append(&line->labels, number - line->base, value);
        if (*p == ',')
            p++;
        else
            line->stage = SHORE_XMC_IN_FEATURES;
        if (status == SHORE_XMC_SLOW) {
            line->value = &entry->value;
            line->at = p;
            return SHORE_XMC_SLOW;
        }
    }

    for (;;) {
        while (*p == ' ' || *p == '\t') p++;
        line->token = p;
        if (!shore_xmc_digits(&p, &number)) {
            if (!shore_xmc_is_end(p)) return SHORE_XMC_INDEX;
            line->at = p;
            return SHORE_XMC_DONE;
        }
        line->number = number;
        if (*p != ':') return SHORE_XMC_COLON;
        if (number < line->base || number - line->base >= line->n_features) return SHORE_XMC_RANGE_FEATURE;
        const char *text = ++p;
        if (shore_xmc_is_gap(p)) return SHORE_XMC_NO_VALUE;
        const int status = shore_xmc_number(&p, line->single, &value);
        if (status == SHORE_XMC_VALUE || !shore_xmc_is_gap(p)) return SHORE_XMC_VALUE;
        shore_xmc_entry *entry = shore_xmc_append(&line->features, number - line->base, value);
        if (status == SHORE_XMC_SLOW) {
            line->token = text;
            line->token_length = p - text;
            line->value = &entry->value;
            line->at = p;
            return SHORE_XMC_SLOW;
        }
    }
}

static int shore_xmc_by_index(const void *a, const void *b) {
    const int64_t i = ((const shore_xmc_entry *)a)->index, j = ((const shore_xmc_entry *)b)->index;
    return (i > j) - (i < j);
}

/* Sorts a list by index; the first index that is there twice, or -1. */
static inline int64_t shore_xmc_sort(shore_xmc_list *list) {
    if (list->ascending) return -1;
    qsort(list->entries, (size_t)list->size, sizeof(shore_xmc_entry), shore_xmc_by_index);
    for (int64_t i = 1; i < list->size; i++)
        if (list->entries[i - 1].index == list->entries[i].index) return list->entries[i].index;
    return -1;
}

#endif
