/*
 * Runs the generated code by itself, without a device and without its entry: the time of a call is that of the kernels alone.
 * It is compiled together with the model. The functions of the runtime do nothing: only the entry calls them.
 */
#include "lib0.c"

#include <time.h>

void *TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) { return NULL; }
int TVMBackendFreeWorkspace(int type, int id, void *workspace) { return 0; }
TVMDSPStorage *TVMDSPStorageAlloc(size_t bytes, DLDevice device, DLDataType hint) { return NULL; }
TVMDSPNDArray *TVMDSPStorageAllocNDArray(TVMDSPStorage *storage, int64_t offset, const int64_t *shape, int32_t ndim,
                                         DLDataType dtype) {
  return NULL;
}
int TVMDSPBuiltinMakeTuplePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret) { return 0; }
void TVMDSPRegFileInit(TVMFFIAny *registers, int32_t count) {}
void TVMFFIObjectDecRef(TVMFFIObject *object) {}

uint64_t outboard_bench_workspace(void) { return outboard_workspace_bytes[0]; }

/* The place in weights.bin of a constant, -1 behind the last one. */
int64_t outboard_bench_constant(int64_t index) {
  return index < OUTBOARD_CONSTANTS ? outboard_constants[index].index : -1;
}

/* Thread CPU time of `calls` calls, in nanoseconds. */
int64_t outboard_bench_run(void *const *in, void *const *c, void *const *out, unsigned char *w, int64_t calls) {
  struct timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (int64_t i = 0; i < calls; i++) {
    outboard_run(0, in, c, out, w);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec;
}
