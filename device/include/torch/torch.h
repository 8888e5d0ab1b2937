// Tensors for custom operations on the device: the part of the tensor library that kernels may use.
#pragma once

#include "../outboard/accessors.h"
#include "../outboard/factories.h"
#include "../outboard/operators.h"
#include "../outboard/scalar.h"
#include "../outboard/tensor.h"

namespace torch {
using namespace at;
}  // namespace torch
