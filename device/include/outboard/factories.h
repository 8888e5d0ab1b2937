// New tensors, in the scratch space of the board's memory.
#pragma once

#include "elements.h"

extern "C" at::Tensor customop_empty(const uint32_t* sizes, uint32_t rank, uint8_t scalar_type);

namespace at {

// A tensor whose elements have any value: 1 to 8 dimensions of 0 to 65,535.
inline Tensor empty(IntArrayRef sizes, TensorOptions options) {
  OUTBOARD_CHECK(sizes.size() >= 1 && sizes.size() <= 8, "a tensor has 1 to 8 dimensions");
  uint32_t dims[8];
  for (size_t index = 0; index < sizes.size(); ++index) {
    OUTBOARD_CHECK(sizes[index] >= 0 && sizes[index] <= 65535, "a dimension is 0 to 65,535");
    dims[index] = static_cast<uint32_t>(sizes[index]);
  }
  return customop_empty(dims, sizes.size(), static_cast<uint8_t>(options.dtype()));
}

inline Tensor& Tensor::fill_(const Scalar& value) {
  if (isFloatingType(scalar_type())) {
    detail::fill_elements(*this, value.toFloat());
  } else {
    detail::fill_elements(*this, value.toLong());
  }
  return *this;
}

// A tensor with `value` in every element.
inline Tensor full(IntArrayRef sizes, const Scalar& value, TensorOptions options) {
  Tensor result = empty(sizes, options);
  result.fill_(value);
  return result;
}

inline Tensor zeros(IntArrayRef sizes, TensorOptions options) { return full(sizes, 0, options); }

inline Tensor ones(IntArrayRef sizes, TensorOptions options) { return full(sizes, 1, options); }

// n rows of m elements: ones where row and column are the same, zeros elsewhere.
inline Tensor eye(int64_t n, int64_t m, TensorOptions options) {
  const int64_t sizes[] = {n, m};
  Tensor result = zeros(sizes, options);
  const int64_t one = 1;
  for (int64_t index = 0; index < n && index < m; ++index) {
    detail::store_elements(result, &one, static_cast<uint32_t>(index * (m + 1)), 1);
  }
  outboard::fence();
  return result;
}

inline Tensor eye(int64_t n, TensorOptions options) { return eye(n, n, options); }

}  // namespace at
