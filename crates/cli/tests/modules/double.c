/* A module that doubles int64 numbers in place and gives them back: what it computes shows which module ran. */
#include "outboard_tvm_abi.h"

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)constants;
  TVMDSPNDArray *x = num_inputs == 1 ? inputs[0].u.v_ptr : NULL;
  if (x == NULL || x->dtype.code != DL_INT || x->dtype.bits != 64) {
    printf("double: expected one int64 tensor\n");
    return OUTBOARD_ERROR;
  }
  int64_t count = 1;
  for (int32_t i = 0; i < x->ndim; i++) {
    count *= x->shape[i];
  }
  for (int64_t i = 0; i < count; i++) {
    ((int64_t *)x->data)[i] *= 2;
  }
  *output = inputs[0];
  return OUTBOARD_OK;
}
