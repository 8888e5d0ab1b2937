/* A client of the board's C7x that knows nothing of Outboard: it finds the DSP in sysfs, makes an RPMsg endpoint, allocates and
 * attaches DMA buffers, and loads, calls and unloads a module with raw ioctls, writes and reads. The module returns its input
 * doubled. Usage: raw MODULE [forget-module|forget-input|forget-output]. Prints what it did; the exit status is 0 when the answer is right. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAP "/dev/dma_heap/carveout_vision_apps_shared-memories"
#define PHYSICAL 0x900000000ull
#define DSP 0xC0000000ull

struct heap_allocation { uint64_t len; uint32_t fd, fd_flags; uint64_t heap_flags; };
struct attachment { uint32_t fd, padding; uint64_t da; };
struct endpoint { char name[32]; uint32_t src, dst; };
struct header { uint32_t type, seq, len; int32_t status; };
struct buffer { int fd, rproc; uint8_t *map; uint64_t dsp, size; };
struct tensor { uint64_t data, size; int32_t ndim, code, bits, reserved; int64_t shape[6]; };

static void die(const char *what) {
    fprintf(stderr, "raw: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int find_control(void) {
    for (int i = 0; i < 10; i++) {
        char link[64], path[PATH_MAX], node[32];
        snprintf(link, sizeof link, "/sys/class/rpmsg/rpmsg_ctrl%d/device", i);
        if (realpath(link, path) && strstr(path, "7e000000.dsp")) {
            snprintf(node, sizeof node, "/dev/rpmsg_ctrl%d", i);
            int fd = open(node, O_RDWR);
            if (fd >= 0) return fd;
        }
    }
    die("no control device");
    return -1;
}

static int find_rproc(char node[32]) {
    for (int i = 0; i < 16; i++) {
        char link[64], target[PATH_MAX];
        snprintf(link, sizeof link, "/sys/class/remoteproc/remoteproc%d/device", i);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n < 0) continue;
        target[n] = 0;
        if (strstr(target, "7e000000.dsp")) return snprintf(node, 32, "/dev/remoteproc%d", i);
    }
    die("no remote processor");
    return -1;
}

static int open_endpoint(int control) {
    int last = -1;
    for (int i = 0; i < 64; i++) {
        char node[32];
        struct stat st;
        snprintf(node, sizeof node, "/dev/rpmsg%d", i);
        if (stat(node, &st) == 0) last = i;
    }
    struct endpoint ept = {"c7x-compute", 0xFFFFFFFF, 20};
    if (ioctl(control, 0x4028B501, &ept) < 0) die("create endpoint");
    close(control);
    usleep(100000);
    for (int i = last + 1; i <= last + 16; i++) {
        char node[32];
        snprintf(node, sizeof node, "/dev/rpmsg%d", i);
        int fd = open(node, O_RDWR);
        if (fd >= 0) return fd;
    }
    die("no endpoint");
    return -1;
}

static struct buffer allocate(int heap, const char *rproc, uint64_t size) {
    struct heap_allocation a = {size, 0, O_CLOEXEC | O_RDWR, 0};
    if (ioctl(heap, 0xC0184800, &a) < 0) die("allocate");
    struct buffer b = {.fd = (int)a.fd, .size = size};
    b.rproc = open(rproc, O_RDONLY | O_CLOEXEC);
    if (b.rproc < 0) die(rproc);
    struct attachment at = {a.fd, 0, 0};
    if (ioctl(b.rproc, 0xC010B700, &at) < 0) die("attach");
    b.dsp = at.da - PHYSICAL + DSP;
    b.map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
    if (b.map == MAP_FAILED) die("mmap");
    return b;
}

static void release(struct buffer *b) {
    munmap(b->map, b->size);
    close(b->rproc);
    close(b->fd);
}

static void synchronise(struct buffer *b, uint64_t flags) {
    if (ioctl(b->fd, 0x40086200, &flags) < 0) die("sync");
}

static int32_t exchange(int ept, void *message, uint32_t len, uint8_t reply[512]) {
    static uint32_t seq;
    struct header *h = message, *r = (struct header *)reply;
    h->seq = ++seq;
    h->len = len;
    if (write(ept, message, len) != (ssize_t)len) die("write");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ept, &set);
    struct timeval patience = {10, 0};
    if (select(ept + 1, &set, NULL, NULL, &patience) != 1) die("select");
    ssize_t n = read(ept, reply, 512);
    if (n < 16) die("read");
    if (r->seq != seq || r->type != (0x1000 | h->type)) { fprintf(stderr, "raw: wrong reply\n"); exit(1); }
    return r->status;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) return 2;
    const char *forget = argc == 3 ? argv[2] : "";
    char rproc[32];
    uint8_t reply[512];
    find_rproc(rproc);
    int ept = open_endpoint(find_control());

    struct header ping = {.type = 1};
    if (exchange(ept, &ping, 16, reply)) die("ping");
    uint32_t version;
    memcpy(&version, reply + 16, 4);
    printf("version %u.%u.%u\n", version >> 16 & 255, version >> 8 & 255, version & 255);

    int heap = open(HEAP, O_RDONLY | O_CLOEXEC);
    if (heap < 0) die(HEAP);
    struct buffer staging = allocate(heap, rproc, 480u << 20);
    struct buffer text = allocate(heap, rproc, 65536);
    printf("staging %#llx printf %#llx\n", (unsigned long long)staging.dsp, (unsigned long long)text.dsp);
    struct { struct header h; uint64_t address; uint32_t size, reserved; } bind = {{.type = 0x30}, text.dsp, 65536, 0};
    if (exchange(ept, &bind, 32, reply)) die("set printf buffer");

    FILE *file = fopen(argv[1], "rb");
    if (!file) die(argv[1]);
    size_t size = fread(staging.map, 1, staging.size, file);
    fclose(file);
    if (strcmp(forget, "forget-module")) synchronise(&staging, 6);
    struct { struct header h; uint32_t elf_size, flags, reserved[2]; } load = {{.type = 0x10}, (uint32_t)size, 0, {0, 0}};
    int32_t status = exchange(ept, &load, 32, reply);
    if (status) { fprintf(stderr, "raw: load: status %d\n", status); return 1; }
    uint32_t handle;
    memcpy(&handle, reply + 16, 4);

    struct buffer input = allocate(heap, rproc, 4096), output = allocate(heap, rproc, 65536);
    int64_t *x = (int64_t *)input.map, *y = (int64_t *)output.map;
    for (int i = 0; i < 4; i++) x[i] = i + 1;
    if (strcmp(forget, "forget-input")) synchronise(&input, 6);
    struct {
        struct header h;
        uint32_t handle, model, num_inputs, flags;
        uint64_t input_addr, input_size, result_addr, result_size;
        struct tensor tensor;
    } infer;
    memset(&infer, 0, sizeof infer);
    infer.h.type = 0x21;
    infer.handle = handle;
    infer.num_inputs = 1;
    infer.input_addr = input.dsp;
    infer.input_size = input.size;
    infer.result_addr = output.dsp;
    infer.result_size = output.size;
    infer.tensor = (struct tensor){.data = input.dsp, .size = 32, .ndim = 1, .code = 0, .bits = 64, .shape = {4}};
    status = exchange(ept, &infer, sizeof infer, reply);
    if (status) { fprintf(stderr, "raw: infer: status %d\n", status); return 1; }
    if (strcmp(forget, "forget-output")) synchronise(&output, 1);
    printf("y %lld %lld %lld %lld\n", (long long)y[0], (long long)y[1], (long long)y[2], (long long)y[3]);
    int right = 1;
    for (int i = 0; i < 4; i++) right &= y[i] == 2 * (i + 1);

    struct { struct header h; uint32_t handle; } unload = {{.type = 0x12}, handle};
    if (exchange(ept, &unload, 20, reply)) die("unload");
    release(&output);
    release(&input);
    release(&text);
    release(&staging);
    close(heap);
    if (ioctl(ept, 0xB502, 0) < 0) die("destroy endpoint");
    close(ept);
    puts(right ? "right" : "wrong");
    return !right;
}
