// The k largest elements over eight cores. Cores cannot wait for each other, so there are two operations: each core finds the
// largest of its share, then one merges what they found.
#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

// Most elements that can be asked for.
static constexpr uint32_t kMost = 128;
static constexpr uint32_t kBlock = 1024;

// Values with where they are, the largest first; of equal ones, the first.
struct Best {
  float values[kMost];
  int32_t places[kMost];
  uint32_t count = 0;

  void offer(float value, int32_t place, uint32_t k) {
    if (count == k && !(value > values[k - 1])) return;
    uint32_t at = count < k ? count++ : k - 1;
    for (; at > 0 && value > values[at - 1]; at--) {
      values[at] = values[at - 1];
      places[at] = places[at - 1];
    }
    values[at] = value;
    places[at] = place;
  }
};

// Row `core` of the result: k values and k places of this core's share; places are floats, and -1 where there is no element.
torch::Tensor topk_parts(const torch::Tensor& x, int64_t k) {
  TORCH_CHECK(k >= 1 && k <= kMost);
  TORCH_CHECK(x.numel() < (1 << 24));
  torch::Tensor parts = get_dst_tensor();
  const uint32_t elements = x.numel(), share = elements / get_cpu_count();
  const uint32_t first = share * get_cpu_id();
  const uint32_t end = get_cpu_id() == get_cpu_count() - 1 ? elements : first + share;
  auto in = x.tcm_accessor();
  auto out = parts.tcm_accessor();
  float* block = static_cast<float*>(torch::neuron::tcm_malloc(kBlock * sizeof(float)));
  Best* best = static_cast<Best*>(torch::neuron::tcm_malloc(sizeof(Best)));
  TORCH_CHECK(block != nullptr && best != nullptr);
  best->count = 0;
  for (uint32_t at = first; at < end; at += kBlock) {
    const uint32_t n = end - at < kBlock ? end - at : kBlock;
    in.tensor_to_tcm(block, at, n);
    for (uint32_t i = 0; i < n; i++) best->offer(block[i], at + i, k);
  }
  for (uint32_t i = 0; i < k; i++) {
    const bool found = i < best->count;
    block[i] = found ? best->values[i] : 0.0f;
    block[k + i] = found ? best->places[i] : -1;
  }
  out.tcm_to_tensor(block, get_cpu_id() * 2 * k, 2 * k);
  torch::neuron::tcm_free(best);
  torch::neuron::tcm_free(block);
  return parts;
}

// The k best of the parts: values, then places. Core 0 does it all and writes it.
torch::Tensor topk_merge(const torch::Tensor& parts, int64_t k) {
  TORCH_CHECK(k >= 1 && k <= kMost && parts.size(-1) == k);
  torch::Tensor result = get_dst_tensor();
  if (get_cpu_id() != 0) return result;
  auto in = parts.tcm_accessor();
  auto out = result.tcm_accessor();
  float* row = static_cast<float*>(torch::neuron::tcm_malloc(2 * kMost * sizeof(float)));
  Best* best = static_cast<Best*>(torch::neuron::tcm_malloc(sizeof(Best)));
  TORCH_CHECK(row != nullptr && best != nullptr);
  best->count = 0;
  for (uint32_t core = 0; core < parts.numel() / (2 * k); core++) {
    in.tensor_to_tcm(row, core * 2 * k, 2 * k);
    for (uint32_t i = 0; i < k; i++) {
      if (row[k + i] >= 0) best->offer(row[i], row[k + i], k);
    }
  }
  TORCH_CHECK(best->count == k);
  for (uint32_t i = 0; i < k; i++) {
    row[i] = best->values[i];
    row[k + i] = best->places[i];
  }
  out.tcm_to_tensor(row, 0, 2 * k);
  torch::neuron::tcm_free(best);
  torch::neuron::tcm_free(row);
  return result;
}
