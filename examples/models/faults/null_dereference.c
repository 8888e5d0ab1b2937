/* A module that reads through a null pointer: the device must name the crash and the function `read_missing_table`. */
#include "../include/outboard_tvm_abi.h"

static const int *volatile missing_table = NULL;

static __attribute__((noinline)) int read_missing_table(int index) { return missing_table[index]; }

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)inputs;
  (void)constants;
  *output = (TVMFFIAny){0};
  return read_missing_table(num_inputs);
}
