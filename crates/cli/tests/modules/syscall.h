/* A system call without a C library: what a hostile module would use. */
#include "outboard_tvm_abi.h"

#if defined(__x86_64__)
enum { CALL_OPEN = 257 /* openat */, CALL_SOCKET = 41, CALL_FORK = 57, CALL_EXEC = 59, CALL_KILL = 62 };
static long call(long number, long a, long b, long c) {
  register long r10 __asm__("r10") = 0;
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
enum { CALL_OPEN = 56 /* openat */, CALL_SOCKET = 198, CALL_FORK = 220 /* clone */, CALL_EXEC = 221, CALL_KILL = 129 };
static long call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#endif
