/* What the C test programs share: output, and a small generator of numbers. The same code runs natively. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes bytes to standard output. */
void sys_write(int file, const void *bytes, size_t count);

void print(const char *text);
void print_number(int32_t value);
void print_hex(uint32_t value);
void print_hex64(uint64_t value);
/* A label, a value, and the end of the line. */
void line(const char *label, uint32_t value);
void line64(const char *label, uint64_t value);

/* xorshift */
uint32_t next_number(uint32_t *state);

void *memcpy(void *to, const void *from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int byte, size_t count);
int memcmp(const void *a, const void *b, size_t count);

#define KEEP __attribute__((noinline))

#ifdef __cplusplus
}
#endif

#endif
