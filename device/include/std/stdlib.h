// Memory of the C library's heap, which is emptied before every operation.
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void* malloc(size_t size);
void free(void* place);
void* realloc(void* place, size_t size);
void* memalign(size_t align, size_t size);
[[noreturn]] void abort(void);
[[noreturn]] void _exit(int status);
static inline int abs(int value) { return value < 0 ? -value : value; }
#ifdef __cplusplus
}
#endif
