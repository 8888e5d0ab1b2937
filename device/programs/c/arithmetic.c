/* 64-bit arithmetic in pieces of 32, shifts by any amount, divisions with every sign. */
#include "runtime.h"

static const uint64_t edges[] = {
    0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 10, 1000000007,
};
#define EDGES (sizeof edges / sizeof edges[0])

static uint64_t hash = 1;

static void mix(uint64_t value) { hash = (hash ^ value) * 0x100000001b3 + (hash >> 47); }

KEEP static void pair(uint64_t a, uint64_t b) {
    mix(a + b);
    mix(a - b);
    mix(a * b);
    mix((uint64_t)(uint32_t)a * (uint32_t)b);
    mix((uint64_t)((int64_t)(int32_t)a * (int32_t)b));
    if (b != 0) {
        mix(a / b);
        mix(a % b);
        if (!(a == 1ull << 63 && b == ~0ull)) {
            mix((uint64_t)((int64_t)a / (int64_t)b));
            mix((uint64_t)((int64_t)a % (int64_t)b));
        }
    }
    unsigned shift = (unsigned)b & 63;
    mix(a << shift);
    mix(a >> shift);
    mix((uint64_t)((int64_t)a >> shift));
    mix((a < b) + 2u * ((int64_t)a < (int64_t)b) + 4u * (a == b));
    mix((uint64_t)__builtin_popcountll(a));
    if (a != 0) mix((uint64_t)(__builtin_clzll(a) + 100 * __builtin_ctzll(a)));
}

int device_main(void) {
    for (unsigned i = 0; i < EDGES; i++) {
        for (unsigned k = 0; k < EDGES; k++) pair(edges[i], edges[k]);
        line64("edges", hash);
    }
    uint32_t state = 42;
    for (int i = 0; i < 300; i++) {
        uint64_t a = (uint64_t)next_number(&state) << 32 | next_number(&state);
        uint64_t b = ((uint64_t)next_number(&state) << 32 | next_number(&state)) >> (next_number(&state) & 63);
        pair(a, b);
    }
    line64("random", hash);
    return 0;
}
