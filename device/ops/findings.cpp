// Operations that are wrong, each in its own way: what the diagnosis finds in them. Tests build them and look for the finding.
#include <stdint.h>

#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

static constexpr size_t kBlock = 64;

static float* block(size_t bytes = sizeof(float) * kBlock) { return static_cast<float*>(torch::neuron::tcm_malloc(bytes)); }

// OB0840: every core reads elements through an accessor.
torch::Tensor shared_accessor(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  auto in = x.accessor<float, 1>();
  float* part = block();
  part[0] = in[get_cpu_id()];
  y.tcm_accessor().tcm_to_tensor<float>(part, get_cpu_id(), 1);
  return y;
}

// OB0840: every core reads the tensor through a stream.
torch::Tensor shared_stream(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  auto in = x.read_stream_accessor<float>();
  float* part = block();
  part[0] = in.read();
  in.close();
  y.tcm_accessor().tcm_to_tensor<float>(part, get_cpu_id(), 1);
  return y;
}

// OB0841: every core returns a tensor of its own.
torch::Tensor own_result(const torch::Tensor& x) {
  return torch::zeros(x.sizes(), torch::kFloat);
}

// OB0842: all cores write the first elements.
torch::Tensor race(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  float* part = block();
  for (size_t i = 0; i < 8; i++) part[i] = 1.0f + get_cpu_id();
  y.tcm_accessor().tcm_to_tensor<float>(part, 0, 8);
  return y;
}

// OB0842: a core reads what its neighbour writes into the result.
torch::Tensor neighbour(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  const size_t id = get_cpu_id();
  float* part = block();
  part[0] = 1.0f;
  y.tcm_accessor().tcm_to_tensor<float>(part, id, 1);
  y.tcm_accessor().tensor_to_tcm<float>(part, (id + 1) % get_cpu_count(), 1);
  return y;
}

// The division of a well-known sample: the last core has more elements, and begins where nobody expects it.
torch::Tensor offset_bug(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  const size_t elements = x.numel();
  size_t partition = elements / get_cpu_count();
  if (get_cpu_id() == get_cpu_count() - 1) partition = elements - partition * (get_cpu_count() - 1);
  float* part = block();
  x.tcm_accessor().tensor_to_tcm<float>(part, partition * get_cpu_id(), partition);
  for (size_t i = 0; i < partition; i++) part[i] = part[i] > 0.0f ? part[i] : 0.0f;
  y.tcm_accessor().tcm_to_tensor<float>(part, partition * get_cpu_id(), partition);
  return y;
}

// OB0843: one element behind a block.
torch::Tensor tcm_behind(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  float* part = block();
  part[kBlock] = 1.0f;
  return y;
}

// OB0843: behind the 16 KiB.
torch::Tensor tcm_end(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  float* part = block(0x4000);
  part[0x1000] = 1.0f;
  return y;
}

// OB0844: an element behind the tensor, by an accessor.
torch::Tensor element_behind(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  auto in = x.accessor<float, 1>();
  auto out = y.accessor<float, 1>();
  out[0] = in[x.numel()];
  return y;
}

// OB0844: a block that begins inside of the tensor and ends behind it.
torch::Tensor block_behind(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  float* part = block();
  x.tcm_accessor().tensor_to_tcm<float>(part, 1, x.numel());
  return y;
}

// OB0845: the low half of an address in HBM, as a pointer.
torch::Tensor untranslated(const torch::Tensor& x) {
  const uint64_t address = x.device_address();
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  auto out = y.accessor<float, 1>();
  out[0] = *reinterpret_cast<volatile float*>(static_cast<uintptr_t>(address));
  return y;
}

// OB0847: data memory that was given back.
torch::Tensor tcm_freed(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  volatile float* part = block();
  part[0] = 1.0f;
  torch::neuron::tcm_free(const_cast<float*>(part));
  y.accessor<float, 1>()[0] = part[0];
  return y;
}

// OB0847: a pointer kept from the operation before.
torch::Tensor tcm_kept(const torch::Tensor& x) {
  static volatile float* kept = nullptr;
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  if (kept == nullptr) kept = block();
  kept[0] = 1.0f;
  return y;
}

// OB0848: data memory that was never written.
torch::Tensor tcm_unwritten(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  float* part = block();
  y.tcm_accessor().tcm_to_tensor<float>(part, 0, 1);
  return y;
}

// OB0848: a tensor that was never written.
torch::Tensor tensor_unwritten(const torch::Tensor& x) {
  torch::Tensor empty = torch::empty(x.sizes(), torch::kFloat);
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  auto in = empty.accessor<float, 1>();
  auto out = y.accessor<float, 1>();
  out[0] = in[0];
  return y;
}

// OB0848: only half of the result.
torch::Tensor half_result(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  float* part = block();
  x.tcm_accessor().tensor_to_tcm<float>(part, 0, x.numel() / 2);
  y.tcm_accessor().tcm_to_tensor<float>(part, 0, x.numel() / 2);
  return y;
}

// OB0849: recursion without an end in sight.
static int climb(volatile int* room, int depth) {
  volatile int own[16];
  own[0] = depth;
  return depth == 0 ? room[0] : climb(own, depth - 1) + own[0];
}
torch::Tensor stack_overflow(const torch::Tensor& x) {
  int start = 0;
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  y.accessor<float, 1>()[0] = climb(&start, 100000);
  return y;
}

// OB0851: what the vendor's vector unit would execute.
torch::Tensor flix(const torch::Tensor& x) {
  asm volatile(".byte 0x4f, 0x80, 0xa0, 0x80, 0, 0, 0, 0");
  return torch::zeros(x.sizes(), torch::kFloat);
}
