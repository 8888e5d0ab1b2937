// The product of two matrices: every core computes its share of the rows, with one row of the left matrix, one row of the right
// one and one row of the result in data memory.
#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

// Columns of the result, and of the left matrix, that fit into data memory at a time.
static constexpr uint32_t kColumns = 1024;

// x has m rows of k elements, y k rows of n; k is at most 1024.
torch::Tensor matmul(const torch::Tensor& x, const torch::Tensor& y) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2 && x.size(1) == y.size(0));
  TORCH_CHECK(x.size(1) <= kColumns);
  torch::Tensor z = get_dst_tensor();
  const uint32_t m = x.size(0), k = x.size(1), n = y.size(1);
  auto left = x.tcm_accessor();
  auto right = y.tcm_accessor();
  auto result = z.tcm_accessor();
  float* a = static_cast<float*>(torch::neuron::tcm_malloc(kColumns * sizeof(float)));
  float* b = static_cast<float*>(torch::neuron::tcm_malloc(kColumns * sizeof(float)));
  float* c = static_cast<float*>(torch::neuron::tcm_malloc(kColumns * sizeof(float)));
  TORCH_CHECK(a != nullptr && b != nullptr && c != nullptr);
  for (uint32_t row = get_cpu_id(); row < m; row += get_cpu_count()) {
    left.tensor_to_tcm(a, row * k, k);
    for (uint32_t first = 0; first < n; first += kColumns) {
      const uint32_t columns = n - first < kColumns ? n - first : kColumns;
      for (uint32_t j = 0; j < columns; j++) c[j] = 0;
      for (uint32_t i = 0; i < k; i++) {
        right.tensor_to_tcm(b, i * n + first, columns);
        for (uint32_t j = 0; j < columns; j++) c[j] += a[i] * b[j];
      }
      result.tcm_to_tensor(c, row * n + first, columns);
    }
  }
  torch::neuron::tcm_free(a);
  torch::neuron::tcm_free(b);
  torch::neuron::tcm_free(c);
  return z;
}
