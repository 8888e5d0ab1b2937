// Data memory, core numbers and the destination of the result.
#pragma once

#include <cstdint>

#include <torch/torch.h>

namespace at {
namespace neuron {

// Takes data memory, of which there are 16 KiB; null when there is no room.
void* tcm_malloc(uint32_t bytes);
// Gives it back; null is allowed.
void tcm_free(void* place);

}  // namespace neuron
}  // namespace at
