// The three ways to elements: one by one through windows, in order through a buffer, in blocks through data memory.
#pragma once

#include "tensor.h"

namespace at {

namespace detail {

template <typename T>
void check_type(const Tensor& tensor) {
  OUTBOARD_CHECK(tensor.scalar_type() == CppTypeToScalarType<T>::value,
                 "the accessor's type is not the tensor's element type");
}

template <typename T>
T load(uint64_t place) {
  return *static_cast<const volatile T*>(outboard::local(place));
}
template <>
inline Half load<Half>(uint64_t place) {
  Half value;
  value.x = load<uint16_t>(place);
  return value;
}
template <>
inline BFloat16 load<BFloat16>(uint64_t place) {
  BFloat16 value;
  value.x = load<uint16_t>(place);
  return value;
}

template <typename T>
void store(uint64_t place, T value) {
  *static_cast<volatile T*>(outboard::local(place)) = value;
}
template <>
inline void store<Half>(uint64_t place, Half value) {
  store<uint16_t>(place, value.x);
}
template <>
inline void store<BFloat16>(uint64_t place, BFloat16 value) {
  store<uint16_t>(place, value.x);
}

// What an index of an accessor that writes gives: the element, which each use finds anew, since windows move.
template <typename T>
class Element {
 public:
  explicit Element(uint64_t place) : place_(place) {}
  Element(const Element&) = default;
  operator T() const { return load<T>(place_); }
  Element& operator=(T value) {
    store<T>(place_, value);
    return *this;
  }
  Element& operator=(const Element& other) { return *this = static_cast<T>(other); }
  Element& operator+=(T value) { return *this = static_cast<T>(load<T>(place_) + value); }
  Element& operator-=(T value) { return *this = static_cast<T>(load<T>(place_) - value); }
  Element& operator*=(T value) { return *this = static_cast<T>(load<T>(place_) * value); }
  Element& operator/=(T value) { return *this = static_cast<T>(load<T>(place_) / value); }

 private:
  uint64_t place_;
};

// What an index gives: a value, an element, or an accessor with one dimension less.
template <typename T, size_t N, bool read_only>
struct Indexed {
  using type = TensorAccessor<T, N - 1, read_only>;
  static type at(uint64_t place, const int64_t* sizes, const int64_t* strides) {
    return type(nullptr, place, sizes + 1, strides + 1);
  }
};
template <typename T>
struct Indexed<T, 1, true> {
  using type = T;
  static type at(uint64_t place, const int64_t*, const int64_t*) { return load<T>(place); }
};
template <typename T>
struct Indexed<T, 1, false> {
  using type = Element<T>;
  static type at(uint64_t place, const int64_t*, const int64_t*) { return type(place); }
};

}  // namespace detail

// Access by index, `a[i][j]`. Every access goes through a window; indices are not checked.
template <typename T, size_t N, bool read_only>
class TensorAccessor {
 public:
  TensorAccessor(CoherencyEnforcer* enforcer, uint64_t place, const int64_t* sizes, const int64_t* strides)
      : enforcer_(enforcer), place_(place), sizes_(sizes), strides_(strides) {
    if (enforcer_) enforcer_->add_unbuffered();
  }
  TensorAccessor(const TensorAccessor& other)
      : TensorAccessor(other.enforcer_, other.place_, other.sizes_, other.strides_) {}
  TensorAccessor& operator=(const TensorAccessor&) = delete;
  ~TensorAccessor() {
    if (!enforcer_) return;
    enforcer_->remove_unbuffered();
    outboard::fence();
  }

  IntArrayRef sizes() const { return IntArrayRef(sizes_, N); }
  IntArrayRef strides() const { return IntArrayRef(strides_, N); }
  int64_t size(int64_t dimension) const { return sizes_[dimension]; }
  int64_t stride(int64_t dimension) const { return strides_[dimension]; }

  typename detail::Indexed<T, N, read_only>::type operator[](int64_t index) const {
    const uint64_t place = place_ + static_cast<uint64_t>(index * strides_[0]) * sizeof(T);
    return detail::Indexed<T, N, read_only>::at(place, sizes_, strides_);
  }

 private:
  CoherencyEnforcer* enforcer_;
  uint64_t place_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

template <typename T, size_t N>
TensorAccessor<T, N, true> Tensor::accessor() const& {
  detail::check_type<T>(*this);
  OUTBOARD_CHECK(dim() == static_cast<int64_t>(N), "the accessor's dimensions are not the tensor's");
  return TensorAccessor<T, N, true>(&enforcer_, device_address(), impl_->sizes, impl_->strides);
}

template <typename T, size_t N>
TensorAccessor<T, N, false> Tensor::accessor() & {
  detail::check_type<T>(*this);
  OUTBOARD_CHECK(dim() == static_cast<int64_t>(N), "the accessor's dimensions are not the tensor's");
  return TensorAccessor<T, N, false>(&enforcer_, device_address(), impl_->sizes, impl_->strides);
}

// A buffer of 4096 bytes in data memory over a tensor; without room for it, elements go one by one through a window.
template <typename T>
class TensorStream {
 public:
  static constexpr uint32_t kBytes = 4096;

  TensorStream(const TensorStream&) = delete;
  TensorStream& operator=(const TensorStream&) = delete;

 protected:
  explicit TensorStream(const Tensor& tensor)
      : enforcer_(&tensor.enforcer()),
        place_(tensor.device_address()),
        left_(static_cast<uint32_t>(tensor.numel())),
        used_(0),
        filled_(0),
        buffer_(nullptr) {
    detail::check_type<T>(tensor);
    _outboard_stream(place_);
    void* room = nullptr;
    if (neuron_dataram_allocate(kBytes, &room, 0) == 0) buffer_ = static_cast<T*>(room);
  }
  TensorStream(TensorStream&& other)
      : enforcer_(other.enforcer_),
        place_(other.place_),
        left_(other.left_),
        used_(other.used_),
        filled_(other.filled_),
        buffer_(other.buffer_) {
    other.enforcer_ = nullptr;
    other.buffer_ = nullptr;
  }

  bool open() const { return enforcer_ != nullptr; }
  void close_buffer() {
    if (buffer_) neuron_dataram_deallocate(buffer_);
    buffer_ = nullptr;
    enforcer_ = nullptr;
  }

  CoherencyEnforcer* enforcer_;
  // The next element that the buffer has not seen, and how many there are.
  uint64_t place_;
  uint32_t left_;
  uint32_t used_;
  uint32_t filled_;
  T* buffer_;
};

// Reads the elements in order.
template <typename T>
class TensorReadStreamAccessor : public TensorStream<T> {
 public:
  explicit TensorReadStreamAccessor(const Tensor& tensor) : TensorStream<T>(tensor) {
    this->enforcer_->add_reader();
    outboard::fence();
    refill();
  }
  TensorReadStreamAccessor(TensorReadStreamAccessor&&) = default;
  ~TensorReadStreamAccessor() { close(); }

  T read() {
    OUTBOARD_CHECK(this->open(), "read() of a stream that is closed");
    if (!this->buffer_) {
      OUTBOARD_CHECK(this->left_ > 0, "read() past the last element of the tensor");
      const T value = detail::load<T>(this->place_);
      this->place_ += sizeof(T);
      --this->left_;
      return value;
    }
    if (this->used_ == this->filled_) refill();
    OUTBOARD_CHECK(this->used_ < this->filled_, "read() past the last element of the tensor");
    return this->buffer_[this->used_++];
  }

  void close() {
    if (!this->open()) return;
    this->enforcer_->remove_reader();
    this->close_buffer();
  }

 private:
  void refill() {
    if (!this->buffer_) return;
    const uint32_t room = TensorStream<T>::kBytes / sizeof(T);
    const uint32_t now = this->left_ < room ? this->left_ : room;
    if (now) neuron_memcpy(this->buffer_, outboard::soc(this->place_), now * sizeof(T));
    this->place_ += now * sizeof(T);
    this->left_ -= now;
    this->filled_ = now;
    this->used_ = 0;
  }
};

// Writes the elements in order; what is in the buffer reaches the tensor when it is full and with `close()`.
template <typename T>
class TensorWriteStreamAccessor : public TensorStream<T> {
 public:
  explicit TensorWriteStreamAccessor(const Tensor& tensor) : TensorStream<T>(tensor) {
    this->enforcer_->add_writer();
    outboard::fence();
  }
  TensorWriteStreamAccessor(TensorWriteStreamAccessor&&) = default;
  ~TensorWriteStreamAccessor() { close(); }

  void write(T value) {
    OUTBOARD_CHECK(this->open(), "write() to a stream that is closed");
    OUTBOARD_CHECK(this->left_ > 0, "write() past the last element of the tensor");
    --this->left_;
    if (!this->buffer_) {
      detail::store<T>(this->place_, value);
      this->place_ += sizeof(T);
      return;
    }
    this->buffer_[this->used_++] = value;
    if (this->used_ == TensorStream<T>::kBytes / sizeof(T)) flush();
  }

  void close() {
    if (!this->open()) return;
    flush();
    outboard::fence();
    this->enforcer_->remove_writer();
    this->close_buffer();
  }

 private:
  void flush() {
    if (!this->buffer_ || this->used_ == 0) return;
    neuron_memcpy(outboard::soc(this->place_), this->buffer_, this->used_ * sizeof(T));
    this->place_ += this->used_ * sizeof(T);
    this->used_ = 0;
  }
};

template <typename T>
TensorReadStreamAccessor<T> Tensor::read_stream_accessor() const& {
  return TensorReadStreamAccessor<T>(*this);
}

template <typename T>
TensorWriteStreamAccessor<T> Tensor::write_stream_accessor() & {
  return TensorWriteStreamAccessor<T>(*this);
}

// Copies elements between a tensor and data memory that the caller has from `tcm_malloc`. Offsets and counts are elements;
// nothing is checked.
template <bool read_only>
class TensorTcmAccessor {
 public:
  explicit TensorTcmAccessor(uint64_t place) : place_(place), reserved_(0) {}

  template <typename T>
  void tensor_to_tcm(T* tcm, uint32_t offset, uint32_t n) {
    neuron_memcpy(tcm, place_ + static_cast<uint64_t>(offset) * sizeof(T), n * sizeof(T));
  }

  template <typename T>
  void tcm_to_tensor(T* tcm, uint32_t offset, uint32_t n) {
    static_assert(!read_only, "the tensor is const: tcm_to_tensor needs one that is not");
    neuron_memcpy(place_ + static_cast<uint64_t>(offset) * sizeof(T), tcm, n * sizeof(T));
  }

 private:
  uint64_t place_;
  uint64_t reserved_;
};

static_assert(sizeof(TensorTcmAccessor<true>) == 16, "as the interface has it");

inline TensorTcmAccessor<true> Tensor::tcm_accessor() const& {
  outboard::fence();
  return TensorTcmAccessor<true>(outboard::soc(device_address()));
}

inline TensorTcmAccessor<false> Tensor::tcm_accessor() & {
  outboard::fence();
  return TensorTcmAccessor<false>(outboard::soc(device_address()));
}

}  // namespace at
