/* Vectors of 16-bit integers, for coarse passes, at the level a template is compiled for. Like vector.h. */
#if defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX512
#define W __m512i
#define W_LANES 32
#define W_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define W_STORE(p, a) _mm512_storeu_si512((void *)(p), a)
#define W_ADD _mm512_add_epi16
#define W_ABS _mm512_abs_epi16
#define W_GT_BITS(a, b) ((unsigned)_mm512_cmpgt_epi16_mask(a, b))
#elif defined(SHORE_X86_LEVELS) && SHORE_LEVEL == SHORE_AVX2
#define W __m256i
#define W_LANES 16
#define W_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define W_STORE(p, a) _mm256_storeu_si256((__m256i *)(p), a)
#define W_ADD _mm256_add_epi16
#define W_ABS _mm256_abs_epi16
#define W_GT_BITS(a, b) NAME(gt_bits)(a, b)
static inline unsigned NAME(gt_bits)(__m256i a, __m256i b) {
    const __m256i greater = _mm256_cmpgt_epi16(a, b);
    return (unsigned)_mm_movemask_epi8(
        _mm_packs_epi16(_mm256_castsi256_si128(greater), _mm256_extracti128_si256(greater, 1)));
}
#elif defined(SHORE_X86_LEVELS)
#define W __m128i
#define W_LANES 8
#define W_LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define W_STORE(p, a) _mm_storeu_si128((__m128i *)(p), a)
#define W_ADD _mm_add_epi16
#define W_ABS(a) _mm_max_epi16(a, _mm_sub_epi16(_mm_setzero_si128(), a))
#define W_GT_BITS(a, b) \
    ((unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_cmpgt_epi16(a, b), _mm_setzero_si128())))
#else
#define W int16_t
#define W_LANES 1
#define W_LOAD(p) (*(p))
#define W_STORE(p, a) (*(p) = (a))
#define W_ADD(a, b) ((int16_t)((a) + (b)))
#define W_ABS(a) ((int16_t)((a) < 0 ? -(a) : (a)))
#define W_GT_BITS(a, b) ((unsigned)((a) > (b)))
#endif
