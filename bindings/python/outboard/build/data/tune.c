/* Times the kernels of one file against each other, see tune.py. */
#include <time.h>

/* Thread CPU time of `calls` calls of a kernel, in nanoseconds. */
int64_t outboard_tune_run(int32_t choice, void *const *arguments, int64_t calls) {
  struct timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (int64_t i = 0; i < calls; i++) {
    outboard_call(choice, arguments);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec;
}
