// Loops over the elements of tensors: loaded in blocks, computed as float or as 64-bit integers, stored with conversion.
#pragma once

#include "accessors.h"

namespace at {
namespace detail {

// Elements of a block.
constexpr uint32_t kBlock = 32;

// Elements from `first` on that one window shows.
inline uint32_t shown(const Tensor& tensor, uint32_t first) {
  const uint32_t size = static_cast<uint32_t>(tensor.itemsize());
  const uint64_t place = tensor.device_address() + static_cast<uint64_t>(first) * size;
  return static_cast<uint32_t>((outboard::kWindow - (place & (outboard::kWindow - 1))) / size);
}

inline void* block(const Tensor& tensor, uint32_t first) {
  return outboard::local(tensor.device_address() + static_cast<uint64_t>(first) * tensor.itemsize());
}

template <typename Stored, typename C>
void load_block(C* to, const void* from, uint32_t n) {
  const volatile Stored* elements = static_cast<const volatile Stored*>(from);
  for (uint32_t index = 0; index < n; ++index) to[index] = static_cast<C>(elements[index]);
}

// Half and BFloat16, as bits.
template <typename Stored, typename C>
void load_narrow(C* to, const void* from, uint32_t n) {
  const volatile uint16_t* elements = static_cast<const volatile uint16_t*>(from);
  for (uint32_t index = 0; index < n; ++index) {
    Stored value;
    value.x = elements[index];
    to[index] = static_cast<C>(static_cast<float>(value));
  }
}

template <typename C>
void load_elements(C* to, const Tensor& tensor, uint32_t first, uint32_t n) {
  const void* from = block(tensor, first);
  switch (tensor.scalar_type()) {
    case kByte: return load_block<uint8_t>(to, from, n);
    case kChar: return load_block<int8_t>(to, from, n);
    case kShort: return load_block<int16_t>(to, from, n);
    case kInt: return load_block<int32_t>(to, from, n);
    case kLong: return load_block<int64_t>(to, from, n);
    case kFloat: return load_block<float>(to, from, n);
    case kHalf: return load_narrow<Half>(to, from, n);
    case kBFloat16: return load_narrow<BFloat16>(to, from, n);
  }
  outboard::fail("the tensor has an element type that does not exist");
}

template <typename Stored, typename C>
void store_block(void* to, const C* from, uint32_t n) {
  volatile Stored* elements = static_cast<volatile Stored*>(to);
  for (uint32_t index = 0; index < n; ++index) elements[index] = static_cast<Stored>(from[index]);
}

template <typename Stored, typename C>
void store_narrow(void* to, const C* from, uint32_t n) {
  volatile uint16_t* elements = static_cast<volatile uint16_t*>(to);
  for (uint32_t index = 0; index < n; ++index) elements[index] = Stored::round(static_cast<float>(from[index]));
}

template <typename C>
void store_elements(const Tensor& tensor, const C* from, uint32_t first, uint32_t n) {
  void* to = block(tensor, first);
  switch (tensor.scalar_type()) {
    case kByte: return store_block<uint8_t>(to, from, n);
    case kChar: return store_block<int8_t>(to, from, n);
    case kShort: return store_block<int16_t>(to, from, n);
    case kInt: return store_block<int32_t>(to, from, n);
    case kLong: return store_block<int64_t>(to, from, n);
    case kFloat: return store_block<float>(to, from, n);
    case kHalf: return store_narrow<Half>(to, from, n);
    case kBFloat16: return store_narrow<BFloat16>(to, from, n);
  }
  outboard::fail("the tensor has an element type that does not exist");
}

inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

inline void check_shape(const Tensor& a, const Tensor& b) {
  OUTBOARD_CHECK(a.sizes() == b.sizes(), "the tensors have different shapes; shapes are not broadcast");
}

// out[i] = value.
template <typename C>
void fill_elements(const Tensor& out, C value) {
  C values[kBlock];
  for (uint32_t index = 0; index < kBlock; ++index) values[index] = value;
  const uint32_t count = static_cast<uint32_t>(out.numel());
  uint32_t first = 0;
  while (first < count) {
    const uint32_t n = least(least(count - first, kBlock), shown(out, first));
    store_elements(out, values, first, n);
    first += n;
  }
  outboard::fence();
}

// out[i] = f(a[i]), computed as C.
template <typename C, typename F>
void map_elements(const Tensor& out, const Tensor& a, F f) {
  check_shape(out, a);
  outboard::fence();
  C values[kBlock];
  const uint32_t count = static_cast<uint32_t>(out.numel());
  uint32_t first = 0;
  while (first < count) {
    const uint32_t n = least(least(least(count - first, kBlock), shown(out, first)), shown(a, first));
    load_elements(values, a, first, n);
    for (uint32_t index = 0; index < n; ++index) values[index] = f(values[index]);
    store_elements(out, values, first, n);
    first += n;
  }
  outboard::fence();
}

// out[i] = f(a[i], b[i]), computed as C.
template <typename C, typename F>
void zip_elements(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  check_shape(out, a);
  check_shape(a, b);
  outboard::fence();
  C values[kBlock];
  C others[kBlock];
  const uint32_t count = static_cast<uint32_t>(out.numel());
  uint32_t first = 0;
  while (first < count) {
    uint32_t n = least(least(count - first, kBlock), shown(out, first));
    n = least(least(n, shown(a, first)), shown(b, first));
    load_elements(values, a, first, n);
    load_elements(others, b, first, n);
    for (uint32_t index = 0; index < n; ++index) values[index] = f(values[index], others[index]);
    store_elements(out, values, first, n);
    first += n;
  }
  outboard::fence();
}

}  // namespace detail
}  // namespace at
