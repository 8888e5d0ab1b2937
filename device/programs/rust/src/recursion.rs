//! Recursion deep enough that register windows spill and come back, and with many values alive across calls.

use crate::line;

#[inline(never)]
fn ackermann(m: u32, n: u32) -> u32 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ackermann(m - 1, 1),
        (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

#[inline(never)]
fn fibonacci(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// Every frame keeps eight values that it made before it calls itself.
#[inline(never)]
fn weave(depth: u32, a: [u32; 8]) -> u32 {
    if depth == 0 {
        return a.iter().fold(0, |sum, value| sum.rotate_left(5) ^ value);
    }
    let mut next = a;
    for (i, value) in next.iter_mut().enumerate() {
        *value = value.wrapping_mul(0x9e37_79b9).wrapping_add(depth + i as u32);
    }
    let below = weave(depth - 1, next);
    a.iter().zip(next).fold(below, |sum, (old, new)| sum.wrapping_mul(31).wrapping_add(old ^ new))
}

/// Mutual recursion through pointers, so that no call is known when it is compiled.
#[inline(never)]
fn through(table: &[fn(&[Step], u32) -> u32; 2], n: u32) -> u32 {
    let steps: [Step; 2] = [Step(table[0]), Step(table[1])];
    (steps[n as usize & 1].0)(&steps, n)
}

struct Step(fn(&[Step], u32) -> u32);

fn even(steps: &[Step], n: u32) -> u32 {
    if n == 0 { 1 } else { (steps[1].0)(steps, n - 1).wrapping_mul(3).wrapping_add(n) }
}

fn odd(steps: &[Step], n: u32) -> u32 {
    if n == 0 { 2 } else { (steps[0].0)(steps, n - 1).wrapping_mul(5) ^ n }
}

fn hanoi(n: u32, from: u8, to: u8, over: u8, moves: &mut u32, hash: &mut u32) {
    if n == 0 {
        return;
    }
    hanoi(n - 1, from, over, to, moves, hash);
    *moves += 1;
    *hash = hash.rotate_left(3) ^ u32::from(from) << 8 ^ u32::from(to) ^ n << 16;
    hanoi(n - 1, over, to, from, moves, hash);
}

pub fn run() {
    line(format_args!("ackermann {} {} {}", ackermann(1, 9), ackermann(2, 6), ackermann(3, 4)));
    line(format_args!("fibonacci {} {}", fibonacci(10), fibonacci(21)));
    for depth in [1, 15, 16, 17, 63, 64, 65, 1000, 5000] {
        line(format_args!("weave {depth} {:#x}", weave(depth, [1, 2, 3, 4, 5, 6, 7, 8])));
    }
    line(format_args!("through {} {}", through(&[even, odd], 2000), through(&[even, odd], 2001)));
    let (mut moves, mut hash) = (0, 0);
    hanoi(10, 0, 2, 1, &mut moves, &mut hash);
    line(format_args!("hanoi {moves} {hash:#x}"));
}
