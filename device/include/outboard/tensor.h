// Tensors: counted references to a description and to the memory behind it.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "abi.h"
#include "scalar.h"

namespace c10 {

// A range that somebody else owns.
template <typename T>
class ArrayRef {
 public:
  ArrayRef() : data_(nullptr), size_(0) {}
  ArrayRef(const T& one) : data_(&one), size_(1) {}
  ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const std::initializer_list<T>& list) : data_(list.begin()), size_(list.size()) {}
  template <size_t n>
  ArrayRef(const T (&array)[n]) : data_(array), size_(n) {}

  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t index) const { return data_[index]; }
  bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (size_t index = 0; index < size_; ++index)
      if (!(data_[index] == other.data_[index])) return false;
    return true;
  }
  bool operator==(ArrayRef other) const { return equals(other); }
  bool operator!=(ArrayRef other) const { return !equals(other); }

 private:
  const T* data_;
  size_t size_;
};

using IntArrayRef = ArrayRef<int64_t>;

// What a factory makes: an element type, which has no default.
class TensorOptions {
 public:
  TensorOptions(ScalarType type) : type_(type) {}
  TensorOptions dtype(ScalarType type) const { return TensorOptions(type); }
  ScalarType dtype() const { return type_; }

 private:
  ScalarType type_;
};

inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }

}  // namespace c10

namespace at {

using namespace c10;

// What happens when accessors of a tensor could see old elements.
enum class AccessorCoherencePolicy : uint32_t { COHERENT = 0, INCOHERENT_VERBOSE = 1, INCOHERENT_QUIET = 2 };

// Counts the accessors of a tensor object. Readers with a buffer exclude writers and unbuffered access, writers exclude
// everything.
class CoherencyEnforcer {
 public:
  void add_reader() {
    check(buffered_writers_ == 0 && unbuffered_ == 0, "a stream reads a tensor that has a writer or an accessor");
    ++buffered_readers_;
  }
  void add_writer() {
    check(buffered_writers_ == 0 && buffered_readers_ == 0 && unbuffered_ == 0,
          "a stream writes a tensor that has another accessor");
    ++buffered_writers_;
  }
  void add_unbuffered() {
    check(buffered_writers_ == 0 && buffered_readers_ == 0, "an accessor of a tensor that has a stream");
    ++unbuffered_;
  }
  void remove_reader() { --buffered_readers_; }
  void remove_writer() { --buffered_writers_; }
  void remove_unbuffered() { --unbuffered_; }

  AccessorCoherencePolicy policy() const { return policy_; }
  void set_policy(AccessorCoherencePolicy policy) { policy_ = policy; }

 private:
  void check(bool allowed, const char* text) const {
    if (allowed || policy_ == AccessorCoherencePolicy::INCOHERENT_QUIET) return;
    if (policy_ == AccessorCoherencePolicy::COHERENT) outboard::fail(text);
    printf("warning: %s\n", text);
  }

  int32_t buffered_readers_ = 0;
  int32_t buffered_writers_ = 0;
  int32_t unbuffered_ = 0;
  AccessorCoherencePolicy policy_ = AccessorCoherencePolicy::COHERENT;
};

template <typename T, size_t N, bool read_only>
class TensorAccessor;
template <typename T>
class TensorReadStreamAccessor;
template <typename T>
class TensorWriteStreamAccessor;
template <bool read_only>
class TensorTcmAccessor;

// A tensor. Copies share the elements; accessors belong to one object, which must outlive them.
class Tensor {
 public:
  Tensor() : impl_(nullptr) {}
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_) ++impl_->references;
    enforcer_.set_policy(other.enforcer_.policy());
  }
  Tensor(Tensor&& other) noexcept : impl_(other.impl_) {
    other.impl_ = nullptr;
    enforcer_.set_policy(other.enforcer_.policy());
  }
  Tensor& operator=(Tensor other) {
    TensorImpl* mine = impl_;
    impl_ = other.impl_;
    other.impl_ = mine;
    return *this;
  }
  ~Tensor() { release(); }

  bool defined() const { return impl_ != nullptr; }
  int64_t dim() const { return impl().rank; }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return impl().numel; }
  IntArrayRef sizes() const { return IntArrayRef(impl().sizes, impl().rank); }
  IntArrayRef strides() const { return IntArrayRef(impl().strides, impl().rank); }
  int64_t size(int64_t dimension) const { return impl().sizes[wrap(dimension)]; }
  int64_t stride(int64_t dimension) const { return impl().strides[wrap(dimension)]; }
  ScalarType scalar_type() const { return static_cast<ScalarType>(impl().scalar_type); }
  ScalarType dtype() const { return scalar_type(); }
  TensorOptions options() const { return TensorOptions(scalar_type()); }
  int64_t element_size() const { return impl().item_size; }
  int64_t itemsize() const { return impl().item_size; }
  int64_t nbytes() const { return numel() * itemsize(); }
  int64_t storage_offset() const { return impl().storage_offset; }
  bool is_contiguous() const { return true; }

  // Where the elements begin: an address of the board's memory, no pointer.
  uint64_t device_address() const {
    return impl().storage->data.pointer.hbm_addr + static_cast<uint64_t>(storage_offset() * itemsize());
  }

  // Element access by index; of a tensor that cannot change, elements are read only. On one core only.
  template <typename T, size_t N>
  TensorAccessor<T, N, true> accessor() const&;
  template <typename T, size_t N>
  TensorAccessor<T, N, false> accessor() &;
  template <typename T, size_t N>
  void accessor() && = delete;

  // The elements in the order of the memory. On one core only.
  template <typename T>
  TensorReadStreamAccessor<T> read_stream_accessor() const&;
  template <typename T>
  void read_stream_accessor() && = delete;
  template <typename T>
  TensorWriteStreamAccessor<T> write_stream_accessor() &;
  template <typename T>
  void write_stream_accessor() && = delete;

  // Copies to and from data memory; the only access on several cores.
  TensorTcmAccessor<true> tcm_accessor() const&;
  TensorTcmAccessor<false> tcm_accessor() &;
  void tcm_accessor() && = delete;

  AccessorCoherencePolicy get_accessor_coherence_policy() const { return enforcer_.policy(); }
  void set_accessor_coherence_policy(AccessorCoherencePolicy policy) const { enforcer_.set_policy(policy); }

  Tensor& fill_(const Scalar& value);

  CoherencyEnforcer& enforcer() const { return enforcer_; }

 private:
  TensorImpl& impl() const {
    OUTBOARD_CHECK(impl_ != nullptr, "the tensor is undefined");
    return *impl_;
  }
  uint32_t wrap(int64_t dimension) const {
    const int64_t rank = impl().rank;
    const int64_t index = dimension < 0 ? dimension + rank : dimension;
    OUTBOARD_CHECK(index >= 0 && index < rank, "the tensor has no such dimension");
    return static_cast<uint32_t>(index);
  }
  void release() {
    if (!impl_ || --impl_->references != 0) return;
    StorageImpl* storage = impl_->storage;
    if (--storage->references == 0) {
      GetNeuronAllocator()->release(&storage->data);
      free(storage);
    }
    free(impl_);
  }

  TensorImpl* impl_;
  mutable CoherencyEnforcer enforcer_;
};

static_assert(sizeof(CoherencyEnforcer) == 16 && sizeof(Tensor) == 20, "as the runtime has them");

}  // namespace at

// The result of the operation, to be written in place. What the function returns is then not used.
at::Tensor get_dst_tensor();
