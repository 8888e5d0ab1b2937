//! Phase *read*: objects and members of archives, as they are in the files.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use outboard_elf::archive::{self, Archive};
use outboard_elf::{
    Class, Elf, RelaTable, Section as Header, Sections, StringTable, SymbolTable, et, machine, shf, shn, sht, stb, stt,
};

use super::BuildError;
use crate::names::NameReader;

/// Largest alignment of a section.
const MAX_ALIGN: u64 = 1 << 16;
/// What the sections and relocations of an object may claim: this times the size of the file, and a constant.
const CLAIM: u64 = 4;
const CLAIM_BASE: u64 = 1 << 20;

/// The files to link.
///
/// ```
/// use outboard_link::build::Inputs;
///
/// let mut inputs = Inputs::new();
/// let error = inputs.add("notes.txt", b"hello").unwrap_err();
/// assert!(error.to_string().starts_with("notes.txt: "));
/// ```
#[derive(Debug, Default)]
pub struct Inputs<'a> {
    pub(super) files: Vec<File<'a>>,
}

impl<'a> Inputs<'a> {
    /// No files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object, which is linked as a whole, or an archive, whose members are linked when something needs them.
    /// `name` is what messages and the map file call it.
    ///
    /// # Errors
    ///
    /// [`BuildError`] when the file is damaged, or for another machine.
    pub fn add(&mut self, name: &str, bytes: &'a [u8]) -> Result<(), BuildError> {
        let file = match Archive::open(bytes) {
            Some(archive) => File::Archive(members(name, archive)?),
            None => File::Object(Object::parse(name, bytes)?),
        };
        self.files.push(file);
        Ok(())
    }
}

/// One file.
#[derive(Debug)]
pub(super) enum File<'a> {
    Object(Object<'a>),
    Archive(Vec<Object<'a>>),
}

fn members<'a>(name: &str, archive: Archive<'a>) -> Result<Vec<Object<'a>>, BuildError> {
    let mut members = Vec::new();
    for member in archive {
        let member = member.map_err(|error| BuildError::Archive { file: name.to_string(), error })?;
        let full = format!("{name}({})", String::from_utf8_lossy(member.name));
        // Libraries of Rust carry a member of metadata.
        if member.data.starts_with(b"\x7fELF") {
            members.push(Object::parse(&full, member.data)?);
        } else if member.data.starts_with(b"BC\xc0\xde") {
            let problem = "a member is LLVM bitcode, not machine code: compile without -flto or linker-plugin-lto";
            return Err(BuildError::NotAnObject { file: full, problem });
        } else if member.data.starts_with(archive::MAGIC) {
            return Err(BuildError::NotAnObject { file: full, problem: "a member is an archive itself" });
        }
    }
    Ok(members)
}

/// A relocatable object.
#[derive(Debug)]
pub(super) struct Object<'a> {
    pub name: String,
    /// By section index, section 0 included.
    pub sections: Vec<InputSection<'a>>,
    /// By symbol index, symbol 0 included.
    pub symbols: Vec<InputSymbol<'a>>,
    /// Groups of which one file's copy is kept.
    pub groups: Vec<Group<'a>>,
}

/// A section of an object.
#[derive(Debug)]
pub(super) struct InputSection<'a> {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub align: u32,
    pub size: u32,
    /// Empty for a section of zeros.
    pub data: &'a [u8],
    pub relocations: Vec<InputRelocation>,
}

/// A relocation of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputRelocation {
    pub offset: u32,
    pub kind: u32,
    pub symbol: u32,
    pub addend: u32,
}

/// Where a symbol of an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    Undefined,
    Absolute(u32),
    Common { size: u32, align: u32 },
    Section { index: usize, offset: u32 },
}

/// A symbol of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputSymbol<'a> {
    pub name: &'a [u8],
    pub home: Home,
    pub size: u32,
    pub local: bool,
    pub weak: bool,
    /// Symbol type (`stt`).
    pub kind: u8,
}

/// Sections that stand or fall together; of the groups with one signature, one is kept.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub signature: &'a [u8],
    pub sections: Vec<usize>,
}

/// Says what is wrong with an object, and where.
struct Reader<'r, 'a> {
    file: &'r str,
    elf: Elf<'a>,
    sections: Sections<'a>,
}

impl<'a> Object<'a> {
    pub fn parse(file: &str, bytes: &'a [u8]) -> Result<Self, BuildError> {
        let elf = Elf::parse(bytes).map_err(|error| BuildError::Elf { file: file.to_string(), error })?;
        let problem = match (elf.header().machine, elf.header().kind) {
            (machine::XTENSA, et::REL) => None,
            (machine::XTENSA, et::EXEC) => Some("an executable, which is linked already"),
            (machine::XTENSA, et::DYN) => Some("a shared object, which is linked already"),
            (machine::XTENSA, _) => Some("neither an object nor an archive"),
            _ => Some("for another machine"),
        };
        if let Some(problem) = problem {
            return Err(BuildError::NotAnObject { file: file.to_string(), problem });
        }
        let sections = elf.sections().map_err(|error| BuildError::Elf { file: file.to_string(), error })?;
        Reader { file, elf, sections }.object()
    }
}

impl<'a> Reader<'_, 'a> {
    fn object(&self) -> Result<Object<'a>, BuildError> {
        self.check_claims()?;
        let mut sections = Vec::with_capacity(self.sections.len());
        for (index, header) in self.sections.iter().enumerate() {
            sections.push(self.section(index, &header)?);
        }
        let table = self.sections.iter().enumerate().find(|(_, header)| header.kind == sht::SYMTAB);
        let symbols = match &table {
            Some((index, header)) => self.symbols(*index, header)?,
            None => Vec::new(),
        };
        let mut groups = Vec::new();
        for (index, header) in self.sections.iter().enumerate() {
            match header.kind {
                sht::RELA => self.relocations(index, &header, &mut sections, &table, symbols.len())?,
                sht::REL => {
                    return Err(self.bad(index, "relocations without addends (SHT_REL) are not used by Xtensa", 9));
                }
                sht::GROUP => groups.extend(self.group(index, &header, &symbols)?),
                _ => {}
            }
        }
        for section in &mut sections {
            section.relocations.sort_by_key(|relocation| relocation.offset);
        }
        Ok(Object { name: self.file.to_string(), sections, symbols, groups })
    }

    /// Sections may lie over each other in a file; together they may not claim much more than it has.
    fn check_claims(&self) -> Result<(), BuildError> {
        let stored = self.sections.iter().filter(|header| header.kind != sht::NOBITS);
        let value = stored.fold(0_u64, |sum, header| sum.saturating_add(header.size));
        let limit = CLAIM * self.elf.bytes().len() + CLAIM_BASE;
        if value <= limit {
            return Ok(());
        }
        Err(BuildError::Limit { file: self.file.to_string(), what: "the sections", value, limit })
    }

    fn section(&self, index: usize, header: &Header) -> Result<InputSection<'a>, BuildError> {
        let name =
            String::from_utf8_lossy(self.sections.name(header).map_err(|error| self.elf_error(error))?).into_owned();
        let word = |problem, value| u32::try_from(value).map_err(|_| self.bad(index, problem, value));
        let align = header.align.max(1);
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(self.bad(index, "sh_addralign is no power of two up to 65536", header.align));
        }
        if header.flags & shf::ALLOC != 0 && header.flags & shf::TLS != 0 {
            return Err(self.bad(index, "thread-local storage is not available on the device", header.flags));
        }
        let data = self.sections.data(header).map_err(|error| self.elf_error(error))?;
        Ok(InputSection {
            name,
            kind: header.kind,
            flags: header.flags,
            align: word("sh_addralign is too large", align)?,
            size: word("sh_size is too large", header.size)?,
            data,
            relocations: Vec::new(),
        })
    }

    fn symbols(&self, index: usize, header: &Header) -> Result<Vec<InputSymbol<'a>>, BuildError> {
        let strings = usize::try_from(header.link).ok().and_then(|link| self.sections.get(link));
        let strings = strings.filter(|strings| strings.kind == sht::STRTAB);
        let strings =
            strings.ok_or_else(|| self.bad(index, "sh_link names no string table", u64::from(header.link)))?;
        let data = |header: &Header| self.sections.data(header).map_err(|error| self.elf_error(error));
        let strings = StringTable::new("the string table", data(&strings)?).map_err(|error| self.elf_error(error))?;
        let table = SymbolTable::new(Class::Elf32, data(header)?);
        let mut names = NameReader::new(&self.elf, strings);
        let mut symbols = Vec::with_capacity(table.len());
        for symbol in table.iter() {
            let name = names.get(&symbol).map_err(|error| self.elf_error(error))?;
            let wrong = |problem, value| self.bad(index, problem, value);
            let word = |value: u64| u32::try_from(value).map_err(|_| wrong("a symbol is too large", value));
            let (value, size) = (word(symbol.value)?, word(symbol.size)?);
            let home = match symbol.shndx {
                shn::UNDEF => Home::Undefined,
                shn::ABS => Home::Absolute(value),
                shn::COMMON if value.max(1).is_power_of_two() && u64::from(value) <= MAX_ALIGN => {
                    Home::Common { size, align: value.max(1) }
                }
                shn::COMMON => return Err(wrong("the alignment of a common symbol is no power of two", symbol.value)),
                reserved @ shn::LORESERVE.. => {
                    return Err(wrong("a symbol lies in a reserved section", u64::from(reserved)));
                }
                section => {
                    let index = usize::from(section);
                    let Some(home) = self.sections.get(index) else {
                        return Err(wrong("a symbol lies in a section that does not exist", u64::from(section)));
                    };
                    if symbol.value > home.size && symbol.kind() != stt::SECTION {
                        return Err(wrong("a symbol lies behind the end of its section", symbol.value));
                    }
                    Home::Section { index, offset: value }
                }
            };
            let binding = symbol.binding();
            if binding > stb::WEAK && binding != UNIQUE {
                return Err(wrong("a symbol has an unknown binding", u64::from(binding)));
            }
            if symbol.kind() == stt::TLS || symbol.kind() == stt::GNU_IFUNC {
                return Err(wrong("a symbol is thread-local or chosen at load time", u64::from(symbol.kind())));
            }
            let (local, weak) = (symbol.local(), symbol.weak());
            symbols.push(InputSymbol { name, home, size, local, weak, kind: symbol.kind() });
        }
        Ok(symbols)
    }

    fn relocations(
        &self,
        index: usize,
        header: &Header,
        sections: &mut [InputSection<'a>],
        table: &Option<(usize, Header)>,
        symbols: usize,
    ) -> Result<(), BuildError> {
        let symbol_table = table.as_ref().map(|(index, _)| *index as u64);
        if symbol_table != Some(u64::from(header.link)) {
            return Err(self.bad(index, "sh_link does not name the symbol table", u64::from(header.link)));
        }
        let info = u64::from(header.info);
        let target = usize::try_from(header.info).ok().filter(|target| *target != 0);
        let Some(target) = target.and_then(|target| sections.get_mut(target)) else {
            return Err(self.bad(index, "sh_info names no section", info));
        };
        let raw = self.sections.data(header).map_err(|error| self.elf_error(error))?;
        let entries = RelaTable::new(Class::Elf32, raw);
        if entries.len() as u64 * Class::Elf32.rela_size() != raw.len() as u64 {
            return Err(self.bad(index, "sh_size is no multiple of the size of a relocation", header.size));
        }
        for entry in entries.iter() {
            if usize::try_from(entry.symbol).is_ok_and(|symbol| symbol >= symbols.max(1)) {
                return Err(self.bad(
                    index,
                    "a relocation names a symbol that does not exist",
                    u64::from(entry.symbol),
                ));
            }
            let [a0, a1, a2, a3, ..] = entry.addend.to_le_bytes();
            let offset = u32::try_from(entry.offset).unwrap_or(u32::MAX);
            let addend = u32::from_le_bytes([a0, a1, a2, a3]);
            target.relocations.push(InputRelocation { offset, kind: entry.kind, symbol: entry.symbol, addend });
        }
        Ok(())
    }

    /// The members of a group of which one copy is kept (`GRP_COMDAT`); other groups mean nothing to a final link.
    fn group(
        &self,
        index: usize,
        header: &Header,
        symbols: &[InputSymbol<'a>],
    ) -> Result<Option<Group<'a>>, BuildError> {
        let data = self.sections.data(header).map_err(|error| self.elf_error(error))?;
        let (words, []) = data.as_chunks::<4>() else {
            return Err(self.bad(index, "the size of a group is no multiple of 4", header.size));
        };
        let Some((flags, members)) = words.split_first() else {
            return Err(self.bad(index, "a group is empty", 0));
        };
        if u32::from_le_bytes(*flags) & 1 == 0 {
            return Ok(None);
        }
        let signature = usize::try_from(header.info).ok().and_then(|info| symbols.get(info));
        let Some(signature) = signature else {
            return Err(self.bad(index, "sh_info of a group names no symbol", u64::from(header.info)));
        };
        if signature.name.is_empty() {
            return Ok(None);
        }
        let mut sections = Vec::with_capacity(members.len());
        for member in members {
            let member = u32::from_le_bytes(*member);
            let known = usize::try_from(member).ok().filter(|known| *known < self.sections.len());
            sections
                .push(known.ok_or_else(|| {
                    self.bad(index, "a group names a section that does not exist", u64::from(member))
                })?);
        }
        Ok(Some(Group { signature: signature.name, sections }))
    }

    fn elf_error(&self, error: outboard_elf::ElfError) -> BuildError {
        BuildError::Elf { file: self.file.to_string(), error }
    }

    fn bad(&self, index: usize, problem: &'static str, value: u64) -> BuildError {
        let name = self.sections.get(index).and_then(|header| self.sections.name(&header).ok()).unwrap_or(&[]);
        let section = String::from_utf8_lossy(name).into_owned();
        BuildError::BadObject { file: self.file.to_string(), section, index, problem, value }
    }
}

/// `STB_GNU_UNIQUE`: a C++ variable of which there is one in a process; global in a static image.
const UNIQUE: u8 = 10;
