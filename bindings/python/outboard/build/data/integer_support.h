/*
 * Products of bytes with sums of 32 bits. A word is four bytes, the first lowest: unsigned ones in a, signed ones in b.
 * Every form gives the same sum; none saturates.
 */

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Four bytes as a word; signed ones become unsigned ones by turning their highest bits. */
static inline int32_t outboard_word(int32_t b0, int32_t b1, int32_t b2, int32_t b3, int32_t flip) {
  const uint32_t word = ((uint32_t)b0 & 255) | ((uint32_t)b1 & 255) << 8 | ((uint32_t)b2 & 255) << 16 | (uint32_t)b3 << 24;
  return (int32_t)(word ^ (uint32_t)flip * 0x01010101u);
}

#define OUTBOARD_BYTE_PRODUCT(a, b, i) (((a) >> (8 * (i)) & 255) * ((b) << (24 - 8 * (i)) >> 24))
#define OUTBOARD_DOT4_PLAIN(sum, a, b)                                               \
  ((sum) + OUTBOARD_BYTE_PRODUCT(a, b, 0) + OUTBOARD_BYTE_PRODUCT(a, b, 1) +         \
   OUTBOARD_BYTE_PRODUCT(a, b, 2) + OUTBOARD_BYTE_PRODUCT(a, b, 3))

static inline int32_t outboard_dot4(int32_t sum, int32_t a, int32_t b) {
  uint32_t total = (uint32_t)sum;
  for (int i = 0; i < 4; ++i) {
    total += (uint32_t)((int32_t)((uint32_t)a >> (8 * i) & 255) * (int8_t)((uint32_t)b >> (8 * i)));
  }
  return (int32_t)total;
}

/*
 * On x86-64: one instruction where the CPU multiplies bytes; else even and odd bytes as pairs of 16 bits, whose products
 * PMADDWD adds without loss.
 */
#define OUTBOARD_DOT4_PAIRS(prefix, bits, sum, a, b)                                 \
  prefix##_add_epi32(                                                                \
      prefix##_add_epi32(                                                            \
          (sum), prefix##_madd_epi16(prefix##_and_si##bits((a), prefix##_set1_epi16(255)), \
                                     prefix##_srai_epi16(prefix##_slli_epi16((b), 8), 8))), \
      prefix##_madd_epi16(prefix##_srli_epi16((a), 8), prefix##_srai_epi16((b), 8)))

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define OUTBOARD_DOT4_i32x4(sum, a, b) (i32x4) _mm_dpbusd_epi32((__m128i)(sum), (__m128i)(a), (__m128i)(b))
#define OUTBOARD_DOT4_i32x8(sum, a, b) (i32x8) _mm256_dpbusd_epi32((__m256i)(sum), (__m256i)(a), (__m256i)(b))
#define OUTBOARD_DOT4_i32x16(sum, a, b) (i32x16) _mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(a), (__m512i)(b))
#else
#if defined(__AVXVNNI__)
#define OUTBOARD_DOT4_i32x4(sum, a, b) (i32x4) _mm_dpbusd_avx_epi32((__m128i)(sum), (__m128i)(a), (__m128i)(b))
#define OUTBOARD_DOT4_i32x8(sum, a, b) (i32x8) _mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(a), (__m256i)(b))
#else
#if defined(__SSE2__)
#define OUTBOARD_DOT4_i32x4(sum, a, b) \
  (i32x4) OUTBOARD_DOT4_PAIRS(_mm, 128, (__m128i)(sum), (__m128i)(a), (__m128i)(b))
#endif
#if defined(__AVX2__)
#define OUTBOARD_DOT4_i32x8(sum, a, b) \
  (i32x8) OUTBOARD_DOT4_PAIRS(_mm256, 256, (__m256i)(sum), (__m256i)(a), (__m256i)(b))
#endif
#endif
#if defined(__AVX512BW__)
#define OUTBOARD_DOT4_i32x16(sum, a, b) \
  (i32x16) OUTBOARD_DOT4_PAIRS(_mm512, 512, (__m512i)(sum), (__m512i)(a), (__m512i)(b))
#endif
#endif

#if !defined(OUTBOARD_DOT4_i32x4)
#define OUTBOARD_DOT4_i32x4 OUTBOARD_DOT4_PLAIN
#endif
#if !defined(OUTBOARD_DOT4_i32x8)
#define OUTBOARD_DOT4_i32x8 OUTBOARD_DOT4_PLAIN
#endif
#if !defined(OUTBOARD_DOT4_i32x16)
#define OUTBOARD_DOT4_i32x16 OUTBOARD_DOT4_PLAIN
#endif
#define OUTBOARD_DOT4_i32x2 OUTBOARD_DOT4_PLAIN
#define OUTBOARD_DOT4_i32x32 OUTBOARD_DOT4_PLAIN

#define OUTBOARD_DOT4(lanes)                                                         \
  static inline i32x##lanes dot4_i32x##lanes(i32x##lanes sum, i32x##lanes a, i32x##lanes b) { \
    return OUTBOARD_DOT4_i32x##lanes(sum, a, b);                                     \
  }
