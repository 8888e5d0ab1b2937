// The records of the custom-op interface and the routines of the device's runtime, under the names that they link by.
// The layouts are those of the Rust package `customop`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scalar_types.h"

extern "C" {
// Stops the core; the text becomes the message of the fault.
[[noreturn]] void _outboard_trap(const char* text, uint32_t length);
// A stream of elements begins at this address: nothing on a device, a mark for who watches it.
void _outboard_stream(uint64_t address);
int printf(const char* format, ...);
}

namespace outboard {

// Ends the operation with a text.
[[noreturn]] inline void fail(const char* text) { _outboard_trap(text, __builtin_strlen(text)); }

// Every store before it reaches memory before any access after it.
inline void fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace outboard

#define OUTBOARD_TEXT_(value) #value
#define OUTBOARD_TEXT(value) OUTBOARD_TEXT_(value)

// Ends the operation unless a condition holds; the fault names file, line and `text`.
#define OUTBOARD_CHECK(condition, text)                                          \
  do {                                                                           \
    if (!(condition)) ::outboard::fail(__FILE__ ":" OUTBOARD_TEXT(__LINE__) ": " text); \
  } while (0)

#define TORCH_CHECK(condition, ...) OUTBOARD_CHECK(condition, "TORCH_CHECK(" #condition ") failed")

namespace c10 {

// A place in the memory of the board, or in on-chip memory as the pinned window shows it.
struct alignas(8) Q7Ptr {
  uint64_t hbm_addr;
  uint32_t ctx;
  uint8_t is_nullptr;
};

struct alignas(8) UniqueQ7Ptr {
  Q7Ptr pointer;
  uint32_t owned;
};

struct alignas(8) StorageImpl {
  uint32_t references;
  uint32_t reserved[3];
  UniqueQ7Ptr data;
  uint64_t size_bytes;
};

struct alignas(8) TensorImpl {
  uint32_t references;
  uint32_t rank;
  uint32_t scalar_type;
  uint32_t item_size;
  int64_t sizes[8];
  int64_t strides[8];
  int64_t numel;
  int64_t storage_offset;
  uint64_t reserved[6];
  StorageImpl* storage;
};

static_assert(sizeof(Q7Ptr) == 16 && sizeof(UniqueQ7Ptr) == 24, "as the runtime has them");
static_assert(sizeof(StorageImpl) == 48 && offsetof(StorageImpl, size_bytes) == 0x28, "as the runtime has it");
static_assert(sizeof(TensorImpl) == 216 && offsetof(TensorImpl, storage) == 0xd0, "as the runtime has it");

// The allocator of tensor storage.
struct NeuronAllocator {
  void (*allocate)(UniqueQ7Ptr* out, uint32_t size);
  void (*release)(const UniqueQ7Ptr* pointer);
};

const NeuronAllocator* GetNeuronAllocator();

}  // namespace c10

// Copies between data memory and the rest.
void neuron_memcpy(void* destination, uint64_t source, uint32_t n);
void neuron_memcpy(uint64_t destination, void* source, uint32_t n);
// Windows.
void* neuron_translate_ctx();
uint32_t neuron_translate(void* context, uint64_t address);
// Data memory, 0 or -1.
int neuron_dataram_allocate(uint32_t size, void** out, uint32_t align);
int neuron_dataram_deallocate(void* place);
// Which of the cores that run this operation this one is.
uint32_t get_cpu_id();
// How many they are.
uint32_t get_cpu_count();

extern "C" void free(void* place);

namespace outboard {

// First address of the pinned window onto on-chip memory, and its end.
constexpr uint64_t kSbufWindow = 0x80000000u;
constexpr uint64_t kSbufWindowEnd = 0x84000000u;
// End of the pinned windows.
constexpr uint64_t kWindowsEnd = 0x88000000u;
// Bytes that a moving window shows.
constexpr uint64_t kWindow = 0x1000000u;

// What shows the byte at `place` until windows move again.
inline void* local(uint64_t place) {
  if (place >= kSbufWindow && place < kWindowsEnd) return reinterpret_cast<void*>(static_cast<uint32_t>(place));
  return reinterpret_cast<void*>(neuron_translate(neuron_translate_ctx(), place));
}

// The address that copies use for `place`.
inline uint64_t soc(uint64_t place) {
  if (place < kSbufWindow || place >= kSbufWindowEnd) return place;
  uint64_t base;
  // The fourth record of the context is the pinned window.
  __builtin_memcpy(&base, static_cast<char*>(neuron_translate_ctx()) + 3 * 32, sizeof base);
  return base + (place - kSbufWindow);
}

}  // namespace outboard
