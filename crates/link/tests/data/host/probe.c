/* A module that needs every relocation type a shared object of plain C has: pointer tables (RELATIVE, 64), imported data
   (GLOB_DAT), imported functions (JUMP_SLOT), a weak undefined symbol, zeroed memory and a constructor. */
typedef unsigned long u64;
extern int device_add(int, int);
extern int device_value;
extern int device_absent(void) __attribute__((weak));

static int zeroes[1000];
int counter = 41;
static const char *const names[] = {"alpha", "beta", "gamma"};
int *const pointers[] = {&counter, &zeroes[999]};
int (*imported)(int, int) = device_add;
u64 _binary_weights_bin_start[4] = {1, 2, 3, 4};

__attribute__((constructor)) static void start(void) { counter++; }
__attribute__((destructor)) static void stop(void) { counter--; }
__attribute__((noinline)) static int hidden_helper(int x) { return device_add(x, device_value); }

int cg_main_dsp(int index) {
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum += zeroes[i];
    if (device_absent) sum += device_absent();
    return sum + names[index % 3][0] + *pointers[0] + imported(1, 2) + hidden_helper(index);
}
