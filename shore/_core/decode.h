/* Decoding of many rows: the kernels by dtype and level. */
#ifndef SHORE_DECODE_H
#define SHORE_DECODE_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#ifdef _MSC_VER
#include <intrin.h>
#endif
#ifdef _WIN32
#include <windows.h>
#else
#include <sched.h>
#endif
#include "decode_options.h"
#include "topk.h"

#if defined(__GNUC__) || defined(__clang__)
#define SHORE_INLINE static inline __attribute__((always_inline))
#define SHORE_NOINLINE __attribute__((noinline))
#define SHORE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define shore_lowest_bit(bits) __builtin_ctz(bits)
#else
#define SHORE_INLINE static inline
#define SHORE_NOINLINE
#define SHORE_UNLIKELY(x) (x)
static inline int shore_lowest_bit(unsigned bits) {
    int bit = 0;
    while (!(bits >> bit & 1)) bit++;
    return bit;
}
#endif

/* Rows are handed out one by one, to whichever thread is free. */
static inline int64_t shore_take_next(int64_t *counter) {
#if defined(__GNUC__) || defined(__clang__)
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#elif defined(_MSC_VER)
    return _InterlockedExchangeAdd64(counter, 1);
#else
    return (*counter)++; /* a compiler without atomics has no threads here either */
#endif
}

/* ---------------------------------------------------------------- ending early */

#if defined(__GNUC__) || defined(__clang__)
#define shore_read(flag) __atomic_load_n(flag, __ATOMIC_RELAXED)
#define shore_add(flag, n) __atomic_fetch_add(flag, n, __ATOMIC_RELAXED)
#elif defined(_MSC_VER)
#define shore_read(flag) (*(volatile int *)(flag))
#define shore_add(flag, n) _InterlockedExchangeAdd((volatile long *)(flag), n)
#else
#define shore_read(flag) (*(flag))
#define shore_add(flag, n) (*(flag) += (n))
#endif

/* Lets other threads run; `long_since` it has waited: with less of a hurry. */
static void shore_give_way(int long_since) {
#ifdef _WIN32
    Sleep((DWORD)long_since);
#else
    const struct timespec pause = {.tv_nsec = 200000};
    if (long_since)
        nanosleep(&pause, NULL);
    else
        sched_yield();
#endif
}

#define SHORE_ASK_SECONDS 0.25
/* Steps within a row, and outputs that passes look at, between two looks at the clock. */
#define SHORE_STEPS_UNASKED 64
#define SHORE_OUTPUTS_UNASKED 4096

static SHORE_NOINLINE void shore_ask(shore_interrupt *interrupt) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    const double now = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
    if (interrupt->asked == 0) interrupt->asked = now;
    if (fabs(now - interrupt->asked) < SHORE_ASK_SECONDS) return; /* a clock may be put back, too */
    interrupt->asked = now;
    if (interrupt->ask()) shore_add(&interrupt->stop, 1);
}

static inline int shore_is_stopped(const shore_decode_options *o) {
    if (!o->interrupt) return 0;
    if (o->asks) shore_ask(o->interrupt);
    return shore_read(&o->interrupt->stop) != 0;
}

/* The thread that asks has no rows left: it goes on asking until the others have none. All rows are taken by then, so
 * no engine that is yet to start has any. */
static void shore_wait_for_others(const shore_decode_options *o) {
    for (int64_t turn = 0; shore_read(&o->interrupt->at_work) > 0; turn++) {
        if (turn % SHORE_STEPS_UNASKED == 0) shore_is_stopped(o);
        shore_give_way(turn > 4096);
    }
}

/* Rows past this are not decoded: squares of their results would overflow. */
#define SHORE_MAX_NORM 1e150

/* Past all binary exponents of a double: a row that still diverges cannot be decoded, and its result is 0. */
#define SHORE_MAX_HALVINGS 2200

/* About so many outputs may be noted for nothing but noise. */
#define SHORE_NOISE_NOTES 64

/* The quantile of N(0, 1) that is exceeded with probability p < 1/2, to three digits (Abramowitz and Stegun, 26.2.23). */
static inline double shore_normal_quantile(double p) {
    const double t = sqrt(-2 * log(p));
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* For note_quantile. */
static inline double shore_note_quantile(int64_t n_outputs, int absolute) {
    const double p = (double)SHORE_NOISE_NOTES / (double)n_outputs / (absolute ? 2 : 1);
    return p < 0.5 ? shore_normal_quantile(p) : 0;
}

/* What a coarse pass finds for a row offers exactly in lots of this size. */
#define SHORE_RESOLVE 32

/* Outputs that a pass may note for a row: for the certificate, and with more than this the row goes without; or, with
 * fista, for good. */
static inline int64_t shore_note_capacity(const shore_decode_options *o) {
    return o->method == SHORE_FISTA ? o->phi->n_outputs : 256 + 8 * o->sparsity;
}

static inline size_t shore_align(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

#define SHORE_TEMPLATE "decode_kernel.h"
#include "multiversion.h"

#define SHORE_DECLARE(REAL)                                                                                   \
    typedef void (*shore_decode_rows_##REAL##_fn)(const shore_decode_options *, const REAL *, int64_t,        \
                                                  const shore_support *, int64_t *, int64_t, char *,          \
                                                  int64_t *, REAL *, int64_t *, shore_decode_outcome *);      \
    typedef size_t (*shore_decode_bytes_##REAL##_fn)(const shore_decode_options *);                           \
    typedef int64_t (*shore_decode_lanes_##REAL##_fn)(const shore_compression *);                             \
    static const shore_decode_rows_##REAL##_fn shore_decode_rows_##REAL[] = SHORE_TABLE(shore_decode_rows, REAL); \
    static const shore_decode_bytes_##REAL##_fn shore_decode_bytes_##REAL[] =                                 \
        SHORE_TABLE(shore_decode_bytes, REAL);                                                                \
    static const shore_decode_lanes_##REAL##_fn shore_decode_lanes_##REAL[] =                                 \
        SHORE_TABLE(shore_decode_lanes, REAL);
SHORE_DECLARE(float)
SHORE_DECLARE(double)
#undef SHORE_DECLARE

#endif
