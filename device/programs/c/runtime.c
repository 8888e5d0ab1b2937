/* Output of the test programs, without any library. */
#include "runtime.h"

void print(const char *text) {
    size_t length = 0;
    while (text[length] != 0) length++;
    sys_write(1, text, length);
}

void print_number(int32_t value) {
    char digits[12];
    int at = sizeof digits;
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) digits[--at] = '-';
    sys_write(1, digits + at, sizeof digits - (size_t)at);
}

static void hex(uint64_t value, int count) {
    char digits[18] = "0x";
    for (int i = 0; i < count; i++) digits[2 + i] = "0123456789abcdef"[value >> (4 * (count - 1 - i)) & 15];
    sys_write(1, digits, 2 + (size_t)count);
}

void print_hex(uint32_t value) { hex(value, 8); }

void print_hex64(uint64_t value) { hex(value, 16); }

void line(const char *label, uint32_t value) {
    print(label);
    print(" ");
    print_hex(value);
    print("\n");
}

void line64(const char *label, uint64_t value) {
    print(label);
    print(" ");
    print_hex64(value);
    print("\n");
}

uint32_t next_number(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}
