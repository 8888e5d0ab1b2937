/* A module that imports two functions nobody has: the loader must refuse it and name both at once. */
#include "../include/outboard_tvm_abi.h"

int c7x_no_such_kernel(const void *in, void *out);
int tvm_dsp_no_such_service(void);

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)num_inputs;
  (void)constants;
  *output = inputs[0];
  return tvm_dsp_no_such_service() + c7x_no_such_kernel(inputs, output);
}
