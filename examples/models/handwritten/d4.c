/*
 * A module written by hand in the shape of the code the C7x code generator emits: a static register file, direct calls of
 * the VM builtins, kernel temporaries from the backend's workspace, registers that are moved and killed.
 *
 * The model: input x float32[1,2,4]; constants w1 [8,6], b1 [6], w2 [6,4], b2 [4] and the shape (1, 8).
 *
 *     h = relu(reshape(x, (1, 8)) . w1 + b1)
 *     y = h . w2 + b2
 *     outputs: softmax(y) float32[1,4], argmax(y) int64[1]
 *
 * Every weight follows a formula, so that a test can compute the answer by itself:
 *
 *     w1[i][j] = ((3 i + 5 j) mod 7 - 3) / 4        b1[j] = (j - 2) / 8
 *     w2[i][j] = ((5 i + 2 j) mod 9 - 4) / 4        b2[j] = (2 j - 3) / 16
 *
 * Build (in this directory):  cc $(cat ../cflags.txt) d4.c -o d4.out $(cat ../ldflags.txt)
 */
#include "../include/outboard_tvm_abi.h"

float expf(float x);

enum { INPUTS = 1, IN = 8, HIDDEN = 6, CLASSES = 4 };

/* Constants by index, in the order of weights.bin. */
enum { CONST_W1, CONST_B1, CONST_W2, CONST_B2, CONST_FLAT_SHAPE };

/* Registers: the inputs first, then the output, then the temporaries. */
enum { REG_X, REG_OUTPUT, REG_FLAT, REG_STORAGE, REG_HIDDEN, REG_LOGITS, REG_PROBABILITIES, REG_TOP, REGISTERS };

/* ---- weights.bin, as the packer writes it ------------------------------------------------------------------------- */

#define TENSOR_HEADER(dims)                                                                                      \
  int32_t type_index;                                                                                            \
  uint64_t magic, reserved;                                                                                      \
  int32_t device_type, device_id, ndim;                                                                          \
  DLDataType dtype;                                                                                              \
  int64_t shape[dims], data_bytes

#define MATRIX(rows, columns) \
  TVM_FFI_TENSOR, OUTBOARD_TENSOR_MAGIC, 0, 1, 0, 2, {DL_FLOAT, 32, 1}, {rows, columns}, 4 * (rows) * (columns)
#define VECTOR(length) TVM_FFI_TENSOR, OUTBOARD_TENSOR_MAGIC, 0, 1, 0, 1, {DL_FLOAT, 32, 1}, {length}, 4 * (length)

typedef struct __attribute__((packed)) {
  uint64_t count;
  struct __attribute__((packed)) {
    TENSOR_HEADER(2);
    float data[IN][HIDDEN];
  } w1;
  struct __attribute__((packed)) {
    TENSOR_HEADER(1);
    float data[HIDDEN];
  } b1;
  struct __attribute__((packed)) {
    TENSOR_HEADER(2);
    float data[HIDDEN][CLASSES];
  } w2;
  struct __attribute__((packed)) {
    TENSOR_HEADER(1);
    float data[CLASSES];
  } b2;
  struct __attribute__((packed)) {
    int32_t type_index;
    uint64_t ndim;
    int64_t dims[2];
  } flat_shape;
} Weights;

#define WEIGHTS_BYTES 588
_Static_assert(sizeof(Weights) == WEIGHTS_BYTES, "WEIGHTS_BYTES must say the size of the constants");

const Weights _binary_weights_bin_start __attribute__((section(".rodata.weights"), aligned(64))) = {
    .count = 5,
    .w1 = {MATRIX(IN, HIDDEN),
           {{-0.75f, 0.5f, 0.0f, -0.5f, 0.75f, 0.25f},
            {0.0f, -0.5f, 0.75f, 0.25f, -0.25f, -0.75f},
            {0.75f, 0.25f, -0.25f, -0.75f, 0.5f, 0.0f},
            {-0.25f, -0.75f, 0.5f, 0.0f, -0.5f, 0.75f},
            {0.5f, 0.0f, -0.5f, 0.75f, 0.25f, -0.25f},
            {-0.5f, 0.75f, 0.25f, -0.25f, -0.75f, 0.5f},
            {0.25f, -0.25f, -0.75f, 0.5f, 0.0f, -0.5f},
            {-0.75f, 0.5f, 0.0f, -0.5f, 0.75f, 0.25f}}},
    .b1 = {VECTOR(HIDDEN), {-0.25f, -0.125f, 0.0f, 0.125f, 0.25f, 0.375f}},
    .w2 = {MATRIX(HIDDEN, CLASSES),
           {{-1.0f, -0.5f, 0.0f, 0.5f},
            {0.25f, 0.75f, -1.0f, -0.5f},
            {-0.75f, -0.25f, 0.25f, 0.75f},
            {0.5f, 1.0f, -0.75f, -0.25f},
            {-0.5f, 0.0f, 0.5f, 1.0f},
            {0.75f, -1.0f, -0.5f, 0.0f}}},
    .b2 = {VECTOR(CLASSES), {-0.1875f, -0.0625f, 0.0625f, 0.1875f}},
    .flat_shape = {TVM_FFI_SHAPE, 2, {1, IN}},
};

const uint32_t _binary_weights_bin_size = WEIGHTS_BYTES;

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
__asm__(".globl _binary_weights_bin_end\n"
        ".set _binary_weights_bin_end, _binary_weights_bin_start + " TEXT(WEIGHTS_BYTES) "\n");

/* Descriptors (80 bytes each) and data, each part rounded up to 64. */
const TVMDSPIoMeta _binary_tvm_dsp_io_meta_start = {
    .magic = OUTBOARD_IO_META_MAGIC,
    .version = 1,
    .num_inputs = INPUTS,
    .num_outputs = 2,
    .input_bytes = 128 + 64,
    .output_bytes = 192 + 64 + 64,
    .flags = 1,
    .reserved = 0,
};

/* ---- kernels ------------------------------------------------------------------------------------------------------ */

static const DLDevice cpu = {1, 0};
static const DLDataType float32 = {DL_FLOAT, 32, 1};
static const DLDataType int64 = {DL_INT, 64, 1};

static int dense(const float *restrict x, const float *restrict w, const float *restrict bias, float *restrict y,
                 int rows, int columns) {
  float *sums = TVMBackendAllocWorkspace(1, 0, (uint64_t)columns * sizeof(float), DL_FLOAT, 32);
  if (sums == NULL) {
    return OUTBOARD_ERROR;
  }
  for (int j = 0; j < columns; j++) {
    sums[j] = bias[j];
  }
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < columns; j++) {
      sums[j] += x[i] * w[i * columns + j];
    }
  }
  for (int j = 0; j < columns; j++) {
    y[j] = sums[j];
  }
  return TVMBackendFreeWorkspace(1, 0, sums);
}

static int relu(float *x, int n) {
  for (int i = 0; i < n; i++) {
    x[i] = x[i] > 0.0f ? x[i] : 0.0f;
  }
  return OUTBOARD_OK;
}

static int softmax(const float *restrict x, float *restrict y, int n) {
  float largest = x[0];
  float total = 0.0f;
  for (int i = 1; i < n; i++) {
    largest = x[i] > largest ? x[i] : largest;
  }
  for (int i = 0; i < n; i++) {
    y[i] = expf(x[i] - largest);
    total += y[i];
  }
  for (int i = 0; i < n; i++) {
    y[i] /= total;
  }
  return OUTBOARD_OK;
}

static int argmax(const float *restrict x, int64_t *restrict top, int n) {
  *top = 0;
  for (int i = 1; i < n; i++) {
    if (x[i] > x[*top]) {
      *top = i;
    }
  }
  return OUTBOARD_OK;
}

/* ---- registers ---------------------------------------------------------------------------------------------------- */

static TVMFFIAny reg_file[REGISTERS];

static int is_object(const TVMFFIAny *value) { return value->type_index >= TVM_FFI_OBJECT && value->u.v_obj != NULL; }

static void kill(TVMFFIAny *reg) {
  if (is_object(reg)) {
    TVMFFIObjectDecRef(reg->u.v_obj);
  }
  *reg = (TVMFFIAny){0};
}

/* Stores an object that the caller owns; the register owns it from here on. */
static void take(TVMFFIAny *reg, int32_t type_index, void *object) {
  kill(reg);
  *reg = (TVMFFIAny){.type_index = type_index, .u.v_ptr = object};
}

static void move(TVMFFIAny *from, TVMFFIAny *to) {
  kill(to);
  *to = *from;
  *from = (TVMFFIAny){0};
}

static TVMDSPNDArray *tensor(const TVMFFIAny *reg) { return reg->u.v_ptr; }
static float *floats(const TVMFFIAny *reg) { return tensor(reg)->data; }

/* alloc_storage, alloc_tensor and the kill of the storage register, which the tensor keeps alive. */
static int alloc_tensor(TVMFFIAny *regs, int reg, size_t bytes, const int64_t *shape, int32_t ndim, DLDataType dtype) {
  take(&regs[REG_STORAGE], TVM_FFI_STORAGE, TVMDSPStorageAlloc(bytes, cpu, dtype));
  take(&regs[reg], TVM_FFI_TENSOR, TVMDSPStorageAllocNDArray(regs[REG_STORAGE].u.v_ptr, 0, shape, ndim, dtype));
  kill(&regs[REG_STORAGE]);
  return regs[reg].u.v_ptr == NULL ? OUTBOARD_NO_MEMORY : OUTBOARD_OK;
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

#define CHECK(call)            \
  do {                         \
    int status_ = (call);      \
    if (status_ != 0) {        \
      return status_;          \
    }                          \
  } while (0)

/* args: [context, register file, constants, reserved] */
static int main_vm(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret) {
  static const int64_t hidden_shape[2] = {1, HIDDEN};
  static const int64_t class_shape[2] = {1, CLASSES};
  static const int64_t top_shape[1] = {1};
  (void)self;
  (void)num_args;
  TVMFFIAny *regs = args[1].u.v_ptr;
  const TVMFFIAny *constants = args[2].u.v_ptr;

  const TVMDSPShape *flat = constants[CONST_FLAT_SHAPE].u.v_ptr;
  take(&regs[REG_FLAT], TVM_FFI_TENSOR,
       TVMDSPBuiltinReshapeDirect(tensor(&regs[REG_X]), flat->data, (int32_t)flat->size));
  if (regs[REG_FLAT].u.v_ptr == NULL) {
    return OUTBOARD_NO_MEMORY;
  }

  CHECK(alloc_tensor(regs, REG_HIDDEN, HIDDEN * sizeof(float), hidden_shape, 2, float32));
  CHECK(dense(floats(&regs[REG_FLAT]), floats(&constants[CONST_W1]), floats(&constants[CONST_B1]),
              floats(&regs[REG_HIDDEN]), IN, HIDDEN));
  kill(&regs[REG_FLAT]);
  CHECK(relu(floats(&regs[REG_HIDDEN]), HIDDEN));

  CHECK(alloc_tensor(regs, REG_LOGITS, CLASSES * sizeof(float), class_shape, 2, float32));
  CHECK(dense(floats(&regs[REG_HIDDEN]), floats(&constants[CONST_W2]), floats(&constants[CONST_B2]),
              floats(&regs[REG_LOGITS]), HIDDEN, CLASSES));
  kill(&regs[REG_HIDDEN]);

  CHECK(alloc_tensor(regs, REG_PROBABILITIES, CLASSES * sizeof(float), class_shape, 2, float32));
  CHECK(softmax(floats(&regs[REG_LOGITS]), floats(&regs[REG_PROBABILITIES]), CLASSES));
  CHECK(alloc_tensor(regs, REG_TOP, sizeof(int64_t), top_shape, 1, int64));
  CHECK(argmax(floats(&regs[REG_LOGITS]), tensor(&regs[REG_TOP])->data, CLASSES));
  kill(&regs[REG_LOGITS]);

  printf("d4: class %d with probability %.6f\n", (int)*(int64_t *)tensor(&regs[REG_TOP])->data,
         (double)floats(&regs[REG_PROBABILITIES])[*(int64_t *)tensor(&regs[REG_TOP])->data]);

  /* make_tuple adds a reference to each element, so the registers give theirs up. */
  const TVMFFIAny elements[2] = {regs[REG_PROBABILITIES], regs[REG_TOP]};
  TVMFFIAny tuple = {0};
  if (TVMDSPBuiltinMakeTuplePacked(elements, 2, &tuple) != 0 || !is_object(&tuple)) {
    return OUTBOARD_NO_MEMORY;
  }
  kill(&regs[REG_PROBABILITIES]);
  kill(&regs[REG_TOP]);
  move(&tuple, &regs[REG_OUTPUT]);
  *ret = (TVMFFIAny){0};
  return OUTBOARD_OK;
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  if (num_inputs != INPUTS || constants == NULL) {
    return OUTBOARD_ERROR;
  }
  memset(reg_file, 0, sizeof reg_file);
  TVMDSPRegFileInit(reg_file, REGISTERS);
  for (int i = 0; i < INPUTS; i++) {
    reg_file[i] = inputs[i];
  }
  const TVMFFIAny args[4] = {
      {.type_index = TVM_FFI_OPAQUE_PTR},
      {.type_index = TVM_FFI_OPAQUE_PTR, .u.v_ptr = reg_file},
      {.type_index = TVM_FFI_OPAQUE_PTR, .u.v_ptr = constants},
      {.type_index = TVM_FFI_NONE},
  };
  TVMFFIAny ret = {0};
  CHECK(main_vm(NULL, args, 4, &ret));
  *output = reg_file[INPUTS];
  return OUTBOARD_OK;
}
