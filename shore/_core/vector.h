/* Vectors of REAL at the level a template is compiled for. No include guard: included inside templates, after
 * multiversion.h has set REAL and SHORE_LEVEL, and undone by vector_end.h.
 *
 *     V              the vector type, V_LANES of REAL
 *     V_MAX          the second where the first is not greater
 *     V_GT_BITS      bit l is set where lane l of the first is greater
 *     FMA            a·b + c for one REAL, rounded as V_FMA rounds it: fused where the level has it
 *
 * Where there are no intrinsics, a vector has one lane and the compiler is left to join neighbours.
 */
#if defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512 && REAL_BITS == 32
#define V __m512
#define V_LANES 16
#define V_LOAD _mm512_loadu_ps
#define V_STORE _mm512_storeu_ps
#define V_SET1 _mm512_set1_ps
#define V_ADD _mm512_add_ps
#define V_MAX _mm512_max_ps
#define V_FMA _mm512_fmadd_ps
#define V_ABS _mm512_abs_ps
#define V_GT_BITS(a, b) ((unsigned)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define FMA __builtin_fmaf
#elif defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512
#define V __m512d
#define V_LANES 8
#define V_LOAD _mm512_loadu_pd
#define V_STORE _mm512_storeu_pd
#define V_SET1 _mm512_set1_pd
#define V_ADD _mm512_add_pd
#define V_MAX _mm512_max_pd
#define V_FMA _mm512_fmadd_pd
#define V_ABS _mm512_abs_pd
#define V_GT_BITS(a, b) ((unsigned)_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ))
#define FMA __builtin_fma
#elif defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX2 && REAL_BITS == 32
#define V __m256
#define V_LANES 8
#define V_LOAD _mm256_loadu_ps
#define V_STORE _mm256_storeu_ps
#define V_SET1 _mm256_set1_ps
#define V_ADD _mm256_add_ps
#define V_MAX _mm256_max_ps
#define V_FMA _mm256_fmadd_ps
#define V_ABS(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define V_GT_BITS(a, b) ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)))
#define FMA __builtin_fmaf
#elif defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX2
#define V __m256d
#define V_LANES 4
#define V_LOAD _mm256_loadu_pd
#define V_STORE _mm256_storeu_pd
#define V_SET1 _mm256_set1_pd
#define V_ADD _mm256_add_pd
#define V_MAX _mm256_max_pd
#define V_FMA _mm256_fmadd_pd
#define V_ABS(a) _mm256_andnot_pd(_mm256_set1_pd(-0.0), a)
#define V_GT_BITS(a, b) ((unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)))
#define FMA __builtin_fma
#elif defined(SHORE_X86_LEVELS) && REAL_BITS == 32
#define V __m128
#define V_LANES 4
#define V_LOAD _mm_loadu_ps
#define V_STORE _mm_storeu_ps
#define V_SET1 _mm_set1_ps
#define V_ADD _mm_add_ps
#define V_MAX _mm_max_ps
#define V_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define V_ABS(a) _mm_andnot_ps(_mm_set1_ps(-0.0f), a)
#define V_GT_BITS(a, b) ((unsigned)_mm_movemask_ps(_mm_cmpgt_ps(a, b)))
#define FMA(a, b, c) ((a) * (b) + (c))
#elif defined(SHORE_X86_LEVELS)
#define V __m128d
#define V_LANES 2
#define V_LOAD _mm_loadu_pd
#define V_STORE _mm_storeu_pd
#define V_SET1 _mm_set1_pd
#define V_ADD _mm_add_pd
#define V_MAX _mm_max_pd
#define V_FMA(a, b, c) _mm_add_pd(_mm_mul_pd(a, b), c)
#define V_ABS(a) _mm_andnot_pd(_mm_set1_pd(-0.0), a)
#define V_GT_BITS(a, b) ((unsigned)_mm_movemask_pd(_mm_cmpgt_pd(a, b)))
#define FMA(a, b, c) ((a) * (b) + (c))
#else
#define V REAL
#define V_LANES 1
#define V_LOAD(p) (*(p))
#define V_STORE(p, a) (*(p) = (a))
#define V_SET1(a) (a)
#define V_ADD(a, b) ((a) + (b))
#define V_MAX(a, b) ((a) > (b) ? (a) : (b))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_ABS(a) ((a) < 0 ? -(a) : (a))
#define V_GT_BITS(a, b) ((unsigned)((a) > (b)))
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
