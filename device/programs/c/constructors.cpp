// Static constructors in their order, virtual functions, templates, lambdas, and objects by value.
#include "runtime.h"

static uint32_t trail = 1;

static void note(uint32_t step) { trail = trail * 16 + step; }

__attribute__((constructor(101))) static void first() { note(1); }
__attribute__((constructor(102))) static void second() { note(2); }
__attribute__((constructor(200))) static void third() { note(4); }

struct Counter {
    uint32_t value;
    explicit Counter(uint32_t start) : value(start) { note(3); }
};

static Counter counter(40);

class Shape {
public:
    virtual uint32_t area() const = 0;
    virtual const char *name() const { return "shape"; }
};

class Square : public Shape {
    uint32_t side;

public:
    constexpr explicit Square(uint32_t side) : side(side) {}
    uint32_t area() const override { return side * side; }
    const char *name() const override { return "square"; }
};

class Strip : public Shape {
    uint32_t width, height;

public:
    constexpr Strip(uint32_t width, uint32_t height) : width(width), height(height) {}
    uint32_t area() const override { return width * height; }
};

template <typename T, int N> struct Ring {
    T items[N];
    int next = 0;

    void push(T item) {
        items[next % N] = item;
        next++;
    }

    T sum() const {
        T total = 0;
        for (int i = 0; i < N && i < next; i++) total += items[i];
        return total;
    }
};

template <typename F> KEEP uint32_t apply(F function, uint32_t count) {
    uint32_t value = 1;
    for (uint32_t i = 0; i < count; i++) value = function(value, i);
    return value;
}

// A pure virtual function is never called.
extern "C" void __cxa_pure_virtual() { note(15); }

extern "C" int device_main() {
    line("trail", trail);
    line("counter", counter.value + 2);
    static const Square square(7);
    static const Strip strip(3, 50);
    const Shape *shapes[] = {&square, &strip};
    for (const Shape *shape : shapes) line(shape->name(), shape->area());
    Ring<uint32_t, 4> small;
    Ring<uint64_t, 7> large;
    for (uint32_t i = 0; i < 10; i++) {
        small.push(i * i);
        large.push((uint64_t)i << 33);
    }
    line("small", small.sum());
    line64("large", large.sum());
    uint32_t factor = 3;
    line("lambda", apply([factor](uint32_t value, uint32_t i) { return value * factor + i; }, 20));
    return 0;
}
