/*
 * A recurrent model with a cache that can stay on the device: inputs x float32[1], step int64[1] and `LAYERS` caches float32[LENGTH]; outputs
 * y float32[1] and the caches with x written at position `step`. y is the sum of all caches, each weighted with its number.
 */
#include "outboard_tvm_abi.h"

#ifndef LENGTH
#define LENGTH 128
#endif
enum { LAYERS = 3 };

static const DLDevice cpu = {1, 0};
static const DLDataType float32 = {DL_FLOAT, 32, 1};

static const void *data_of(const TVMFFIAny *value) { return ((const TVMDSPNDArray *)value->u.v_obj)->data; }

static TVMFFIObject *tensor(int64_t length) {
  TVMDSPStorage *storage = TVMDSPStorageAlloc((size_t)length * sizeof(float), cpu, float32);
  if (storage == NULL) {
    return NULL;
  }
  TVMDSPNDArray *array = TVMDSPStorageAllocNDArray(storage, 0, &length, 1, float32);
  TVMFFIObjectDecRef(&storage->header);
  return array == NULL ? NULL : &array->header;
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {
  (void)constants;
  if (num_inputs != 2 + LAYERS) {
    return OUTBOARD_ERROR;
  }
  float x = *(const float *)data_of(&inputs[0]);
  int64_t step = *(const int64_t *)data_of(&inputs[1]);
  TVMFFIAny outputs[1 + LAYERS];
  float sum = 0.0f;
  for (int layer = 0; layer < 1 + LAYERS; layer++) {
    outputs[layer].type_index = TVM_FFI_TENSOR;
    outputs[layer].zero_padding = 0;
    outputs[layer].u.v_obj = tensor(layer == 0 ? 1 : LENGTH);
    if (outputs[layer].u.v_obj == NULL) {
      return OUTBOARD_NO_MEMORY;
    }
  }
  for (int layer = 1; layer <= LAYERS; layer++) {
    float *cache = (float *)data_of(&outputs[layer]);
    memcpy(cache, data_of(&inputs[1 + layer]), LENGTH * sizeof(float));
    cache[step % LENGTH] = x * (float)layer;
    for (int i = 0; i < LENGTH; i++) {
      sum += cache[i] * (float)layer;
    }
  }
  *(float *)data_of(&outputs[0]) = sum;
  return TVMDSPBuiltinMakeTuplePacked(outputs, 1 + LAYERS, output);
}
