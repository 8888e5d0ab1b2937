/* Helpers of generated kernels: what C's operators leave undefined, or do at another width than ONNX. */

#define OUTBOARD_INFINITY __builtin_inff()
#define OUTBOARD_NAN __builtin_nanf("")

/* Kernels stay functions of their own, under their own names, so that a crash or a profile can name them. */
#if defined(__GNUC__) && !defined(__clang__)
#define OUTBOARD_KERNEL static __attribute__((noipa))
#else
#define OUTBOARD_KERNEL static __attribute__((noinline))
#endif

/*
 * What reads memory under a condition. In a loop over pairs GCC 12 with AVX makes two such reads one masked vector load whose mask
 * is that of other elements; a loop with a statement in assembler, even an empty one, stays as it is.
 */
#if defined(__GNUC__) && !defined(__clang__)
#define OUTBOARD_READ(value) ({ __asm__ volatile(""); (value); })
#else
#define OUTBOARD_READ(value) (value)
#endif

#define OUTBOARD_MIN_MAX(type, suffix)                                               \
  static inline type min_##suffix(type a, type b) { return a < b ? a : b; }          \
  static inline type max_##suffix(type a, type b) { return a > b ? a : b; }

/*
 * Division by zero gives zero, the smallest number divided by minus one itself; a shift by the width or more, or by a
 * negative number, moves every bit out. Nothing traps.
 */
#define OUTBOARD_SIGNED(bits)                                                        \
  static inline int##bits##_t shift_left_i##bits(int##bits##_t a, int##bits##_t by) { \
    return (uint64_t)by < bits ? (int##bits##_t)((uint64_t)a << by) : 0;             \
  }                                                                                  \
  static inline int##bits##_t shift_right_i##bits(int##bits##_t a, int##bits##_t by) { \
    return (int##bits##_t)(a >> ((uint64_t)by < bits ? by : bits - 1));              \
  }                                                                                  \
  OUTBOARD_MIN_MAX(int##bits##_t, i##bits)                                           \
  static inline int##bits##_t div_i##bits(int##bits##_t a, int##bits##_t b) {        \
    return b == 0 ? 0 : b == -1 ? (int##bits##_t)(0 - (uint##bits##_t)a) : a / b;    \
  }                                                                                  \
  static inline int##bits##_t mod_i##bits(int##bits##_t a, int##bits##_t b) {        \
    return b == 0 || b == -1 ? 0 : a % b;                                            \
  }                                                                                  \
  static inline int##bits##_t abs_i##bits(int##bits##_t a) {                         \
    return a < 0 ? (int##bits##_t)(0 - (uint##bits##_t)a) : a;                       \
  }                                                                                  \
  static inline int##bits##_t power_i##bits(int##bits##_t base, int##bits##_t exponent) { \
    uint64_t result = 1;                                                             \
    for (uint64_t square = (uint64_t)base; exponent > 0; exponent >>= 1, square *= square) { \
      result = exponent & 1 ? result * square : result;                              \
    }                                                                                \
    return (int##bits##_t)result;                                                    \
  }

#define OUTBOARD_UNSIGNED(bits)                                                      \
  static inline uint##bits##_t shift_left_u##bits(uint##bits##_t a, uint##bits##_t by) { \
    return by < bits ? (uint##bits##_t)((uint64_t)a << by) : 0;                      \
  }                                                                                  \
  static inline uint##bits##_t shift_right_u##bits(uint##bits##_t a, uint##bits##_t by) { \
    return by < bits ? (uint##bits##_t)((uint64_t)a >> by) : 0;                      \
  }                                                                                  \
  OUTBOARD_MIN_MAX(uint##bits##_t, u##bits)                                          \
  static inline uint##bits##_t div_u##bits(uint##bits##_t a, uint##bits##_t b) {     \
    return (uint##bits##_t)(b == 0 ? 0 : a / b);                                     \
  }                                                                                  \
  static inline uint##bits##_t mod_u##bits(uint##bits##_t a, uint##bits##_t b) {     \
    return (uint##bits##_t)(b == 0 ? 0 : a % b);                                     \
  }                                                                                  \
  static inline uint##bits##_t power_u##bits(uint##bits##_t base, uint##bits##_t exponent) { \
    uint64_t result = 1;                                                             \
    for (uint64_t square = base; exponent > 0; exponent >>= 1, square *= square) {   \
      result = exponent & 1 ? result * square : result;                              \
    }                                                                                \
    return (uint##bits##_t)result;                                                   \
  }

OUTBOARD_MIN_MAX(float, f32)
OUTBOARD_MIN_MAX(double, f64)
OUTBOARD_SIGNED(8)
OUTBOARD_SIGNED(16)
OUTBOARD_SIGNED(32)
OUTBOARD_SIGNED(64)
OUTBOARD_UNSIGNED(8)
OUTBOARD_UNSIGNED(16)
OUTBOARD_UNSIGNED(32)
OUTBOARD_UNSIGNED(64)

#ifdef OUTBOARD_USES_HALF
typedef _Float16 outboard_half;
OUTBOARD_MIN_MAX(outboard_half, f16)
#endif

#define OUTBOARD_BITS(from, to, from_type, to_type)                                  \
  static inline to_type bits_##from##_##to(from_type value) {                        \
    to_type result;                                                                  \
    memcpy(&result, &value, sizeof result);                                          \
    return result;                                                                   \
  }
OUTBOARD_BITS(f32, i32, float, int32_t)
OUTBOARD_BITS(f32, u32, float, uint32_t)
OUTBOARD_BITS(i32, f32, int32_t, float)
OUTBOARD_BITS(u32, f32, uint32_t, float)
OUTBOARD_BITS(f64, i64, double, int64_t)
OUTBOARD_BITS(f64, u64, double, uint64_t)
OUTBOARD_BITS(i64, f64, int64_t, double)
OUTBOARD_BITS(u64, f64, uint64_t, double)

/*
 * exp, tanh and erf of floats without branches or calls, so that loops over them become vectors. Each is within three units
 * in the last place; infinities and NaNs are what C says. The polynomials were fitted for the smallest relative error.
 */
static inline float outboard_expf(float x) {
  const float most = x < 128.0f ? x : 128.0f;
  const float bounded = most > -128.0f ? most : -128.0f;
  const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
  const float n = (bounded * 1.442695041f + rounder) - rounder;
  const float r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 0.001381314f;
  p = p * r + 0.00836942f;
  p = p * r + 0.041668456f;
  p = p * r + 0.16666515f;
  p = p * r + 0.49999994f;
  p = p * r * r + r + 1.0f;
  /* Two factors reach the largest and the denormal results. */
  const int32_t half = (int32_t)n >> 1;
  const float low = bits_i32_f32((half + 127) << 23);
  const float high = bits_i32_f32(((int32_t)n - half + 127) << 23);
  return x == x ? p * low * high : x;
}

static inline float outboard_tanhf(float x) {
  const float size = x < 0.0f ? -x : x;
  const float square = x * x;
  float p = -0.005515171f;
  p = p * square + 0.020469427f;
  p = p * square + -0.053688027f;
  p = p * square + 0.1333083f;
  p = p * square + -0.3333326f;
  const float near_zero = x + x * square * p;
  const float far = 1.0f - 2.0f / (outboard_expf(2.0f * size) + 1.0f);
  return size < 0.625f ? near_zero : x < 0.0f ? -far : x == x ? far : x;
}

static inline float outboard_erff(float x) {
  const float size = x < 0.0f ? -x : x;
  const float t = size < 4.0f ? size : 4.0f;
  const float square = x * x;
  float p = -0.00056316477f;
  p = p * square + 0.0049176137f;
  p = p * square + -0.026711375f;
  p = p * square + 0.11280183f;
  p = p * square + -0.37612328f;
  p = p * square + 1.1283791f;
  float q = -2.0828742e-05f;
  q = q * t + 0.0004313949f;
  q = q * t + -0.004156261f;
  q = q * t + 0.025080632f;
  q = q * t + -0.108220406f;
  q = q * t + -0.63340086f;
  q = q * t + -1.1294885f;
  q = q * t + 0.00016920679f;
  const float far = 1.0f - outboard_expf(q);
  return size < 0.95f ? x * p : x < 0.0f ? -far : x == x ? far : x;
}

/*
 * Narrow floats: a sign bit above `exponent and mantissa` bits. A code is given without its sign; `largest` is the one of the
 * largest finite value, `beyond` the one of what is larger, `nan` the one of not-a-number; `kinds` says what lies above `largest`
 * (1: infinity and NaNs, 2: NaN) or that the code of minus zero is not-a-number (4). Rounds half to even.
 */
static inline int32_t outboard_encode(float x, int32_t sign_bit, int32_t mantissa, int32_t bias, int32_t largest,
                                      int32_t beyond, int32_t nan, int32_t kinds) {
  const int32_t bits = bits_f32_i32(x);
  const int32_t size = bits & 0x7fffffff;
  const int32_t shift = 23 - mantissa;
  const uint32_t rounded = (uint32_t)size + ((1u << (shift - 1)) - 1) + ((uint32_t)size >> shift & 1);
  const int32_t normal = (int32_t)(rounded >> shift) - (int32_t)((uint32_t)(127 - bias) << mantissa);
  /* Below the smallest normal value: so many of the smallest one. Adding 2^23 rounds to an integer. */
  const float smallest = bits_i32_f32((127 + mantissa + bias - 1 < 254 ? 127 + mantissa + bias - 1 : 254) << 23);
  const int32_t small = bits_f32_i32(bits_i32_f32(size) * smallest + 8388608.0f) - 0x4b000000;
  const int32_t code = bias < 127 && size < (int32_t)((uint32_t)(128 - bias) << 23) ? small : normal;
  const int32_t known = size > 0x7f800000 ? nan : code > largest ? beyond : code;
  const int32_t sign = (int32_t)((uint32_t)bits >> 31) << sign_bit;
  return kinds == 4 && known == 0 ? 0 : sign | known;
}

static inline float outboard_decode(int32_t code, int32_t sign_bit, int32_t mantissa, int32_t bias, int32_t largest,
                                    int32_t nan, int32_t kinds) {
  const int32_t size = code & ((1 << sign_bit) - 1);
  const uint32_t sign = (uint32_t)code >> sign_bit << 31;
  const int32_t shift = 23 - mantissa;
  const int32_t normal = (int32_t)(((uint32_t)size << shift) + ((uint32_t)(127 - bias) << 23));
  const int32_t exponent = 127 + 1 - bias - mantissa;
  const int32_t small = bits_f32_i32((float)size * bits_i32_f32((exponent > 0 ? exponent : 0) << 23));
  const int32_t finite = bias < 127 && size < 1 << mantissa ? small : normal;
  const int32_t infinite = 0x7f800000 | (size & ((1 << mantissa) - 1)) << shift;
  const int32_t above = kinds == 1 ? infinite : 0x7fc00000;
  const int32_t known = (kinds == 1 || kinds == 2) && size > largest ? above : finite;
  return bits_i32_f32((int32_t)(kinds == 4 && code == nan ? 0x7fc00000u : sign | (uint32_t)known));
}

/* A power of two by its exponent alone, 255 is not-a-number. `addend` rounds: 0 down, 0x400000 to the nearest, 0x7fffff up. */
static inline int32_t outboard_encode_scale(float x, int32_t addend, int32_t beyond) {
  const int32_t size = bits_f32_i32(x) & 0x7fffffff;
  const int32_t code = size <= 0x400000 ? 0 : (int32_t)(((uint32_t)size + (uint32_t)addend) >> 23);
  return size > 0x7f800000 ? 255 : code > 254 ? beyond : code;
}

static inline float outboard_decode_scale(int32_t code) {
  return bits_i32_f32(code == 255 ? 0x7fc00000 : code == 0 ? 0x400000 : code << 23);
}

/* Vectors of the width the kernels were scheduled for; a compiler splits what its CPU lacks. */
#define OUTBOARD_REPEAT_2(value) value, value
#define OUTBOARD_REPEAT_4(value) OUTBOARD_REPEAT_2(value), OUTBOARD_REPEAT_2(value)
#define OUTBOARD_REPEAT_8(value) OUTBOARD_REPEAT_4(value), OUTBOARD_REPEAT_4(value)
#define OUTBOARD_REPEAT_16(value) OUTBOARD_REPEAT_8(value), OUTBOARD_REPEAT_8(value)
#define OUTBOARD_REPEAT_32(value) OUTBOARD_REPEAT_16(value), OUTBOARD_REPEAT_16(value)
#define OUTBOARD_REPEAT_64(value) OUTBOARD_REPEAT_32(value), OUTBOARD_REPEAT_32(value)
#define OUTBOARD_VECTOR(type, suffix, lanes)                                         \
  typedef type suffix##x##lanes                                                      \
      __attribute__((vector_size(sizeof(type) * lanes), aligned(sizeof(type)), may_alias)); \
  static inline suffix##x##lanes splat_##suffix##x##lanes(type value) {              \
    return (suffix##x##lanes){OUTBOARD_REPEAT_##lanes(value)};                       \
  }                                                                                  \
  static inline suffix##x##lanes max_##suffix##x##lanes(suffix##x##lanes a, suffix##x##lanes b) { \
    const __typeof__(a > b) takes_a = a > b;                                         \
    return (suffix##x##lanes)(((__typeof__(takes_a))a & takes_a) | ((__typeof__(takes_a))b & ~takes_a)); \
  }                                                                                  \
  static inline suffix##x##lanes min_##suffix##x##lanes(suffix##x##lanes a, suffix##x##lanes b) { \
    const __typeof__(a < b) takes_a = a < b;                                         \
    return (suffix##x##lanes)(((__typeof__(takes_a))a & takes_a) | ((__typeof__(takes_a))b & ~takes_a)); \
  }
