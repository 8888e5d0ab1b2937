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
