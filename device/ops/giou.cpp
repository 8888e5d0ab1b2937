// Generalised intersection over union of pairs of boxes (x1, y1, x2, y2), shared out over the cores.
#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

static constexpr uint32_t kBoxes = 256;

static inline float smaller(float a, float b) { return a < b ? a : b; }
static inline float larger(float a, float b) { return a < b ? b : a; }

static float of_boxes(const float* a, const float* b) {
  const float width = smaller(a[2], b[2]) - larger(a[0], b[0]);
  const float height = smaller(a[3], b[3]) - larger(a[1], b[1]);
  const float common = larger(width, 0) * larger(height, 0);
  const float all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
  const float hull = (larger(a[2], b[2]) - smaller(a[0], b[0])) * (larger(a[3], b[3]) - smaller(a[1], b[1]));
  return common / all - (hull - all) / hull;
}

// Both tensors end in a dimension of 4; the result has all dimensions but that.
torch::Tensor giou(const torch::Tensor& boxes, const torch::Tensor& others) {
  TORCH_CHECK(boxes.sizes() == others.sizes() && boxes.size(-1) == 4);
  torch::Tensor result = get_dst_tensor();
  const uint32_t pairs = boxes.numel() / 4, share = pairs / get_cpu_count();
  const uint32_t first = share * get_cpu_id();
  const uint32_t end = get_cpu_id() == get_cpu_count() - 1 ? pairs : first + share;
  auto left = boxes.tcm_accessor();
  auto right = others.tcm_accessor();
  auto out = result.tcm_accessor();
  float* a = static_cast<float*>(torch::neuron::tcm_malloc(4 * kBoxes * sizeof(float)));
  float* b = static_cast<float*>(torch::neuron::tcm_malloc(4 * kBoxes * sizeof(float)));
  float* g = static_cast<float*>(torch::neuron::tcm_malloc(kBoxes * sizeof(float)));
  TORCH_CHECK(a != nullptr && b != nullptr && g != nullptr);
  for (uint32_t at = first; at < end; at += kBoxes) {
    const uint32_t n = end - at < kBoxes ? end - at : kBoxes;
    left.tensor_to_tcm(a, 4 * at, 4 * n);
    right.tensor_to_tcm(b, 4 * at, 4 * n);
    for (uint32_t i = 0; i < n; i++) g[i] = of_boxes(a + 4 * i, b + 4 * i);
    out.tcm_to_tensor(g, at, n);
  }
  torch::neuron::tcm_free(a);
  torch::neuron::tcm_free(b);
  torch::neuron::tcm_free(g);
  return result;
}
