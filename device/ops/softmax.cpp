// softmax along the last dimension: the rows are shared out over the cores.
#include <math.h>

#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

// Longest row.
static constexpr uint32_t kLongest = 2048;

// exp(x - max) / sum(exp(x - max)) of each row; rows have at most 2048 elements.
torch::Tensor softmax(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  const uint32_t n = x.size(-1), rows = x.numel() / n;
  TORCH_CHECK(n <= kLongest);
  auto in = x.tcm_accessor();
  auto out = y.tcm_accessor();
  float* row = static_cast<float*>(torch::neuron::tcm_malloc(kLongest * sizeof(float)));
  TORCH_CHECK(row != nullptr);
  for (uint32_t index = get_cpu_id(); index < rows; index += get_cpu_count()) {
    in.tensor_to_tcm(row, index * n, n);
    float largest = row[0];
    for (uint32_t i = 1; i < n; i++) {
      if (row[i] > largest) largest = row[i];
    }
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) {
      row[i] = expf(row[i] - largest);
      sum += row[i];
    }
    for (uint32_t i = 0; i < n; i++) row[i] /= sum;
    out.tcm_to_tensor(row, index * n, n);
  }
  torch::neuron::tcm_free(row);
  return y;
}
