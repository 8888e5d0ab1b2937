/* Quicksort of numbers and, through a comparison function, of records. */
#include "runtime.h"

static void sort(int32_t *values, int low, int high) {
    while (low < high) {
        int32_t pivot = values[(low + high) / 2];
        int i = low, k = high;
        while (i <= k) {
            while (values[i] < pivot) i++;
            while (values[k] > pivot) k--;
            if (i <= k) {
                int32_t swap = values[i];
                values[i++] = values[k];
                values[k--] = swap;
            }
        }
        if (k - low < high - i) {
            sort(values, low, k);
            low = i;
        } else {
            sort(values, i, high);
            high = k;
        }
    }
}

struct record {
    uint16_t key;
    int8_t weight;
    uint32_t payload;
};

static int by_key(const struct record *a, const struct record *b) { return (int)a->key - (int)b->key; }
static int by_weight(const struct record *a, const struct record *b) {
    return a->weight != b->weight ? a->weight - b->weight : by_key(a, b);
}

KEEP static void sort_records(struct record *records, int count, int (*compare)(const struct record *, const struct record *)) {
    if (count < 2) return;
    struct record pivot = records[count / 2];
    int i = 0, k = count - 1;
    for (;; i++, k--) {
        while (compare(&records[i], &pivot) < 0) i++;
        while (compare(&records[k], &pivot) > 0) k--;
        if (i >= k) break;
        struct record swap = records[i];
        records[i] = records[k];
        records[k] = swap;
    }
    sort_records(records, i, compare);
    sort_records(records + k + 1, count - k - 1, compare);
}

static uint32_t hash(const void *bytes, size_t count) {
    const uint8_t *at = (const uint8_t *)bytes;
    uint32_t hash = 0x811c9dc5;
    while (count-- > 0) hash = (hash ^ *at++) * 0x01000193;
    return hash;
}

int device_main(void) {
    static int32_t values[1000];
    static struct record records[300];
    uint32_t state = 17;
    for (int count = 1; count <= 1000; count *= 10) {
        for (int i = 0; i < count; i++) values[i] = (int32_t)next_number(&state) >> (count % 7);
        sort(values, 0, count - 1);
        int ordered = 1;
        for (int i = 1; i < count; i++) ordered &= values[i - 1] <= values[i];
        line("sorted", hash(values, sizeof values[0] * (size_t)count) + (uint32_t)ordered);
    }
    for (int i = 0; i < 300; i++) {
        records[i].key = (uint16_t)(i * 7919 % 65521);
        records[i].weight = (int8_t)next_number(&state);
        records[i].payload = (uint32_t)i;
    }
    sort_records(records, 300, by_weight);
    uint32_t sum = 0;
    for (int i = 0; i < 300; i++) sum = sum * 31 + records[i].payload;
    line("by weight", sum);
    sort_records(records, 300, by_key);
    for (int i = 0; i < 300; i++) sum = sum * 31 + records[i].payload;
    line("by key", sum);
    return 0;
}
