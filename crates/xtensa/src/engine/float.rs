//! Floating-point and multiply-accumulate operations on the registers.

use core::cmp::Ordering;

use crate::isa::Op;
use crate::softfloat::{self, Context, Rounding, flag};

use super::block::MicroOp;
use super::cpu::Cpu;

/// The constants of CONST.S; the table repeats.
const CONSTANTS: [u32; 4] = [0, 0x3f80_0000, 0x4000_0000, 0x3f00_0000];

/// Results strictly between these magnitudes (as bits) neither overflow nor underflow, however
/// they were rounded.
const SAFE_LOW: u32 = 0x0100_0000;
const SAFE_HIGH: u32 = 0x7f00_0000;

impl Cpu {
    fn fs(&self, op: &MicroOp) -> u32 {
        self.fr[usize::from(op.s & 15)]
    }

    fn ft(&self, op: &MicroOp) -> u32 {
        self.fr[usize::from(op.t & 15)]
    }

    pub(super) fn set_br(&mut self, register: u8, value: bool) {
        let bit = 1 << (register & 15);
        self.br = if value { self.br | bit } else { self.br & !bit };
    }

    /// Runs an exact computation and collects its flags.
    fn exactly(&mut self, compute: impl FnOnce(&mut Context) -> u32) -> u32 {
        let mut context = Context::new(Rounding::from_bits(self.fcr));
        let result = compute(&mut context);
        self.fsr |= context.flags;
        result
    }

    /// Once the sticky inexact flag is set, a plain sum on the host is all there is to do. Before,
    /// the sum in `f64` and its exact error tell whether anything was rounded.
    #[inline]
    pub(super) fn add_s(&mut self, op: &MicroOp, subtract: bool) {
        let (a, b) = (self.fs(op), self.ft(op));
        let x = f32::from_bits(a);
        let y = f32::from_bits(b ^ u32::from(subtract) << 31);
        let result = x + y;
        let register = usize::from(op.r & 15);
        self.fr[register] = if !self.is_plain(result) {
            self.exactly(|context| if subtract { softfloat::sub(a, b, context) } else { softfloat::add(a, b, context) })
        } else {
            if self.fsr & flag::INEXACT == 0 {
                let (sum, error) = two_sum(f64::from(x), f64::from(y));
                self.note_inexact(error != 0.0 || f64::from(result) != sum);
            }
            result.to_bits()
        };
    }

    /// The product of two `f32` is exact in `f64`.
    #[inline]
    pub(super) fn mul_s(&mut self, op: &MicroOp) {
        let (a, b) = (self.fs(op), self.ft(op));
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let result = x * y;
        let register = usize::from(op.r & 15);
        self.fr[register] = if self.is_plain(result) {
            self.note_inexact(f64::from(result) != f64::from(x) * f64::from(y));
            result.to_bits()
        } else {
            self.exactly(|context| softfloat::mul(a, b, context))
        };
    }

    #[inline]
    pub(super) fn madd_s(&mut self, op: &MicroOp, subtract: bool) {
        let register = usize::from(op.r & 15);
        let negated = self.fs(op) ^ u32::from(subtract) << 31;
        match self.plain_multiply_add(negated, self.ft(op), f32::from_bits(self.fr[register])) {
            Some(result) => self.fr[register] = result.to_bits(),
            None => self.madd_exactly(op, subtract),
        }
    }

    /// `c + a * b` where the host's arithmetic surely gives it. The exact product plus the addend
    /// is rounded to `f64` first; rounding that to `f32` is right unless it lies exactly between
    /// two `f32`, where the lost part decides.
    #[inline(always)]
    pub(super) fn plain_multiply_add(&mut self, a: u32, b: u32, c: f32) -> Option<f32> {
        const BETWEEN: u64 = 1 << 28;
        const BELOW_F32: u64 = (1 << 29) - 1;
        let product = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
        let addend = f64::from(c);
        let sum = product + addend;
        let result = sum as f32;
        if !self.is_plain(result) || sum.to_bits() & BELOW_F32 == BETWEEN {
            return None;
        }
        if self.fsr & flag::INEXACT == 0 {
            let (_, error) = two_sum(product, addend);
            self.note_inexact(error != 0.0 || f64::from(result) != sum);
        }
        Some(result)
    }

    #[cold]
    fn madd_exactly(&mut self, op: &MicroOp, subtract: bool) {
        let register = usize::from(op.r & 15);
        let (a, b, c) = (self.fs(op), self.ft(op), self.fr[register]);
        self.fr[register] = self.exactly(|context| softfloat::mul_add(c, a, b, subtract, context));
    }

    /// Is a host result right as it is, apart from the inexact flag?
    #[inline]
    fn is_plain(&self, result: f32) -> bool {
        let magnitude = result.to_bits() & 0x7fff_ffff;
        magnitude > SAFE_LOW && magnitude < SAFE_HIGH && self.fcr & 3 == 0
    }

    #[inline]
    fn note_inexact(&mut self, inexact: bool) {
        self.fsr |= if inexact { flag::INEXACT } else { 0 };
    }

    /// Floating-point operations that the inner loop does not have.
    pub(super) fn float(&mut self, op: &MicroOp) {
        let (a, b) = (self.fs(op), self.ft(op));
        let register = usize::from(op.r & 15);
        let integer = self.ar(op.s);
        let tested = self.ar(op.t) as i32;
        let flag = self.br >> (op.t & 15) & 1 == 1;
        let moved = |condition: bool, old: u32| if condition { a } else { old };
        let old = self.fr[register];
        self.fr[register] = match op.op {
            Op::RoundS | Op::TruncS | Op::FloorS | Op::CeilS | Op::UtruncS => {
                let value = self.convert(op, a);
                self.set_ar(op.r, value);
                old
            }
            Op::UnS | Op::OeqS | Op::UeqS | Op::OltS | Op::UltS | Op::OleS | Op::UleS => {
                self.compare(op, a, b);
                old
            }
            Op::FloatS => self.convert_integer(i64::from(integer as i32), op.imm),
            Op::UfloatS => self.convert_integer(i64::from(integer), op.imm),
            Op::AbsS => a & 0x7fff_ffff,
            Op::NegS => a ^ 0x8000_0000,
            Op::ConstS => CONSTANTS[usize::from(op.s & 3)],
            Op::MoveqzS => moved(tested == 0, old),
            Op::MovnezS => moved(tested != 0, old),
            Op::MovltzS => moved(tested < 0, old),
            Op::MovgezS => moved(tested >= 0, old),
            Op::MovfS => moved(!flag, old),
            Op::MovtS => moved(flag, old),
            // The steps of the division and square-root sequences: the adjusting step computes
            // the exact result, the others keep it (docs/reference/xtensa-isa.md, "Seeds").
            Op::MkdadjS => self.exactly(|context| softfloat::div(a, old, context)),
            Op::MksadjS => self.exactly(|context| softfloat::sqrt(a, context)),
            Op::AddexpmS => a,
            Op::Recip0S => seed(|context| softfloat::div(CONSTANTS[1], a, context)),
            Op::Rsqrt0S => seed(|context| {
                let root = softfloat::sqrt(a, context);
                softfloat::div(CONSTANTS[1], root, context)
            }),
            _ => old,
        };
    }

    fn convert(&mut self, op: &MicroOp, value: u32) -> u32 {
        let rounding = match op.op {
            Op::RoundS => Rounding::Nearest,
            Op::FloorS => Rounding::Down,
            Op::CeilS => Rounding::Up,
            _ => Rounding::Zero,
        };
        let mut context = Context::new(rounding);
        let scaled = softfloat::scale(value, op.imm as i32, &mut context);
        // Negative numbers take the signed path; they are invalid unless they round to zero.
        let negative = !softfloat::is_nan(value) && value >> 31 == 1;
        let unsigned = op.op == Op::UtruncS && !negative;
        let result = softfloat::to_integer(scaled, unsigned, &mut context);
        if op.op == Op::UtruncS && negative && result != 0 {
            context.flags = flag::INVALID;
        }
        self.fsr |= context.flags;
        result
    }

    fn convert_integer(&mut self, value: i64, scale: u32) -> u32 {
        self.exactly(|context| {
            let unscaled = softfloat::from_integer(value, context);
            softfloat::scale(unscaled, -(scale as i32), context)
        })
    }

    fn compare(&mut self, op: &MicroOp, a: u32, b: u32) {
        let mut context = Context::new(Rounding::Nearest);
        let signal_quiet = matches!(op.op, Op::OltS | Op::OleS);
        let order = softfloat::compare(a, b, signal_quiet, &mut context);
        self.fsr |= context.flags;
        let result = match op.op {
            Op::UnS => order.is_none(),
            Op::OeqS => order == Some(Ordering::Equal),
            Op::UeqS => matches!(order, None | Some(Ordering::Equal)),
            Op::OltS => order == Some(Ordering::Less),
            Op::UltS => matches!(order, None | Some(Ordering::Less)),
            Op::OleS => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            _ => order != Some(Ordering::Greater),
        };
        self.set_br(op.r, result);
    }

    /// One MAC16 product: `kind` is the low opcode nibble (operation and halves).
    pub(super) fn multiply_accumulate(&mut self, kind: u32, first: u32, second: u32) {
        let half = |value: u32, high: u32| (if high == 1 { value >> 16 } else { value }) as u16;
        let (x, y) = (half(first, kind & 1), half(second, kind >> 1 & 1));
        let product = i64::from(i32::from(x as i16) * i32::from(y as i16));
        let sum = match kind >> 2 {
            // UMUL is zero-extended to 32 bits, and the upper 8 bits are cleared.
            0 => i64::from(u32::from(x) * u32::from(y)),
            1 => product,
            2 => self.acc + product,
            _ => self.acc - product,
        };
        self.acc = sum << 24 >> 24;
    }
}

/// A seed for an approximation: rounded to nearest, without flags.
fn seed(compute: impl FnOnce(&mut Context) -> u32) -> u32 {
    compute(&mut Context::new(Rounding::Nearest))
}

/// The rounded sum of two numbers and its exact error.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    (sum, error)
}
