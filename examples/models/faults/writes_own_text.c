/* A module that writes to its own code: the pages of a loaded module are never writable and executable at once. */
#include "../include/outboard_tvm_abi.h"

static __attribute__((noinline)) int victim(int x) { return 3 * x + 1; }

static __attribute__((noinline)) void overwrite(uintptr_t address) { *(volatile uint8_t *)address = 0xC3; }

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)inputs;
  (void)constants;
  *output = (TVMFFIAny){0};
  overwrite((uintptr_t)&victim);
  return victim(num_inputs) == 0 ? OUTBOARD_ERROR : OUTBOARD_OK;
}
