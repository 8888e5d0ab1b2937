/* The model of kv.c with large caches, which declares the bytes of its inputs and outputs. */
#define LENGTH 800000
#include "kv.c"

/* Descriptors (80 bytes each) and data, each part rounded up to 64. */
enum { CACHE = LENGTH * sizeof(float), OUTPUTS = 1 + LAYERS };
const TVMDSPIoMeta _binary_tvm_dsp_io_meta_start = {
    .magic = OUTBOARD_IO_META_MAGIC,
    .version = 1,
    .num_inputs = 2 + LAYERS,
    .num_outputs = OUTPUTS,
    .input_bytes = 448 + 64 + 64 + LAYERS * CACHE,
    .output_bytes = 320 + 64 + LAYERS * CACHE,
    .flags = 1,
    .reserved = 0,
};
