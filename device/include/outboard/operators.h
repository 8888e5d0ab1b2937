// Arithmetic on whole tensors, element by element, each operator with a form that writes into an existing tensor.
//
// Shapes are the same; nothing is broadcast. Types: a floating tensor with anything else stays what it is, two different
// floating types become float, integers become the larger type; functions of the reals make floats of integers. Integers are
// computed in 64 bits and wrap; everything floating is computed in float and rounded once.
#pragma once

#include <math.h>

#include "factories.h"

namespace at {
namespace detail {

inline ScalarType promote(ScalarType a, ScalarType b) {
  if (a == b) return a;
  if (isFloatingType(a) != isFloatingType(b)) return isFloatingType(a) ? a : b;
  if (isFloatingType(a)) return kFloat;
  if (elementSize(a) == elementSize(b)) return kShort;
  return elementSize(a) > elementSize(b) ? a : b;
}

inline ScalarType promote(const Tensor& a, const Tensor& b) { return promote(a.scalar_type(), b.scalar_type()); }

inline ScalarType promote(const Tensor& a, const Scalar& b) {
  return isIntegralType(a.scalar_type()) && b.isFloatingPoint() ? kFloat : a.scalar_type();
}

inline ScalarType floating(ScalarType type) { return isFloatingType(type) ? type : kFloat; }

inline void check_integral(ScalarType type) {
  OUTBOARD_CHECK(isIntegralType(type), "bitwise operators take integers only");
}

// Whether results of `type` are computed as floats; they must fit the kind of `out`.
inline bool as_float(const Tensor& out, ScalarType type) {
  OUTBOARD_CHECK(isFloatingType(out.scalar_type()) || isIntegralType(type),
                 "a floating result cannot be stored in an integral tensor");
  return isFloatingType(type);
}

inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

inline int64_t power(int64_t base, int64_t exponent) {
  OUTBOARD_CHECK(exponent >= 0, "an integer to a negative power is no integer; use a floating type");
  int64_t result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

template <typename C>
C scalar_as(const Scalar& value) {
  return value.to<C>();
}

// What an operator does with two elements, as float and as integer.
struct Add {
  Scalar alpha;
  float operator()(float a, float b) const { return a + alpha.toFloat() * b; }
  int64_t operator()(int64_t a, int64_t b) const { return wrap_add(a, wrap_mul(alpha.toLong(), b)); }
};
struct Sub {
  Scalar alpha;
  float operator()(float a, float b) const { return a - alpha.toFloat() * b; }
  int64_t operator()(int64_t a, int64_t b) const { return wrap_add(a, wrap_mul(wrap_mul(alpha.toLong(), -1), b)); }
};
struct Mul {
  float operator()(float a, float b) const { return a * b; }
  int64_t operator()(int64_t a, int64_t b) const { return wrap_mul(a, b); }
};
struct Div {
  float operator()(float a, float b) const { return a / b; }
  // Quotients are floating.
  int64_t operator()(int64_t, int64_t) const { return 0; }
};
struct Pow {
  float operator()(float a, float b) const { return powf(a, b); }
  int64_t operator()(int64_t a, int64_t b) const { return power(a, b); }
};
struct And {
  int64_t operator()(int64_t a, int64_t b) const { return a & b; }
};
struct Or {
  int64_t operator()(int64_t a, int64_t b) const { return a | b; }
};

template <typename F>
Tensor& binary(Tensor& out, const Tensor& a, const Tensor& b, ScalarType type, F f) {
  if (as_float(out, type)) {
    zip_elements<float>(out, a, b, f);
  } else {
    zip_elements<int64_t>(out, a, b, f);
  }
  return out;
}

template <typename F>
Tensor& binary(Tensor& out, const Tensor& a, const Scalar& b, ScalarType type, F f) {
  if (as_float(out, type)) {
    const float value = b.toFloat();
    map_elements<float>(out, a, [value, f](float x) { return f(x, value); });
  } else {
    const int64_t value = b.toLong();
    map_elements<int64_t>(out, a, [value, f](int64_t x) { return f(x, value); });
  }
  return out;
}

template <typename F>
Tensor& real(Tensor& out, const Tensor& a, F f) {
  as_float(out, kFloat);
  map_elements<float>(out, a, f);
  return out;
}

inline void check_alpha(ScalarType type, const Scalar& alpha) {
  OUTBOARD_CHECK(isFloatingType(type) || alpha.isIntegral(), "alpha of integers is an integer");
}

}  // namespace detail

// Functions of the reals.
#define OUTBOARD_REAL(name, function)                                                     \
  inline Tensor& name##_out(Tensor& out, const Tensor& self) {                            \
    return detail::real(out, self, [](float x) { return function(x); });                  \
  }                                                                                       \
  inline Tensor name(const Tensor& self) {                                                \
    Tensor out = empty(self.sizes(), detail::floating(self.scalar_type()));               \
    return name##_out(out, self);                                                         \
  }
OUTBOARD_REAL(sin, sinf)
OUTBOARD_REAL(cos, cosf)
OUTBOARD_REAL(tan, tanf)
OUTBOARD_REAL(log, logf)
OUTBOARD_REAL(log2, log2f)
OUTBOARD_REAL(log10, log10f)
OUTBOARD_REAL(exp, expf)
#undef OUTBOARD_REAL

// Functions that keep the type.
#define OUTBOARD_SAME(name, of_float, of_integer)                                         \
  inline Tensor& name##_out(Tensor& out, const Tensor& self) {                            \
    if (detail::as_float(out, self.scalar_type())) {                                      \
      detail::map_elements<float>(out, self, [](float x) { return of_float; });           \
    } else {                                                                              \
      detail::map_elements<int64_t>(out, self, [](int64_t x) { return of_integer; });     \
    }                                                                                     \
    return out;                                                                           \
  }                                                                                       \
  inline Tensor name(const Tensor& self) {                                                \
    Tensor out = empty(self.sizes(), self.scalar_type());                                 \
    return name##_out(out, self);                                                         \
  }
OUTBOARD_SAME(abs, fabsf(x), x < 0 ? detail::wrap_mul(x, -1) : x)
OUTBOARD_SAME(ceil, ceilf(x), x)
OUTBOARD_SAME(floor, floorf(x), x)
#undef OUTBOARD_SAME

// self + alpha * other, self - alpha * other.
#define OUTBOARD_LINEAR(name, Function)                                                                        \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Tensor& other, const Scalar& alpha = 1) {   \
    const ScalarType type = detail::promote(self, other);                                                      \
    detail::check_alpha(type, alpha);                                                                          \
    return detail::binary(out, self, other, type, detail::Function{alpha});                                    \
  }                                                                                                            \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Scalar& other, const Scalar& alpha = 1) {   \
    const ScalarType type = detail::promote(self, other);                                                      \
    detail::check_alpha(type, alpha);                                                                          \
    return detail::binary(out, self, other, type, detail::Function{alpha});                                    \
  }                                                                                                            \
  inline Tensor name(const Tensor& self, const Tensor& other, const Scalar& alpha = 1) {                       \
    Tensor out = empty(self.sizes(), detail::promote(self, other));                                            \
    return name##_out(out, self, other, alpha);                                                                \
  }                                                                                                            \
  inline Tensor name(const Tensor& self, const Scalar& other, const Scalar& alpha = 1) {                       \
    Tensor out = empty(self.sizes(), detail::promote(self, other));                                            \
    return name##_out(out, self, other, alpha);                                                                \
  }
OUTBOARD_LINEAR(add, Add)
OUTBOARD_LINEAR(sub, Sub)
#undef OUTBOARD_LINEAR

// Operators of two tensors, or of a tensor and a number; `type` is that of the result.
#define OUTBOARD_BINARY(name, Function, type)                                                    \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Tensor& other) {              \
    return detail::binary(out, self, other, type(detail::promote(self, other)), detail::Function()); \
  }                                                                                              \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Scalar& other) {              \
    return detail::binary(out, self, other, type(detail::promote(self, other)), detail::Function()); \
  }                                                                                              \
  inline Tensor name(const Tensor& self, const Tensor& other) {                                  \
    Tensor out = empty(self.sizes(), type(detail::promote(self, other)));                        \
    return name##_out(out, self, other);                                                         \
  }                                                                                              \
  inline Tensor name(const Tensor& self, const Scalar& other) {                                  \
    Tensor out = empty(self.sizes(), type(detail::promote(self, other)));                        \
    return name##_out(out, self, other);                                                         \
  }
OUTBOARD_BINARY(mul, Mul, ScalarType)
OUTBOARD_BINARY(div, Div, detail::floating)
OUTBOARD_BINARY(pow, Pow, ScalarType)
#undef OUTBOARD_BINARY

// A number to the power of each element.
inline Tensor& pow_out(Tensor& out, const Scalar& self, const Tensor& exponent) {
  if (detail::as_float(out, detail::promote(exponent, self))) {
    const float base = self.toFloat();
    detail::map_elements<float>(out, exponent, [base](float x) { return powf(base, x); });
  } else {
    const int64_t base = self.toLong();
    detail::map_elements<int64_t>(out, exponent, [base](int64_t x) { return detail::power(base, x); });
  }
  return out;
}
inline Tensor pow(const Scalar& self, const Tensor& exponent) {
  Tensor out = empty(exponent.sizes(), detail::promote(exponent, self));
  return pow_out(out, self, exponent);
}

// Elements between two bounds; not a number stays what it is.
inline Tensor& clamp_out(Tensor& out, const Tensor& self, const Scalar& min, const Scalar& max) {
  const ScalarType type = detail::promote(detail::promote(self, min), detail::promote(self, max));
  if (detail::as_float(out, type)) {
    const float low = min.toFloat(), high = max.toFloat();
    detail::map_elements<float>(out, self, [low, high](float x) {
      const float raised = x < low ? low : x;
      return raised > high ? high : raised;
    });
  } else {
    const int64_t low = min.toLong(), high = max.toLong();
    detail::map_elements<int64_t>(out, self, [low, high](int64_t x) {
      const int64_t raised = x < low ? low : x;
      return raised > high ? high : raised;
    });
  }
  return out;
}
inline Tensor clamp(const Tensor& self, const Scalar& min, const Scalar& max) {
  const ScalarType type = detail::promote(detail::promote(self, min), detail::promote(self, max));
  Tensor out = empty(self.sizes(), type);
  return clamp_out(out, self, min, max);
}

#define OUTBOARD_BITWISE(name, Function)                                              \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Tensor& other) {   \
    detail::check_integral(detail::promote(self, other));                             \
    detail::zip_elements<int64_t>(out, self, other, detail::Function());              \
    return out;                                                                       \
  }                                                                                   \
  inline Tensor& name##_out(Tensor& out, const Tensor& self, const Scalar& other) {   \
    detail::check_integral(detail::promote(self, other));                             \
    const int64_t value = other.toLong();                                             \
    detail::map_elements<int64_t>(out, self, [value](int64_t x) { return detail::Function()(x, value); }); \
    return out;                                                                       \
  }                                                                                   \
  inline Tensor name(const Tensor& self, const Tensor& other) {                       \
    Tensor out = empty(self.sizes(), detail::promote(self, other));                   \
    return name##_out(out, self, other);                                              \
  }                                                                                   \
  inline Tensor name(const Tensor& self, const Scalar& other) {                       \
    Tensor out = empty(self.sizes(), detail::promote(self, other));                   \
    return name##_out(out, self, other);                                              \
  }
OUTBOARD_BITWISE(bitwise_and, And)
OUTBOARD_BITWISE(bitwise_or, Or)
#undef OUTBOARD_BITWISE

inline Tensor& bitwise_not_out(Tensor& out, const Tensor& self) {
  detail::check_integral(self.scalar_type());
  detail::map_elements<int64_t>(out, self, [](int64_t x) { return ~x; });
  return out;
}
inline Tensor bitwise_not(const Tensor& self) {
  Tensor out = empty(self.sizes(), self.scalar_type());
  return bitwise_not_out(out, self);
}

// Sets every element.
inline Tensor& fill_(Tensor& self, const Scalar& value) { return self.fill_(value); }

}  // namespace at
