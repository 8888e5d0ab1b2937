/*
 * What the functions promise beyond the happy path. Prints one line for each thing that is not as promised and returns how many there
 * are. Arguments: a module that gives its inputs back, one with two outputs (float32[1,2,4] in), one that fails, a weights file.
 */
#include "c7x_compute_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong = 0;

static void check(int line, const char *what, long long got, long long expected) {
  if (got != expected) {
    printf("line %d: %s: %lld, expected %lld (%s)\n", line, what, got, expected, c7x_last_error());
    wrong++;
  }
}
#define CHECK(what, expected) check(__LINE__, #what, (long long)(what), (long long)(expected))

static c7x_tensor_desc_t bytes(void *data, int64_t count) {
  c7x_tensor_desc_t desc;
  memset(&desc, 0, sizeof desc);
  desc.data = data;
  desc.data_size = (size_t)count;
  desc.ndim = 1;
  desc.dtype_code = C7X_DTYPE_UINT;
  desc.dtype_bits = 8;
  desc.shape[0] = count;
  return desc;
}

static void no_client(void) {
  size_t size = 7;
  uint32_t number = 7;
  uint64_t big = 7;
  c7x_client_close(NULL);
  CHECK(c7x_client_ping(NULL, NULL, NULL), -EINVAL);
  CHECK(c7x_client_get_status(NULL, NULL), -EINVAL);
  CHECK(c7x_client_get_last_oom(NULL, &number, NULL, NULL), 0);
  CHECK(number, 7);
  CHECK(c7x_client_get_input_buffer(NULL, &size) == NULL, 1);
  CHECK(size, 0);
  CHECK(c7x_client_get_input_data_offset(NULL), 0);
  CHECK(c7x_client_input_capacity(NULL), 0);
  c7x_client_get_io_meta(NULL, &big, NULL, &number, NULL, NULL);
  CHECK(big, 0);
  CHECK(number, 0);
  CHECK(c7x_client_reserve_io(NULL, 1, 1), -EINVAL);
  CHECK(c7x_client_dyn_load(NULL, "x", &number), -EINVAL);
  CHECK(c7x_client_infer(NULL, 1, 0, NULL, 1, NULL, NULL, NULL), -EINVAL);
  CHECK(c7x_client_create_input(NULL, 1, 4) == NULL, 1);
}

/* A program that says who owns a piece is held to it. */
static void owners(c7x_client_t *client, uint32_t echo) {
  c7x_tensor_desc_t in, out[C7X_MAX_OUTPUTS];
  int count = 0;
  unsigned char *x = c7x_client_create_input(client, echo, 4);
  CHECK(x != NULL, 1);
  memcpy(x, "abcd", 4);
  in = bytes(x, 4);
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), 0);
  CHECK(c7x_client_take_back(client, x), -EBUSY);
  CHECK(c7x_client_hand_over(client, x), 0);
  CHECK(c7x_client_hand_over(client, x), -EBUSY);
  CHECK(strstr(c7x_last_error(), "belongs to the device") != NULL, 1);
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), 0);
  CHECK(memcmp(out[0].data, "abcd", 4), 0);
  CHECK(c7x_client_take_back(client, x), 0);
  x[0] = 'z';
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), -EBUSY);
  CHECK(strstr(c7x_last_error(), "input 0 of the call belongs to the host") != NULL, 1);
  CHECK(c7x_client_hand_over(client, x), 0);
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), 0);
  CHECK(memcmp(out[0].data, "zbcd", 4), 0);
  CHECK(c7x_client_hand_over(client, x + 1), -EINVAL);
  CHECK(c7x_client_hand_over(client, &in), -EINVAL);
  CHECK(c7x_client_take_back(client, NULL), -EINVAL);
  CHECK(c7x_client_hand_over(NULL, x), -EINVAL);
}

static void arguments(c7x_client_t *client, uint32_t echo) {
  unsigned char x[4] = {1, 2, 3, 4};
  c7x_tensor_desc_t in = bytes(x, 4);
  c7x_tensor_desc_t out[C7X_MAX_OUTPUTS];
  int count = 9;
  CHECK(c7x_client_get_status(client, NULL), -EINVAL);
  CHECK(c7x_client_dyn_load(client, NULL, &echo), -EINVAL);
  CHECK(c7x_client_dyn_load(client, "x", NULL), -EINVAL);
  CHECK(c7x_client_infer(client, echo, 0, NULL, 1, out, &count, NULL), -EINVAL);
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, NULL, &count, NULL), -EINVAL);
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, NULL, NULL), -EINVAL);
  CHECK(c7x_client_infer(client, echo, 0, &in, 0, out, &count, NULL), -EINVAL);
  CHECK(count, 0);
  CHECK(c7x_client_infer(client, echo, 0, &in, 129, out, &count, NULL), -EINVAL);
  in.ndim = 7;
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), -EINVAL);
  in.ndim = -1;
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), -EINVAL);
  in = bytes(x, 4);
  in.shape[0] = 5;
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), -EINVAL);
  in.shape[0] = -4;
  CHECK(c7x_client_infer(client, echo, 0, &in, 1, out, &count, NULL), -EINVAL);
  in = bytes(x, 4);
  CHECK(c7x_client_infer(client, echo + 77, 0, &in, 1, out, &count, NULL), C7X_STATUS_ERR_HANDLE);
  CHECK(c7x_client_infer(client, 0, 0, &in, 1, out, &count, NULL), C7X_STATUS_ERR_HANDLE);
  CHECK(c7x_client_infer(client, echo, 99, &in, 1, out, &count, NULL), C7X_STATUS_ERR_HANDLE);
  CHECK(c7x_client_dyn_unload(client, echo + 77), C7X_STATUS_ERR_HANDLE);
  CHECK(c7x_client_dyn_load(client, "/nowhere/lib0.out", &count == NULL ? NULL : (uint32_t *)&count), -ENOENT);
}

static void capacity(c7x_client_t *client, uint32_t echo) {
  unsigned char x[4] = {1, 2, 3, 4};
  c7x_tensor_desc_t in[3] = {bytes(x, 4), bytes(x, 4), bytes(x, 4)};
  c7x_tensor_desc_t out[C7X_MAX_OUTPUTS];
  int count = 0;
  size_t size = 0;
  CHECK(c7x_client_reserve_io(client, 4096, 4096), 0);
  CHECK(c7x_client_input_capacity(client), 4096);
  CHECK(c7x_client_reserve_io(client, UINT64_C(1) << 40, 0), -ENOMEM);
  CHECK(c7x_client_reserve_io(client, 8192, 4096), 0);
  unsigned char *buffer = (unsigned char *)c7x_client_get_input_buffer(client, &size);
  CHECK(buffer != NULL, 1);
  CHECK(size, 8192);
  CHECK(c7x_client_reserve_io(client, 16384, 0), -EBUSY);
  const size_t front = c7x_client_get_input_data_offset(client);
  CHECK(front, 320);

  /* Inputs in the buffer and copied ones in one call: none overwrites another. */
  memcpy(buffer + front, "abcd", 4);
  in[0] = bytes(buffer + front, 4);
  in[2] = bytes(buffer + front, 4);
  CHECK(c7x_client_infer(client, echo, 0, in, 3, out, &count, NULL), 0);
  CHECK(count, 3);
  CHECK(memcmp(out[0].data, "abcd", 4), 0);
  CHECK(memcmp(out[1].data, x, 4), 0);
  CHECK(memcmp(out[2].data, "abcd", 4), 0);
  CHECK(out[2].reserved, 2);
  CHECK(memcmp(buffer + front, "abcd", 4), 0);

  /* An output as an input of the next call. */
  c7x_tensor_desc_t again[2] = {out[1], bytes(x + 2, 2)};
  CHECK(c7x_client_infer(client, echo, 0, again, 2, out, &count, NULL), 0);
  CHECK(memcmp(out[0].data, x, 4), 0);
  CHECK(memcmp(out[1].data, x + 2, 2), 0);

  /* Across an end of the buffer, in its descriptors, and larger than it. */
  c7x_tensor_desc_t odd = bytes(buffer + size - 2, 4);
  CHECK(c7x_client_infer(client, echo, 0, &odd, 1, out, &count, NULL), -EINVAL);
  odd = bytes(buffer, 4);
  CHECK(c7x_client_infer(client, echo, 0, &odd, 1, out, &count, NULL), -EINVAL);
  void *large = calloc(1, 8192);
  odd = bytes(large, 8192);
  CHECK(c7x_client_infer(client, echo, 0, &odd, 1, out, &count, NULL), -EFBIG);
  free(large);

  /* Pieces of the buffer that copies leave alone. */
  unsigned char *piece = (unsigned char *)c7x_client_create_input(client, echo, 100);
  CHECK(piece >= buffer + front && piece + 100 <= buffer + size, 1);
  memset(piece, 5, 100);
  in[0] = bytes(x, 4);
  in[1] = bytes(x, 4);
  CHECK(c7x_client_infer(client, echo, 0, in, 2, out, &count, NULL), 0);
  CHECK(piece[0] == 5 && piece[99] == 5, 1);
  CHECK(c7x_client_create_input(client, echo, 1 << 20) == NULL, 1);
}

static void many_outputs(c7x_client_t *client, uint32_t echo) {
  static unsigned char x[C7X_MAX_INPUTS];
  static c7x_tensor_desc_t in[C7X_MAX_INPUTS];
  static c7x_tensor_desc_t out[C7X_MAX_INPUTS + 1];
  int count = 0;
  for (int i = 0; i < C7X_MAX_INPUTS; i++) {
    x[i] = (unsigned char)i;
    in[i] = bytes(&x[i], 1);
  }
  memset(out, 0x5A, sizeof out);
  CHECK(c7x_client_infer(client, echo, 0, in, 65, out, &count, NULL), -ENOSPC);
  CHECK(count, 65);
  CHECK(out[0].ndim, 0x5A5A5A5A);
  CHECK(c7x_client_infer(client, echo, 0, in, 64, out, &count, NULL), 0);
  CHECK(out[64].ndim, 0x5A5A5A5A);
  CHECK(c7x_client_infer_n(client, echo, 0, in, 128, out, 128, &count, NULL, 0), 0);
  CHECK(count, 128);
  for (int i = 0; i < 128; i++) {
    CHECK(*(unsigned char *)out[i].data, i);
  }
  CHECK(out[128].ndim, 0x5A5A5A5A);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    return 99;
  }
  no_client();
  c7x_client_t *client = c7x_client_open();
  if (client == NULL) {
    return 98;
  }
  uint32_t handle = 0;
  CHECK(c7x_client_get_input_data_offset(client), 0);
  CHECK(c7x_client_get_input_buffer(client, NULL) == NULL, 1);
  CHECK(c7x_client_dyn_load(client, argv[1], &handle), 0);
  arguments(client, handle);
  capacity(client, handle);
  CHECK(c7x_client_dyn_unload(client, handle), 0);
  CHECK(c7x_client_get_input_data_offset(client), 0);
  CHECK(c7x_client_dyn_load(client, argv[1], &handle), 0);
  CHECK(c7x_client_reserve_io(client, 65536, 65536), 0);
  many_outputs(client, handle);
  CHECK(c7x_client_dyn_unload(client, handle), 0);
  CHECK(c7x_client_dyn_load(client, argv[1], &handle), 0);
  owners(client, handle);
  CHECK(c7x_client_dyn_unload(client, handle), 0);

  /* What a module declares. */
  uint64_t input_bytes = 0, output_bytes = 0;
  uint32_t num_inputs = 0, num_outputs = 0, flags = 0;
  CHECK(c7x_client_dyn_load(client, argv[2], &handle), 0);
  c7x_client_get_io_meta(client, &input_bytes, &output_bytes, &num_inputs, &num_outputs, &flags);
  CHECK(num_inputs, 1);
  CHECK(num_outputs, 2);
  CHECK(flags, 1);
  CHECK(c7x_client_input_capacity(client) >= input_bytes, 1);
  c7x_tensor_desc_t out[C7X_MAX_OUTPUTS];
  int count = 0;
  unsigned char x[4] = {0, 0, 0, 0};
  c7x_tensor_desc_t in = bytes(x, 4);
  CHECK(c7x_client_infer_repeat(client, handle, 0, &in, 1, out, &count, NULL, 3) < 0, 1);
  CHECK(c7x_client_dyn_unload(client, handle), 0);

  /* A load that fails, weights, and what is not weights. */
  CHECK(c7x_client_dyn_load(client, argv[3], &handle), C7X_STATUS_ERR_LOAD);
  CHECK(strstr(c7x_last_error(), "symbol") != NULL, 1);
  uint32_t model = 0;
  CHECK(c7x_client_model_load(client, argv[4], &model), 0);
  CHECK(model, 1);
  CHECK(c7x_client_model_unload(client, model), 0);
  CHECK(c7x_client_model_unload(client, model), C7X_STATUS_ERR_HANDLE);
  CHECK(c7x_client_model_load(client, argv[3], &model), C7X_STATUS_ERR_WEIGHTS);
  CHECK(c7x_client_get_last_oom(client, NULL, NULL, NULL), 0);
  c7x_client_close(client);
  return wrong;
}
