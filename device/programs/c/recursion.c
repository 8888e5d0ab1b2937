/* Recursion: windows that spill and fill, deep stacks, calls through pointers, structures by value. */
#include "runtime.h"

KEEP static uint32_t ackermann(uint32_t m, uint32_t n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

struct state {
    uint32_t a, b, c, d, e;
};

/* A structure by value each way, and many values alive across the call. */
KEEP static struct state descend(struct state s, uint32_t depth) {
    if (depth == 0) return s;
    uint32_t keep0 = s.a * 3, keep1 = s.b ^ depth, keep2 = s.c + s.d, keep3 = s.e << 1;
    struct state next = {s.b + depth, s.c ^ s.a, s.d * 5, s.e - depth, s.a};
    struct state back = descend(next, depth - 1);
    back.a += keep0;
    back.b ^= keep1;
    back.c += keep2;
    back.d ^= keep3;
    back.e += back.a;
    return back;
}

typedef uint32_t (*step)(uint32_t, uint32_t);
static uint32_t even(uint32_t n, uint32_t value);
static uint32_t odd(uint32_t n, uint32_t value);
static step steps[2] = {even, odd};

static uint32_t even(uint32_t n, uint32_t value) { return n == 0 ? value : steps[1](n - 1, value * 3 + n) ^ n; }
static uint32_t odd(uint32_t n, uint32_t value) { return n == 0 ? ~value : steps[0](n - 1, value + n * 7) + 1; }

/* More arguments than registers, some of 64 bits. */
KEEP static uint64_t many(uint32_t a, uint64_t b, uint32_t c, uint64_t d, uint32_t e, uint32_t f, uint64_t g, uint32_t n) {
    if (n == 0) return a + b + c + d + e + f + g;
    return many(f, g, a, b, c, e, d + n, n - 1) * 3 + n;
}

int device_main(void) {
    line("ackermann", ackermann(2, 7) + ackermann(3, 3));
    static const uint32_t depths[] = {1, 7, 15, 16, 17, 100, 3000};
    for (unsigned i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        struct state s = {1, 2, 3, 4, 5};
        s = descend(s, depths[i]);
        line("descend", s.a ^ s.b ^ s.c ^ s.d ^ s.e);
    }
    line("mutual", even(1000, 1) + odd(1001, 2));
    line64("many", many(1, 1ull << 40, 3, 1ull << 33, 5, 6, 7ull << 50, 20));
    return 0;
}
