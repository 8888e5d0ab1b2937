//! `printf`: the conversions of C, without wide characters and without `%n`.

use core::fmt::Write as _;

/// The variable arguments of a call.
pub trait Arguments {
    /// The next 32 bits.
    fn word(&mut self) -> u32;
    /// The next 64 bits.
    fn wide(&mut self) -> u64;
    /// Hands the text at an address to `sink`, at most `limit` bytes of it.
    fn text(&mut self, address: u32, limit: usize, sink: &mut dyn FnMut(&[u8]));
    /// Bytes of the text at an address, at most `limit`.
    fn length(&mut self, address: u32, limit: usize) -> usize;
}

/// Flags, width and precision of a conversion.
#[derive(Clone, Copy, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    long: u8,
}

/// Digits or text of one conversion.
struct Buffer {
    bytes: [u8; 400],
    used: usize,
}

impl core::fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            let place = self.bytes.get_mut(self.used).ok_or(core::fmt::Error)?;
            *place = byte;
            self.used += 1;
        }
        Ok(())
    }
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: [0; 400], used: 0 }
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }
}

/// Formats `format` and hands the pieces to `sink`; returns the number of bytes.
pub fn format(format: &[u8], arguments: &mut impl Arguments, sink: &mut dyn FnMut(&[u8])) -> usize {
    let mut written = 0;
    let mut out = |piece: &[u8]| {
        written += piece.len();
        sink(piece);
    };
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let (plain, conversion) = rest.split_at(at);
        if !plain.is_empty() {
            out(plain);
        }
        let (spec, kind, behind) = parse(&conversion[1..], arguments);
        convert(spec, kind, arguments, &mut out);
        rest = behind;
    }
    if !rest.is_empty() {
        out(rest);
    }
    written
}

/// Reads flags, width, precision and length; returns them, the conversion and what is behind it.
fn parse<'a>(mut rest: &'a [u8], arguments: &mut impl Arguments) -> (Spec, Option<u8>, &'a [u8]) {
    let mut spec = Spec::default();
    while let Some((flag, behind)) = rest.split_first() {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            b'0' => spec.zero = true,
            _ => break,
        }
        rest = behind;
    }
    let width = number(&mut rest, arguments);
    if let Some(width) = width {
        spec.left |= width < 0;
        spec.width = width.unsigned_abs() as usize;
    }
    if let Some((b'.', behind)) = rest.split_first() {
        rest = behind;
        let precision = number(&mut rest, arguments).unwrap_or(0);
        spec.precision = usize::try_from(precision).ok();
    }
    while let Some((length @ (b'l' | b'h' | b'z' | b'j' | b't' | b'L'), behind)) = rest.split_first() {
        spec.long += match length {
            b'l' => 1,
            b'j' | b'L' => 2,
            _ => 0,
        };
        rest = behind;
    }
    match rest.split_first() {
        Some((kind, behind)) => (spec, Some(*kind), behind),
        None => (spec, None, rest),
    }
}

/// A number in the format, or `*`.
fn number(rest: &mut &[u8], arguments: &mut impl Arguments) -> Option<i32> {
    if let Some((b'*', behind)) = rest.split_first() {
        *rest = behind;
        return Some(arguments.word() as i32);
    }
    let mut value = None;
    while let Some((digit @ b'0'..=b'9', behind)) = rest.split_first() {
        value = Some(value.unwrap_or(0_i32).saturating_mul(10).saturating_add(i32::from(digit - b'0')));
        *rest = behind;
    }
    value
}

fn convert(spec: Spec, kind: Option<u8>, arguments: &mut impl Arguments, out: &mut dyn FnMut(&[u8])) {
    match kind {
        Some(b'd' | b'i') => {
            let value = if spec.long > 1 { arguments.wide() as i64 } else { i64::from(arguments.word() as i32) };
            integer(spec, sign(spec, value < 0), value.unsigned_abs(), 10, false, out);
        }
        Some(kind @ (b'u' | b'x' | b'X' | b'o')) => {
            let value = if spec.long > 1 { arguments.wide() } else { arguments.word().into() };
            let (base, prefix): (u64, &[u8]) = match kind {
                b'u' => (10, b""),
                b'o' => (8, b"0"),
                b'x' => (16, b"0x"),
                _ => (16, b"0X"),
            };
            let prefix = if spec.alternate && value != 0 { prefix } else { b"" };
            integer(spec, prefix, value, base, kind == b'X', out);
        }
        Some(b'p') => integer(spec, b"0x", arguments.word().into(), 16, false, out),
        Some(b'c') => {
            let byte = arguments.word() as u8;
            pad(spec, b"", 1, false, out, &mut |out| out(&[byte]));
        }
        Some(b's') => string(spec, arguments, out),
        Some(kind @ (b'f' | b'F' | b'e' | b'E' | b'g' | b'G')) => {
            float(spec, kind, f64::from_bits(arguments.wide()), out)
        }
        Some(b'%') => out(b"%"),
        // What C leaves undefined is printed as it stands.
        Some(other) => out(&[b'%', other]),
        None => out(b"%"),
    }
}

fn sign(spec: Spec, negative: bool) -> &'static [u8] {
    match (negative, spec.plus, spec.space) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    }
}

fn integer(spec: Spec, prefix: &[u8], mut value: u64, base: u64, capital: bool, out: &mut dyn FnMut(&[u8])) {
    let mut digits = [0; 24];
    let mut start = digits.len();
    while value != 0 || (start == digits.len() && spec.precision != Some(0)) {
        let digit = (value % base) as u8;
        start -= 1;
        digits[start] = match digit {
            0..=9 => b'0' + digit,
            _ if capital => b'A' + digit - 10,
            _ => b'a' + digit - 10,
        };
        value /= base;
    }
    let digits = &digits[start..];
    let zeros = spec.precision.unwrap_or(0).saturating_sub(digits.len());
    let zero_fill = spec.zero && spec.precision.is_none();
    pad(spec, prefix, digits.len() + zeros, zero_fill, out, &mut |out| {
        repeat(b'0', zeros, out);
        out(digits);
    });
}

fn string(spec: Spec, arguments: &mut impl Arguments, out: &mut dyn FnMut(&[u8])) {
    let address = arguments.word();
    if address == 0 {
        return pad(spec, b"", 6, false, out, &mut |out| out(b"(null)"));
    }
    let limit = spec.precision.unwrap_or(usize::MAX);
    let length = arguments.length(address, limit);
    let mut body = |out: &mut dyn FnMut(&[u8])| arguments.text(address, length, out);
    pad(spec, b"", length, false, out, &mut body);
}

fn float(spec: Spec, kind: u8, value: f64, out: &mut dyn FnMut(&[u8])) {
    let prefix = sign(spec, value.is_sign_negative());
    let magnitude = value.abs();
    let capital = kind.is_ascii_uppercase();
    if !magnitude.is_finite() {
        let text: &[u8] = match (magnitude.is_nan(), capital) {
            (true, false) => b"nan",
            (true, true) => b"NAN",
            (false, false) => b"inf",
            (false, true) => b"INF",
        };
        return pad(spec, prefix, text.len(), false, out, &mut |out| out(text));
    }
    let precision = spec.precision.unwrap_or(6).min(60);
    let mut buffer = Buffer::new();
    match kind {
        b'f' | b'F' => drop(write!(buffer, "{magnitude:.precision$}")),
        b'e' | b'E' => {
            exponential(&mut buffer, magnitude, precision, capital);
        }
        _ => general(&mut buffer, magnitude, precision.max(1), capital, spec.alternate),
    }
    let text = buffer.text();
    pad(spec, prefix, text.len(), spec.zero, out, &mut |out| out(text));
}

/// `d.ddde±dd`: Rust writes the exponent without sign and without a second digit.
fn exponential(buffer: &mut Buffer, magnitude: f64, precision: usize, capital: bool) -> i32 {
    let mut plain = Buffer::new();
    let _ = write!(plain, "{magnitude:.precision$e}");
    let text = plain.text();
    let at = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let exponent = text.get(at + 1..).map_or(0, parse_exponent);
    let mantissa = core::str::from_utf8(&text[..at]).unwrap_or("0");
    let (letter, mark) = (if capital { 'E' } else { 'e' }, if exponent < 0 { '-' } else { '+' });
    let _ = write!(buffer, "{mantissa}{letter}{mark}{:02}", exponent.unsigned_abs());
    exponent
}

fn parse_exponent(text: &[u8]) -> i32 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    let value = digits.fold(0, |value, digit| value * 10 + i32::from(digit - b'0'));
    if text.first() == Some(&b'-') { -value } else { value }
}

/// The shorter of the two forms, without zeros at the end.
fn general(buffer: &mut Buffer, magnitude: f64, precision: usize, capital: bool, keep_zeros: bool) {
    let mut scratch = Buffer::new();
    let exponent = exponential(&mut scratch, magnitude, precision - 1, capital);
    let scientific = exponent < -4 || exponent >= precision as i32;
    if !scientific {
        scratch = Buffer::new();
        let digits = (precision as i32 - 1 - exponent).max(0) as usize;
        let _ = write!(scratch, "{magnitude:.digits$}");
    }
    let text = scratch.text();
    let tail = text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')).unwrap_or(text.len());
    let (mantissa, exponent) = text.split_at(tail);
    let kept = if keep_zeros || !mantissa.contains(&b'.') {
        mantissa
    } else {
        let end = mantissa.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
        mantissa[..end].strip_suffix(b".").unwrap_or(&mantissa[..end])
    };
    for part in [kept, exponent] {
        let _ = buffer.write_str(core::str::from_utf8(part).unwrap_or(""));
    }
}

/// Writes prefix and body, filled up to the width.
fn pad(
    spec: Spec,
    prefix: &[u8],
    length: usize,
    zero: bool,
    out: &mut dyn FnMut(&[u8]),
    body: &mut dyn FnMut(&mut dyn FnMut(&[u8])),
) {
    let fill = spec.width.saturating_sub(prefix.len() + length);
    let (spaces, zeros) = if zero && !spec.left { (0, fill) } else { (fill, 0) };
    if !spec.left {
        repeat(b' ', spaces, out);
    }
    if !prefix.is_empty() {
        out(prefix);
    }
    repeat(b'0', zeros, out);
    body(out);
    if spec.left {
        repeat(b' ', spaces, out);
    }
}

fn repeat(byte: u8, count: usize, out: &mut dyn FnMut(&[u8])) {
    for _ in 0..count {
        out(&[byte]);
    }
}

#[cfg(target_arch = "xtensa")]
mod device {
    use super::Arguments;
    use crate::file_io;
    use crate::global::pointer;

    /// The variable arguments of a windowed call: those in registers, saved, and those on the stack.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct VaList {
        /// 32 bytes below the first argument on the stack.
        stack: *const u32,
        /// The saved registers.
        registers: *const u32,
        /// Bytes used so far.
        index: u32,
    }

    /// Bytes of the arguments in registers.
    const REGISTERS: u32 = 24;
    /// The first index on the stack.
    const STACK: u32 = 32;

    impl VaList {
        fn take(&mut self, size: u32) -> *const u32 {
            let mut at = self.index.next_multiple_of(size);
            if at + size > REGISTERS && self.index <= REGISTERS {
                at = STACK;
            }
            self.index = at + size;
            let base = if self.index <= REGISTERS { self.registers } else { self.stack };
            base.wrapping_byte_add(at as usize)
        }
    }

    impl Arguments for VaList {
        fn word(&mut self) -> u32 {
            // SAFETY: the caller passed what its format names.
            unsafe { *self.take(4) }
        }

        fn wide(&mut self) -> u64 {
            let at = self.take(8);
            // SAFETY: as above.
            unsafe { u64::from(*at) | u64::from(*at.add(1)) << 32 }
        }

        fn text(&mut self, address: u32, limit: usize, sink: &mut dyn FnMut(&[u8])) {
            // SAFETY: the text has that many bytes.
            sink(unsafe { core::slice::from_raw_parts(pointer(address), limit) });
        }

        fn length(&mut self, address: u32, limit: usize) -> usize {
            let start: *const u8 = pointer(address);
            // SAFETY: the text ends with a zero.
            (0..limit).find(|index| unsafe { *start.add(*index) } == 0).unwrap_or(limit)
        }
    }

    /// What `printf` and `vprintf` come down to.
    ///
    /// # Safety
    ///
    /// The format ends with a zero and names the arguments.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn _outboard_print(format: *const u8, arguments: &VaList) -> i32 {
        let mut arguments = *arguments;
        let length = arguments.length(format.addr() as u32, usize::MAX);
        // SAFETY: the format has that many bytes.
        let text = unsafe { core::slice::from_raw_parts(format, length) };
        super::format(text, &mut arguments, &mut |piece| drop(file_io::write(1, piece))) as i32
    }

    /// Prints a line.
    ///
    /// # Safety
    ///
    /// The text ends with a zero.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn puts(text: *const u8) -> i32 {
        let mut arguments = VaList { stack: core::ptr::null(), registers: core::ptr::null(), index: 0 };
        let length = arguments.length(text.addr() as u32, usize::MAX);
        // SAFETY: the text has that many bytes.
        file_io::write(1, unsafe { core::slice::from_raw_parts(text, length) });
        file_io::write(1, b"\n")
    }

    /// Prints a character.
    #[unsafe(no_mangle)]
    extern "C" fn putchar(byte: i32) -> i32 {
        file_io::write(1, &[byte as u8]);
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<u64>, &'static [u8]);

    impl Arguments for Given {
        fn word(&mut self) -> u32 {
            self.0.remove(0) as u32
        }
        fn wide(&mut self) -> u64 {
            self.0.remove(0)
        }
        fn text(&mut self, _: u32, limit: usize, sink: &mut dyn FnMut(&[u8])) {
            sink(&self.1[..limit]);
        }
        fn length(&mut self, _: u32, limit: usize) -> usize {
            self.1.len().min(limit)
        }
    }

    fn print(text: &str, arguments: &[u64]) -> String {
        let mut out = Vec::new();
        let count = format(text.as_bytes(), &mut Given(arguments.to_vec(), b"hello"), &mut |piece| {
            out.extend_from_slice(piece)
        });
        assert_eq!(count, out.len());
        String::from_utf8(out).unwrap()
    }

    fn float(text: &str, value: f64) -> String {
        print(text, &[value.to_bits()])
    }

    #[test]
    fn integers_are_printed_as_in_c() {
        assert_eq!(print("%d|%5d|%-5d|%05d|%+d|% d", &[u64::MAX, 42, 42, 42, 42, 42]), "-1|   42|42   |00042|+42| 42");
        assert_eq!(
            print("%u %x %X %#x %o %p", &[4294967295, 255, 255, 255, 8, 0x84000000]),
            "4294967295 ff FF 0xff 10 0x84000000"
        );
        assert_eq!(
            print("%lld %llu %ld", &[i64::MIN as u64, u64::MAX, 7]),
            "-9223372036854775808 18446744073709551615 7"
        );
        assert_eq!(print("%.3d|%8.3d|%.0d|", &[5, 5, 0]), "005|     005||");
        assert_eq!(print("%*d|%-*d|", &[6, 1, 4, 2]), "     1|2   |");
    }

    #[test]
    fn texts_and_characters_are_printed_as_in_c() {
        assert_eq!(print("%s|%8s|%-8s|%.2s|%c%%", &[1, 1, 1, 1, 33]), "hello|   hello|hello   |he|!%");
        assert_eq!(print("%s", &[0]), "(null)");
        assert_eq!(print("%q %", &[]), "%q %");
    }

    #[test]
    fn floats_are_printed_as_in_c() {
        assert_eq!(float("%f", 1.5), "1.500000");
        assert_eq!(float("%.2f", -2.345), "-2.35");
        assert_eq!(float("%8.3f|", 3.14159), "   3.142|");
        assert_eq!(float("%08.2f", -3.5), "-0003.50");
        assert_eq!(float("%e", 12345.678), "1.234568e+04");
        assert_eq!(float("%.1E", 0.00012), "1.2E-04");
        assert_eq!(float("%g", 0.0001), "0.0001");
        assert_eq!(float("%g", 1e-5), "1e-05");
        assert_eq!(float("%g", 1234567.0), "1.23457e+06");
        assert_eq!(float("%g", 100000.0), "100000");
        assert_eq!(float("%g", 0.5), "0.5");
        assert_eq!((float("%f", f64::INFINITY), float("%G", -f64::NAN)), ("inf".into(), "-NAN".into()));
    }
}
