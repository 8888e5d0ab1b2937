/* Layout and numbers that programs built against the original's header rely on, asserted by the compiler. */
#include "c7x_compute_client.h"

#include <stddef.h>

#define SAME(name, a, b) typedef char name[(a) == (b) ? 1 : -1]

SAME(desc_size, sizeof(c7x_tensor_desc_t), 80);
SAME(desc_data, offsetof(c7x_tensor_desc_t, data), 0);
SAME(desc_data_size, offsetof(c7x_tensor_desc_t, data_size), 8);
SAME(desc_ndim, offsetof(c7x_tensor_desc_t, ndim), 16);
SAME(desc_code, offsetof(c7x_tensor_desc_t, dtype_code), 20);
SAME(desc_bits, offsetof(c7x_tensor_desc_t, dtype_bits), 24);
SAME(desc_shape, offsetof(c7x_tensor_desc_t, shape), 32);
SAME(status_size, sizeof(c7x_status_t), 16);
SAME(status_version, offsetof(c7x_status_t, version), 0);
SAME(status_uptime, offsetof(c7x_status_t, uptime_ms), 4);
SAME(status_completed, offsetof(c7x_status_t, jobs_completed), 8);
SAME(status_failed, offsetof(c7x_status_t, jobs_failed), 12);
SAME(max_inputs, C7X_MAX_INPUTS, 128);
SAME(max_outputs, C7X_MAX_OUTPUTS, 64);
SAME(resident, C7X_INFER_FLAG_KV_RESIDENT, 0x10000);

int main(void) { return 0; }
