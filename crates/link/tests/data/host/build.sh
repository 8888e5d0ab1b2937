#!/bin/sh
# Rebuilds the committed modules. They are small, so that the tests need no compiler.
set -e
cd "$(dirname "$0")"
flags="-O2 -fPIC -shared -nostdlib -fno-asynchronous-unwind-tables -Wl,-z,noseparate-code -Wl,--build-id=none"
x86="gcc $flags"
$x86 -Wl,--hash-style=gnu -o x86_64_gnu.so probe.c
$x86 -Wl,--hash-style=sysv -o x86_64_sysv.so probe.c
$x86 -Wl,--hash-style=gnu -Wl,-z,pack-relative-relocs -s -o x86_64_relr.so probe.c
aarch64-linux-gnu-gcc $flags -Wl,-z,max-page-size=4096 -Wl,--hash-style=gnu -o aarch64_gnu.so probe.c
