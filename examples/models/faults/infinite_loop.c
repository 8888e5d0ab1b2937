/* A module that never returns: the host must end the wait at its deadline, and the next inference must work. */
#include "../include/outboard_tvm_abi.h"

static volatile uint64_t turns;

static __attribute__((noinline)) _Noreturn void spin(void) {
  for (;;) {
    turns++;
  }
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)inputs;
  (void)num_inputs;
  (void)constants;
  *output = (TVMFFIAny){0};
  spin();
}
