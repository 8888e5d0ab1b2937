// A number of either kind.
#pragma once

#include <cstdint>

#include "abi.h"

namespace c10 {

// A double or a 64-bit integer, as the runtime hands it over.
class alignas(16) Scalar {
 public:
  Scalar() : Scalar(static_cast<int64_t>(0)) {}
  Scalar(double value) : tag_(kDouble), pad_(), more_(0) { __builtin_memcpy(&bits_, &value, sizeof bits_); }
  Scalar(float value) : Scalar(static_cast<double>(value)) {}
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}
  Scalar(long long value) : tag_(kInt), pad_(), bits_(static_cast<uint64_t>(value)), more_(0) {}
  Scalar(unsigned long long value) : Scalar(static_cast<long long>(value)) {}
  Scalar(long value) : Scalar(static_cast<long long>(value)) {}
  Scalar(unsigned long value) : Scalar(static_cast<long long>(value)) {}
  Scalar(int value) : Scalar(static_cast<long long>(value)) {}
  Scalar(unsigned value) : Scalar(static_cast<long long>(value)) {}
  Scalar(bool value) : Scalar(static_cast<long long>(value)) {}

  bool isFloatingPoint() const { return tag_ == kDouble; }
  bool isIntegral(bool = false) const { return tag_ == kInt; }
  ScalarType type() const { return isFloatingPoint() ? kFloat : kLong; }

  template <typename T>
  T to() const {
    if (tag_ == kInt) return convert<T>(static_cast<long long>(bits_));
    double value;
    __builtin_memcpy(&value, &bits_, sizeof value);
    return convert<T>(value);
  }

  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int32_t toInt() const { return to<int32_t>(); }

 private:
  static constexpr uint32_t kDouble = 0;
  static constexpr uint32_t kInt = 1;

  template <typename T, typename From>
  static T convert(From value) {
    return static_cast<T>(value);
  }

  uint32_t tag_;
  uint32_t pad_[3];
  uint64_t bits_;
  uint64_t more_;
};

static_assert(sizeof(Scalar) == 32, "as the runtime has it");

template <>
inline Half Scalar::convert<Half, double>(double value) {
  return Half(static_cast<float>(value));
}
template <>
inline BFloat16 Scalar::convert<BFloat16, double>(double value) {
  return BFloat16(static_cast<float>(value));
}

}  // namespace c10
