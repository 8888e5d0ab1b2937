/* small_network, written by outboard.build 0.1.0.
 *
 * input 0 "image" float32[1,1,28,28]
 * output 0 "scores" float32[1,10]
 */

/*
 * The binary interface between a module and the C7x runtime, as C sees it: the structures that both sides share, the
 * runtime functions a module may call, and the entry a module must define. Layouts are those of a 64-bit target; the
 * assertions at the end hold on every compiler that may build a module. Reference: docs/reference/models.md.
 *
 * Only freestanding headers are included, so that a module compiles for a CPU without a C library at hand.
 */
#ifndef OUTBOARD_TVM_ABI_H
#define OUTBOARD_TVM_ABI_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Type indices of TVMFFIAny. Indices from TVM_FFI_OBJECT on hold a pointer to a TVMFFIObject. */
enum {
  TVM_FFI_NONE = 0,
  TVM_FFI_INT = 1,
  TVM_FFI_BOOL = 2,
  TVM_FFI_FLOAT = 3,
  TVM_FFI_OPAQUE_PTR = 4,
  TVM_FFI_OBJECT = 64,
  TVM_FFI_SHAPE = 69,
  TVM_FFI_TENSOR = 70,
  TVM_FFI_ARRAY = 71,
  TVM_FFI_STORAGE = 128
};

/* Codes of DLDataType. */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

/* What the entry and the kernels return. Other values pass through to the host unchanged. */
enum { OUTBOARD_OK = 0, OUTBOARD_ERROR = -1, OUTBOARD_NO_MEMORY = -3 };

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  int32_t device_type; /* 1 = CPU */
  int32_t device_id;
} DLDevice;

typedef struct TVMFFIObject {
  int32_t type_index;
  int32_t ref_counter;
  void (*deleter)(struct TVMFFIObject *self);
} TVMFFIObject;

typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
    TVMFFIObject *v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
  } u;
} TVMFFIAny;

typedef struct {
  TVMFFIObject header;
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* NULL: dense, row-major */
  uint64_t byte_offset;
  int64_t shape_storage[8];
  int64_t strides_storage[8];
  uint32_t flags; /* 1 = owns data */
  uint32_t padding;
  TVMFFIObject *storage_ref;
} TVMDSPNDArray;

typedef struct {
  TVMFFIObject header;
  const int64_t *data;
  size_t size;
  int64_t shape_data[8];
} TVMDSPShape;

typedef struct {
  TVMFFIObject header;
  int32_t size;
  int32_t padding;
  TVMFFIAny elements[128];
} TVMDSPArray;

typedef struct {
  TVMFFIObject header;
  void *data;
  size_t size;
  DLDevice device;
  int32_t pool;
  int32_t padding;
} TVMDSPStorage;

/* What a module says about its inputs and outputs before it runs: symbol _binary_tvm_dsp_io_meta_start. */
typedef struct {
  uint32_t magic; /* OUTBOARD_IO_META_MAGIC */
  uint32_t version;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint64_t input_bytes;
  uint64_t output_bytes;
  uint32_t flags; /* 1 = sizes are exact */
  uint32_t reserved;
} TVMDSPIoMeta;

#define OUTBOARD_IO_META_MAGIC 0x4D4F4954u
#define OUTBOARD_TENSOR_MAGIC 0xDD5E40F096B4A13Full

/* The entry of a module. `constants` is the parsed weights.bin, or NULL when the module has none. */
int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output);

/* C library. */
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
int printf(const char *format, ...);

/* Workspace: 128-byte aligned, NULL when memory is exhausted. */
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int code_hint, int bits_hint);
int TVMBackendFreeWorkspace(int device_type, int device_id, void *workspace);

/* Storage and tensors. A new object has one reference, which belongs to the caller; a tensor holds one on its storage. */
TVMDSPStorage *TVMDSPStorageAlloc(size_t bytes, DLDevice device, DLDataType hint);
TVMDSPNDArray *TVMDSPStorageAllocNDArray(TVMDSPStorage *storage, int64_t offset, const int64_t *shape, int32_t ndim,
                                         DLDataType dtype);
/* A view that shares the data of `source` and holds no reference on it. */
TVMDSPNDArray *TVMDSPBuiltinReshapeDirect(TVMDSPNDArray *source, const int64_t *shape, int32_t ndim);
/* Makes an array of at most 128 elements and adds a reference to each of them. */
int TVMDSPBuiltinMakeTuplePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret);

/* Register file: what is in it when the entry returns is released by the device before the next run and at unload. */
void TVMDSPRegFileInit(TVMFFIAny *registers, int32_t count);
void TVMDSPRegSetAny(int32_t index, const TVMFFIAny *value);
int TVMDSPRegFileCleanup(void);

void TVMFFIObjectIncRef(TVMFFIObject *object);
void TVMFFIObjectDecRef(TVMFFIObject *object);

#define OUTBOARD_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " must have " #bytes " bytes")
#define OUTBOARD_ASSERT_AT(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " must be at " #offset)

OUTBOARD_ASSERT_SIZE(void *, 8);
OUTBOARD_ASSERT_SIZE(DLDataType, 4);
OUTBOARD_ASSERT_SIZE(DLDevice, 8);
OUTBOARD_ASSERT_SIZE(TVMFFIAny, 16);
OUTBOARD_ASSERT_AT(TVMFFIAny, u, 8);
OUTBOARD_ASSERT_SIZE(TVMFFIObject, 16);
OUTBOARD_ASSERT_AT(TVMFFIObject, deleter, 8);
OUTBOARD_ASSERT_SIZE(TVMDSPNDArray, 208);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, data, 16);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, device, 24);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, ndim, 32);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, dtype, 36);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, shape, 40);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, strides, 48);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, byte_offset, 56);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, shape_storage, 64);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, strides_storage, 128);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, flags, 192);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, storage_ref, 200);
OUTBOARD_ASSERT_SIZE(TVMDSPShape, 96);
OUTBOARD_ASSERT_AT(TVMDSPShape, data, 16);
OUTBOARD_ASSERT_AT(TVMDSPShape, size, 24);
OUTBOARD_ASSERT_AT(TVMDSPShape, shape_data, 32);
OUTBOARD_ASSERT_SIZE(TVMDSPArray, 2072);
OUTBOARD_ASSERT_AT(TVMDSPArray, size, 16);
OUTBOARD_ASSERT_AT(TVMDSPArray, elements, 24);
OUTBOARD_ASSERT_SIZE(TVMDSPStorage, 48);
OUTBOARD_ASSERT_AT(TVMDSPStorage, data, 16);
OUTBOARD_ASSERT_AT(TVMDSPStorage, size, 24);
OUTBOARD_ASSERT_AT(TVMDSPStorage, device, 32);
OUTBOARD_ASSERT_AT(TVMDSPStorage, pool, 40);
OUTBOARD_ASSERT_SIZE(TVMDSPIoMeta, 40);
OUTBOARD_ASSERT_AT(TVMDSPIoMeta, input_bytes, 16);
OUTBOARD_ASSERT_AT(TVMDSPIoMeta, flags, 32);

#endif /* OUTBOARD_TVM_ABI_H */

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

OUTBOARD_VECTOR(float, f32, 2)
OUTBOARD_VECTOR(float, f32, 4)

#define OUTBOARD_MODEL "small_network"
enum {
  OUTBOARD_VARIANTS = 1, /* the sizes of dimensions that are bounded rather than fixed */
  OUTBOARD_INPUTS = 1,
  OUTBOARD_OUTPUTS = 1,
  OUTBOARD_CONSTANTS = 8,
};
static const uint64_t outboard_workspace_bytes[OUTBOARD_VARIANTS] = {17280};

typedef struct {
  const char *name;
  int64_t bytes;
  int64_t shape[6];
  int32_t ndim;
  DLDataType dtype;
  uint8_t is_bool;
} OutboardTensor;

typedef struct {
  int32_t index; /* in weights.bin */
  DLDataType dtype;
  int64_t elements;
} OutboardConstant;

static const OutboardTensor outboard_inputs[OUTBOARD_VARIANTS][OUTBOARD_INPUTS + 1] = {
    {
     {"image", 3136, {1, 1, 28, 28}, 4, {DL_FLOAT, 32, 1}, 0},
     {0}},
};
static const OutboardTensor outboard_outputs[OUTBOARD_VARIANTS][OUTBOARD_OUTPUTS + 1] = {
    {
     {"scores", 40, {1, 10}, 2, {DL_FLOAT, 32, 1}, 0},
     {0}},
};
static const OutboardConstant outboard_constants[OUTBOARD_CONSTANTS + 1] = {
    {1, {DL_FLOAT, 32, 1}, 200},
    {3, {DL_FLOAT, 32, 1}, 6},
    {5, {DL_FLOAT, 32, 1}, 2400},
    {7, {DL_FLOAT, 32, 1}, 16},
    {9, {DL_FLOAT, 32, 1}, 12288},
    {11, {DL_FLOAT, 32, 1}, 48},
    {13, {DL_FLOAT, 32, 1}, 768},
    {15, {DL_FLOAT, 32, 1}, 10},
    {0},
};

/* ---- Kernels ---- */

OUTBOARD_KERNEL void k000_conv2d_strided_slice_add_relu(
    const float *restrict lv,
    const float *restrict param_0,
    const float *restrict param_1,
    float *restrict compute_intermediate) {
  for (int32_t yy = 0; yy < 24; ++yy) {
    for (int32_t xx_0 = 0; xx_0 < 4; ++xx_0) {
      float conv2d_nhwc_intermediate[48] __attribute__((aligned(64)));
      float conv2d_nhwc_intermediate_global[48] __attribute__((aligned(64)));
      #pragma GCC unroll 6
      for (int32_t xx_1_init = 0; xx_1_init < 6; ++xx_1_init) {
        #pragma GCC unroll 2
        for (int32_t ff_1_init = 0; ff_1_init < 2; ++ff_1_init) {
          *(f32x4 *)(conv2d_nhwc_intermediate_global + (xx_1_init * 8 + ff_1_init * 4)) = splat_f32x4(0.0f);
        }
      }
      for (int32_t ry = 0; ry < 5; ++ry) {
        for (int32_t rx = 0; rx < 5; ++rx) {
          #pragma GCC unroll 6
          for (int32_t xx_1 = 0; xx_1 < 6; ++xx_1) {
            #pragma GCC unroll 2
            for (int32_t ff_1 = 0; ff_1 < 2; ++ff_1) {
              *(f32x4 *)(conv2d_nhwc_intermediate_global + (xx_1 * 8 + ff_1 * 4)) = *(const f32x4 *)(conv2d_nhwc_intermediate_global + (xx_1 * 8 + ff_1 * 4)) + splat_f32x4(lv[yy * 28 + ry * 28 + xx_0 * 6 + xx_1 + rx]) * *(const f32x4 *)(param_0 + (ry * 40 + rx * 8 + ff_1 * 4));
            }
          }
        }
      }
      #pragma GCC unroll 6
      for (int32_t ax0 = 0; ax0 < 6; ++ax0) {
        #pragma GCC unroll 2
        for (int32_t ax1_0 = 0; ax1_0 < 2; ++ax1_0) {
          *(f32x4 *)(conv2d_nhwc_intermediate + (ax0 * 8 + ax1_0 * 4)) = *(const f32x4 *)(conv2d_nhwc_intermediate_global + (ax0 * 8 + ax1_0 * 4));
        }
      }
      for (int32_t ax0_1 = 0; ax0_1 < 6; ++ax0_1) {
        for (int32_t ax1 = 0; ax1 < 6; ++ax1) {
          compute_intermediate[yy * 144 + xx_0 * 36 + ax0_1 * 6 + ax1] = max_f32(conv2d_nhwc_intermediate[ax0_1 * 8 + ax1] + param_1[ax1], 0.0f);
        }
      }
    }
  }
}

OUTBOARD_KERNEL void k001_max_pool2d(const float *restrict n1_Relu, float *restrict pool_max) {
  for (int32_t ax1 = 0; ax1 < 12; ++ax1) {
    for (int32_t ax2 = 0; ax2 < 12; ++ax2) {
      float pool_max_global[6] __attribute__((aligned(64)));
      #pragma GCC unroll 3
      for (int32_t ax3_1_init = 0; ax3_1_init < 3; ++ax3_1_init) {
        *(f32x2 *)(pool_max_global + ax3_1_init * 2) = splat_f32x2(-OUTBOARD_INFINITY);
      }
      for (int32_t rv0 = 0; rv0 < 2; ++rv0) {
        for (int32_t rv1 = 0; rv1 < 2; ++rv1) {
          #pragma GCC unroll 3
          for (int32_t ax3_1 = 0; ax3_1 < 3; ++ax3_1) {
            *(f32x2 *)(pool_max_global + ax3_1 * 2) = max_f32x2(*(const f32x2 *)(pool_max_global + ax3_1 * 2), *(const f32x2 *)(n1_Relu + (ax1 * 288 + rv0 * 144 + ax2 * 12 + rv1 * 6 + ax3_1 * 2)));
          }
        }
      }
      #pragma GCC unroll 3
      for (int32_t ax0_0 = 0; ax0_0 < 3; ++ax0_0) {
        *(f32x2 *)(pool_max + (ax1 * 72 + ax2 * 6 + ax0_0 * 2)) = *(const f32x2 *)(pool_max_global + ax0_0 * 2);
      }
    }
  }
}

OUTBOARD_KERNEL void k002_conv2d1_add1_relu1(
    const float *restrict n2_MaxPool,
    const float *restrict param_0,
    const float *restrict param_1,
    float *restrict compute_intermediate) {
  for (int32_t yy = 0; yy < 8; ++yy) {
    for (int32_t xx_0 = 0; xx_0 < 4; ++xx_0) {
      float conv2d_nhwc_intermediate[32] __attribute__((aligned(64)));
      float conv2d_nhwc_intermediate_global[32] __attribute__((aligned(64)));
      #pragma GCC unroll 2
      for (int32_t xx_1_init = 0; xx_1_init < 2; ++xx_1_init) {
        #pragma GCC unroll 4
        for (int32_t ff_1_init = 0; ff_1_init < 4; ++ff_1_init) {
          *(f32x4 *)(conv2d_nhwc_intermediate_global + (xx_1_init * 16 + ff_1_init * 4)) = splat_f32x4(0.0f);
        }
      }
      for (int32_t ry = 0; ry < 5; ++ry) {
        for (int32_t rx = 0; rx < 5; ++rx) {
          for (int32_t rc = 0; rc < 6; ++rc) {
            #pragma GCC unroll 2
            for (int32_t xx_1 = 0; xx_1 < 2; ++xx_1) {
              #pragma GCC unroll 4
              for (int32_t ff_1 = 0; ff_1 < 4; ++ff_1) {
                *(f32x4 *)(conv2d_nhwc_intermediate_global + (xx_1 * 16 + ff_1 * 4)) = *(const f32x4 *)(conv2d_nhwc_intermediate_global + (xx_1 * 16 + ff_1 * 4)) + splat_f32x4(n2_MaxPool[yy * 72 + ry * 72 + xx_0 * 12 + xx_1 * 6 + rx * 6 + rc]) * *(const f32x4 *)(param_0 + (ry * 480 + rx * 96 + rc * 16 + ff_1 * 4));
              }
            }
          }
        }
      }
      #pragma GCC unroll 2
      for (int32_t ax0 = 0; ax0 < 2; ++ax0) {
        #pragma GCC unroll 4
        for (int32_t ax1_0 = 0; ax1_0 < 4; ++ax1_0) {
          *(f32x4 *)(conv2d_nhwc_intermediate + (ax0 * 16 + ax1_0 * 4)) = *(const f32x4 *)(conv2d_nhwc_intermediate_global + (ax0 * 16 + ax1_0 * 4));
        }
      }
      for (int32_t ax0_1 = 0; ax0_1 < 2; ++ax0_1) {
        for (int32_t ax1 = 0; ax1 < 16; ++ax1) {
          compute_intermediate[yy * 128 + xx_0 * 32 + ax0_1 * 16 + ax1] = max_f32(conv2d_nhwc_intermediate[ax0_1 * 16 + ax1] + param_1[ax1], 0.0f);
        }
      }
    }
  }
}

OUTBOARD_KERNEL void k003_max_pool2d1(const float *restrict n4_Relu, float *restrict pool_max) {
  for (int32_t ax1 = 0; ax1 < 4; ++ax1) {
    for (int32_t ax2 = 0; ax2 < 4; ++ax2) {
      float pool_max_global[16] __attribute__((aligned(64)));
      #pragma GCC unroll 4
      for (int32_t ax3_1_init = 0; ax3_1_init < 4; ++ax3_1_init) {
        *(f32x4 *)(pool_max_global + ax3_1_init * 4) = splat_f32x4(-OUTBOARD_INFINITY);
      }
      for (int32_t rv0 = 0; rv0 < 2; ++rv0) {
        for (int32_t rv1 = 0; rv1 < 2; ++rv1) {
          #pragma GCC unroll 4
          for (int32_t ax3_1 = 0; ax3_1 < 4; ++ax3_1) {
            *(f32x4 *)(pool_max_global + ax3_1 * 4) = max_f32x4(*(const f32x4 *)(pool_max_global + ax3_1 * 4), *(const f32x4 *)(n4_Relu + (ax1 * 256 + rv0 * 128 + ax2 * 32 + rv1 * 16 + ax3_1 * 4)));
          }
        }
      }
      #pragma GCC unroll 4
      for (int32_t ax0_0 = 0; ax0_0 < 4; ++ax0_0) {
        *(f32x4 *)(pool_max + (ax1 * 64 + ax2 * 16 + ax0_0 * 4)) = *(const f32x4 *)(pool_max_global + ax0_0 * 4);
      }
    }
  }
}

OUTBOARD_KERNEL void k004_transpose(const float *restrict n5_MaxPool, float *restrict T_transpose) {
  for (int32_t ax1 = 0; ax1 < 16; ++ax1) {
    for (int32_t ax2 = 0; ax2 < 4; ++ax2) {
      for (int32_t ax3 = 0; ax3 < 4; ++ax3) {
        T_transpose[ax1 * 16 + ax2 * 4 + ax3] = n5_MaxPool[ax2 * 64 + ax3 * 16 + ax1];
      }
    }
  }
}

OUTBOARD_KERNEL void k005_matmul_add2_relu2(
    const float *restrict n6_Flatten,
    const float *restrict param_0,
    const float *restrict param_1,
    float *restrict compute_intermediate) {
  for (int32_t i1_0 = 0; i1_0 < 2; ++i1_0) {
    float matmul_intermediate[24] __attribute__((aligned(64)));
    float matmul_intermediate_global[24] __attribute__((aligned(64)));
    #pragma GCC unroll 6
    for (int32_t i1_1_init = 0; i1_1_init < 6; ++i1_1_init) {
      *(f32x4 *)(matmul_intermediate_global + i1_1_init * 4) = splat_f32x4(0.0f);
    }
    for (int32_t k = 0; k < 256; ++k) {
      #pragma GCC unroll 6
      for (int32_t i1_1 = 0; i1_1 < 6; ++i1_1) {
        *(f32x4 *)(matmul_intermediate_global + i1_1 * 4) = *(const f32x4 *)(matmul_intermediate_global + i1_1 * 4) + splat_f32x4(n6_Flatten[k]) * *(const f32x4 *)(param_0 + (i1_0 * 6144 + k * 24 + i1_1 * 4));
      }
    }
    #pragma GCC unroll 6
    for (int32_t ax0_0 = 0; ax0_0 < 6; ++ax0_0) {
      *(f32x4 *)(matmul_intermediate + ax0_0 * 4) = *(const f32x4 *)(matmul_intermediate_global + ax0_0 * 4);
    }
    for (int32_t ax0 = 0; ax0 < 24; ++ax0) {
      compute_intermediate[i1_0 * 24 + ax0] = max_f32(matmul_intermediate[ax0] + param_1[i1_0 * 24 + ax0], 0.0f);
    }
  }
}

OUTBOARD_KERNEL void k006_matmul1_strided_slice1_add3(
    const float *restrict n8_Relu,
    const float *restrict param_0,
    const float *restrict param_1,
    float *restrict T_add_intermediate) {
  float matmul_intermediate[16] __attribute__((aligned(64)));
  float matmul_intermediate_global[16] __attribute__((aligned(64)));
  #pragma GCC unroll 4
  for (int32_t i1_1_init = 0; i1_1_init < 4; ++i1_1_init) {
    *(f32x4 *)(matmul_intermediate_global + i1_1_init * 4) = splat_f32x4(0.0f);
  }
  for (int32_t k = 0; k < 48; ++k) {
    #pragma GCC unroll 4
    for (int32_t i1_1 = 0; i1_1 < 4; ++i1_1) {
      *(f32x4 *)(matmul_intermediate_global + i1_1 * 4) = *(const f32x4 *)(matmul_intermediate_global + i1_1 * 4) + splat_f32x4(n8_Relu[k]) * *(const f32x4 *)(param_0 + (k * 16 + i1_1 * 4));
    }
  }
  #pragma GCC unroll 4
  for (int32_t ax0_0 = 0; ax0_0 < 4; ++ax0_0) {
    *(f32x4 *)(matmul_intermediate + ax0_0 * 4) = *(const f32x4 *)(matmul_intermediate_global + ax0_0 * 4);
  }
  for (int32_t ax0 = 0; ax0 < 10; ++ax0) {
    T_add_intermediate[ax0] = matmul_intermediate[ax0] + param_1[ax0];
  }
}

OUTBOARD_KERNEL void k007_softmax(const float *restrict n9_Gemm, float *restrict T_softmax_norm) {
  float T_softmax_maxelem[1] __attribute__((aligned(64)));
  float T_softmax_exp[10] __attribute__((aligned(64)));
  float T_softmax_expsum[1] __attribute__((aligned(64)));
  float T_softmax_maxelem_global[1] __attribute__((aligned(64)));
  T_softmax_maxelem_global[0] = -OUTBOARD_INFINITY;
  for (int32_t k = 0; k < 10; ++k) {
    T_softmax_maxelem_global[0] = max_f32(T_softmax_maxelem_global[0], n9_Gemm[k]);
  }
  T_softmax_maxelem[0] = T_softmax_maxelem_global[0];
  for (int32_t i1 = 0; i1 < 10; ++i1) {
    T_softmax_exp[i1] = outboard_expf(n9_Gemm[i1] - T_softmax_maxelem[0]);
  }
  float T_softmax_expsum_global[1] __attribute__((aligned(64)));
  T_softmax_expsum_global[0] = 0.0f;
  for (int32_t k_1 = 0; k_1 < 10; ++k_1) {
    T_softmax_expsum_global[0] = T_softmax_expsum_global[0] + T_softmax_exp[k_1];
  }
  T_softmax_expsum[0] = T_softmax_expsum_global[0];
  for (int32_t i1_1 = 0; i1_1 < 10; ++i1_1) {
    T_softmax_norm[i1_1] = T_softmax_exp[i1_1] / T_softmax_expsum[0];
  }
}

/* ---- The model ---- */

/* in: inputs, c: constants, out: outputs, w: workspace */
static void outboard_run_0(void *const *in, void *const *c, void *const *out, unsigned char *w) {
  (void)in, (void)c, (void)out, (void)w;
  /* Conv "conv1" (node 0) */
  /* Relu "relu1" (node 1) */
  k000_conv2d_strided_slice_add_relu(in[0], c[0], c[1], (void *)(w + 0));
  /* MaxPool "pool1" (node 2) */
  k001_max_pool2d((void *)(w + 0), (void *)(w + 13824));
  /* Conv "conv2" (node 3) */
  /* Relu "relu2" (node 4) */
  k002_conv2d1_add1_relu1((void *)(w + 13824), c[2], c[3], (void *)(w + 0));
  /* MaxPool "pool2" (node 5) */
  k003_max_pool2d1((void *)(w + 0), (void *)(w + 4096));
  /* MaxPool "pool2" (node 5) */
  k004_transpose((void *)(w + 4096), (void *)(w + 0));
  /* Gemm "dense1" (node 7) */
  /* Relu "relu3" (node 8) */
  k005_matmul_add2_relu2((void *)(w + 0), c[4], c[5], (void *)(w + 1024));
  /* Gemm "dense2" (node 9) */
  k006_matmul1_strided_slice1_add3((void *)(w + 1024), c[6], c[7], (void *)(w + 0));
  /* Softmax "softmax" (node 10) */
  k007_softmax((void *)(w + 0), out[0]);
}

/* With OUTBOARD_LEVEL this file is one of the levels of a portable module: its kernels and no entry. */
#ifdef OUTBOARD_LEVEL
#define OUTBOARD_RUN                                  \
  __attribute__((visibility("hidden"))) void OUTBOARD_LEVEL(int32_t, void *const *, void *const *, void *const *, \
                                                            unsigned char *);                       \
  void OUTBOARD_LEVEL
#else
#define OUTBOARD_RUN static void outboard_run_here
#endif

OUTBOARD_RUN(int32_t variant, void *const *in, void *const *c, void *const *out, unsigned char *w) {
  switch (variant) {
    case 0:
      outboard_run_0(in, c, out, w);
      break;
  }
}

#ifndef OUTBOARD_LEVEL

/*
 * On x86-64 a portable module has its kernels three times, compiled from this file for three levels of the CPU; the
 * entry takes the best that this CPU has. No level fuses products and sums, so that all compute the same bits.
 */
#if defined(OUTBOARD_LEVELS)
#include <cpuid.h>

#define OUTBOARD_LEVEL_OF(name)                                                      \
  __attribute__((visibility("hidden"))) void outboard_run_##name(                    \
      int32_t variant, void *const *in, void *const *c, void *const *out, unsigned char *w)
OUTBOARD_LEVEL_OF(v3);
OUTBOARD_LEVEL_OF(v4);

/* Which registers the system keeps between tasks: bits of XCR0. */
static uint32_t outboard_kept_registers(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return low;
}

/* 4: x86-64-v4 and VNNI; 3: x86-64-v3; 2: less. */
static int32_t outboard_level(void) {
  enum { FMA = 1 << 12, MOVBE = 1 << 22, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };
  enum { BMI1 = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8, F = 1 << 16, DQ = 1 << 17, CD = 1 << 28, BW = 1 << 30 };
  const uint32_t vl = 1u << 31, vnni = 1u << 11, lzcnt = 1u << 5;
  const uint32_t v3_1 = FMA | MOVBE | OSXSAVE | AVX | F16C, v3_7 = BMI1 | AVX2 | BMI2, v4_7 = F | DQ | CD | BW | vl;
  uint32_t a, b, c, d, extended;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & v3_1) != v3_1 || (outboard_kept_registers() & 0x6) != 0x6) {
    return 2;
  }
  if (!__get_cpuid(0x80000001, &a, &b, &extended, &d) || !(extended & lzcnt)) {
    return 2;
  }
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & v3_7) != v3_7) {
    return 2;
  }
  return (b & v4_7) == v4_7 && (c & vnni) && (outboard_kept_registers() & 0xe6) == 0xe6 ? 4 : 3;
}

static void outboard_run(int32_t variant, void *const *in, void *const *c, void *const *out, unsigned char *w) {
  static int32_t level; /* the same for every run; zero until it is known */
  if (level == 0) {
    level = outboard_level();
  }
  if (level == 4) {
    outboard_run_v4(variant, in, c, out, w);
  } else if (level == 3) {
    outboard_run_v3(variant, in, c, out, w);
  } else {
    outboard_run_here(variant, in, c, out, w);
  }
}
#else
#define outboard_run outboard_run_here
#endif

/* ---- The entry: checks what it is given, makes room for the outputs, runs the model ------------------------------- */

static const DLDevice outboard_cpu = {1, 0};

/* The register file. What is in it when the entry returns is released by the device. */
static TVMFFIAny outboard_registers[OUTBOARD_OUTPUTS + 1];

static void outboard_print_tensor(DLDataType dtype, int32_t ndim, const int64_t *shape) {
  static const char *const kinds[] = {"int", "uint", "float"};
  if (dtype.code <= DL_FLOAT) {
    printf("%s%d[", kinds[dtype.code], (int)dtype.bits);
  } else {
    const char *form = dtype.code == DL_BOOL ? "bool[" : dtype.code == DL_BFLOAT ? "bfloat16[" : "type %d.%d[";
    printf(form, (int)dtype.code, (int)dtype.bits);
  }
  for (int32_t i = 0; i < ndim; i++) {
    printf(i == 0 ? "%lld" : ",%lld", (long long)shape[i]);
  }
  printf("]");
}

static int outboard_same_dtype(const OutboardTensor *expected, DLDataType given) {
  const int is_bool = expected->is_bool && given.code == DL_BOOL;
  return given.lanes == 1 && (is_bool || (given.code == expected->dtype.code && given.bits == expected->dtype.bits));
}

static int outboard_same_shape(const OutboardTensor *expected, const TVMDSPNDArray *tensor) {
  int same = tensor->ndim == expected->ndim;
  for (int32_t i = 0; same && i < expected->ndim; i++) {
    same = tensor->shape[i] == expected->shape[i];
  }
  return same;
}

static int outboard_is_dense(const TVMDSPNDArray *tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor->ndim - 1; tensor->strides != NULL && i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != stride) {
      return 0;
    }
    stride *= tensor->shape[i];
  }
  return 1;
}

/* The variant for inputs of these shapes; the last one, whose sizes are the largest, when there is none. */
static int32_t outboard_variant(const TVMFFIAny *inputs) {
  for (int32_t variant = 0; variant < OUTBOARD_VARIANTS - 1; variant++) {
    int same = 1;
    for (int i = 0; same && i < OUTBOARD_INPUTS; i++) {
      const TVMDSPNDArray *tensor = inputs[i].u.v_ptr;
      same = inputs[i].type_index == TVM_FFI_TENSOR && tensor != NULL &&
             outboard_same_shape(&outboard_inputs[variant][i], tensor);
    }
    if (same) {
      return variant;
    }
  }
  return OUTBOARD_VARIANTS - 1;
}

/* Finds the data of an input, or prints a line that says why it cannot be taken. */
static int outboard_input(int32_t variant, int index, const TVMFFIAny *given, void **data) {
  const OutboardTensor *expected = &outboard_inputs[variant][index];
  const TVMDSPNDArray *tensor = given->u.v_ptr;
  if (given->type_index != TVM_FFI_TENSOR || tensor == NULL) {
    printf(OUTBOARD_MODEL ": input %d \"%s\" is not a tensor\n", index, expected->name);
    return OUTBOARD_ERROR;
  }
  if (!outboard_same_shape(expected, tensor) || !outboard_same_dtype(expected, tensor->dtype)) {
    printf(OUTBOARD_MODEL ": input %d \"%s\": expected %s", index, expected->name,
           OUTBOARD_VARIANTS > 1 ? "at most " : "");
    outboard_print_tensor(expected->dtype, expected->ndim, expected->shape);
    printf(", got ");
    outboard_print_tensor(tensor->dtype, tensor->ndim, tensor->shape);
    printf("\n");
    return OUTBOARD_ERROR;
  }
  *data = (char *)tensor->data + tensor->byte_offset;
  const int missing = tensor->data == NULL && expected->bytes > 0;
  const int misaligned = (uintptr_t)*data % (expected->dtype.bits / 8) != 0;
  if (missing || misaligned || !outboard_is_dense(tensor)) {
    printf(OUTBOARD_MODEL ": input %d \"%s\": the data at %p is %s\n", index, expected->name, *data,
           missing ? "missing" : misaligned ? "not aligned" : "not dense");
    return OUTBOARD_ERROR;
  }
  return OUTBOARD_OK;
}

/* Finds the data of a constant, or prints a line that says what is wrong with it. */
static int outboard_constant(const OutboardConstant *expected, const TVMFFIAny *given, void **data) {
  const TVMDSPNDArray *tensor = given->u.v_ptr;
  int64_t elements = 1;
  if (given->type_index == TVM_FFI_TENSOR && tensor != NULL) {
    for (int32_t i = 0; i < tensor->ndim; i++) {
      elements *= tensor->shape[i];
    }
    if (elements == expected->elements && tensor->dtype.code == expected->dtype.code &&
        tensor->dtype.bits == expected->dtype.bits && (uintptr_t)tensor->data % (expected->dtype.bits / 8) == 0) {
      *data = (char *)tensor->data + tensor->byte_offset;
      return OUTBOARD_OK;
    }
  }
  printf(OUTBOARD_MODEL ": constant %d is not the one this module was compiled with\n", (int)expected->index);
  return OUTBOARD_ERROR;
}

static void outboard_release(TVMFFIAny *reg) {
  if (reg->type_index >= TVM_FFI_OBJECT && reg->u.v_obj != NULL) {
    TVMFFIObjectDecRef(reg->u.v_obj);
  }
  *reg = (TVMFFIAny){0};
}

/* Makes room for an output in its register; the tensor keeps the storage alive. An empty one has no data. */
static int outboard_make_output(int32_t variant, int index, void **data) {
  const OutboardTensor *spec = &outboard_outputs[variant][index];
  TVMDSPStorage *storage = TVMDSPStorageAlloc((size_t)spec->bytes, outboard_cpu, spec->dtype);
  if (storage == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  TVMDSPNDArray *tensor = TVMDSPStorageAllocNDArray(storage, 0, spec->shape, spec->ndim, spec->dtype);
  TVMFFIObjectDecRef(&storage->header);
  if (tensor == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  outboard_registers[index] = (TVMFFIAny){.type_index = TVM_FFI_TENSOR, .u.v_ptr = tensor};
  *data = tensor->data;
  return spec->bytes > 0 && *data == NULL ? OUTBOARD_NO_MEMORY : OUTBOARD_OK;
}

/* What the entry gives back: the tensor, or an array of the tensors, which takes over their references. */
static int outboard_make_result(TVMFFIAny *output) {
  if (OUTBOARD_OUTPUTS == 1) {
    *output = outboard_registers[0];
    return OUTBOARD_OK;
  }
  TVMFFIAny *array = &outboard_registers[OUTBOARD_OUTPUTS];
  if (TVMDSPBuiltinMakeTuplePacked(outboard_registers, OUTBOARD_OUTPUTS, array) != 0 || array->u.v_ptr == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  for (int i = 0; i < OUTBOARD_OUTPUTS; i++) {
    outboard_release(&outboard_registers[i]);
  }
  *output = *array;
  return OUTBOARD_OK;
}

static int outboard_infer(int32_t variant, void *const *in, void *const *constants, TVMFFIAny *output) {
  void *out[OUTBOARD_OUTPUTS + 1] = {0};
  unsigned char *workspace = NULL;
  for (int i = 0; i < OUTBOARD_OUTPUTS; i++) {
    if (outboard_make_output(variant, i, &out[i]) != OUTBOARD_OK) {
      return OUTBOARD_NO_MEMORY;
    }
  }
  if (outboard_workspace_bytes[variant] > 0) {
    workspace = TVMBackendAllocWorkspace(1, 0, outboard_workspace_bytes[variant], DL_UINT, 8);
    if (workspace == NULL) {
      return OUTBOARD_NO_MEMORY;
    }
  }
  outboard_run(variant, in, constants, out, workspace);
  if (workspace != NULL) {
    TVMBackendFreeWorkspace(1, 0, workspace);
  }
  return outboard_make_result(output);
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  void *in[OUTBOARD_INPUTS + 1] = {0};
  void *data[OUTBOARD_CONSTANTS + 1] = {0};
  if (num_inputs != OUTBOARD_INPUTS) {
    printf(OUTBOARD_MODEL ": expected %d inputs, got %d\n", OUTBOARD_INPUTS, num_inputs);
    return OUTBOARD_ERROR;
  }
  const int32_t variant = outboard_variant(inputs);
  for (int i = 0; i < OUTBOARD_INPUTS; i++) {
    if (outboard_input(variant, i, &inputs[i], &in[i]) != OUTBOARD_OK) {
      return OUTBOARD_ERROR;
    }
  }
  if (OUTBOARD_CONSTANTS > 0 && constants == NULL) {
    printf(OUTBOARD_MODEL ": the constants of the model are not loaded\n");
    return OUTBOARD_ERROR;
  }
  for (int i = 0; i < OUTBOARD_CONSTANTS; i++) {
    if (outboard_constant(&outboard_constants[i], &constants[outboard_constants[i].index], &data[i]) != OUTBOARD_OK) {
      return OUTBOARD_ERROR;
    }
  }
  memset(outboard_registers, 0, sizeof outboard_registers);
  TVMDSPRegFileInit(outboard_registers, OUTBOARD_OUTPUTS + 1);
  int status = outboard_infer(variant, in, data, output);
  if (status != OUTBOARD_OK) {
    for (int i = 0; i <= OUTBOARD_OUTPUTS; i++) {
      outboard_release(&outboard_registers[i]);
    }
  }
  return status;
}

#endif
