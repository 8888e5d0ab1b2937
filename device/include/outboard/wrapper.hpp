// What generated wrappers use: the runtime's entry points, and what compiled C++ expects of its library.
#pragma once

#include <torch/torch.h>

#include <stdlib.h>

void customop_setup(bool has_return);
at::Tensor customop_next_tensor();
c10::Scalar customop_next_scalar();
long long customop_next_longlong();
float customop_next_float();
void customop_return_tensor(at::Tensor& result);
void customop_cleanup();
int switch_stack_or_call_wrapper(uint32_t stack, uint32_t wrapper);

// The registration.
int get_func_cnt();
const char* get_func_name(int index);
int (*get_func_ptr(int index))();

extern "C" {

void* __dso_handle = nullptr;

// Libraries are never unloaded: destructors of static objects do not run.
int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }

[[noreturn]] void __cxa_pure_virtual() { outboard::fail("a pure virtual function was called"); }

}  // extern "C"

// Memory of the C library's heap; without room the operation ends.
void* operator new(size_t size) {
  void* place = malloc(size);
  OUTBOARD_CHECK(place != nullptr, "operator new: the heap of the C library is full");
  return place;
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* place) noexcept { free(place); }
void operator delete[](void* place) noexcept { free(place); }
void operator delete(void* place, size_t) noexcept { free(place); }
void operator delete[](void* place, size_t) noexcept { free(place); }
