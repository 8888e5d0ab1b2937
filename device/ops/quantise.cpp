// Floats as 8-bit integers and back.
#include <math.h>

#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

static constexpr uint32_t kBlock = 1024;

// round(x / scale) + zero, ties to even, between -128 and 127; the result is int8.
torch::Tensor quantise(const torch::Tensor& x, double scale, int64_t zero) {
  TORCH_CHECK(scale > 0);
  torch::Tensor q = get_dst_tensor();
  TORCH_CHECK(q.dtype() == torch::kChar);
  // Whole blocks are shared out, so that no two cores write into one word.
  const uint32_t elements = x.numel(), blocks = (elements + kBlock - 1) / kBlock;
  auto in = x.tcm_accessor();
  auto out = q.tcm_accessor();
  float* floats = static_cast<float*>(torch::neuron::tcm_malloc(kBlock * sizeof(float)));
  int8_t* bytes = static_cast<int8_t*>(torch::neuron::tcm_malloc(kBlock));
  TORCH_CHECK(floats != nullptr && bytes != nullptr);
  const float step = scale;
  for (uint32_t block = get_cpu_id(); block < blocks; block += get_cpu_count()) {
    const uint32_t first = block * kBlock;
    const uint32_t n = elements - first < kBlock ? elements - first : kBlock;
    in.tensor_to_tcm(floats, first, n);
    for (uint32_t i = 0; i < n; i++) {
      float value = rintf(floats[i] / step) + zero;
      if (value < -128) value = -128;
      if (value > 127) value = 127;
      bytes[i] = static_cast<int8_t>(value);
    }
    out.tcm_to_tensor(bytes, first, n);
  }
  torch::neuron::tcm_free(floats);
  torch::neuron::tcm_free(bytes);
  return q;
}

// (q - zero) * scale.
torch::Tensor dequantise(const torch::Tensor& q, double scale, int64_t zero) {
  torch::Tensor x = torch::empty(q.sizes(), torch::kFloat);
  auto in = q.read_stream_accessor<int8_t>();
  auto out = x.write_stream_accessor<float>();
  const float step = scale;
  for (int64_t i = 0; i < q.numel(); i++) out.write((in.read() - static_cast<int32_t>(zero)) * step);
  return x;
}
