/* The loops of loops.S in C, for machines without zero-overhead loops. */
#include "runtime.h"

uint32_t loop_sum(uint32_t count) {
    uint32_t sum = 0;
    /* `loop` runs at least once, and 2^32 times for a count of 0: callers pass at least 1. */
    for (uint32_t i = 0; i < count; i++) sum = sum * 3 + i;
    return sum;
}

uint32_t loop_not_zero(uint32_t count) {
    uint32_t sum = 7;
    for (uint32_t i = 0; i < count; i++) sum += sum << 1;
    return sum;
}

uint32_t loop_positive(int32_t count) {
    uint32_t sum = 1;
    for (int32_t i = 0; i < count; i++) sum += 5;
    return sum;
}

uint32_t loop_left(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] == 0) return i;
    }
    return count;
}

uint32_t loop_nested(uint32_t outer, uint32_t inner) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < outer; i++) {
        for (uint32_t k = 0; k < inner; k++) sum = sum * 5 + 1;
        sum ^= i;
    }
    return sum;
}

uint32_t callee(uint32_t value);

uint32_t loop_calls(uint32_t count) {
    uint32_t sum = 1;
    for (uint32_t i = 0; i < count; i++) sum = callee(sum) + i;
    return sum;
}

uint32_t loop_interrupted(uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += i;
        if ((i & 3) == 0) sum ^= loop_sum(5);
    }
    return sum;
}
