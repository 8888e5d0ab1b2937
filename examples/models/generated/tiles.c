/*
 * A module in the shape of the code generator's tiled kernels: DMA brings tiles of a tensor into L2, the kernel works there,
 * DMA takes the result back. Tiles come from a bump allocator over L2 that is part of the module, is reset at every entry
 * and never frees; what no longer fits comes from the workspace, which the device reclaims.
 *
 * The model: input x float32[64,128].
 *
 *     LAYERS times: x = max((1 + layer / 64) * x - 1/4, 0)
 *     output: x float32[64,128]
 *
 * The layers' tiles together are larger than L2, so the last layers run on workspace.
 *
 * Build (in this directory):  cc $(cat ../cflags.txt) tiles.c -o tiles.out $(cat ../ldflags.txt)
 */
#include "../include/outboard_tvm_abi.h"

uint8_t *tvm_dsp_get_l2_base(void);
uint32_t tvm_dsp_get_l2_size(void);
int tvm_dsp_dma_copy(int queue, void *dst, const void *src, int size, int bypass);
int tvm_dsp_dma_wait(int queue, int max_inflight);

enum { INPUTS = 1, ROWS = 64, COLUMNS = 128, ELEMENTS = ROWS * COLUMNS };
enum { LAYERS = 24, TILE_ROWS = 32, TILE = TILE_ROWS * COLUMNS, TILE_BYTES = TILE * 4 };
enum { QUEUE = 0 };
enum { REG_X, REG_OUTPUT, REG_STORAGE, REGISTERS };

static TVMFFIAny reg_file[REGISTERS];

/* ---- the L2 bump allocator ---------------------------------------------------------------------------------------- */

static uint32_t l2_used;

static void l2_reset(void) { l2_used = 0; }

static void *l2_alloc(uint32_t bytes) {
  const uint32_t rounded = (bytes + 127u) & ~127u;
  if (rounded > tvm_dsp_get_l2_size() - l2_used) {
    return TVMBackendAllocWorkspace(1, 0, rounded, DL_UINT, 8);
  }
  void *memory = tvm_dsp_get_l2_base() + l2_used;
  l2_used += rounded;
  return memory;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------ */

static void compute(const float *restrict x, float *restrict y, int n, float factor) {
  for (int i = 0; i < n; i++) {
    const float value = factor * x[i] - 0.25f;
    y[i] = value > 0.0f ? value : 0.0f;
  }
}

/* Two input tiles, so that the next one travels while this one is worked on, and two output tiles. */
static int layer(const float *x, float *y, float factor) {
  float *in[2] = {l2_alloc(TILE_BYTES), l2_alloc(TILE_BYTES)};
  float *out[2] = {l2_alloc(TILE_BYTES), l2_alloc(TILE_BYTES)};
  if (in[0] == NULL || in[1] == NULL || out[0] == NULL || out[1] == NULL) {
    return OUTBOARD_ERROR;
  }
  if (tvm_dsp_dma_copy(QUEUE, in[0], x, TILE_BYTES, 0) != 0) {
    return OUTBOARD_ERROR;
  }
  for (int tile = 0; tile < ELEMENTS / TILE; tile++) {
    if (tvm_dsp_dma_wait(QUEUE, 0) != 0) {
      return OUTBOARD_ERROR;
    }
    const int next = tile + 1;
    if (next < ELEMENTS / TILE && tvm_dsp_dma_copy(QUEUE, in[next % 2], x + next * TILE, TILE_BYTES, 0) != 0) {
      return OUTBOARD_ERROR;
    }
    compute(in[tile % 2], out[tile % 2], TILE, factor);
    if (tvm_dsp_dma_copy(QUEUE, y + tile * TILE, out[tile % 2], TILE_BYTES, 0) != 0) {
      return OUTBOARD_ERROR;
    }
  }
  return tvm_dsp_dma_wait(QUEUE, 0);
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

static void kill(TVMFFIAny *reg) {
  if (reg->type_index >= TVM_FFI_OBJECT && reg->u.v_obj != NULL) {
    TVMFFIObjectDecRef(reg->u.v_obj);
  }
  *reg = (TVMFFIAny){0};
}

/* args: [context, register file, constants, reserved] */
static int main_vm(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret) {
  static const DLDevice cpu = {1, 0};
  static const DLDataType float32 = {DL_FLOAT, 32, 1};
  static const int64_t shape[2] = {ROWS, COLUMNS};
  (void)self;
  (void)num_args;
  TVMFFIAny *regs = args[1].u.v_ptr;

  regs[REG_STORAGE] = (TVMFFIAny){.type_index = TVM_FFI_STORAGE};
  regs[REG_STORAGE].u.v_ptr = TVMDSPStorageAlloc(ELEMENTS * sizeof(float), cpu, float32);
  regs[REG_OUTPUT] = (TVMFFIAny){.type_index = TVM_FFI_TENSOR};
  regs[REG_OUTPUT].u.v_ptr = TVMDSPStorageAllocNDArray(regs[REG_STORAGE].u.v_ptr, 0, shape, 2, float32);
  kill(&regs[REG_STORAGE]);
  TVMDSPNDArray *y = regs[REG_OUTPUT].u.v_ptr;
  if (y == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  const float *from = ((TVMDSPNDArray *)regs[REG_X].u.v_ptr)->data;
  for (int i = 0; i < LAYERS; i++) {
    const int status = layer(from, y->data, 1.0f + (float)i / 64.0f);
    if (status != OUTBOARD_OK) {
      return status;
    }
    from = y->data;
  }
  *ret = (TVMFFIAny){0};
  return OUTBOARD_OK;
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  if (num_inputs != INPUTS) {
    return OUTBOARD_ERROR;
  }
  l2_reset();
  memset(reg_file, 0, sizeof reg_file);
  TVMDSPRegFileInit(reg_file, REGISTERS);
  reg_file[REG_X] = inputs[0];
  const TVMFFIAny args[4] = {
      {.type_index = TVM_FFI_OPAQUE_PTR},
      {.type_index = TVM_FFI_OPAQUE_PTR, .u.v_ptr = reg_file},
      {.type_index = TVM_FFI_OPAQUE_PTR, .u.v_ptr = constants},
      {.type_index = TVM_FFI_NONE},
  };
  TVMFFIAny ret = {0};
  const int status = main_vm(NULL, args, 4, &ret);
  if (status != OUTBOARD_OK) {
    return status;
  }
  *output = reg_file[REG_OUTPUT];
  return OUTBOARD_OK;
}
