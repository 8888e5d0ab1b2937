//! The assembler's directives.

use crate::isa::Isa;

use super::object::SectionKind;
use super::{Assembler, Unresolved};

/// Largest alignment, as a power of two.
const MAX_ALIGN: u32 = 16;
/// Most bytes one directive may reserve.
const MAX_SPACE: i64 = 1 << 28;

impl Assembler {
    pub(super) fn directive(&mut self, name: &str, arguments: &str) -> Result<(), String> {
        match name {
            ".text" | ".data" | ".bss" | ".rodata" => self.enter(name, None),
            ".section" | ".pushsection" => self.section(arguments),
            ".previous" | ".popsection" => {
                core::mem::swap(&mut self.current, &mut self.previous);
                Ok(())
            }
            ".global" | ".globl" => self.each_symbol(arguments, |symbol| symbol.global = true),
            ".weak" => self.each_symbol(arguments, |symbol| symbol.weak = true),
            ".local" | ".hidden" | ".internal" => self.each_symbol(arguments, |_| {}),
            ".type" => self.symbol_type(arguments),
            ".size" => self.symbol_size(arguments),
            ".align" | ".balign" => self.align_to(arguments),
            ".p2align" => self.align_power(arguments),
            ".word" | ".long" | ".4byte" | ".int" => self.data(arguments, 4),
            ".short" | ".hword" | ".2byte" | ".half" => self.data(arguments, 2),
            ".byte" => self.data(arguments, 1),
            ".quad" | ".8byte" => self.data(arguments, 8),
            ".ascii" => self.text(arguments, false),
            ".asciz" | ".string" => self.text(arguments, true),
            ".space" | ".skip" | ".zero" => self.space(arguments),
            ".set" | ".equ" => {
                let (symbol, value) = arguments.split_once(',').ok_or(".set takes a name and a value")?;
                let (symbol, value) = (symbol.trim().to_owned(), value.trim().to_owned());
                self.assign(&symbol, &value)
            }
            ".literal" => self.named_literal(arguments),
            // Literals have sections of their own; nothing is relaxed or transformed.
            ".literal_position" | ".begin" | ".end" | ".no_transform" | ".file" | ".ident" | ".loc" => Ok(()),
            ".cfi_startproc" | ".cfi_endproc" => Ok(()),
            _ => Err(format!("unknown directive `{name}`")),
        }
    }

    fn enter(&mut self, name: &str, kind: Option<SectionKind>) -> Result<(), String> {
        self.previous = self.current;
        self.current = self.section_named(name, kind);
        Ok(())
    }

    /// `.section name, "flags", @type`
    fn section(&mut self, arguments: &str) -> Result<(), String> {
        let mut parts = arguments.split(',').map(str::trim);
        let name = parts.next().unwrap_or("").trim_matches('"');
        if name.is_empty() {
            return Err(".section needs a name".to_owned());
        }
        let flags = parts.next();
        let zero = parts.next().is_some_and(|kind| kind.contains("nobits"));
        let kind = match flags.map(|flags| flags.trim_matches('"')) {
            None => None,
            Some(_) if zero => Some(SectionKind::Zero),
            Some(flags) if !flags.contains('a') => Some(SectionKind::Note),
            Some(flags) if flags.contains('x') => Some(SectionKind::Code),
            Some(flags) if flags.contains('w') => Some(SectionKind::Data),
            Some(_) => Some(SectionKind::ReadOnly),
        };
        let name = name.to_owned();
        self.enter(&name, kind)
    }

    fn each_symbol(&mut self, names: &str, change: impl Fn(&mut super::Symbol)) -> Result<(), String> {
        for name in names.split(',').map(str::trim) {
            if !super::source::is_name(name) {
                return Err(format!("`{name}` is not a symbol"));
            }
            let index = self.symbol_named(name);
            change(&mut self.symbols[index]);
        }
        Ok(())
    }

    fn symbol_type(&mut self, arguments: &str) -> Result<(), String> {
        let (name, kind) = arguments.split_once(',').ok_or(".type takes a name and a type")?;
        let kind = kind.trim().trim_start_matches(['@', '%', '#']).to_owned();
        let (function, object) = match kind.as_str() {
            "function" | "STT_FUNC" => (true, false),
            "object" | "STT_OBJECT" => (false, true),
            "notype" => (false, false),
            _ => return Err(format!("the type `{kind}` is not function, object or notype")),
        };
        self.each_symbol(name, |symbol| (symbol.function, symbol.object) = (function, object))
    }

    fn symbol_size(&mut self, arguments: &str) -> Result<(), String> {
        let (name, size) = arguments.split_once(',').ok_or(".size takes a name and a size")?;
        let symbol = self.symbol_named(name.trim());
        let expression = self.parse(size)?;
        self.fixup(Unresolved::Size { symbol, expression });
        Ok(())
    }

    fn align_to(&mut self, arguments: &str) -> Result<(), String> {
        let text = arguments.split(',').next().unwrap_or("");
        let bytes = self.constant(text)?;
        let power = u32::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two());
        let power = power.map(u32::trailing_zeros).filter(|&power| power <= MAX_ALIGN);
        let power =
            power.ok_or_else(|| format!("an alignment is a power of two up to {}, not {bytes}", 1 << MAX_ALIGN))?;
        self.align(power)
    }

    fn align_power(&mut self, arguments: &str) -> Result<(), String> {
        let text = arguments.split(',').next().unwrap_or("");
        let power = self.constant(text)?;
        let power = u32::try_from(power).ok().filter(|&power| power <= MAX_ALIGN);
        self.align(power.ok_or_else(|| format!("an alignment is a power of two up to {}", 1 << MAX_ALIGN))?)
    }

    /// Code is filled with NOPs so that it may be fallen through; other sections with zeros.
    fn align(&mut self, power: u32) -> Result<(), String> {
        let alignment = 1u32 << power;
        let code = self.sections[self.current].kind == SectionKind::Code;
        self.sections[self.current].align(alignment);
        let mut missing = self.here().next_multiple_of(alignment) - self.here();
        let short = self.isa.has(Isa::Density);
        while code && missing >= 2 {
            // A single byte cannot be filled: 4 is 2 + 2.
            let filler: &[u8] = match missing {
                2 | 4 if short => &[0x3d, 0xf0],
                2 => break,
                _ => &[0xf0, 0x20, 0x00],
            };
            self.emit(filler)?;
            missing -= filler.len() as u32;
        }
        let zeros = vec![0; missing as usize];
        self.emit(&zeros)
    }

    fn data(&mut self, arguments: &str, size: u8) -> Result<(), String> {
        for text in arguments.split(',') {
            let expression = self.parse(text)?;
            self.fixup(Unresolved::Data { size, expression });
            self.emit(&[0; 8][..usize::from(size)])?;
        }
        Ok(())
    }

    fn text(&mut self, arguments: &str, terminated: bool) -> Result<(), String> {
        let mut rest = arguments.trim();
        while !rest.is_empty() {
            let (bytes, after) = quoted(rest)?;
            self.emit(&bytes)?;
            if terminated {
                self.emit(&[0])?;
            }
            rest = after.trim_start();
            rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
        }
        Ok(())
    }

    fn space(&mut self, arguments: &str) -> Result<(), String> {
        let mut parts = arguments.splitn(2, ',');
        let count = self.constant(parts.next().unwrap_or(""))?;
        let fill = parts.next().map_or(Ok(0), |text| self.constant(text))?;
        if !(0..=MAX_SPACE).contains(&count) {
            return Err(format!("{count} bytes cannot be reserved: 0..={MAX_SPACE} are allowed"));
        }
        if fill == 0 {
            return self.sections[self.current].reserve(count as u32);
        }
        self.emit(&vec![fill as u8; count as usize])
    }

    /// `.literal name, value`: a named entry of the literal section.
    fn named_literal(&mut self, arguments: &str) -> Result<(), String> {
        let (name, value) = arguments.split_once(',').ok_or(".literal takes a name and a value")?;
        let name = name.trim().to_owned();
        let expression = self.parse(value)?;
        let section = self.literal_section();
        let offset = self.place_literal(section, expression)?;
        self.define(&name, super::Definition::InSection(section, offset))
    }
}

/// The byte an escape sequence stands for.
pub(super) fn escape(character: char) -> Result<u8, String> {
    Ok(match character {
        'n' => b'\n',
        't' => b'\t',
        'r' => b'\r',
        '0' => 0,
        'b' => 8,
        'f' => 12,
        '\\' | '"' | '\'' => character as u8,
        _ => return Err(format!("unknown escape `\\{character}`")),
    })
}

/// The bytes of a quoted string at the start of the text, and what follows it.
fn quoted(text: &str) -> Result<(Vec<u8>, &str), String> {
    let inside = text.strip_prefix('"').ok_or_else(|| format!("`{text}` is not a quoted string"))?;
    let mut bytes = Vec::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Ok((bytes, characters.as_str())),
            '\\' => {
                let next = characters.next().ok_or("a string ends in a backslash")?;
                if next == 'x' {
                    let high = characters.next().and_then(|digit| digit.to_digit(16));
                    let low = characters.next().and_then(|digit| digit.to_digit(16));
                    let (high, low) = high.zip(low).ok_or("\\x needs two hexadecimal digits")?;
                    bytes.push((high << 4 | low) as u8);
                } else {
                    bytes.push(escape(next)?);
                }
            }
            plain => bytes.extend(plain.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("a string is not closed".to_owned())
}
