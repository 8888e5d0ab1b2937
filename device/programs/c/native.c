/* Runs a test program natively. */
#include "runtime.h"
#include <unistd.h>

int device_main(void);

void sys_write(int file, const void *bytes, size_t count) {
    const char *at = bytes;
    while (count > 0) {
        ssize_t written = write(file, at, count);
        if (written <= 0) _exit(1);
        at += written;
        count -= (size_t)written;
    }
}

int main(void) { return device_main(); }
