/* Zero-overhead loops: every kind, nested, left early, interrupted by code that loops itself, and around calls. */
#include "runtime.h"

uint32_t loop_sum(uint32_t count);
uint32_t loop_not_zero(uint32_t count);
uint32_t loop_positive(int32_t count);
uint32_t loop_left(const uint8_t *bytes, uint32_t count);
uint32_t loop_nested(uint32_t outer, uint32_t inner);
uint32_t loop_calls(uint32_t count);
uint32_t loop_interrupted(uint32_t count);

/* Recurses, so that the window of the loop spills while the loop is not done. */
KEEP uint32_t callee(uint32_t value) {
    if (value % 16 != 0) return callee(value - 1) * 3 + 1;
    return value ^ 0x55;
}

int device_main(void) {
    for (uint32_t count = 1; count < 6; count++) line("sum", loop_sum(count));
    line("sum", loop_sum(1000));
    for (uint32_t count = 0; count < 4; count++) line("not zero", loop_not_zero(count));
    for (int32_t count = -2; count < 4; count++) line("positive", loop_positive(count));
    static const uint8_t bytes[12] = {1, 2, 3, 4, 5, 0, 7, 8};
    for (uint32_t count = 1; count < 12; count += 3) line("left", loop_left(bytes, count));
    for (uint32_t n = 1; n < 5; n++) line("nested", loop_nested(n, 6 - n));
    line("nested", loop_nested(100, 100));
    line("calls", loop_calls(50));
    line("interrupted", loop_interrupted(200));
    return 0;
}
