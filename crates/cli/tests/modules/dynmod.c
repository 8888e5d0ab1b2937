/* The smoke test of a board as a module: it says what it could do. Any one tensor goes in and comes back. */
#include "outboard_tvm_abi.h"

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)constants;
  printf("[DYNMOD TEST] cg_main_dsp called with %d input(s)\n", num_inputs);
  char copy[16];
  memcpy(copy, "dynamic module", 15);
  int copied = memcmp(copy, "dynamic module", 15) == 0;
  printf("[DYNMOD TEST] memcpy test: %s\n", copied ? "PASS" : "FAIL");
  volatile int sum = 0;
  for (int i = 0; i < 10; i++) {
    sum += i;
  }
  printf("[DYNMOD TEST] compute test: %d expected 45\n", sum);
  if (!copied || sum != 45 || num_inputs != 1) {
    return OUTBOARD_ERROR;
  }
  printf("[DYNMOD TEST] ALL TESTS PASSED\n");
  *output = inputs[0];
  return OUTBOARD_OK;
}
