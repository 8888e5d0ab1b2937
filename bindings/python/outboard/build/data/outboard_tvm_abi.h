/*
 * The binary interface between a module and the C7x runtime, as C sees it: the structures that both sides share, the
 * runtime functions a module may call, and the entry a module must define. Layouts are those of a 64-bit target; the
 * assertions at the end hold on every compiler that may build a module. Reference: docs/reference/models.md.
 *
 * Only freestanding headers are included, so that a module compiles for a CPU without a C library at hand.
 */
#ifndef OUTBOARD_TVM_ABI_H
#define OUTBOARD_TVM_ABI_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Type indices of TVMFFIAny. Indices from TVM_FFI_OBJECT on hold a pointer to a TVMFFIObject. */
enum {
  TVM_FFI_NONE = 0,
  TVM_FFI_INT = 1,
  TVM_FFI_BOOL = 2,
  TVM_FFI_FLOAT = 3,
  TVM_FFI_OPAQUE_PTR = 4,
  TVM_FFI_OBJECT = 64,
  TVM_FFI_SHAPE = 69,
  TVM_FFI_TENSOR = 70,
  TVM_FFI_ARRAY = 71,
  TVM_FFI_STORAGE = 128
};

/* Codes of DLDataType. */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

/* What the entry and the kernels return. Other values pass through to the host unchanged. */
enum { OUTBOARD_OK = 0, OUTBOARD_ERROR = -1, OUTBOARD_NO_MEMORY = -3 };

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  int32_t device_type; /* 1 = CPU */
  int32_t device_id;
} DLDevice;

typedef struct TVMFFIObject {
  int32_t type_index;
  int32_t ref_counter;
  void (*deleter)(struct TVMFFIObject *self);
} TVMFFIObject;

typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
    TVMFFIObject *v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
  } u;
} TVMFFIAny;

typedef struct {
  TVMFFIObject header;
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* NULL: dense, row-major */
  uint64_t byte_offset;
  int64_t shape_storage[8];
  int64_t strides_storage[8];
  uint32_t flags; /* 1 = owns data */
  uint32_t padding;
  TVMFFIObject *storage_ref;
} TVMDSPNDArray;

typedef struct {
  TVMFFIObject header;
  const int64_t *data;
  size_t size;
  int64_t shape_data[8];
} TVMDSPShape;

typedef struct {
  TVMFFIObject header;
  int32_t size;
  int32_t padding;
  TVMFFIAny elements[128];
} TVMDSPArray;

typedef struct {
  TVMFFIObject header;
  void *data;
  size_t size;
  DLDevice device;
  int32_t pool;
  int32_t padding;
} TVMDSPStorage;

/* What a module says about its inputs and outputs before it runs: symbol _binary_tvm_dsp_io_meta_start. */
typedef struct {
  uint32_t magic; /* OUTBOARD_IO_META_MAGIC */
  uint32_t version;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint64_t input_bytes;
  uint64_t output_bytes;
  uint32_t flags; /* 1 = sizes are exact */
  uint32_t reserved;
} TVMDSPIoMeta;

#define OUTBOARD_IO_META_MAGIC 0x4D4F4954u
#define OUTBOARD_TENSOR_MAGIC 0xDD5E40F096B4A13Full

/* The entry of a module. `constants` is the parsed weights.bin, or NULL when the module has none. */
int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output);

/* C library. */
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
int printf(const char *format, ...);

/* Workspace: 128-byte aligned, NULL when memory is exhausted. */
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int code_hint, int bits_hint);
int TVMBackendFreeWorkspace(int device_type, int device_id, void *workspace);

/* Storage and tensors. A new object has one reference, which belongs to the caller; a tensor holds one on its storage. */
TVMDSPStorage *TVMDSPStorageAlloc(size_t bytes, DLDevice device, DLDataType hint);
TVMDSPNDArray *TVMDSPStorageAllocNDArray(TVMDSPStorage *storage, int64_t offset, const int64_t *shape, int32_t ndim,
                                         DLDataType dtype);
/* A view that shares the data of `source` and holds no reference on it. */
TVMDSPNDArray *TVMDSPBuiltinReshapeDirect(TVMDSPNDArray *source, const int64_t *shape, int32_t ndim);
/* Makes an array of at most 128 elements and adds a reference to each of them. */
int TVMDSPBuiltinMakeTuplePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *ret);

/* Register file: what is in it when the entry returns is released by the device before the next run and at unload. */
void TVMDSPRegFileInit(TVMFFIAny *registers, int32_t count);
void TVMDSPRegSetAny(int32_t index, const TVMFFIAny *value);
int TVMDSPRegFileCleanup(void);

void TVMFFIObjectIncRef(TVMFFIObject *object);
void TVMFFIObjectDecRef(TVMFFIObject *object);

#define OUTBOARD_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " must have " #bytes " bytes")
#define OUTBOARD_ASSERT_AT(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " must be at " #offset)

OUTBOARD_ASSERT_SIZE(void *, 8);
OUTBOARD_ASSERT_SIZE(DLDataType, 4);
OUTBOARD_ASSERT_SIZE(DLDevice, 8);
OUTBOARD_ASSERT_SIZE(TVMFFIAny, 16);
OUTBOARD_ASSERT_AT(TVMFFIAny, u, 8);
OUTBOARD_ASSERT_SIZE(TVMFFIObject, 16);
OUTBOARD_ASSERT_AT(TVMFFIObject, deleter, 8);
OUTBOARD_ASSERT_SIZE(TVMDSPNDArray, 208);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, data, 16);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, device, 24);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, ndim, 32);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, dtype, 36);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, shape, 40);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, strides, 48);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, byte_offset, 56);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, shape_storage, 64);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, strides_storage, 128);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, flags, 192);
OUTBOARD_ASSERT_AT(TVMDSPNDArray, storage_ref, 200);
OUTBOARD_ASSERT_SIZE(TVMDSPShape, 96);
OUTBOARD_ASSERT_AT(TVMDSPShape, data, 16);
OUTBOARD_ASSERT_AT(TVMDSPShape, size, 24);
OUTBOARD_ASSERT_AT(TVMDSPShape, shape_data, 32);
OUTBOARD_ASSERT_SIZE(TVMDSPArray, 2072);
OUTBOARD_ASSERT_AT(TVMDSPArray, size, 16);
OUTBOARD_ASSERT_AT(TVMDSPArray, elements, 24);
OUTBOARD_ASSERT_SIZE(TVMDSPStorage, 48);
OUTBOARD_ASSERT_AT(TVMDSPStorage, data, 16);
OUTBOARD_ASSERT_AT(TVMDSPStorage, size, 24);
OUTBOARD_ASSERT_AT(TVMDSPStorage, device, 32);
OUTBOARD_ASSERT_AT(TVMDSPStorage, pool, 40);
OUTBOARD_ASSERT_SIZE(TVMDSPIoMeta, 40);
OUTBOARD_ASSERT_AT(TVMDSPIoMeta, input_bytes, 16);
OUTBOARD_ASSERT_AT(TVMDSPIoMeta, flags, 32);

#endif /* OUTBOARD_TVM_ABI_H */
