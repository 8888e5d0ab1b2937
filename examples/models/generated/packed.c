/*
 * A module in the shape of the code generator's packed mode: every operation of the virtual machine is a packed call of a
 * function that is looked up by name (TVMBackendGetFuncFromEnv), its arguments an array of values.
 *
 * The model: inputs x float32[n,4], any n, and rectify bool[1].
 *
 *     y = rectify ? max(x, 0) : -x
 *     outputs: y float32[n,4], y as float32[n,2,2], x itself, nothing
 *
 * Build (in this directory):  cc $(cat ../cflags.txt) packed.c -o packed.out $(cat ../ldflags.txt)
 */
#include "../include/outboard_tvm_abi.h"

int TVMBackendGetFuncFromEnv(void *module, const char *name, void **out);

typedef int (*Packed)(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret);

enum { TVM_FFI_DATA_TYPE = 5 };

/* Registers: the inputs first, then the output, then the temporaries. */
enum {
  REG_X,
  REG_RECTIFY,
  REG_OUTPUT,
  REG_HEAP,
  REG_SHAPE,
  REG_STORAGE,
  REG_Y,
  REG_VIEW_SHAPE,
  REG_VIEW,
  REG_SAME,
  REG_NOTHING,
  REGISTERS
};
enum { INPUTS = 2 };

/* Functions by index; their names in the same order. */
enum {
  STORAGE,
  TENSOR,
  HEAP,
  MAKE_SHAPE,
  MATCH_SHAPE,
  CHECK_TENSOR,
  NULL_VALUE,
  COPY,
  MAKE_TUPLE,
  RESHAPE,
  READ_IF_COND,
  FUNCTIONS
};
static const char *const names[FUNCTIONS] = {
    "vm.builtin.alloc_storage",
    "vm.builtin.alloc_tensor",
    "vm.builtin.alloc_shape_heap",
    "vm.builtin.make_shape",
    "vm.builtin.match_shape",
    "vm.builtin.check_tensor_info",
    "vm.builtin.null_value",
    "vm.builtin.copy",
    "vm.builtin.make_tuple",
    "vm.builtin.reshape",
    "vm.builtin.read_if_cond",
};
static Packed functions[FUNCTIONS];

static TVMFFIAny reg_file[REGISTERS];

/* ---- values ------------------------------------------------------------------------------------------------------- */

static TVMFFIAny integer(int64_t value) { return (TVMFFIAny){.type_index = TVM_FFI_INT, .u.v_int64 = value}; }

static TVMFFIAny data_type(uint8_t code, uint8_t bits) {
  TVMFFIAny value = {.type_index = TVM_FFI_DATA_TYPE};
  value.u.v_dtype = (DLDataType){code, bits, 1};
  return value;
}

static void kill(TVMFFIAny *reg) {
  if (reg->type_index >= TVM_FFI_OBJECT && reg->u.v_obj != NULL) {
    TVMFFIObjectDecRef(reg->u.v_obj);
  }
  *reg = (TVMFFIAny){0};
}

/* Calls a function; its result replaces what the register held. */
static int call(int function, const TVMFFIAny *args, int32_t count, TVMFFIAny *reg) {
  TVMFFIAny result = {0};
  int status = functions[function](args, count, &result);
  if (status != OUTBOARD_OK) {
    return status;
  }
  kill(reg);
  *reg = result;
  return OUTBOARD_OK;
}

#define CALL(function, reg, ...)                                                                \
  do {                                                                                          \
    const TVMFFIAny args_[] = {__VA_ARGS__};                                                    \
    int status_ = call(function, args_, (int32_t)(sizeof args_ / sizeof args_[0]), &regs[reg]); \
    if (status_ != OUTBOARD_OK) {                                                               \
      return status_;                                                                           \
    }                                                                                           \
  } while (0)

/* ---- kernels ------------------------------------------------------------------------------------------------------ */

static TVMDSPNDArray *tensor(const TVMFFIAny *reg) { return reg->u.v_ptr; }

static void relu(const float *restrict x, float *restrict y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    y[i] = x[i] > 0.0f ? x[i] : 0.0f;
  }
}

static void negative(const float *restrict x, float *restrict y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    y[i] = -x[i];
  }
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

/* args: [context, register file, constants, reserved] */
static int main_vm(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret) {
  (void)self;
  (void)num_args;
  TVMFFIAny *regs = args[1].u.v_ptr;
  const TVMFFIAny ctx = args[0];
  TVMFFIAny nothing = {0};

  CALL(CHECK_TENSOR, REG_NOTHING, regs[REG_X], integer(2), data_type(DL_FLOAT, 32));
  CALL(HEAP, REG_HEAP, ctx, integer(1));
  /* x is (n, 4): n goes into the heap's entry 0, 4 must hold. */
  CALL(MATCH_SHAPE, REG_NOTHING, regs[REG_X], regs[REG_HEAP], integer(2), integer(1), integer(0), integer(0),
       integer(4));
  CALL(MAKE_SHAPE, REG_SHAPE, regs[REG_HEAP], integer(2), integer(1), integer(0), integer(0), integer(4));
  const int64_t n = *(int64_t *)tensor(&regs[REG_HEAP])->data * 4;

  CALL(STORAGE, REG_STORAGE, ctx, integer(n * (int64_t)sizeof(float)), integer(0), data_type(DL_FLOAT, 32));
  CALL(TENSOR, REG_Y, regs[REG_STORAGE], integer(0), regs[REG_SHAPE], data_type(DL_FLOAT, 32));
  kill(&regs[REG_STORAGE]);
  kill(&regs[REG_SHAPE]);

  CALL(READ_IF_COND, REG_NOTHING, regs[REG_RECTIFY]);
  const float *x = tensor(&regs[REG_X])->data;
  if (regs[REG_NOTHING].u.v_int64) {
    relu(x, tensor(&regs[REG_Y])->data, n);
  } else {
    negative(x, tensor(&regs[REG_Y])->data, n);
  }

  CALL(MAKE_SHAPE, REG_VIEW_SHAPE, regs[REG_HEAP], integer(3), integer(1), integer(0), integer(0), integer(2),
       integer(0), integer(2));
  CALL(RESHAPE, REG_VIEW, regs[REG_Y], regs[REG_VIEW_SHAPE]);
  kill(&regs[REG_VIEW_SHAPE]);
  kill(&regs[REG_HEAP]);
  CALL(COPY, REG_SAME, regs[REG_X]);
  if (call(NULL_VALUE, &nothing, 0, &regs[REG_NOTHING]) != OUTBOARD_OK) {
    return OUTBOARD_ERROR;
  }
  CALL(MAKE_TUPLE, REG_OUTPUT, regs[REG_Y], regs[REG_VIEW], regs[REG_SAME], regs[REG_NOTHING]);
  /* The view shares y's data without a reference, so y stays in its register until the next run. */
  kill(&regs[REG_SAME]);
  *ret = (TVMFFIAny){0};
  return OUTBOARD_OK;
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  if (num_inputs != INPUTS) {
    return OUTBOARD_ERROR;
  }
  memset(reg_file, 0, sizeof reg_file);
  TVMDSPRegFileInit(reg_file, REGISTERS);
  for (int i = 0; i < INPUTS; i++) {
    reg_file[i] = inputs[i];
  }
  for (int i = 0; i < FUNCTIONS; i++) {
    void *found = NULL;
    if (TVMBackendGetFuncFromEnv(NULL, names[i], &found) != 0) {
      return OUTBOARD_NO_MEMORY;
    }
    functions[i] = (Packed)found;
  }
  const TVMFFIAny args[4] = {
      {.type_index = TVM_FFI_OPAQUE_PTR},
      {.type_index = TVM_FFI_OPAQUE_PTR, .u.v_ptr = reg_file},
      {.type_index = TVM_FFI_OPAQUE_PTR, .u.v_ptr = constants},
      {.type_index = TVM_FFI_NONE},
  };
  TVMFFIAny ret = {0};
  int status = main_vm(NULL, args, 4, &ret);
  if (status != OUTBOARD_OK) {
    return status;
  }
  *output = reg_file[REG_OUTPUT];
  return OUTBOARD_OK;
}
