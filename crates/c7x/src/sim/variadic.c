/*
 * The variadic part of the C library that modules on the simulated device see: formatted output into the printf buffer.
 * Everything else is Rust; these few functions are C because Rust cannot define a function with variable arguments.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Most text of one call that is kept, in bytes; it is more than a printf buffer holds. */
enum { SMALL = 512, KEPT = 1 << 16 };

/* Appends `length` bytes to the printf buffer; `total` is the length before any cut. */
void outboard_emit(const char *text, size_t length, size_t total);
/* Whether a stream of a module is one of the two this device has. */
int outboard_is_stream(const void *stream);

int outboard_vprintf(const char *format, va_list arguments) {
  char small[SMALL];
  va_list again;
  va_copy(again, arguments);
  int total = vsnprintf(small, sizeof small, format, arguments);
  if (total >= SMALL) {
    size_t room = total < KEPT ? (size_t)total + 1 : (size_t)KEPT + 1;
    char *large = malloc(room);
    if (large != NULL) {
      vsnprintf(large, room, format, again);
      outboard_emit(large, room - 1, (size_t)total);
      free(large);
    } else {
      outboard_emit(small, SMALL - 1, (size_t)total);
    }
  } else if (total > 0) {
    outboard_emit(small, (size_t)total, (size_t)total);
  }
  va_end(again);
  return total;
}

int outboard_printf(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int total = outboard_vprintf(format, arguments);
  va_end(arguments);
  return total;
}

int outboard_vfprintf(void *stream, const char *format, va_list arguments) {
  return outboard_is_stream(stream) ? outboard_vprintf(format, arguments) : -1;
}

int outboard_fprintf(void *stream, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int total = outboard_vfprintf(stream, format, arguments);
  va_end(arguments);
  return total;
}

void outboard_log(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  outboard_vprintf(format, arguments);
  va_end(arguments);
}
