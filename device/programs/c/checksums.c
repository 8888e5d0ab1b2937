/* CRCs by bit and by table, with tables made at run time and at compile time. */
#include "runtime.h"

static uint32_t table[256];

static void fill(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        table[i] = value;
    }
}

KEEP static uint32_t by_table(const uint8_t *bytes, size_t count) {
    uint32_t crc = ~0u;
    while (count-- > 0) crc = table[(crc ^ *bytes++) & 255] ^ crc >> 8;
    return ~crc;
}

KEEP static uint32_t by_bit(const uint8_t *bytes, size_t count) {
    uint32_t crc = ~0u;
    while (count-- > 0) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

/* Four bits a step, with a table of constants. */
KEEP static uint32_t by_nibble(const uint8_t *bytes, size_t count) {
    static const uint32_t nibbles[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t crc = ~0u;
    while (count-- > 0) {
        crc ^= *bytes++;
        crc = nibbles[crc & 15] ^ crc >> 4;
        crc = nibbles[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}

KEEP static uint16_t ccitt(const uint8_t *bytes, size_t count) {
    uint16_t crc = 0xffff;
    while (count-- > 0) {
        crc = (uint16_t)(crc ^ (uint16_t)(*bytes++ << 8));
        for (int bit = 0; bit < 8; bit++) crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

int device_main(void) {
    static uint8_t bytes[1500];
    uint32_t state = 3;
    for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)next_number(&state);
    fill();
    line("check", by_table((const uint8_t *)"123456789", 9));
    line("ccitt", ccitt((const uint8_t *)"123456789", 9));
    for (size_t count = 0; count <= sizeof bytes; count += 300) {
        uint32_t crc = by_table(bytes, count);
        line("crc", crc);
        line("agree", (uint32_t)(crc == by_bit(bytes, count)) + 2u * (crc == by_nibble(bytes, count)));
        line("ccitt", ccitt(bytes, count));
    }
    return 0;
}
