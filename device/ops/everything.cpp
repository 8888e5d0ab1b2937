// Every factory, operator and `_out` form of the headers, and every kind of accessor, for a tensor of any element type. A test
// compares what each gives with numpy.
#include <torch/torch.h>

#include <neuron/neuron-utils.hpp>

// The elements of `x` as another type, one by one.
template <typename T>
static torch::Tensor typed(const torch::Tensor& x, torch::ScalarType type) {
  torch::Tensor result = torch::empty(x.sizes(), type);
  auto in = x.read_stream_accessor<float>();
  auto out = result.write_stream_accessor<T>();
  for (int64_t i = 0; i < x.numel(); i++) out.write(static_cast<T>(in.read()));
  return result;
}

static torch::Tensor typed_as(const torch::Tensor& x, torch::ScalarType type) {
  switch (type) {
    case torch::kByte: return typed<uint8_t>(x, type);
    case torch::kChar: return typed<int8_t>(x, type);
    case torch::kShort: return typed<int16_t>(x, type);
    case torch::kInt: return typed<int32_t>(x, type);
    case torch::kLong: return typed<int64_t>(x, type);
    case torch::kHalf: return typed<torch::Half>(x, type);
    case torch::kFloat: return typed<float>(x, type);
    case torch::kBFloat16: return typed<torch::BFloat16>(x, type);
  }
  return torch::Tensor();
}

// Writes results one behind the other: for each the type's number, then the elements, as floats.
class Results {
 public:
  explicit Results(torch::Tensor out) : out_(out), accessor_(out_.accessor<float, 1>()), at_(0) {}

  void put(const torch::Tensor& result) {
    accessor_[at_++] = static_cast<float>(static_cast<int>(result.scalar_type()));
    float values[torch::detail::kBlock];
    const uint32_t count = result.numel();
    for (uint32_t first = 0; first < count; first += torch::detail::kBlock) {
      const uint32_t n = torch::detail::least(count - first, torch::detail::kBlock);
      torch::detail::load_elements(values, result, first, n);
      for (uint32_t i = 0; i < n; i++) accessor_[at_++] = values[i];
    }
  }

 private:
  torch::Tensor out_;
  torch::TensorAccessor<float, 1, false> accessor_;
  uint32_t at_;
};

// An operator and its form that writes into a tensor of the same type.
#define BOTH(name, ...)                               \
  do {                                                \
    torch::Tensor result = torch::name(__VA_ARGS__);  \
    results.put(result);                              \
    result.fill_(0);                                  \
    torch::name##_out(result, __VA_ARGS__);           \
    results.put(result);                              \
  } while (0)

// Functions of the reals and what keeps the type.
torch::Tensor unary(const torch::Tensor& x, int64_t dtype) {
  Results results(get_dst_tensor());
  const torch::Tensor a = typed_as(x, static_cast<torch::ScalarType>(dtype));
  BOTH(abs, a);
  BOTH(ceil, a);
  BOTH(floor, a);
  BOTH(sin, a);
  BOTH(cos, a);
  BOTH(tan, a);
  BOTH(log, a);
  BOTH(log2, a);
  BOTH(log10, a);
  BOTH(exp, a);
  BOTH(clamp, a, 1, 3);
  BOTH(clamp, a, 0.5, 2.5);
  return torch::Tensor();
}

// Operators of two tensors, and of a tensor and a number.
torch::Tensor binary(const torch::Tensor& x, const torch::Tensor& y, int64_t dtype) {
  Results results(get_dst_tensor());
  const torch::ScalarType type = static_cast<torch::ScalarType>(dtype);
  const torch::Tensor a = typed_as(x, type);
  const torch::Tensor b = typed_as(y, type);
  BOTH(add, a, b);
  BOTH(add, a, b, 2);
  BOTH(add, a, 3);
  BOTH(add, a, 0.5);
  BOTH(sub, a, b);
  BOTH(sub, a, b, 2);
  BOTH(sub, a, 3);
  BOTH(mul, a, b);
  BOTH(mul, a, 3);
  BOTH(div, a, b);
  BOTH(div, a, 4);
  BOTH(pow, a, b);
  BOTH(pow, a, 2);
  return torch::Tensor();
}

// A number to the power of each element.
torch::Tensor powers(const torch::Tensor& x, int64_t dtype) {
  Results results(get_dst_tensor());
  const torch::Tensor a = typed_as(x, static_cast<torch::ScalarType>(dtype));
  BOTH(pow, 2, a);
  return torch::Tensor();
}

// Operators of integers.
torch::Tensor bitwise(const torch::Tensor& x, const torch::Tensor& y, int64_t dtype) {
  Results results(get_dst_tensor());
  const torch::ScalarType type = static_cast<torch::ScalarType>(dtype);
  const torch::Tensor a = typed_as(x, type);
  const torch::Tensor b = typed_as(y, type);
  BOTH(bitwise_and, a, b);
  BOTH(bitwise_and, a, 6);
  BOTH(bitwise_or, a, b);
  BOTH(bitwise_or, a, 6);
  BOTH(bitwise_not, a);
  return torch::Tensor();
}

// Every factory, of shape (3, 4) unless it says otherwise.
torch::Tensor factories(int64_t dtype) {
  Results results(get_dst_tensor());
  const torch::ScalarType type = static_cast<torch::ScalarType>(dtype);
  results.put(torch::zeros({3, 4}, type));
  results.put(torch::ones({3, 4}, torch::dtype(type)));
  results.put(torch::full({3, 4}, 7, type));
  results.put(torch::full({3, 4}, 2.5, type));
  results.put(torch::eye(3, type));
  results.put(torch::eye(3, 4, type));
  torch::Tensor filled = torch::empty({3, 4}, type);
  torch::fill_(filled, 5);
  results.put(filled);
  return torch::Tensor();
}

template <typename T>
static void by_every_accessor(Results& results, const torch::Tensor& x, torch::ScalarType type) {
  const torch::Tensor a = typed_as(x, type);
  const uint32_t n = a.numel();
  torch::Tensor copy = torch::zeros(a.sizes(), type);
  {
    auto in = a.accessor<T, 2>();
    auto out = copy.accessor<T, 2>();
    for (int64_t i = 0; i < in.size(0); i++) {
      for (int64_t j = 0; j < in.size(1); j++) out[i][j] = in[i][j];
    }
  }
  results.put(copy);
  copy.fill_(0);
  {
    auto in = a.read_stream_accessor<T>();
    auto out = copy.write_stream_accessor<T>();
    for (uint32_t i = 0; i < n; i++) out.write(in.read());
    in.close();
    out.close();
  }
  results.put(copy);
  copy.fill_(0);
  T* block = static_cast<T*>(torch::neuron::tcm_malloc(n * sizeof(T)));
  TORCH_CHECK(block != nullptr);
  a.tcm_accessor().template tensor_to_tcm<T>(block, 0, n);
  copy.tcm_accessor().template tcm_to_tensor<T>(block, 0, n);
  torch::neuron::tcm_free(block);
  results.put(copy);
}

// Three copies of a matrix: by index, through streams, through data memory.
torch::Tensor accessors(const torch::Tensor& x, int64_t dtype) {
  Results results(get_dst_tensor());
  const torch::ScalarType type = static_cast<torch::ScalarType>(dtype);
  switch (type) {
    case torch::kByte: by_every_accessor<uint8_t>(results, x, type); break;
    case torch::kChar: by_every_accessor<int8_t>(results, x, type); break;
    case torch::kShort: by_every_accessor<int16_t>(results, x, type); break;
    case torch::kInt: by_every_accessor<int32_t>(results, x, type); break;
    case torch::kLong: by_every_accessor<int64_t>(results, x, type); break;
    case torch::kHalf: by_every_accessor<torch::Half>(results, x, type); break;
    case torch::kFloat: by_every_accessor<float>(results, x, type); break;
    case torch::kBFloat16: by_every_accessor<torch::BFloat16>(results, x, type); break;
  }
  return torch::Tensor();
}
