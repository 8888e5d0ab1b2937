/* Open, load, infer, unload, close: the sequence of the published client. Compiles as C and as C++. */
#include "c7x_compute_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  if (argc != 2) {
    return 2;
  }
  c7x_client_t *client = c7x_client_open();
  if (client == NULL) {
    return 3;
  }
  uint32_t version = 0;
  int result = c7x_client_ping(client, &version, NULL);
  printf("ping %d version %06" PRIx32 "\n", result, version);

  uint32_t handle = 0;
  result = c7x_client_dyn_load(client, argv[1], &handle);
  printf("load %d: %s\n", result, c7x_strerror(result));
  if (result != 0) {
    c7x_client_close(client);
    return 4;
  }

  float x[8];
  for (int i = 0; i < 8; i++) {
    x[i] = (float)i / 4.0f - 1.0f;
  }
  c7x_tensor_desc_t input;
  memset(&input, 0, sizeof input);
  input.data = x;
  input.data_size = sizeof x;
  input.ndim = 3;
  input.dtype_code = C7X_DTYPE_FLOAT;
  input.dtype_bits = 32;
  input.shape[0] = 1;
  input.shape[1] = 2;
  input.shape[2] = 4;

  c7x_tensor_desc_t outputs[C7X_MAX_OUTPUTS];
  int count = 0;
  uint64_t cycles = 0;
  result = c7x_client_infer(client, handle, 0, &input, 1, outputs, &count, &cycles);
  printf("infer %d outputs %d cycles %s\n", result, count, cycles > 0 ? "yes" : "no");
  if (result == 0 && count == 2) {
    const float *probabilities = (const float *)outputs[0].data;
    for (int64_t i = 0; i < outputs[0].shape[1]; i++) {
      printf("%.6f\n", (double)probabilities[i]);
    }
    printf("class %" PRId64 "\n", *(const int64_t *)outputs[1].data);
  }
  printf("unload %d\n", c7x_client_dyn_unload(client, handle));
  c7x_status_t status;
  result = c7x_client_get_status(client, &status);
  printf("status %d completed %" PRIu32 " failed %" PRIu32 "\n", result, status.jobs_completed, status.jobs_failed);
  c7x_client_close(client);
  return 0;
}
