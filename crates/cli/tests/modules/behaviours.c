/*
 * A module with several behaviours, chosen by its first input, one int32; its output is int32[n].
 *
 *   1  counts its runs in .bss: 1 after a fresh load
 *   2  asks for a gibibyte of workspace
 *   3  prints twenty times 8 KiB, far more than a pipe or the printf buffer holds
 *   4  prints a profile of a layer in flight and fails with -7
 *   5  copies a word by DMA: {code, word}
 *   6  looks at an int64 constant that lies at an odd multiple of four: {address modulo 8, value}
 *   7  runs for tens of milliseconds, then adds up a table in .data
 */
#include "outboard_tvm_abi.h"

int tvm_dsp_dma_copy(int queue, void *to, const void *from, int bytes, int bypass);
int tvm_dsp_dma_wait(int queue, int in_flight);

static const DLDevice cpu = {1, 0};
static const DLDataType int32 = {DL_INT, 32, 1};
static int32_t runs;
static volatile int32_t table[4] = {1, 20, 300, 4000};

/* One int64[1] = {77}. Its data follows 52 bytes of header, so an aligned blob leaves it at 4 modulo 8. */
typedef struct __attribute__((packed)) {
  uint64_t count;
  int32_t type_index;
  uint64_t magic, reserved;
  int32_t device_type, device_id, ndim;
  DLDataType dtype;
  int64_t shape[1], data_bytes, data;
} Weights;

const Weights _binary_weights_bin_start __attribute__((aligned(64))) = {
    1, TVM_FFI_TENSOR, OUTBOARD_TENSOR_MAGIC, 0, 1, 0, 1, {DL_INT, 64, 1}, {1}, 8, 77};
const uint32_t _binary_weights_bin_size = sizeof(Weights);

static int answer(TVMFFIAny *output, const int32_t *values, int64_t count) {
  TVMDSPStorage *storage = TVMDSPStorageAlloc((size_t)count * sizeof *values, cpu, int32);
  if (storage == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  TVMDSPNDArray *array = TVMDSPStorageAllocNDArray(storage, 0, &count, 1, int32);
  TVMFFIObjectDecRef(&storage->header);
  if (array == NULL) {
    return OUTBOARD_NO_MEMORY;
  }
  memcpy(array->data, values, (size_t)count * sizeof *values);
  output->type_index = TVM_FFI_TENSOR;
  output->u.v_obj = &array->header;
  return OUTBOARD_OK;
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  int32_t values[2] = {0, 0};
  int count = 1;
  if (num_inputs != 1) {
    return OUTBOARD_ERROR;
  }
  switch (*(const int32_t *)((const TVMDSPNDArray *)inputs[0].u.v_obj)->data) {
  case 1:
    values[0] = ++runs;
    break;
  case 2:
    if (TVMBackendAllocWorkspace(1, 0, 1ull << 30, DL_FLOAT, 32) == NULL) {
      return OUTBOARD_NO_MEMORY;
    }
    break;
  case 3:
    for (int i = 0; i < 20; i++) {
      printf("%8192d", i);
    }
    break;
  case 4:
    printf("===== TVM Layer Profile =====\n[FAILED, in flight] conv1\n");
    return -7;
  case 5: {
    static int32_t from = 1234;
    static int32_t to;
    to = 0;
    values[0] = tvm_dsp_dma_copy(0, &to, &from, sizeof to, 0) | tvm_dsp_dma_wait(0, 0);
    values[1] = to;
    count = 2;
    break;
  }
  case 6: {
    const TVMDSPNDArray *constant = (const TVMDSPNDArray *)constants[0].u.v_obj;
    values[0] = (int32_t)((uintptr_t)constant->data % 8);
    values[1] = (int32_t) * (const int64_t *)constant->data;
    count = 2;
    break;
  }
  case 7:
    for (volatile int32_t i = 0; i < 20000000; i++) {
    }
    values[0] = table[0] + table[1] + table[2] + table[3];
    break;
  default:
    break;
  }
  return answer(output, values, count);
}
