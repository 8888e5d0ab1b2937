/* ---- The layer profile: the cycles of every step of the last run, which the device asks for after it ---------------- */

#ifdef __C7000__
#include <c7x.h>
static uint64_t outboard_cycles(void) { return __TSC; }
#else
uint64_t outboard_cycles(void); /* the simulated device's clock */
#endif

static uint64_t outboard_layer_cycles[OUTBOARD_LAYERS];
static uint64_t outboard_layer_began;
static int32_t outboard_layers_begun;
static int32_t outboard_layers_done;

static void outboard_begin_layer(int32_t layer) {
  outboard_layers_begun = layer + 1;
  outboard_layer_began = outboard_cycles();
}

static void outboard_end_layer(int32_t layer) {
  outboard_layer_cycles[layer] = outboard_cycles() - outboard_layer_began;
  outboard_layers_done = layer + 1;
}

void TVMPrintLayerProfile(void) {
  uint64_t total = 0;
  printf("\n===== TVM Layer Profile =====\n");
  for (int32_t i = 0; i < outboard_layers_done; i++) {
    printf("[%3d] %-40s %llu cycles\n", (int)i, outboard_layer_names[i], (unsigned long long)outboard_layer_cycles[i]);
    total += outboard_layer_cycles[i];
  }
  printf("-----------------------------\n");
  printf("Total: %llu cycles (%d layers)\n", (unsigned long long)total, (int)outboard_layers_done);
  if (outboard_layers_begun > outboard_layers_done) {
    printf("[FAILED, in flight] %s\n", outboard_layer_names[outboard_layers_done]);
  }
  printf("=============================\n");
}
