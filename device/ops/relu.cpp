// relu three ways: element by element, in blocks of data memory, in blocks on eight cores.
#include <stdint.h>
#include <stdlib.h>

#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

// Elements of a block.
static constexpr size_t kBlock = 1024;

// relu of a matrix, element by element.
torch::Tensor relu(const torch::Tensor& t_in) {
  torch::Tensor t_out = torch::zeros(t_in.sizes(), torch::kFloat);
  auto in = t_in.accessor<float, 2>();
  auto out = t_out.accessor<float, 2>();
  for (int64_t i = 0; i < t_in.size(0); i++) {
    for (int64_t j = 0; j < t_in.size(1); j++) {
      out[i][j] = in[i][j] > 0.0 ? in[i][j] : 0.0;
    }
  }
  return t_out;
}

// Elements `first` to `first + count` of a tensor, through data memory.
static void relu_blocks(const torch::Tensor& t_in, torch::Tensor& t_out, size_t first, size_t count) {
  auto in = t_in.tcm_accessor();
  auto out = t_out.tcm_accessor();
  float* block = static_cast<float*>(torch::neuron::tcm_malloc(sizeof(float) * kBlock));
  TORCH_CHECK(block != nullptr);
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t n = count - done < kBlock ? count - done : kBlock;
    in.tensor_to_tcm<float>(block, first + done, n);
    for (size_t i = 0; i < n; i++) {
      if (block[i] < 0.0f) block[i] = 0.0f;
    }
    out.tcm_to_tensor<float>(block, first + done, n);
  }
  torch::neuron::tcm_free(block);
}

// relu on one core; the result is the operation's own, and is copied when it ends.
torch::Tensor relu_tcm(const torch::Tensor& t_in) {
  torch::Tensor t_out = torch::empty(t_in.sizes(), torch::kFloat);
  relu_blocks(t_in, t_out, 0, t_in.numel());
  return t_out;
}

// relu on all cores: each has its share of the elements, the last one what is left over.
torch::Tensor relu_multicore(const torch::Tensor& t_in) {
  torch::Tensor t_out = get_dst_tensor();
  const size_t elements = t_in.numel();
  const size_t share = elements / get_cpu_count();
  const size_t first = share * get_cpu_id();
  const bool last = get_cpu_id() == get_cpu_count() - 1;
  relu_blocks(t_in, t_out, first, last ? elements - first : share);
  return t_out;
}
