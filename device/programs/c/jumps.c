/* Jump tables: dense switches, computed goto, tables of functions. */
#include "runtime.h"

KEEP static uint32_t dense(uint32_t code, uint32_t value) {
    switch (code) {
    case 0: return value + 0x11111111;
    case 1: return value * 77;
    case 2: return value ^ 0xdeadbeef;
    case 3: return value << 3 | value >> 29;
    case 4: value += 5; /* fall through */
    case 5: return value - 9;
    case 6: return ~value;
    case 7: return value / 7;
    case 9: return value % 1000;
    case 12: return value & 0xff00ff;
    default: return code;
    }
}

static uint32_t twice(uint32_t x) { return 2 * x; }
static uint32_t square(uint32_t x) { return x * x; }
static uint32_t fold(uint32_t x) { return x ^ x >> 16; }
static uint32_t (*const operations[])(uint32_t) = {twice, square, fold, square, twice};

KEEP static uint32_t interpret(const uint8_t *program) {
    static const void *const targets[] = {&&stop, &&push, &&add, &&multiply, &&loop, &&fetch};
    uint32_t stack[8], count = 100;
    int top = 0;
    const uint8_t *at = program;
    goto *targets[*at++];
push:
    stack[top++] = *at++;
    goto *targets[*at++];
add:
    top--;
    stack[top - 1] += stack[top];
    goto *targets[*at++];
multiply:
    top--;
    stack[top - 1] *= stack[top];
    goto *targets[*at++];
fetch:
    stack[top++] = count;
    goto *targets[*at++];
loop:
    at = --count > 0 ? program + *at : at + 1;
    goto *targets[*at++];
stop:
    return stack[top - 1];
}

int device_main(void) {
    for (uint32_t code = 0; code < 15; code++) line("dense", dense(code, 0x12345678 + code));
    uint32_t value = 3;
    for (unsigned i = 0; i < 40; i++) value = operations[i % 5](value) + i;
    line("functions", value);
    static const uint8_t program[] = {1, 1, 5, 2, 1, 3, 3, 4, 2, 0};
    line("interpret", interpret(program));
    return 0;
}
