/* Every call that the nodes serve, with the error of each way to fail. Prints the calls that do not behave; the exit status is their
 * number. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAP "/dev/dma_heap/carveout_vision_apps_shared-memories"
#define ALLOC 0xC0184800
#define SYNC 0x40086200
#define ATTACH 0xC010B700
#define CREATE 0x4028B501
#define DESTROY 0xB502

static int wrong;
#define IS(call, value) do { errno = 0; long long got = (long long)(call); \
    if (got != (long long)(value)) { printf("%s: %lld, %s\n", #call, got, strerror(errno)); wrong++; } } while (0)
#define FAILS(call, number) do { errno = 0; long long got = (long long)(call); \
    if (got != -1 || errno != (number)) { printf("%s: %lld, %s; expected %s\n", #call, got, strerror(errno), strerror(number)); wrong++; } } while (0)

struct heap_allocation { uint64_t len; uint32_t fd, fd_flags; uint64_t heap_flags; };
struct attachment { uint32_t fd, padding; uint64_t da; };
struct endpoint { char name[32]; uint32_t src, dst; };

int main(void) {
    char path[PATH_MAX], text[64] = {0};
    struct stat st;

    /* paths */
    FAILS(open("/dev/rpmsg_ctrl9", O_RDWR), ENOENT);
    FAILS(open("/dev/rpmsg0", O_RDWR), ENOENT);
    FAILS(open("/dev/dma_heap/system", O_RDONLY), ENOENT);
    FAILS(open("/sys/class/remoteproc/remoteproc0/state", O_WRONLY), EACCES);
    FAILS(readlink("/sys/class/remoteproc/remoteproc1/device", path, sizeof path), ENOENT);
    FAILS(readlink("/sys/class/remoteproc/remoteproc0/state", path, sizeof path), EINVAL);
    FAILS(access("/dev/remoteproc7", F_OK), ENOENT);
    IS(stat("/dev/remoteproc0", &st), 0);
    IS(readlink("/sys/class/remoteproc/remoteproc0/device", path, sizeof path) > 0, 1);
    IS(realpath("/sys/class/rpmsg/rpmsg_ctrl0/device", path) != NULL && strstr(path, "/7e000000.dsp/") != NULL, 1);
    IS(strncmp(path, "/sys/devices/", 13), 0);
    IS(realpath("/sys/class/rpmsg/rpmsg_ctrl1/device", path) == NULL && errno == ENOENT, 1);
    FILE *file = fopen("/sys/class/remoteproc/remoteproc0/state", "r");
    IS(file != NULL && fgets(text, sizeof text, file) != NULL, 1);
    if (file) fclose(file);
    IS(strcmp(text, "running\n"), 0);
    DIR *folder = opendir("/dev/dma_heap");
    IS(folder != NULL, 1);
    if (folder) closedir(folder);

    /* the heap */
    int heap = open(HEAP, O_RDONLY | O_CLOEXEC), control = openat(AT_FDCWD, "/dev/rpmsg_ctrl0", O_RDWR);
    int rproc = open64("/dev/remoteproc0", O_RDONLY | O_CLOEXEC);
    IS(heap >= 0 && control >= 0 && rproc >= 0, 1);
    struct heap_allocation a = {0, 0, O_CLOEXEC | O_RDWR, 0};
    FAILS(ioctl(heap, ALLOC, &a), EINVAL);
    a.len = 4096, a.heap_flags = 1;
    FAILS(ioctl(heap, ALLOC, &a), EINVAL);
    a.heap_flags = 0, a.fd_flags = O_APPEND;
    FAILS(ioctl(heap, ALLOC, &a), EINVAL);
    a.fd_flags = O_CLOEXEC | O_RDWR, a.len = 1ull << 40;
    FAILS(ioctl(heap, ALLOC, &a), ENOMEM);
    FAILS(ioctl(heap, ALLOC, NULL), EFAULT);
    FAILS(ioctl(heap, 0x1234, &a), EINVAL);
    FAILS(read(heap, text, 1), EINVAL);
    FAILS(write(heap, text, 1), EINVAL);
    a.len = 5000, a.fd = 0;
    IS(ioctl(heap, ALLOC, &a), 0);
    int buffer = (int)a.fd;
    IS(lseek(buffer, 0, SEEK_END), 8192);

    /* attaching and synchronising */
    struct attachment at = {a.fd, 0, 0};
    IS(ioctl(rproc, ATTACH, &at), 0);
    IS(at.da, 0x900000000ull);
    at.fd = 9999;
    FAILS(ioctl(rproc, ATTACH, &at), EBADF);
    at.fd = (uint32_t)heap;
    FAILS(ioctl(rproc, ATTACH, &at), EINVAL);
    FAILS(ioctl(rproc, 0x1234, &at), ENOTTY);
    uint64_t flags = 6;
    IS(ioctl(buffer, SYNC, &flags), 0);
    flags = 1;
    IS(ioctl(buffer, SYNC, &flags), 0);
    flags = 4;
    FAILS(ioctl(buffer, SYNC, &flags), EINVAL);
    flags = 8 | 1;
    FAILS(ioctl(buffer, SYNC, &flags), EINVAL);
    FAILS(ioctl(buffer, 0x1234, &flags), ENOTTY);

    /* mapping: a block is free again when its descriptor, its attachments and its mappings are gone */
    FAILS((long)mmap(NULL, 12288, PROT_READ, MAP_SHARED, buffer, 0), EINVAL);
    FAILS((long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, buffer, 8192), EINVAL);
    FAILS((long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, heap, 0), ENODEV);
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
    char *again = mmap(NULL, 4096, PROT_READ, MAP_SHARED, buffer, 4096);
    IS(map != MAP_FAILED && again != MAP_FAILED, 1);
    map[4096] = 42;
    IS(again[0], 42);
    IS(munmap(again, 4096), 0);
    IS(close(buffer), 0);
    IS(close(rproc), 0);
    struct heap_allocation b = {4096, 0, O_CLOEXEC | O_RDWR, 0};
    struct attachment second = {0, 0, 0};
    IS(ioctl(heap, ALLOC, &b), 0);
    rproc = open("/dev/remoteproc0", O_RDONLY | O_CLOEXEC);
    second.fd = b.fd;
    IS(ioctl(rproc, ATTACH, &second), 0);
    IS(second.da, 0x900002000ull);
    IS(munmap(map, 8192), 0);
    struct heap_allocation c = {4096, 0, O_CLOEXEC | O_RDWR, 0};
    struct attachment third = {0, 0, 0};
    IS(ioctl(heap, ALLOC, &c), 0);
    third.fd = c.fd;
    IS(ioctl(rproc, ATTACH, &third), 0);
    IS(third.da, 0x900000000ull);
    close((int)b.fd), close((int)c.fd), close(rproc), close(heap);

    /* endpoints */
    struct endpoint ept = {"c7x-compute", 0xFFFFFFFF, 20};
    FAILS(ioctl(control, CREATE, NULL), EFAULT);
    FAILS(ioctl(control, DESTROY, 0), EINVAL);
    IS(ioctl(control, CREATE, &ept), 0);
    IS(access("/sys/class/rpmsg/rpmsg0/name", R_OK), 0);
    int e = open("/dev/rpmsg0", O_RDWR | O_NONBLOCK);
    IS(e >= 0, 1);
    FAILS(open("/dev/rpmsg0", O_RDWR), EBUSY);
    uint8_t message[600] = {1, 0, 0, 0, 7, 0, 0, 0, 16};
    FAILS(write(e, message, 513), EMSGSIZE);
    FAILS(read(e, message + 100, 100), EAGAIN);
    FAILS(ioctl(e, 0x1234, 0), EINVAL);
    struct pollfd wait = {e, POLLIN, 0};
    IS(poll(&wait, 1, 0), 0);
    IS(write(e, message, 16), 16);
    IS(poll(&wait, 1, 10000), 1);
    IS(read(e, message, sizeof message), 24);
    IS(message[0] == 1 && message[1] == 0x10 && message[4] == 7, 1);
    IS(ioctl(e, DESTROY, 0), 0);
    FAILS(write(e, message, 16), EPIPE);
    FAILS(ioctl(e, DESTROY, 0), EINVAL);
    IS(read(e, message, sizeof message), 0);
    FAILS(access("/dev/rpmsg0", F_OK), ENOENT);
    FAILS(access("/sys/class/rpmsg/rpmsg0", F_OK), ENOENT);
    IS(close(e), 0);
    IS(close(control), 0);
    FAILS(ioctl(control, CREATE, &ept), EBADF);
    return wrong;
}
