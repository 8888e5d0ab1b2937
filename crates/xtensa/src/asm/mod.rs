//! The assembler: a source file in, a relocatable ELF object out.
//!
//! Sizes never depend on addresses: there is no relaxation. An instruction is laid down when its
//! line is read, and its symbolic operands are filled in at the end; what the file itself cannot
//! resolve becomes a relocation. docs/reference/xtensa-assembler.md describes the language.
//!
//! ```
//! use outboard_xtensa::asm::{AsmOptions, assemble};
//! let source = "
//!     .global answer
//!     answer:
//!         entry a1, 32
//!         movi  a2, 0x12345678   # does not fit: becomes an L32R of a literal
//!         retw.n
//! ";
//! let object = assemble(source, &AsmOptions::default()).unwrap();
//! assert_eq!(&object[..4], b"\x7fELF");
//! ```

mod directive;
mod expression;
mod object;
mod source;

use std::collections::HashMap;

use crate::encode::{AsmError, OperandText, encode, encode_words, split_line};
use crate::isa::{IsaSet, Kind, Op, Operand, Relative, Row, row_by_mnemonic};

use expression::{Expression, Value};
use object::{Relocation, Section, SectionKind};
use source::Statement;

/// How to assemble.
#[derive(Clone, Debug)]
pub struct AsmOptions {
    /// The options whose instructions may be used.
    pub isa: IsaSet,
}

impl Default for AsmOptions {
    fn default() -> Self {
        Self { isa: IsaSet::all() }
    }
}

/// Something wrong on a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Diagnostic {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what may stand there.
    pub message: String,
}

/// Assembles a source file into a relocatable ELF object.
///
/// # Errors
/// Everything that is wrong with the source, by line.
pub fn assemble(source: &str, options: &AsmOptions) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let mut assembler = Assembler::new(options.isa);
    let statements = match source::parse(source) {
        Ok(statements) => statements,
        Err(diagnostic) => return Err(vec![diagnostic]),
    };
    for statement in &statements {
        assembler.line = statement.line();
        if let Err(message) = assembler.statement(statement) {
            assembler.error(message);
        }
    }
    assembler.resolve();
    if assembler.diagnostics.is_empty() {
        Ok(object::write(&assembler.sections, &assembler.symbols))
    } else {
        Err(assembler.diagnostics)
    }
}

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Definition {
    Undefined,
    Absolute(i64),
    InSection(usize, u32),
}

#[derive(Clone, Debug)]
struct Symbol {
    name: String,
    definition: Definition,
    global: bool,
    weak: bool,
    function: bool,
    object: bool,
    size: u32,
}

/// Something to fill in when all symbols are known.
#[derive(Debug)]
struct Fixup {
    line: usize,
    section: usize,
    offset: u32,
    what: Unresolved,
}

#[derive(Debug)]
enum Unresolved {
    Instruction {
        row: &'static Row,
        operands: Vec<OperandText>,
    },
    /// L32R of this entry of a literal section.
    Literal {
        register: i64,
        section: usize,
        offset: u32,
    },
    Data {
        size: u8,
        expression: Expression,
    },
    Size {
        symbol: usize,
        expression: Expression,
    },
}

#[derive(Debug)]
struct Assembler {
    isa: IsaSet,
    sections: Vec<Section>,
    current: usize,
    previous: usize,
    symbols: Vec<Symbol>,
    by_name: HashMap<String, usize>,
    fixups: Vec<Fixup>,
    /// How often each numeric label has been defined.
    numeric: HashMap<u32, u32>,
    /// Literals by section and value.
    literals: HashMap<(usize, String), u32>,
    diagnostics: Vec<Diagnostic>,
    line: usize,
}

impl Assembler {
    fn new(isa: IsaSet) -> Self {
        let mut assembler = Self {
            isa,
            sections: Vec::new(),
            current: 0,
            previous: 0,
            symbols: Vec::new(),
            by_name: HashMap::new(),
            fixups: Vec::new(),
            numeric: HashMap::new(),
            literals: HashMap::new(),
            diagnostics: Vec::new(),
            line: 0,
        };
        assembler.section_named(".text", None);
        assembler
    }

    fn error(&mut self, message: String) {
        self.diagnostics.push(Diagnostic { line: self.line, message });
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Label { name, .. } => self.label(name),
            Statement::Assignment { name, value, .. } => self.assign(name, value),
            Statement::Directive { name, arguments, .. } => self.directive(name, arguments),
            Statement::Instruction { text, .. } => self.instruction(text),
        }
    }

    /// The index of a section, created if need be.
    fn section_named(&mut self, name: &str, kind: Option<SectionKind>) -> usize {
        if let Some(index) = self.sections.iter().position(|section| section.name == name) {
            return index;
        }
        let kind = kind.unwrap_or_else(|| SectionKind::of(name));
        self.sections.push(Section::new(name, kind));
        self.sections.len() - 1
    }

    /// The index of a symbol, created if need be.
    fn symbol_named(&mut self, name: &str) -> usize {
        if let Some(&index) = self.by_name.get(name) {
            return index;
        }
        self.symbols.push(Symbol {
            name: name.to_owned(),
            definition: Definition::Undefined,
            global: false,
            weak: false,
            function: false,
            object: false,
            size: 0,
        });
        let index = self.symbols.len() - 1;
        self.by_name.insert(name.to_owned(), index);
        index
    }

    fn here(&self) -> u32 {
        self.sections[self.current].size()
    }

    fn label(&mut self, name: &str) -> Result<(), String> {
        let name = match name.parse::<u32>() {
            Ok(number) => {
                let count = self.numeric.entry(number).or_insert(0);
                *count += 1;
                expression::numeric_name(number, *count)
            }
            Err(_) => name.to_owned(),
        };
        self.define(&name, Definition::InSection(self.current, self.here()))
    }

    fn define(&mut self, name: &str, definition: Definition) -> Result<(), String> {
        let index = self.symbol_named(name);
        let symbol = &mut self.symbols[index];
        let redefined = symbol.definition != Definition::Undefined
            && !matches!((symbol.definition, definition), (Definition::Absolute(_), Definition::Absolute(_)));
        if redefined {
            return Err(format!("`{name}` is defined twice"));
        }
        symbol.definition = definition;
        Ok(())
    }

    fn assign(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = self.parse(value)?;
        match self.evaluate(&value)? {
            Value { symbol: None, addend } => self.define(name, Definition::Absolute(addend)),
            Value { symbol: Some(symbol), addend } => match self.symbols[symbol].definition {
                Definition::InSection(section, offset) => {
                    let offset = offset.wrapping_add(addend as u32);
                    self.define(name, Definition::InSection(section, offset))
                }
                _ => Err(format!("`{name}` is set to `{}`, which is not defined yet", self.symbols[symbol].name)),
            },
        }
    }

    /// Parses an expression; numeric labels are bound to the definitions around this line.
    fn parse(&mut self, text: &str) -> Result<Expression, String> {
        let here = Definition::InSection(self.current, self.here());
        let numeric = &self.numeric;
        let expression = Expression::parse(text, |number, forward| {
            let count = numeric.get(&number).copied().unwrap_or(0);
            expression::numeric_name(number, if forward { count + 1 } else { count })
        })?;
        if expression.uses_dot() {
            let name = format!("\u{1}dot{}:{}", self.current, self.here());
            let index = self.symbol_named(&name);
            self.symbols[index].definition = here;
            return Ok(expression.with_dot(&name));
        }
        Ok(expression)
    }

    fn evaluate(&mut self, expression: &Expression) -> Result<Value, String> {
        for name in expression.symbols() {
            self.symbol_named(&name);
        }
        let (by_name, symbols) = (&self.by_name, &self.symbols);
        expression.evaluate(
            &|name| {
                let index = by_name.get(name).copied().unwrap_or(usize::MAX);
                match symbols.get(index).map(|symbol| symbol.definition) {
                    Some(Definition::Absolute(value)) => Value { symbol: None, addend: value },
                    _ => Value { symbol: Some(index), addend: 0 },
                }
            },
            &|a, b| match (symbols.get(a)?.definition, symbols.get(b)?.definition) {
                (Definition::InSection(first, x), Definition::InSection(second, y)) if first == second => {
                    Some(i64::from(x) - i64::from(y))
                }
                _ => None,
            },
        )
    }

    /// The value of an expression that must be a number now.
    fn constant(&mut self, text: &str) -> Result<i64, String> {
        let expression = self.parse(text)?;
        match self.evaluate(&expression)? {
            Value { symbol: None, addend } => Ok(addend),
            Value { symbol: Some(_), .. } => Err(format!("`{text}` must be a number that is known here")),
        }
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<(), String> {
        let section = &mut self.sections[self.current];
        if section.kind == SectionKind::Zero && bytes.iter().any(|&byte| byte != 0) {
            return Err(format!("`{}` holds only zeros: use .space", section.name));
        }
        section.append(bytes)
    }

    fn fixup(&mut self, what: Unresolved) {
        let (line, section, offset) = (self.line, self.current, self.here());
        self.fixups.push(Fixup { line, section, offset, what });
    }

    fn instruction(&mut self, text: &str) -> Result<(), String> {
        let (mnemonic, operands) = split_line(text).map_err(|error| error.to_string())?;
        if mnemonic == "movi" && operands.len() == 2 && self.wants_literal(&operands[1]) {
            return self.move_literal(&operands);
        }
        if mnemonic == "l32r" && operands.len() == 2 && operands[1].starts_with('=') {
            let value = operands[1][1..].trim().to_owned();
            return self.move_literal(&[operands[0].clone(), value]);
        }
        let parsed = encode_words(&mnemonic, &operands, self.isa).map_err(|error| error.to_string())?;
        let row = parsed.row;
        let mut bound = Vec::with_capacity(parsed.operands.len());
        for operand in parsed.operands {
            bound.push(match operand {
                OperandText::Expression(text) => {
                    let (wrapper, inner) = expression::half_of(&text);
                    let expression = self.parse(inner)?;
                    OperandText::Expression(format!("{wrapper}{}", expression.text()))
                }
                value => value,
            });
        }
        self.sections[self.current].align(4);
        self.fixup(Unresolved::Instruction { row, operands: bound });
        self.emit(&[0; 3][..usize::from(row.length())])
    }

    /// Does the operand of MOVI not fit its twelve bits?
    fn wants_literal(&mut self, text: &str) -> bool {
        let Ok(expression) = self.parse(text) else { return false };
        match self.evaluate(&expression) {
            Ok(Value { symbol: None, addend }) => {
                let value = addend as u32 as i32;
                !(-2048..2048).contains(&value) && (-(1i64 << 31)..1 << 32).contains(&addend)
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// `movi register, value` as an L32R of a literal in the section that belongs to this one.
    fn move_literal(&mut self, operands: &[String]) -> Result<(), String> {
        let row = row_by_mnemonic("l32r").ok_or("the table has no l32r")?;
        let placeholder = [operands[0].clone(), "0".to_owned()];
        let parsed = encode_words("l32r", &placeholder, self.isa).map_err(|error| error.to_string())?;
        let Some(OperandText::Value(register)) = parsed.operands.first().cloned() else {
            return Err("the first operand of `movi` must be a register".to_owned());
        };
        let expression = self.parse(&operands[1])?;
        let section = self.literal_section();
        let offset = self.literal(section, expression)?;
        self.sections[self.current].align(4);
        self.fixup(Unresolved::Literal { register, section, offset });
        self.emit(&[0; 3][..usize::from(row.length())])
    }

    /// `.literal` for `.text`, `.literal.f` for `.text.f`, `.literal.NAME` for others.
    fn literal_section(&mut self) -> usize {
        let name = self.sections[self.current].name.clone();
        let suffix = name.strip_prefix(".text").unwrap_or(&name).to_owned();
        self.section_named(&format!(".literal{suffix}"), Some(SectionKind::Code))
    }

    /// The offset of a literal with this value, placed if it is new.
    fn literal(&mut self, section: usize, expression: Expression) -> Result<u32, String> {
        let key = (section, expression.text());
        if let Some(&offset) = self.literals.get(&key) {
            return Ok(offset);
        }
        let offset = self.place_literal(section, expression)?;
        self.literals.insert(key, offset);
        Ok(offset)
    }

    fn place_literal(&mut self, section: usize, expression: Expression) -> Result<u32, String> {
        let current = core::mem::replace(&mut self.current, section);
        self.sections[section].align(4);
        let offset = self.here();
        self.fixup(Unresolved::Data { size: 4, expression });
        let outcome = self.emit(&[0; 4]);
        self.current = current;
        outcome.map(|()| offset)
    }

    fn resolve(&mut self) {
        for fixup in core::mem::take(&mut self.fixups) {
            self.line = fixup.line;
            let outcome = match &fixup.what {
                Unresolved::Instruction { row, operands } => self.resolve_instruction(&fixup, row, operands),
                Unresolved::Literal { register, section, offset } => {
                    self.resolve_literal(&fixup, *register, *section, *offset)
                }
                Unresolved::Data { size, expression } => self.resolve_data(&fixup, *size, expression),
                Unresolved::Size { symbol, expression } => self.resolve_size(*symbol, expression),
            };
            if let Err(message) = outcome {
                self.error(message);
            }
        }
        self.check_numeric_labels();
    }

    fn check_numeric_labels(&mut self) {
        let missing = self
            .symbols
            .iter()
            .find(|symbol| symbol.definition == Definition::Undefined && expression::is_numeric_name(&symbol.name));
        if let Some(symbol) = missing {
            let name = symbol.name.trim_start_matches('\u{1}').to_owned();
            let number = name.split(':').next().unwrap_or("").to_owned();
            self.diagnostics.push(Diagnostic { line: 0, message: format!("no label `{number}:` in that direction") });
        }
    }

    fn resolve_instruction(
        &mut self,
        fixup: &Fixup,
        row: &'static Row,
        operands: &[OperandText],
    ) -> Result<(), String> {
        let mut values = Vec::with_capacity(operands.len());
        let mut relocation = None;
        for (operand, text) in row.operands().iter().zip(operands) {
            values.push(match text {
                OperandText::Value(value) => *value,
                OperandText::Expression(text) => {
                    let (value, symbolic) = self.operand_value(fixup, row, operand, text)?;
                    relocation = relocation.or(symbolic);
                    value
                }
            });
        }
        let instruction = encode(row, &values, fixup.offset).map_err(|error| error.to_string())?;
        // The field that is relocated starts as zero.
        let word = match &relocation {
            Some((_, mask)) => instruction.word() & !mask,
            None => instruction.word(),
        };
        self.sections[fixup.section].patch(fixup.offset, &word.to_le_bytes()[..usize::from(row.length())]);
        if let Some((relocation, _)) = relocation {
            self.sections[fixup.section].relocations.push(relocation);
        }
        Ok(())
    }

    /// The value of a number or target operand, and the relocation (with the field's mask) that
    /// it needs if the file cannot resolve it.
    fn operand_value(
        &mut self,
        fixup: &Fixup,
        row: &Row,
        operand: &Operand,
        text: &str,
    ) -> Result<(i64, Option<(Relocation, u32)>), String> {
        let (half, inner) = expression::half_of(text);
        let expression = Expression::parse(inner, |_, _| String::new())?;
        let value = self.evaluate(&expression)?;
        let relocate = |symbol: usize, kind: u32| {
            let relocation =
                Relocation { offset: fixup.offset, kind, symbol: symbol.into(), addend: value.addend as i32 };
            (relocation, operand.mask())
        };
        if row.op() == Op::Const16 && !half.is_empty() {
            let high = half == "hi:";
            return Ok(match value.symbol {
                None => (if high { value.addend as u32 >> 16 } else { value.addend as u32 & 0xffff }.into(), None),
                Some(symbol) => {
                    let kind = if high { object::SLOT0_ALT } else { object::SLOT0_OP };
                    (0, Some(relocate(symbol, kind)))
                }
            });
        }
        let Kind::Target(relative) = operand.kind() else {
            return match value.symbol {
                None => Ok((value.addend, None)),
                Some(symbol) => Err(format!(
                    "`{}` is an address: an operand of `{}` cannot hold one",
                    self.symbols[symbol].name,
                    row.mnemonic()
                )),
            };
        };
        let Some(symbol) = value.symbol else {
            return Err(format!("the target of `{}` must be a label, not a number", row.mnemonic()));
        };
        match self.symbols[symbol].definition {
            Definition::InSection(section, offset)
                if section == fixup.section && !self.symbols[symbol].weak && relative != Relative::Literal =>
            {
                Ok((i64::from(offset.wrapping_add(value.addend as u32)), None))
            }
            _ => {
                // Any reachable address: the field is cleared.
                let reachable = operand.value(row.bits(), fixup.offset);
                Ok((reachable.into(), Some(relocate(symbol, object::SLOT0_OP))))
            }
        }
    }

    fn resolve_literal(&mut self, fixup: &Fixup, register: i64, section: usize, offset: u32) -> Result<(), String> {
        let row = row_by_mnemonic("l32r").ok_or("the table has no l32r")?;
        let reachable = row.operands()[1].value(row.bits(), fixup.offset);
        let instruction =
            encode(row, &[register, reachable.into()], fixup.offset).map_err(|error: AsmError| error.to_string())?;
        self.sections[fixup.section].patch(fixup.offset, instruction.encoded().bytes());
        self.sections[fixup.section].relocations.push(Relocation {
            offset: fixup.offset,
            kind: object::SLOT0_OP,
            symbol: object::Target::Section(section),
            addend: offset as i32,
        });
        Ok(())
    }

    fn resolve_data(&mut self, fixup: &Fixup, size: u8, expression: &Expression) -> Result<(), String> {
        let value = self.evaluate(expression)?;
        match value.symbol {
            None => {
                let bits = 8 * u32::from(size);
                if size < 8 && !(-(1i64 << (bits - 1))..1i64 << bits).contains(&value.addend) {
                    return Err(format!("{} does not fit into {size} bytes", value.addend));
                }
                let bytes = value.addend.to_le_bytes();
                self.sections[fixup.section].patch(fixup.offset, &bytes[..usize::from(size)]);
            }
            Some(symbol) if size == 4 => self.sections[fixup.section].relocations.push(Relocation {
                offset: fixup.offset,
                kind: object::WORD,
                symbol: symbol.into(),
                addend: value.addend as i32,
            }),
            Some(symbol) => {
                return Err(format!("the address `{}` needs a .word, not {size} bytes", self.symbols[symbol].name));
            }
        }
        Ok(())
    }

    fn resolve_size(&mut self, symbol: usize, expression: &Expression) -> Result<(), String> {
        let value = self.evaluate(expression)?;
        match (value.symbol, u32::try_from(value.addend)) {
            (None, Ok(size)) => {
                self.symbols[symbol].size = size;
                Ok(())
            }
            _ => Err(format!("the size of `{}` must be a number", self.symbols[symbol].name)),
        }
    }
}
