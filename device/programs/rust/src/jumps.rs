//! Jump tables: dense matches with results, with code, and an interpreter that lives in one.

use crate::line;
use core::hint::black_box;

#[inline(never)]
fn name(code: u32) -> &'static str {
    match code {
        0 => "zero",
        1 => "one",
        2 => "two",
        3 => "three",
        4 => "four",
        5 => "five",
        6 => "six",
        7 => "seven",
        11 => "eleven",
        12 => "twelve",
        _ => "many",
    }
}

#[inline(never)]
fn compute(code: u32, a: u32, b: u32) -> u32 {
    match code {
        0 => a.wrapping_add(b),
        1 => a.wrapping_sub(b),
        2 => a.wrapping_mul(b) ^ 0x1234,
        3 => a.rotate_left(b & 31),
        4 => a & !b,
        5 => a.leading_zeros() + b,
        6 => a.checked_div(b).unwrap_or(77),
        7 => compute(0, b, a) ^ compute(1, a, b),
        8 => u32::from(a > b) << 4 | 3,
        _ => u32::MAX - code,
    }
}

#[derive(Clone, Copy)]
enum Instruction {
    Push(i32),
    Load(usize),
    Store(usize),
    Add,
    Multiply,
    Duplicate,
    Negate,
    JumpIfZero(usize),
    Jump(usize),
    Stop,
}

/// A stack machine with two variables; its loop is one jump table. The result and the number of steps.
#[inline(never)]
fn interpret(program: &[Instruction]) -> (i32, u32) {
    let (mut stack, mut top, mut variables, mut at, mut steps) = ([0i32; 16], 0, [0; 2], 0, 0);
    loop {
        steps += 1;
        match program[at] {
            Instruction::Push(value) => {
                stack[top] = value;
                top += 1;
            }
            Instruction::Load(variable) => {
                stack[top] = variables[variable];
                top += 1;
            }
            Instruction::Store(variable) => {
                top -= 1;
                variables[variable] = stack[top];
            }
            Instruction::Add => {
                top -= 1;
                stack[top - 1] = stack[top - 1].wrapping_add(stack[top]);
            }
            Instruction::Multiply => {
                top -= 1;
                stack[top - 1] = stack[top - 1].wrapping_mul(stack[top]);
            }
            Instruction::Duplicate => {
                stack[top] = stack[top - 1];
                top += 1;
            }
            Instruction::Negate => stack[top - 1] = stack[top - 1].wrapping_neg(),
            Instruction::JumpIfZero(target) => {
                top -= 1;
                if stack[top] == 0 {
                    at = target;
                    continue;
                }
            }
            Instruction::Jump(target) => {
                at = target;
                continue;
            }
            Instruction::Stop => return (stack[top - 1], steps),
        }
        at += 1;
    }
}

/// The negated sum of n * n + 1 for n from 200 down to 1.
const PROGRAM: [Instruction; 22] = [
    Instruction::Push(0),
    Instruction::Store(0),
    Instruction::Push(200),
    Instruction::Store(1),
    Instruction::Load(1),
    Instruction::JumpIfZero(19),
    Instruction::Load(1),
    Instruction::Duplicate,
    Instruction::Multiply,
    Instruction::Push(1),
    Instruction::Add,
    Instruction::Load(0),
    Instruction::Add,
    Instruction::Store(0),
    Instruction::Load(1),
    Instruction::Push(-1),
    Instruction::Add,
    Instruction::Store(1),
    Instruction::Jump(4),
    Instruction::Load(0),
    Instruction::Negate,
    Instruction::Stop,
];

pub fn run() {
    for code in 0..15 {
        let code = black_box(code);
        line(format_args!("{} {:#x} {:#x}", name(code), compute(code, 0xdead_beef, 77), compute(code, 3, 0)));
    }
    let (value, steps) = interpret(black_box(&PROGRAM));
    line(format_args!("interpret {value} {steps}"));
}
