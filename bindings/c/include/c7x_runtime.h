/*
 * A module of a C7x device as a C++ object (C++14), over c7x_compute_client.h and DLPack.
 *
 *   c7x::Module module = c7x::Module::Load("lib0.out");
 *   c7x::OutputTensor y = module.Run(&x);               // x is a DLTensor
 *
 * Outputs lie in the output buffer and last until the next call or Close(). A module is not for several threads at once.
 */
#ifndef C7X_RUNTIME_H
#define C7X_RUNTIME_H

#include "c7x_compute_client.h"

#if defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif
#include "c7x_dlpack.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace c7x {

/* Most outputs and inputs of one call. */
constexpr int kMaxOutputs = 64;
constexpr int kMaxInputs = 128;

/* One output. dl.data points into the output buffer and lasts until the next call; dl.shape points at the shape in this object, also
 * after a copy or a move. */
struct OutputTensor {
  DLTensor dl;
  int64_t _shape[6];
  size_t data_size;

  OutputTensor() : dl(), _shape(), data_size(0) { dl.shape = _shape; }
  OutputTensor(const OutputTensor &other) : dl(other.dl), _shape(), data_size(other.data_size) { adopt(other); }
  OutputTensor &operator=(const OutputTensor &other) {
    dl = other.dl;
    data_size = other.data_size;
    adopt(other);
    return *this;
  }

private:
  void adopt(const OutputTensor &other) {
    std::copy(other._shape, other._shape + 6, _shape);
    dl.shape = _shape;
  }
};

namespace detail {

/* Bytes of a tensor; false when there is no such number. */
inline bool bytes(const int64_t *shape, int ndim, DLDataType dtype, size_t *size) {
  size_t total = (static_cast<size_t>(dtype.bits) * dtype.lanes + 7) / 8;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] < 0) {
      return false;
    }
    const size_t dim = static_cast<size_t>(shape[i]);
    if (dim != 0 && total > SIZE_MAX / dim) {
      return false;
    }
    total *= dim;
  }
  *size = total;
  return true;
}

/* Whether the elements lie row-major without gaps. */
inline bool dense(const DLTensor &tensor) {
  if (tensor.strides == nullptr) {
    return true;
  }
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; i--) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
      return false;
    }
    expected *= tensor.shape[i];
  }
  return true;
}

/* A tensor that lives in the input buffer. */
struct Slot {
  DLTensor dl;
  int64_t shape[6];
};

/* The client of a module. */
class Connection {
public:
  explicit Connection(const std::string &path) : client_(c7x_client_open()) {
    if (client_ == nullptr) {
      throw std::runtime_error(std::string("c7x: cannot open the device: ") + c7x_last_error());
    }
    const int result = c7x_client_dyn_load(client_, path.c_str(), &handle_);
    if (result != 0) {
      const std::string reason = c7x_last_error();
      c7x_client_close(client_);
      throw std::runtime_error("c7x: cannot load " + path + ": " + c7x_strerror(result) + ": " + reason);
    }
  }
  ~Connection() { close(); }
  Connection(const Connection &) = delete;
  Connection &operator=(const Connection &) = delete;

  void close() {
    if (client_ != nullptr) {
      c7x_client_dyn_unload(client_, handle_);
      c7x_client_close(client_);
      client_ = nullptr;
      slots_.clear();
    }
  }

  int call(const DLTensor *const *inputs, int count, OutputTensor *outputs, int capacity, int *num_outputs) {
    *num_outputs = 0;
    if (client_ == nullptr || count < 0 || count > kMaxInputs || (count > 0 && inputs == nullptr)) {
      return -EINVAL;
    }
    std::vector<c7x_tensor_desc_t> in(static_cast<size_t>(count) + 1);
    for (int i = 0; i < count; i++) {
      if (inputs[i] == nullptr || !describe(*inputs[i], &in[static_cast<size_t>(i)])) {
        return -EINVAL;
      }
    }
    std::vector<c7x_tensor_desc_t> out(static_cast<size_t>(capacity));
    const int result = c7x_client_infer_n(client_, handle_, 0, in.data(), count, out.data(), capacity, num_outputs, &cycles_, 0);
    if (result != 0) {
      return result;
    }
    for (int i = 0; i < *num_outputs; i++) {
      const c7x_tensor_desc_t &from = out[static_cast<size_t>(i)];
      OutputTensor &to = outputs[i];
      std::copy(from.shape, from.shape + 6, to._shape);
      to.dl.data = from.data;
      to.dl.device.device_type = kDLCPU;
      to.dl.device.device_id = 0;
      to.dl.ndim = from.ndim;
      to.dl.dtype.code = static_cast<uint8_t>(from.dtype_code);
      to.dl.dtype.bits = static_cast<uint8_t>(from.dtype_bits);
      to.dl.dtype.lanes = 1;
      to.dl.shape = to._shape;
      to.dl.strides = nullptr;
      to.dl.byte_offset = 0;
      to.data_size = from.data_size;
    }
    return 0;
  }

  DLTensor *create(const int64_t *shape, int ndim, DLDataType dtype) {
    size_t size = 0;
    if (client_ == nullptr || ndim < 0 || ndim > C7X_TENSOR_MAX_NDIM || slots_.size() >= kMaxInputs ||
        !bytes(shape, ndim, dtype, &size)) {
      return nullptr;
    }
    void *data = c7x_client_create_input(client_, handle_, size);
    if (data == nullptr) {
      return nullptr;
    }
    std::unique_ptr<Slot> slot(new Slot());
    std::copy(shape, shape + ndim, slot->shape);
    slot->dl.data = data;
    slot->dl.device.device_type = kDLCPU;
    slot->dl.ndim = ndim;
    slot->dl.dtype = dtype;
    slot->dl.shape = slot->shape;
    slots_.push_back(std::move(slot));
    return &slots_.back()->dl;
  }

  void *staging(size_t *size) {
    if (client_ == nullptr) {
      *size = 0;
      return nullptr;
    }
    return c7x_client_get_input_buffer(client_, size);
  }

  int reserve(uint64_t input_bytes, uint64_t output_bytes) {
    return client_ == nullptr ? -EINVAL : c7x_client_reserve_io(client_, input_bytes, output_bytes);
  }

  uint64_t cycles() const { return cycles_; }

private:
  static bool describe(const DLTensor &tensor, c7x_tensor_desc_t *desc) {
    size_t size = 0;
    if (tensor.ndim < 0 || tensor.ndim > C7X_TENSOR_MAX_NDIM || tensor.dtype.lanes != 1 || !dense(tensor) ||
        !bytes(tensor.shape, tensor.ndim, tensor.dtype, &size)) {
      return false;
    }
    *desc = c7x_tensor_desc_t();
    desc->data = tensor.data == nullptr ? nullptr : static_cast<char *>(tensor.data) + tensor.byte_offset;
    desc->data_size = size;
    desc->ndim = tensor.ndim;
    desc->dtype_code = tensor.dtype.code;
    desc->dtype_bits = tensor.dtype.bits;
    std::copy(tensor.shape, tensor.shape + tensor.ndim, desc->shape);
    return true;
  }

  c7x_client_t *client_;
  uint32_t handle_ = 0;
  uint64_t cycles_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;
};

} // namespace detail

/* The entry of a module, called without exceptions. Not to be used after its module was closed or destroyed. */
class Function {
public:
  /* 0 or a negative number; `outputs` has room for kMaxOutputs. */
  int operator()(const DLTensor *const *inputs, int num_inputs, OutputTensor *outputs, int *num_outputs) const {
    return connection_ == nullptr || outputs == nullptr || num_outputs == nullptr
               ? -EINVAL
               : connection_->call(inputs, num_inputs, outputs, kMaxOutputs, num_outputs);
  }

private:
  friend class Module;
  explicit Function(detail::Connection *connection) : connection_(connection) {}
  detail::Connection *connection_;
};

/* A loaded module. Destruction unloads it and closes its device. */
class Module {
public:
  /* Opens the device and loads a module; throws std::runtime_error with the reason. */
  static Module Load(const std::string &path) { return Module(path); }

  /* The entry, under any name: a module has one. */
  Function operator[](const std::string &) const { return Function(connection_.get()); }

  /* Calls the module with one input; returns its first output. Throws std::runtime_error. */
  OutputTensor Run(const DLTensor *input) {
    const std::vector<OutputTensor> outputs = Run(std::vector<const DLTensor *>(1, input));
    if (outputs.empty()) {
      throw std::runtime_error("c7x: the module returned no output");
    }
    return outputs.front();
  }

  /* Calls the module; returns all outputs. Throws std::runtime_error. */
  std::vector<OutputTensor> Run(const std::vector<const DLTensor *> &inputs) {
    std::vector<OutputTensor> outputs(kMaxInputs);
    int count = 0;
    const bool possible = connection_ != nullptr && inputs.size() <= kMaxInputs;
    const int result = possible ? connection_->call(inputs.data(), static_cast<int>(inputs.size()), outputs.data(), kMaxInputs, &count)
                                : -EINVAL;
    if (result != 0) {
      throw std::runtime_error(std::string("c7x: the call failed: ") + c7x_strerror(result));
    }
    outputs.resize(static_cast<size_t>(count));
    return outputs;
  }

  /* A tensor in the input buffer: calls with it copy nothing. nullptr when there is no room; lasts until Close(). */
  DLTensor *CreateInput(const int64_t *shape, int ndim, DLDataType dtype) {
    return connection_ == nullptr ? nullptr : connection_->create(shape, ndim, dtype);
  }

  /* The input buffer. */
  void *StagingBuffer(size_t *size) {
    size_t ignored = 0;
    size_t *to = size == nullptr ? &ignored : size;
    *to = 0;
    return connection_ == nullptr ? nullptr : connection_->staging(to);
  }

  /* Outboard: makes the buffers at least this large, before their first use. */
  int ReserveIO(uint64_t input_bytes, uint64_t output_bytes) {
    return connection_ == nullptr ? -EINVAL : connection_->reserve(input_bytes, output_bytes);
  }

  /* Outboard: cycles of the last call. */
  uint64_t LastCycles() const { return connection_ == nullptr ? 0 : connection_->cycles(); }

  /* Unloads the module and closes its device; again does nothing. */
  void Close() {
    if (connection_ != nullptr) {
      connection_->close();
    }
  }

private:
  explicit Module(const std::string &path) : connection_(new detail::Connection(path)) {}
  std::unique_ptr<detail::Connection> connection_;
};

} // namespace c7x

#endif
