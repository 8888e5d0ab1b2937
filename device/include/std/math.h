// Functions of the reals, in single and double precision.
#pragma once
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_huge_val()
#define M_PI 3.14159265358979323846
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#ifdef __cplusplus
extern "C" {
#endif
#define OUTBOARD_MATH_1(name) \
  float name##f(float x);     \
  double name(double x);
OUTBOARD_MATH_1(acos)
OUTBOARD_MATH_1(asin)
OUTBOARD_MATH_1(atan)
OUTBOARD_MATH_1(cbrt)
OUTBOARD_MATH_1(ceil)
OUTBOARD_MATH_1(cos)
OUTBOARD_MATH_1(cosh)
OUTBOARD_MATH_1(erf)
OUTBOARD_MATH_1(exp)
OUTBOARD_MATH_1(exp2)
OUTBOARD_MATH_1(expm1)
OUTBOARD_MATH_1(fabs)
OUTBOARD_MATH_1(floor)
OUTBOARD_MATH_1(log)
OUTBOARD_MATH_1(log10)
OUTBOARD_MATH_1(log1p)
OUTBOARD_MATH_1(log2)
OUTBOARD_MATH_1(rint)
OUTBOARD_MATH_1(round)
OUTBOARD_MATH_1(sin)
OUTBOARD_MATH_1(sinh)
OUTBOARD_MATH_1(sqrt)
OUTBOARD_MATH_1(tan)
OUTBOARD_MATH_1(tanh)
OUTBOARD_MATH_1(trunc)
#undef OUTBOARD_MATH_1
#define OUTBOARD_MATH_2(name)      \
  float name##f(float x, float y); \
  double name(double x, double y);
OUTBOARD_MATH_2(atan2)
OUTBOARD_MATH_2(copysign)
OUTBOARD_MATH_2(fmax)
OUTBOARD_MATH_2(fmin)
OUTBOARD_MATH_2(fmod)
OUTBOARD_MATH_2(pow)
#undef OUTBOARD_MATH_2
#ifdef __cplusplus
}
#endif
