/* Includes the file named by SHORE_TEMPLATE once for every (instruction set, dtype). No include guard: each
 * kernel header defines SHORE_TEMPLATE and includes this file.
 *
 * A template sees
 *     REAL              float or double
 *     REAL_MAX          its largest finite value
 *     REAL_BITS         32 or 64
 *     SHORE_LEVEL       the level it is compiled for, one of the names of simd.h
 *     NAME(function)    the function's name for this REAL and level, e.g. function_float_avx2
 * and SHORE_TABLE(function, float) lists the versions by level afterwards.
 */
#include <float.h>
#include <math.h>
#include "simd.h"

#ifndef SHORE_MULTIVERSION_MACROS
#define SHORE_MULTIVERSION_MACROS
#define SHORE_JOIN_(name, dtype, level) name##_##dtype##_##level
#define SHORE_JOIN(name, dtype, level) SHORE_JOIN_(name, dtype, level)
#define NAME(function) SHORE_JOIN(function, REAL, SHORE_LEVEL_TAG)
#ifdef SHORE_X86_LEVELS
#define SHORE_TABLE(function, dtype) \
    {function##_##dtype##_base, function##_##dtype##_avx2, function##_##dtype##_avx512}
#else
#define SHORE_TABLE(function, dtype) \
    {function##_##dtype##_base, function##_##dtype##_base, function##_##dtype##_base}
#endif
#endif

#define SHORE_LEVEL SHORE_BASELINE
#define SHORE_LEVEL_TAG base
#include "both_dtypes.h"
#undef SHORE_LEVEL
#undef SHORE_LEVEL_TAG

#ifdef SHORE_X86_LEVELS

#define SHORE_LEVEL SHORE_AVX2
#define SHORE_LEVEL_TAG avx2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,f16c")
#endif
#include "both_dtypes.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef SHORE_LEVEL
#undef SHORE_LEVEL_TAG

#define SHORE_LEVEL SHORE_AVX512
#define SHORE_LEVEL_TAG avx512
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif
#include "both_dtypes.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef SHORE_LEVEL
#undef SHORE_LEVEL_TAG

#endif /* SHORE_X86_LEVELS */
#undef SHORE_TEMPLATE
