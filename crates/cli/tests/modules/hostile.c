/*
 * A module that tries what a module has no business with. Its first input, one int32, says what: 0 nothing, 1 open a file,
 * 2 make a socket, 3 fork, 4 execute a program, 5 send a signal, 6 write outside the device's memory, 7 divide by zero,
 * 8 execute no instruction, 9 read the boot vector. It gives its input back when nothing stops it.
 */
#include "syscall.h"

enum { CURRENT_FOLDER = -100, PARENT = 1 };

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)constants;
  if (num_inputs != 1) {
    return OUTBOARD_ERROR;
  }
  volatile int zero = 0;
  switch (*(const int32_t *)((const TVMDSPNDArray *)inputs[0].u.v_obj)->data) {
  case 1:
    call(CALL_OPEN, CURRENT_FOLDER, (long)"/etc/passwd", 0);
    break;
  case 2:
    call(CALL_SOCKET, 2, 1, 0);
    break;
  case 3:
    call(CALL_FORK, 0, 0, 0);
    break;
  case 4:
    call(CALL_EXEC, (long)"/bin/true", 0, 0);
    break;
  case 5:
    call(CALL_KILL, PARENT, 0, 0);
    break;
  case 6:
    *(volatile int *)0x7E200000 = 1;
    break;
  case 7:
    zero = 1 / zero;
    break;
  case 8:
    __builtin_trap();
  case 9:
    zero = *(volatile int *)0xAD200000;
    break;
  default:
    break;
  }
  *output = inputs[0];
  return OUTBOARD_OK;
}
