/* Floats in software and hardware: bits of every result, NaNs printed as one. */
#include "runtime.h"

static uint32_t bits(float value) {
    uint32_t result;
    if (value != value) return 0x7fc00000;
    memcpy(&result, &value, 4);
    return result;
}

static uint64_t bits64(double value) {
    uint64_t result;
    if (value != value) return 0x7ff8ull << 48;
    memcpy(&result, &value, 8);
    return result;
}

static float single_of(uint32_t value) {
    float result;
    memcpy(&result, &value, 4);
    return result;
}

static uint32_t hash = 7;

static void mix(uint32_t value) { hash = (hash ^ value) * 0x01000193 + (hash >> 27); }

static void mix64(uint64_t value) {
    mix((uint32_t)value);
    mix((uint32_t)(value >> 32));
}

KEEP static void pair(float a, float b) {
    mix(bits(a + b));
    mix(bits(a - b));
    mix(bits(a * b));
    mix(bits(a / b));
    mix((uint32_t)(a < b) | (uint32_t)(a <= b) << 1 | (uint32_t)(a == b) << 2 | (uint32_t)(a > b) << 3);
    double wide = (double)a * (double)b + (double)a;
    mix64(bits64(wide));
    mix64(bits64(wide / 3.0));
    mix(bits((float)wide));
    /* Conversions are defined only inside of the range. */
    if (a > -2e9f && a < 2e9f) mix((uint32_t)(int32_t)a);
    if (b > -9e18f && b < 9e18f) mix64((uint64_t)(int64_t)b);
    if (wide > -2e9 && wide < 2e9) mix((uint32_t)(int32_t)wide);
}

KEEP static float dot(const float *a, const float *b, int count) {
    float sum = 0;
    for (int i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

static void softmax(float *values, int count) {
    float largest = values[0], sum = 0;
    for (int i = 1; i < count; i++) {
        if (values[i] > largest) largest = values[i];
    }
    for (int i = 0; i < count; i++) {
        /* exp by its series after halving eight times: only exact operations */
        float x = (values[i] - largest) * (1.0f / 256.0f), term = 1, result = 1;
        for (int k = 1; k < 8; k++) {
            term = term * x / (float)k;
            result += term;
        }
        for (int k = 0; k < 8; k++) result *= result;
        values[i] = result;
        sum += result;
    }
    for (int i = 0; i < count; i++) values[i] /= sum;
}

int device_main(void) {
    static const uint32_t edges[] = {
        0,          0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff,
        0x7f800000, 0xff800000, 0x7fc00000, 0x3f7fffff, 0x4b800001, 0x34000000, 0x3effffff, 0xcf000000,
    };
    for (unsigned i = 0; i < 16; i++) {
        for (unsigned k = 0; k < 16; k++) pair(single_of(edges[i]), single_of(edges[k]));
        line("edges", hash);
    }
    uint32_t state = 5;
    for (int i = 0; i < 400; i++) {
        float a = single_of(next_number(&state));
        pair(a, single_of(next_number(&state)));
    }
    line("random", hash);
    static float a[256], b[256];
    for (int i = 0; i < 256; i++) {
        a[i] = (float)(int32_t)next_number(&state) / 65536.0f;
        b[i] = (float)(int32_t)next_number(&state) / 1048576.0f;
    }
    line("dot", bits(dot(a, b, 256)));
    for (int i = 0; i < 16; i++) b[i] /= 256.0f;
    softmax(b, 16);
    for (int i = 0; i < 16; i += 5) line("softmax", bits(b[i]));
    return 0;
}
