/*
 * The part of DLPack that c7x_runtime.h needs, for programs without DLPack's own header: the same names and layout. The guard is DLPack's,
 * so that whichever header comes first is the only one.
 */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where memory is; here always 1, the CPU. */
typedef enum { kDLCPU = 1 } DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

/* Element kinds. */
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U, kDLBool = 6U } DLDataTypeCode;

typedef struct {
  uint8_t code; /* a DLDataTypeCode */
  uint8_t bits; /* of one lane */
  uint16_t lanes;
} DLDataType;

/* A tensor that belongs to somebody else. */
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL for row-major without gaps */
  uint64_t byte_offset;
} DLTensor;

#ifdef __cplusplus
}
#endif

#endif
