/*
 * Client library for C7x devices: load modules, call them, take their outputs without a copy.
 *
 * The functions and numbers are those of the published client library of the board, so that programs written for it build and run
 * unchanged; what this implementation adds is marked "Outboard". The environment names the device:
 *
 *   OUTBOARD_DEVICE   sim (the default: a simulated device of this client's own), sim:PATH (one that stands at a socket), rpmsg or
 *                     rpmsg:ADDRESS (the board's DSP)
 *   OUTBOARD_TIMEOUT  deadline of loads and calls in seconds; 600 without it
 *
 * Functions that return int return 0, a negated errno value or a C7X_STATUS_ number of the device. The two ranges overlap, as in the
 * original: c7x_last_error() tells them apart. Messages for people go to standard error, and nothing goes to standard output.
 *
 * A client may be used by several threads; its calls are carried out one after the other.
 */
#ifndef C7X_COMPUTE_CLIENT_H
#define C7X_COMPUTE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. */
#define C7X_TENSOR_MAX_NDIM 6
#define C7X_MAX_INPUTS 128
/* Room that c7x_client_infer, _repeat and _flags expect behind `outputs`: they never write more elements. */
#define C7X_MAX_OUTPUTS 64

/* Element kinds (DLPack). */
#define C7X_DTYPE_INT 0
#define C7X_DTYPE_UINT 1
#define C7X_DTYPE_FLOAT 2

/* Flags of c7x_client_infer_flags: the low 16 bits say how often the module runs (0 and 1: once). */
#define C7X_INFER_FLAG_REPEAT_MASK 0xFFFFu
/* Keep the outputs from the second on in the device's cache region and return only the first. */
#define C7X_INFER_FLAG_KV_RESIDENT (1u << 16)

/* Numbers of the device. */
#define C7X_STATUS_SUCCESS 0
#define C7X_STATUS_ERR_GENERIC (-1)
#define C7X_STATUS_ERR_INVALID (-2)
#define C7X_STATUS_ERR_NOMEM (-3)
#define C7X_STATUS_ERR_BUSY (-4)
#define C7X_STATUS_ERR_TIMEOUT (-5)
#define C7X_STATUS_ERR_ADDR (-6)
#define C7X_STATUS_ERR_SIZE (-7)
#define C7X_STATUS_ERR_OP (-8)
#define C7X_STATUS_ERR_LOAD (-9)
#define C7X_STATUS_ERR_SYMBOL (-10)
#define C7X_STATUS_ERR_CALL (-11)
#define C7X_STATUS_ERR_HANDLE (-12)
#define C7X_STATUS_ERR_WEIGHTS (-13)
#define C7X_STATUS_ERR_TENSOR (-14)

/* A connection to a device. */
typedef struct c7x_client c7x_client_t;

/* What c7x_client_get_status answers. */
typedef struct c7x_status {
  uint32_t version; /* 0xMMmmpp */
  uint32_t uptime_ms;
  uint32_t jobs_completed; /* calls that succeeded */
  uint32_t jobs_failed;    /* calls whose module failed */
} c7x_status_t;

/* A tensor: 80 bytes, row-major, without gaps. */
typedef struct c7x_tensor_desc {
  void *data;         /* first element; NULL with a size: the next tensor of the device's cache region */
  size_t data_size;   /* bytes; at least what type and shape need */
  int32_t ndim;       /* 0..6 */
  int32_t dtype_code; /* C7X_DTYPE_ */
  int32_t dtype_bits;
  int32_t reserved; /* 0 in inputs; in outputs the position in the tuple the module returned */
  int64_t shape[C7X_TENSOR_MAX_NDIM];
} c7x_tensor_desc_t;

/* Connects to the device. NULL with a message on standard error when that fails. */
c7x_client_t *c7x_client_open(void);

/* Ends the connection; NULL is allowed. Modules stay loaded on devices that keep them. */
void c7x_client_close(c7x_client_t *client);

/* Asks for version and uptime; either pointer may be NULL. */
int c7x_client_ping(c7x_client_t *client, uint32_t *version, uint32_t *uptime_ms);

/* Asks for the job counters. */
int c7x_client_get_status(c7x_client_t *client, c7x_status_t *status);

/* 1 when the last load, model load or call ended with C7X_STATUS_ERR_NOMEM, with the bytes of the device's pool; else 0, and nothing is
 * written. */
int c7x_client_get_last_oom(c7x_client_t *client, uint32_t *requested, uint32_t *free_bytes, uint32_t *total);

/*
 * The input and the output buffer, shared with the device, and their size; NULL (and size 0) before there is one. Giving an address away
 * fixes the capacity until the next load or unload. Inputs that lie in the input buffer are not copied; they start at
 * c7x_client_get_input_data_offset() or later, because descriptors go before.
 */
void *c7x_client_get_input_buffer(c7x_client_t *client, size_t *size);
void *c7x_client_get_output_buffer(c7x_client_t *client, size_t *size);

/* First byte of the input buffer that tensors may use; 0 when nothing is loaded. */
size_t c7x_client_get_input_data_offset(c7x_client_t *client);

/* Size of the input buffer; fixes nothing. */
size_t c7x_client_input_capacity(c7x_client_t *client);

/* What the module of the last load declares about its calls; zeros when it declares nothing. Every pointer may be NULL. */
void c7x_client_get_io_meta(c7x_client_t *client, uint64_t *input_bytes, uint64_t *output_bytes, uint32_t *num_inputs,
                            uint32_t *num_outputs, uint32_t *flags);

/* Makes the buffers at least this large. -EBUSY after their first use, -ENOMEM when there is no room: what was there before is kept. */
int c7x_client_reserve_io(c7x_client_t *client, uint64_t input_bytes, uint64_t output_bytes);

/* Loads and unloads weights that modules are called with by number. */
int c7x_client_model_load(c7x_client_t *client, const char *path, uint32_t *model_id);
int c7x_client_model_unload(c7x_client_t *client, uint32_t model_id);

/* Loads and unloads a module. A declared capacity that cannot be reserved is a warning, not an error: it is an upper bound. */
int c7x_client_dyn_load(c7x_client_t *client, const char *path, uint32_t *handle);
int c7x_client_dyn_unload(c7x_client_t *client, uint32_t handle);

/*
 * Calls a module with 1..128 inputs; model_id 0 means the weights in the module. `outputs` has room for C7X_MAX_OUTPUTS elements: more
 * outputs are -ENOSPC. The data of outputs lies in the output buffer and lasts until the next call. `cycles` may be NULL.
 */
int c7x_client_infer(c7x_client_t *client, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t *inputs, int num_inputs,
                     c7x_tensor_desc_t *outputs, int *num_outputs, uint64_t *cycles);
int c7x_client_infer_repeat(c7x_client_t *client, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t *inputs,
                            int num_inputs, c7x_tensor_desc_t *outputs, int *num_outputs, uint64_t *cycles, uint32_t repeat);
int c7x_client_infer_flags(c7x_client_t *client, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t *inputs,
                           int num_inputs, c7x_tensor_desc_t *outputs, int *num_outputs, uint64_t *cycles, uint32_t flags);

/* The text of the original for a number. */
const char *c7x_strerror(int number);

/* Outboard: as c7x_client_infer_flags, for an array of `capacity` elements. With -ENOSPC, *num_outputs is the capacity needed. */
int c7x_client_infer_n(c7x_client_t *client, uint32_t handle, uint32_t model_id, const c7x_tensor_desc_t *inputs, int num_inputs,
                       c7x_tensor_desc_t *outputs, int capacity, int *num_outputs, uint64_t *cycles, uint32_t flags);

/* Outboard: a piece of the input buffer for an input of a module; inputs that are copied never overlap it. It lasts until every module
 * is unloaded. NULL when there is no room; fixes the capacity. */
void *c7x_client_create_input(c7x_client_t *client, uint32_t handle, size_t bytes);

/* Outboard: who owns a piece made by c7x_client_create_input. Nothing needs to be said: every call synchronises what it uses. A program
 * that says it is held to it: a piece that was handed over once is refused by calls while the host owns it (-EBUSY), and so is handing
 * over what the device owns and taking back what the host owns. -EINVAL: `data` does not begin such a piece. */
int c7x_client_hand_over(c7x_client_t *client, const void *data);
int c7x_client_take_back(c7x_client_t *client, const void *data);

/* Outboard: what the last failed function of this thread had to say, never NULL; lasts until the next one fails. */
const char *c7x_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
