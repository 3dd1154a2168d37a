/* Run-time choice of the instruction set.
 *
 * The package is compiled for the baseline of the platform. Where the compiler can build single functions for
 * a wider instruction set (GCC and Clang on x86-64), multiversion.h compiles every hot template once more for
 * AVX2 and for AVX-512, and the level found here picks among them. Everywhere else there is the baseline only.
 */
#ifndef SHORE_SIMD_H
#define SHORE_SIMD_H

#include <stdint.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define SHORE_X86_LEVELS 1
#include <immintrin.h>
#endif

/* Macros, not an enum: templates ask for them in #if. */
#define SHORE_BASELINE 0
#define SHORE_AVX2 1
#define SHORE_AVX512 2

/* The widest level that this machine runs. */
static inline int shore_simd_available(void) {
#ifdef SHORE_X86_LEVELS
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return SHORE_BASELINE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        return SHORE_AVX512;
    return SHORE_AVX2;
#else
    return SHORE_BASELINE;
#endif
}

#endif
