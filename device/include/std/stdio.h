// Printing: to a ring that the host reads when the operation has ended.
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
int printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
int puts(const char* text);
int putchar(int byte);
#ifdef __cplusplus
}
#endif
