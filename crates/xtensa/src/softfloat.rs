//! IEEE 754 single precision in integers: every rounding mode, every flag, and the NaN rules of
//! the Xtensa floating-point units. Exactness first; the engine takes host arithmetic where that
//! provably gives the same bits and flags.

/// Rounding modes, numbered as FCR.RM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Toward zero.
    Zero,
    /// Toward plus infinity.
    Up,
    /// Toward minus infinity.
    Down,
}

impl Rounding {
    /// From the two mode bits of FCR.
    pub fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Nearest,
            1 => Self::Zero,
            2 => Self::Up,
            _ => Self::Down,
        }
    }
}

/// Exception flags, at the positions of FSR.
pub mod flag {
    /// The result was rounded.
    pub const INEXACT: u32 = 1 << 7;
    /// The result was tiny and rounded.
    pub const UNDERFLOW: u32 = 1 << 8;
    /// The result was too large.
    pub const OVERFLOW: u32 = 1 << 9;
    /// A finite number was divided by zero.
    pub const DIVIDE_BY_ZERO: u32 = 1 << 10;
    /// The operation has no meaning for its operands.
    pub const INVALID: u32 = 1 << 11;
    /// All of them.
    pub const ALL: u32 = 31 << 7;
}

/// The NaN that invalid operations return.
pub const DEFAULT_NAN: u32 = 0x7fc0_0000;
const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 0x0040_0000;

/// Rounding mode and accumulated flags of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// How results are rounded.
    pub rounding: Rounding,
    /// Flags raised so far ([`flag`]).
    pub flags: u32,
}

impl Context {
    /// A context without flags.
    pub fn new(rounding: Rounding) -> Self {
        Self { rounding, flags: 0 }
    }

    fn raise(&mut self, flags: u32) {
        self.flags |= flags;
    }

    fn invalid(&mut self) -> u32 {
        self.raise(flag::INVALID);
        DEFAULT_NAN
    }

    /// A NaN result: the first NaN among `candidates`, quieted. Signalling operands are invalid.
    fn propagate(&mut self, operands: &[u32], order: &[u32]) -> u32 {
        if operands.iter().any(|&bits| is_signalling(bits)) {
            self.raise(flag::INVALID);
        }
        order.iter().copied().find(|&bits| is_nan(bits)).map_or(DEFAULT_NAN, |bits| bits | QUIET)
    }
}

/// Is it a NaN?
pub fn is_nan(bits: u32) -> bool {
    bits & !SIGN > INFINITY
}

fn is_signalling(bits: u32) -> bool {
    is_nan(bits) && bits & QUIET == 0
}

fn is_infinite(bits: u32) -> bool {
    bits & !SIGN == INFINITY
}

fn is_zero(bits: u32) -> bool {
    bits & !SIGN == 0
}

fn is_negative(bits: u32) -> bool {
    bits & SIGN != 0
}

fn signed(negative: bool, bits: u32) -> u32 {
    bits | u32::from(negative) << 31
}

/// A finite number: `significand * 2^exponent`.
fn unpack(bits: u32) -> (u64, i32) {
    let exponent = (bits >> 23 & 255) as i32;
    let fraction = u64::from(bits & 0x7f_ffff);
    if exponent == 0 { (fraction, -149) } else { (fraction | 1 << 23, exponent - 150) }
}

/// Shifts right; bits that fall off are remembered in the lowest one.
fn shift_right_jam(value: u128, count: u32) -> u128 {
    match count {
        0 => value,
        1..=127 => value >> count | u128::from(value << (128 - count) != 0),
        _ => u128::from(value != 0),
    }
}

/// Rounds `significand * 2^exponent` (not zero; its lowest bit may stand for lost ones).
fn round(negative: bool, significand: u128, exponent: i32, context: &mut Context) -> u32 {
    let leading = 127 - significand.leading_zeros() as i32;
    let magnitude = leading + exponent;
    let quantum = (magnitude - 23).max(-149);
    let increments = |kept: u128, rest: u128, half: u128| match context.rounding {
        Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
        Rounding::Zero => false,
        Rounding::Up => !negative && rest != 0,
        Rounding::Down => negative && rest != 0,
    };
    let split = |quantum: i32| {
        let shift = quantum - exponent;
        match shift {
            ..=0 => (significand << -shift, 0, 1),
            1..=126 => (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)),
            // Far below half of the smallest number.
            _ => (0, 1, 2),
        }
    };
    let (mut kept, rest, half) = split(quantum);
    kept += u128::from(increments(kept, rest, half));
    let inexact = rest != 0;
    let tiny = magnitude < -126 && {
        let (unbounded, rest, half) = split(magnitude - 23);
        magnitude < -127 || unbounded + u128::from(increments(unbounded, rest, half)) < 1 << 24
    };
    // The fraction's carry into the exponent field is wanted: it is the next binade.
    let field = if kept >> 23 == 0 { 0 } else { (quantum + 149) as u32 };
    let bits = (kept as u32).wrapping_add(field << 23);
    if bits >= INFINITY || field > 254 {
        context.raise(flag::OVERFLOW | flag::INEXACT);
        let to_infinity = match context.rounding {
            Rounding::Nearest => true,
            Rounding::Zero => false,
            Rounding::Up => !negative,
            Rounding::Down => negative,
        };
        return signed(negative, INFINITY - u32::from(!to_infinity));
    }
    if inexact {
        context.raise(flag::INEXACT | if tiny { flag::UNDERFLOW } else { 0 });
    }
    signed(negative, bits)
}

/// `a + b`.
pub fn add(a: u32, b: u32, context: &mut Context) -> u32 {
    if is_nan(a) || is_nan(b) {
        return context.propagate(&[a, b], &[b, a]);
    }
    match (is_infinite(a), is_infinite(b)) {
        (true, true) if a != b => return context.invalid(),
        (true, _) => return a,
        (_, true) => return b,
        _ => {}
    }
    let ((x, x_exponent), (y, y_exponent)) = (unpack(a), unpack(b));
    sum((is_negative(a), u128::from(x), x_exponent), (is_negative(b), u128::from(y), y_exponent), context)
}

/// The rounded sum of two finite numbers given as sign, significand (up to 48 bits), exponent.
fn sum(a: (bool, u128, i32), b: (bool, u128, i32), context: &mut Context) -> u32 {
    const GUARD: i32 = 70;
    let exact_zero = context.rounding == Rounding::Down;
    match (a.1, b.1) {
        (0, 0) => return signed(if a.0 == b.0 { a.0 } else { exact_zero }, 0),
        (0, _) => return round(b.0, b.1, b.2, context),
        (_, 0) => return round(a.0, a.1, a.2, context),
        _ => {}
    }
    // Both get the exponent of the one whose leading bit is higher, with room below.
    let width = |value: u128| 128 - value.leading_zeros() as i32;
    let (high, low) = if width(a.1) + a.2 >= width(b.1) + b.2 { (a, b) } else { (b, a) };
    let shift = 48 + GUARD - width(high.1);
    let exponent = high.2 - shift;
    let x = high.1 << shift;
    let distance = low.2 - exponent;
    let y = if distance >= 0 { low.1 << distance } else { shift_right_jam(low.1, -distance as u32) };
    if high.0 == low.0 {
        round(high.0, x + y, exponent, context)
    } else if x == y {
        signed(exact_zero, 0)
    } else if x > y {
        round(high.0, x - y, exponent, context)
    } else {
        round(low.0, y - x, exponent, context)
    }
}

/// `a - b`.
pub fn sub(a: u32, b: u32, context: &mut Context) -> u32 {
    if is_nan(a) || is_nan(b) {
        return context.propagate(&[a, b], &[b, a]);
    }
    add(a, b ^ SIGN, context)
}

/// `a * b`.
pub fn mul(a: u32, b: u32, context: &mut Context) -> u32 {
    if is_nan(a) || is_nan(b) {
        return context.propagate(&[a, b], &[b, a]);
    }
    let negative = is_negative(a ^ b);
    if is_infinite(a) || is_infinite(b) {
        return if is_zero(a) || is_zero(b) { context.invalid() } else { signed(negative, INFINITY) };
    }
    if is_zero(a) || is_zero(b) {
        return signed(negative, 0);
    }
    let ((x, x_exponent), (y, y_exponent)) = (unpack(a), unpack(b));
    round(negative, u128::from(x * y), x_exponent + y_exponent, context)
}

/// `c + a * b`, or `c - a * b` with `subtract`, rounded once.
pub fn mul_add(c: u32, a: u32, b: u32, subtract: bool, context: &mut Context) -> u32 {
    let undefined = is_infinite(a) && is_zero(b) || is_zero(a) && is_infinite(b);
    if is_nan(a) || is_nan(b) || is_nan(c) {
        if undefined {
            context.raise(flag::INVALID);
        }
        return context.propagate(&[a, b, c], &[c, b, a]);
    }
    if undefined {
        return context.invalid();
    }
    let negative = is_negative(a ^ b) ^ subtract;
    if is_infinite(a) || is_infinite(b) {
        if is_infinite(c) && is_negative(c) != negative {
            return context.invalid();
        }
        return signed(negative, INFINITY);
    }
    if is_infinite(c) {
        return c;
    }
    let ((x, x_exponent), (y, y_exponent), (z, z_exponent)) = (unpack(a), unpack(b), unpack(c));
    sum((is_negative(c), u128::from(z), z_exponent), (negative, u128::from(x * y), x_exponent + y_exponent), context)
}

/// `a / b`.
pub fn div(a: u32, b: u32, context: &mut Context) -> u32 {
    if is_nan(a) || is_nan(b) {
        return context.propagate(&[a, b], &[b, a]);
    }
    let negative = is_negative(a ^ b);
    match (is_infinite(a), is_infinite(b)) {
        (true, true) => return context.invalid(),
        (true, false) => return signed(negative, INFINITY),
        (false, true) => return signed(negative, 0),
        (false, false) => {}
    }
    match (is_zero(a), is_zero(b)) {
        (true, true) => return context.invalid(),
        (true, false) => return signed(negative, 0),
        (false, true) => {
            context.raise(flag::DIVIDE_BY_ZERO);
            return signed(negative, INFINITY);
        }
        (false, false) => {}
    }
    let ((x, x_exponent), (y, y_exponent)) = (unpack(a), unpack(b));
    let dividend = u128::from(x) << 64;
    let quotient = dividend / u128::from(y);
    let jam = u128::from(dividend % u128::from(y) != 0);
    round(negative, quotient << 1 | jam, x_exponent - y_exponent - 65, context)
}

/// The square root of `a`.
pub fn sqrt(a: u32, context: &mut Context) -> u32 {
    if is_nan(a) {
        return context.propagate(&[a], &[a]);
    }
    if is_zero(a) {
        return a;
    }
    if is_negative(a) {
        return context.invalid();
    }
    if is_infinite(a) {
        return a;
    }
    let (significand, exponent) = unpack(a);
    let odd = exponent & 1;
    let radicand = u128::from(significand) << (64 + odd);
    let root = radicand.isqrt();
    let jam = u128::from(root * root != radicand);
    round(false, root << 1 | jam, (exponent - odd - 64) / 2 - 1, context)
}

/// `a * 2^power`.
pub fn scale(a: u32, power: i32, context: &mut Context) -> u32 {
    if is_nan(a) {
        return context.propagate(&[a], &[a]);
    }
    if is_infinite(a) || is_zero(a) {
        return a;
    }
    let (significand, exponent) = unpack(a);
    round(is_negative(a), u128::from(significand), exponent + power, context)
}

/// The nearest number to an integer.
pub fn from_integer(value: i64, context: &mut Context) -> u32 {
    if value == 0 {
        return 0;
    }
    round(value < 0, u128::from(value.unsigned_abs()), 0, context)
}

/// `a` as a 32-bit integer, saturating; NaN gives the largest one.
pub fn to_integer(a: u32, unsigned: bool, context: &mut Context) -> u32 {
    let (low, high) = if unsigned { (0, i128::from(u32::MAX)) } else { (i128::from(i32::MIN), i128::from(i32::MAX)) };
    if is_nan(a) {
        context.raise(flag::INVALID);
        return high as u32;
    }
    let negative = is_negative(a);
    if is_infinite(a) {
        context.raise(flag::INVALID);
        return if negative { low as u32 } else { high as u32 };
    }
    let (significand, exponent) = unpack(a);
    // Beyond 2^40 the value saturates whatever its bits are.
    let shift = exponent.min(40);
    let (magnitude, inexact) = if shift >= 0 {
        (i128::from(significand) << shift, false)
    } else {
        let wide = u128::from(significand) << 64;
        let jammed = shift_right_jam(wide, (-shift).min(120) as u32);
        let (kept, rest) = (jammed >> 64, jammed as u64);
        let up = match context.rounding {
            Rounding::Nearest => rest > 1 << 63 || rest == 1 << 63 && kept & 1 == 1,
            Rounding::Zero => false,
            Rounding::Up => !negative && rest != 0,
            Rounding::Down => negative && rest != 0,
        };
        (kept as i128 + i128::from(up), rest != 0)
    };
    let value = if negative { -magnitude } else { magnitude };
    if value < low || value > high {
        context.raise(flag::INVALID);
        return value.clamp(low, high) as u32;
    }
    if inexact {
        context.raise(flag::INEXACT);
    }
    value as u32
}

/// How two numbers compare; `None` when one is a NaN. Signalling NaNs are invalid; with
/// `signal_quiet`, quiet ones are too.
pub fn compare(a: u32, b: u32, signal_quiet: bool, context: &mut Context) -> Option<core::cmp::Ordering> {
    if is_nan(a) || is_nan(b) {
        if signal_quiet || is_signalling(a) || is_signalling(b) {
            context.raise(flag::INVALID);
        }
        return None;
    }
    f32::from_bits(a).partial_cmp(&f32::from_bits(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn bits(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let word = (self.0 >> 32) as u32;
            // Small exponent differences and edge values are common.
            match word & 7 {
                0 => word & 0x807f_ffff,
                1 => word & 0x8000_0000 | 0x3f80_0000 | word >> 9,
                2 => word & 0x8000_0007 | 0x7f7f_fff8,
                3 => word & 0x8080_0003,
                4 => word & 0x83ff_0000 | 0x3c00_0000,
                _ => word,
            }
        }
    }

    fn same(ours: u32, host: f32) -> bool {
        ours == host.to_bits() || is_nan(ours) && host.is_nan()
    }

    #[test]
    fn nearest_arithmetic_agrees_with_the_host_on_a_million_operands() {
        let mut random = Random(3);
        for _ in 0..1_000_000 {
            let (a, b, c) = (random.bits(), random.bits(), random.bits());
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            let context = &mut Context::new(Rounding::Nearest);
            assert!(same(add(a, b, context), x + y), "{a:#x} + {b:#x}");
            assert!(same(sub(a, b, context), x - y), "{a:#x} - {b:#x}");
            assert!(same(mul(a, b, context), x * y), "{a:#x} * {b:#x}");
            assert!(same(div(a, b, context), x / y), "{a:#x} / {b:#x}");
            assert!(same(sqrt(a, context), x.sqrt()), "sqrt {a:#x}");
            assert!(same(mul_add(c, a, b, false, context), x.mul_add(y, z)), "{c:#x} + {a:#x} * {b:#x}");
            assert!(same(from_integer(i64::from(a as i32), context), (a as i32) as f32));
        }
    }

    #[test]
    fn directed_roundings_bracket_the_exact_result() {
        let mut random = Random(5);
        for _ in 0..200_000 {
            let (a, b) = (random.bits(), random.bits());
            let run = |rounding| {
                let mut context = Context::new(rounding);
                (mul(a, b, &mut context), context.flags)
            };
            let (down, flags) = run(Rounding::Down);
            let (up, _) = run(Rounding::Up);
            if is_nan(down) {
                continue;
            }
            let exact = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
            assert!(f64::from(f32::from_bits(down)) <= exact && exact <= f64::from(f32::from_bits(up)));
            assert_eq!(down == up, flags & flag::INEXACT == 0, "{a:#x} {b:#x}");
            let (zero, _) = run(Rounding::Zero);
            assert_eq!(zero, if exact.is_sign_negative() { up } else { down });
        }
    }
}
