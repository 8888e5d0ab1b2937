// The negative of each element: one by one for floats of any rank up to three, in blocks for whole numbers of any shape.
#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

static void negate_row(const torch::TensorAccessor<float, 1, true>& in,
                       const torch::TensorAccessor<float, 1, false>& out) {
  for (int64_t i = 0; i < in.size(0); i++) out[i] = -in[i];
}

// Element by element; one, two or three dimensions.
torch::Tensor negate(const torch::Tensor& x) {
  torch::Tensor y = torch::empty(x.sizes(), torch::kFloat);
  if (x.dim() == 1) {
    negate_row(x.accessor<float, 1>(), y.accessor<float, 1>());
  } else if (x.dim() == 2) {
    auto in = x.accessor<float, 2>();
    auto out = y.accessor<float, 2>();
    for (int64_t i = 0; i < x.size(0); i++) negate_row(in[i], out[i]);
  } else {
    auto in = x.accessor<float, 3>();
    auto out = y.accessor<float, 3>();
    for (int64_t i = 0; i < x.size(0); i++) {
      for (int64_t j = 0; j < x.size(1); j++) negate_row(in[i][j], out[i][j]);
    }
  }
  return y;
}

// 32-bit integers of any shape on all cores; the smallest one stays what it is.
torch::Tensor negate_int(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  const uint32_t elements = x.numel(), share = elements / get_cpu_count();
  const uint32_t first = share * get_cpu_id();
  const uint32_t end = get_cpu_id() == get_cpu_count() - 1 ? elements : first + share;
  auto in = x.tcm_accessor();
  auto out = y.tcm_accessor();
  static constexpr uint32_t kBlock = 512;
  uint32_t* block = static_cast<uint32_t*>(torch::neuron::tcm_malloc(kBlock * sizeof(uint32_t)));
  TORCH_CHECK(block != nullptr);
  for (uint32_t at = first; at < end; at += kBlock) {
    const uint32_t n = end - at < kBlock ? end - at : kBlock;
    in.tensor_to_tcm(block, at, n);
    for (uint32_t i = 0; i < n; i++) block[i] = 0u - block[i];
    out.tcm_to_tensor(block, at, n);
  }
  torch::neuron::tcm_free(block);
  return y;
}
