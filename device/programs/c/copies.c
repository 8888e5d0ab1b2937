/* Copies, moves, fills and comparisons at all alignments of both ends. */
#include "runtime.h"

static uint8_t from[256], to[256];

static uint32_t checksum(const uint8_t *bytes, size_t count) {
    uint32_t sum = 1;
    for (size_t i = 0; i < count; i++) sum = sum * 33 ^ bytes[i];
    return sum;
}

struct packed {
    uint8_t tag;
    uint16_t half;
    uint32_t word;
    uint64_t wide;
} __attribute__((packed));

KEEP static void store(struct packed *at, uint32_t seed) {
    at->tag = (uint8_t)seed;
    at->half = (uint16_t)(seed * 3);
    at->word = seed * 0x9e3779b9u;
    at->wide = (uint64_t)seed << 33 | seed;
}

KEEP static uint64_t load(const struct packed *at) { return at->tag + at->half + at->word + at->wide; }

int device_main(void) {
    for (int i = 0; i < 256; i++) from[i] = (uint8_t)(i * 37 + 11);
    static const uint16_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 32, 33, 64, 100};
    for (unsigned l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        uint32_t hash = 0;
        for (int source = 0; source < 8; source++) {
            for (int target = 0; target < 8; target++) {
                memset(to, 0xaa, sizeof to);
                memcpy(to + target, from + source, lengths[l]);
                hash = hash * 5 + checksum(to, sizeof to);
                memset(to + target, source, lengths[l]);
                hash = hash * 5 + checksum(to, sizeof to);
                hash = hash * 5 + (uint32_t)(memcmp(from + source, from + target, lengths[l]) > 0);
            }
        }
        line("copy", hash);
    }
    uint32_t hash = 0;
    for (int source = 0; source < 20; source++) {
        for (int target = 0; target < 20; target++) {
            memcpy(to, from, sizeof to);
            memmove(to + target, to + source, 77);
            hash = hash * 5 + checksum(to, sizeof to);
        }
    }
    line("move", hash);
    for (uint32_t offset = 0; offset < 8; offset++) {
        struct packed *at = (struct packed *)(to + offset);
        store(at, offset + 99);
        line64("packed", load(at) + checksum(to, 32));
    }
    return 0;
}
