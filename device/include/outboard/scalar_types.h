// Element types: their numbers, their C++ types, and what arithmetic between them gives.
#pragma once

#include <cstdint>
#include <type_traits>

namespace c10 {

// An IEEE 754 binary16, kept as bits; arithmetic happens in float.
struct Half {
  uint16_t x;

  Half() = default;
  Half(float value) : x(round(value)) {}
  operator float() const;
  static uint16_t round(float value);
};

// The upper half of a binary32, kept as bits; arithmetic happens in float.
struct BFloat16 {
  uint16_t x;

  BFloat16() = default;
  BFloat16(float value) : x(round(value)) {}
  operator float() const;
  static uint16_t round(float value);
};

namespace detail {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// Shifts right; a tie goes to the even neighbour.
inline uint32_t shift_to_even(uint32_t value, uint32_t by) {
  const uint32_t half = 1u << (by - 1);
  const uint32_t rest = value & (2 * half - 1);
  const uint32_t kept = value >> by;
  return kept + ((rest > half || (rest == half && (kept & 1))) ? 1 : 0);
}

}  // namespace detail

inline Half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(x & 0x8000u) << 16;
  const uint32_t exponent = (x >> 10) & 0x1fu;
  uint32_t fraction = x & 0x3ffu;
  if (exponent == 0x1f) return detail::float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return detail::float_of(sign | (exponent + 112) << 23 | fraction << 13);
  if (fraction == 0) return detail::float_of(sign);
  uint32_t shift = 0;
  for (; !(fraction & 0x400u); ++shift) fraction <<= 1;
  return detail::float_of(sign | (113 - shift) << 23 | (fraction & 0x3ffu) << 13);
}

inline uint16_t Half::round(float value) {
  const uint32_t bits = detail::bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  const uint32_t exponent = magnitude >> 23;
  if (exponent >= 113) return static_cast<uint16_t>(sign | detail::shift_to_even(magnitude - (112u << 23), 13));
  if (exponent < 102) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | detail::shift_to_even((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent));
}

inline BFloat16::operator float() const { return detail::float_of(static_cast<uint32_t>(x) << 16); }

inline uint16_t BFloat16::round(float value) {
  const uint32_t bits = detail::bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>(detail::shift_to_even(bits, 16));
}

// Element types as the tensor library numbers them; the device has these eight.
enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  BFloat16 = 15,
};

constexpr ScalarType kByte = ScalarType::Byte;
constexpr ScalarType kChar = ScalarType::Char;
constexpr ScalarType kShort = ScalarType::Short;
constexpr ScalarType kInt = ScalarType::Int;
constexpr ScalarType kLong = ScalarType::Long;
constexpr ScalarType kHalf = ScalarType::Half;
constexpr ScalarType kFloat = ScalarType::Float;
constexpr ScalarType kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kUInt8 = kByte;
constexpr ScalarType kInt8 = kChar;
constexpr ScalarType kInt16 = kShort;
constexpr ScalarType kInt32 = kInt;
constexpr ScalarType kInt64 = kLong;
constexpr ScalarType kFloat16 = kHalf;
constexpr ScalarType kFloat32 = kFloat;

inline constexpr uint32_t elementSize(ScalarType type) {
  return type == kLong ? 8
         : type == kInt || type == kFloat ? 4
         : type == kShort || type == kHalf || type == kBFloat16 ? 2
                                                                : 1;
}

inline constexpr bool isFloatingType(ScalarType type) {
  return type == kFloat || type == kHalf || type == kBFloat16;
}

inline constexpr bool isIntegralType(ScalarType type) { return !isFloatingType(type); }

// The number of a C++ type; other types do not compile.
template <typename T>
struct CppTypeToScalarType;

template <ScalarType number>
struct ScalarTypeNumber {
  static constexpr ScalarType value = number;
};

template <> struct CppTypeToScalarType<uint8_t> : ScalarTypeNumber<kByte> {};
template <> struct CppTypeToScalarType<int8_t> : ScalarTypeNumber<kChar> {};
template <> struct CppTypeToScalarType<char> : ScalarTypeNumber<kChar> {};
template <> struct CppTypeToScalarType<int16_t> : ScalarTypeNumber<kShort> {};
template <> struct CppTypeToScalarType<int32_t> : ScalarTypeNumber<kInt> {};
template <> struct CppTypeToScalarType<long> : ScalarTypeNumber<kInt> {};
template <> struct CppTypeToScalarType<int64_t> : ScalarTypeNumber<kLong> {};
template <> struct CppTypeToScalarType<Half> : ScalarTypeNumber<kHalf> {};
template <> struct CppTypeToScalarType<float> : ScalarTypeNumber<kFloat> {};
template <> struct CppTypeToScalarType<BFloat16> : ScalarTypeNumber<kBFloat16> {};

}  // namespace c10
