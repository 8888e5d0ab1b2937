//! What the disassembler needs of an ELF file.

use std::collections::BTreeMap;

use outboard_elf::{Elf, ElfError, RelaTable, StringTable, SymbolTable, machine, pf, shn, sht, stt};

/// Why a file cannot be disassembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisasmError {
    /// Not a readable ELF file.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// For another machine.
    #[error("the file is for machine {machine}, not for Xtensa (94)")]
    Machine {
        /// `e_machine`.
        machine: u16,
    },
    /// No executable section of this name.
    #[error("there is no executable section `{name}`")]
    NoSection {
        /// The name as given.
        name: String,
    },
    /// No function of this name.
    #[error("there is no function `{name}` in an executable section")]
    NoSymbol {
        /// The name as given.
        name: String,
    },
}

const SHF_EXECINSTR: u64 = 4;
/// Longest symbol name that is shown.
const LONGEST_NAME: u64 = 1 << 16;

/// An executable section or segment.
#[derive(Debug)]
pub(super) struct CodeSection<'a> {
    pub name: String,
    pub address: u32,
    pub bytes: &'a [u8],
    /// Section index; `None` for a segment.
    index: Option<usize>,
    relocations: BTreeMap<u32, Vec<Relocation>>,
}

impl CodeSection<'_> {
    /// The offset of an address in the section.
    pub fn offset(&self, address: u32) -> Option<usize> {
        let offset = address.wrapping_sub(self.address) as usize;
        (offset < self.bytes.len()).then_some(offset)
    }
}

/// A relocation: its text, and the place in a code section that it names.
#[derive(Debug)]
struct Relocation {
    text: String,
    target: Option<(usize, u32)>,
}

#[derive(Debug)]
struct Label {
    name: String,
    section: Option<usize>,
    address: u32,
    size: u32,
    function: bool,
}

/// Addresses at which a table of properties has instructions: entries of address, size and flags.
fn code_ranges(table: &[u8]) -> impl Iterator<Item = u32> {
    const INSTRUCTIONS: u32 = 2;
    let (words, _) = table.as_chunks::<4>();
    let entries = words.as_chunks::<3>().0.iter().map(|entry| entry.map(u32::from_le_bytes));
    entries.filter(|[_, size, flags]| *size > 0 && flags & INSTRUCTIONS != 0).map(|[address, _, _]| address)
}

#[derive(Debug)]
pub(super) struct File<'a> {
    pub sections: Vec<CodeSection<'a>>,
    elf: Elf<'a>,
    labels: Vec<Label>,
    entry: Option<u32>,
    /// Starts of code from `.xt.prop` sections.
    properties: Vec<u32>,
    relocatable: bool,
}

impl<'a> File<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DisasmError> {
        let elf = Elf::parse(bytes)?;
        let header = elf.header();
        if header.machine != machine::XTENSA {
            return Err(DisasmError::Machine { machine: header.machine });
        }
        let relocatable = header.kind == 1;
        let mut file = Self {
            sections: Vec::new(),
            elf,
            labels: Vec::new(),
            entry: (!relocatable).then_some(header.entry as u32),
            properties: Vec::new(),
            relocatable,
        };
        file.read_sections()?;
        if file.sections.is_empty() {
            file.read_segments()?;
        }
        Ok(file)
    }

    fn read_sections(&mut self) -> Result<(), ElfError> {
        let sections = self.elf.sections()?;
        for (index, section) in sections.iter().enumerate() {
            let name = String::from_utf8_lossy(sections.name(&section)?).into_owned();
            if section.kind == sht::SYMTAB {
                self.read_symbols(section.offset, section.size, section.link)?;
            }
            let data = sections.data(&section)?;
            if name.starts_with(".xt.prop") {
                self.properties.extend(code_ranges(data));
            }
            if section.flags & SHF_EXECINSTR != 0 && section.kind == sht::PROGBITS {
                self.sections.push(CodeSection {
                    name,
                    address: section.address as u32,
                    bytes: data,
                    index: Some(index),
                    relocations: BTreeMap::new(),
                });
            }
        }
        for section in sections.iter().filter(|section| section.kind == sht::RELA) {
            let target = self.sections.iter().position(|code| code.index == Some(section.info as usize));
            if let Some(target) = target {
                let table = RelaTable::new(self.elf.header().class, sections.data(&section)?);
                self.read_relocations(target, table);
            }
        }
        Ok(())
    }

    fn read_symbols(&mut self, offset: u64, size: u64, strings: u32) -> Result<(), ElfError> {
        let sections = self.elf.sections()?;
        let raw = self.elf.bytes().range("the symbol table", offset, size)?;
        let Some(names) = sections.get(strings as usize) else { return Ok(()) };
        let names = StringTable::new("the symbol names", sections.data(&names)?)?;
        for symbol in SymbolTable::new(self.elf.header().class, raw).iter() {
            let name = names.get("a symbol name", symbol.name.into(), LONGEST_NAME)?;
            let section = usize::from(symbol.shndx);
            let placed = symbol.defined() && symbol.shndx < shn::LORESERVE;
            self.labels.push(Label {
                name: String::from_utf8_lossy(name).into_owned(),
                section: placed.then_some(section),
                address: symbol.value as u32,
                size: symbol.size as u32,
                function: symbol.kind() == stt::FUNC,
            });
        }
        Ok(())
    }

    fn read_relocations(&mut self, target: usize, table: RelaTable<'_>) {
        for entry in table.iter() {
            let kind = outboard_reloc::xtensa::table()
                .row(entry.kind)
                .map_or_else(|| format!("R_XTENSA_{}", entry.kind), |row| row.name.to_owned());
            let symbol = self.labels.get(entry.symbol as usize);
            let named = symbol.filter(|symbol| !symbol.name.is_empty());
            let section = symbol.and_then(|symbol| symbol.section);
            let code = self.sections.iter().position(|code| code.index == section && section.is_some());
            let name = match (named, section) {
                (Some(symbol), _) => symbol.name.clone(),
                (None, Some(section)) => self.section_name(section),
                (None, None) => "0".to_owned(),
            };
            let addend = match entry.addend {
                0 => String::new(),
                addend => format!("{addend:+#x}"),
            };
            let base = symbol.map_or(0, |symbol| symbol.address);
            let relocation = Relocation {
                text: format!("{kind} {name}{addend}"),
                target: code.map(|code| (code, base.wrapping_add(entry.addend as u32))),
            };
            let place = entry.offset as u32;
            self.sections[target].relocations.entry(place).or_default().push(relocation);
        }
    }

    fn section_name(&self, index: usize) -> String {
        let code = self.sections.iter().find(|code| code.index == Some(index));
        code.map_or_else(|| format!("section {index}"), |code| code.name.clone())
    }

    fn read_segments(&mut self) -> Result<(), ElfError> {
        for segment in self.elf.load_segments().filter(|segment| segment.flags & pf::X != 0) {
            self.sections.push(CodeSection {
                name: format!("segment {}", segment.index),
                address: segment.vaddr as u32,
                bytes: self.elf.segment_data(&segment)?,
                index: None,
                relocations: BTreeMap::new(),
            });
        }
        Ok(())
    }

    /// Does the label stand in this section? In linked files the address alone decides.
    fn in_section(&self, label: &Label, section: &CodeSection<'_>) -> bool {
        label.section.is_some() && (!self.relocatable || label.section == section.index)
    }

    fn labels(&self, section: &CodeSection<'_>) -> impl Iterator<Item = &Label> {
        self.labels.iter().filter(|label| !label.name.is_empty() && self.in_section(label, section))
    }

    /// The addresses from which code is found.
    pub fn roots(&self, section: &CodeSection<'_>) -> Vec<u32> {
        let mut roots: Vec<u32> =
            self.labels(section).filter(|label| label.function).map(|label| label.address).collect();
        roots.extend(self.entry);
        roots.extend(&self.properties);
        if roots.iter().all(|&root| section.offset(root).is_none()) {
            // Hand-written code may have untyped labels only.
            roots.extend(self.labels(section).map(|label| label.address));
        }
        roots
    }

    /// Section offsets of literals that relocated L32R instructions read.
    pub fn relocated_literals(&self, section: &CodeSection<'_>, offset: u32) -> Option<u32> {
        let own = self.sections.iter().position(|other| core::ptr::eq(other, section))?;
        let entries = section.relocations.get(&offset)?;
        entries.iter().find_map(|entry| entry.target.filter(|target| target.0 == own)).map(|target| target.1)
    }

    /// Is a whole word relocated here? Then it is data.
    pub fn is_relocated_word(&self, section: &CodeSection<'_>, offset: u32) -> bool {
        let entries = section.relocations.get(&offset);
        entries.is_some_and(|entries| entries.iter().any(|entry| entry.text.starts_with("R_XTENSA_32")))
    }

    /// Index of the section, start and end of a function. The end of one without a size is the
    /// next function or the section's end.
    pub fn function(&self, name: &str) -> Result<(usize, u64, u64), DisasmError> {
        let missing = || DisasmError::NoSymbol { name: name.to_owned() };
        for (index, section) in self.sections.iter().enumerate() {
            let found = self.labels(section).find(|label| label.name == name);
            let Some(label) = found.filter(|label| section.offset(label.address).is_some()) else { continue };
            let start = u64::from(label.address);
            let section_end = u64::from(section.address) + section.bytes.len() as u64;
            let end = match label.size {
                0 => self
                    .labels(section)
                    .filter(|other| other.function && other.address > label.address)
                    .map(|other| u64::from(other.address))
                    .min()
                    .unwrap_or(section_end),
                size => start + u64::from(size),
            };
            return Ok((index, start, end));
        }
        Err(missing())
    }

    /// The symbols at an address.
    pub fn labels_at(&self, section: &CodeSection<'_>, address: u32) -> Vec<String> {
        self.labels(section).filter(|label| label.address == address).map(|label| label.name.clone()).collect()
    }

    /// `symbol` or `symbol+offset` for an address inside a function; targets elsewhere stay numbers.
    pub fn name_of(&self, section: &CodeSection<'_>, address: u32) -> Option<String> {
        section.offset(address)?;
        let near = self.labels(section).filter(|label| label.address <= address);
        let label = near.max_by_key(|label| (label.address, label.function))?;
        let offset = address - label.address;
        let suffix = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        Some(format!("{address:#x} <{}{suffix}>", label.name))
    }

    /// The word at an address: of the section, or of a loaded segment.
    pub fn word(&self, section: &CodeSection<'_>, address: u32) -> Option<u32> {
        if let Some(offset) = section.offset(address) {
            return Some(u32::from_le_bytes(*section.bytes.get(offset..)?.first_chunk()?));
        }
        let offset = self.elf.file_offset(address.into(), 4).filter(|_| !self.relocatable)?;
        let bytes = self.elf.bytes().range("a literal", offset, 4).ok()?;
        Some(u32::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Texts of the relocations of some bytes.
    pub fn relocations_at(&self, section: &CodeSection<'_>, address: u32, length: usize) -> Vec<String> {
        let start = if self.relocatable { address.wrapping_sub(section.address) } else { address };
        let end = start.saturating_add(length as u32);
        let inside = section.relocations.range(start..end);
        inside.flat_map(|(_, entries)| entries).map(|entry| entry.text.clone()).collect()
    }
}
