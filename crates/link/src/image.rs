//! Phase *parse*: the file's headers and dynamic tables, checked, nothing copied.

use alloc::string::String;
use alloc::vec::Vec;

use outboard_elf::{
    Dynamic, Elf, ElfError, RelaTable, RelrTable, Sections, Segment, StringTable, SymbolTable, dt, em_name, et,
    et_name, gnu_symbol_count, osabi, pt, sysv_symbol_count,
};

use crate::{LoadError, LoadRequest, Machine};

/// No segment and no image may be larger: sizes of the device are 32-bit.
pub(crate) const LARGEST: u64 = (1 << 32) - 1;
/// Name of the one dependency that a C7x module may have: the firmware's symbols.
const FIRMWARE_SYMBOLS: &[u8] = b"dsp_syms.out";
/// Section of a C7x module that holds the symbol file it was linked against.
pub(crate) const FIRMWARE_SYMBOLS_SECTION: &[u8] = b".dsp_syms_out";

/// A module's file after the parse phase.
pub(crate) struct Image<'a> {
    pub elf: Elf<'a>,
    pub machine: Machine,
    /// `PT_LOAD` headers that occupy memory, in header order.
    pub loads: Vec<Segment>,
    /// Indices into `loads`, sorted by link address.
    pub by_address: Vec<usize>,
    pub strings: StringTable<'a>,
    pub symbols: SymbolTable<'a>,
    /// Index of the first symbol that other modules may see.
    pub first_global: usize,
    /// Names of `DT_NEEDED`, in order.
    pub needed: Vec<&'a [u8]>,
    /// Own definitions come before the device's (`DT_SYMBOLIC`, host processors only).
    pub symbolic: bool,
    /// Relocation tables in the order in which they are applied: PLT first.
    pub rela: [RelaTable<'a>; 3],
    pub relr: RelrTable<'a>,
    pub functions: FunctionTables,
    /// Section headers, C7x only: they say which segment a symbol belongs to.
    pub sections: Option<Sections<'a>>,
}

/// Where the initialisers and finalisers of a module are. Link addresses and byte sizes, 0 when absent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FunctionTables {
    pub init: u64,
    pub fini: u64,
    pub preinit_array: (u64, u64),
    pub init_array: (u64, u64),
    pub fini_array: (u64, u64),
}

impl<'a> Image<'a> {
    pub fn parse(request: &LoadRequest<'a>) -> Result<Self, LoadError> {
        let elf = Elf::parse(request.file)?;
        let machine = check_machine(&elf, request)?;
        let header = elf.header();
        if !matches!(header.kind, et::EXEC | et::DYN) {
            return Err(LoadError::BadType { value: header.kind, name: et_name(header.kind).unwrap_or("unknown") });
        }
        let loads = load_segments(&elf)?;
        let by_address = sort_by_address(&loads)?;
        if machine.one_block()
            && let Some(tls) = elf.segments().find(|s| s.kind == pt::TLS && s.memsz > 0)
        {
            return Err(LoadError::ThreadLocal { index: tls.index });
        }
        let dynamic = elf.dynamic(machine.pointers())?.ok_or(LoadError::NotRelocatable)?;
        if machine == Machine::C7x && header.osabi != osabi::C7X_BARE {
            return Err(LoadError::BadOsAbi { value: header.osabi });
        }
        Self::read_dynamic(elf, machine, loads, by_address, &dynamic)
    }

    fn read_dynamic(
        elf: Elf<'a>,
        machine: Machine,
        loads: Vec<Segment>,
        by_address: Vec<usize>,
        dynamic: &Dynamic<'a>,
    ) -> Result<Self, LoadError> {
        let strings = string_table(dynamic)?;
        let class = elf.header().class;
        if machine == Machine::C7x {
            let offset = dynamic.get(dt::SONAME).ok_or(LoadError::MissingSoname)?;
            if strings.get("DT_SONAME", offset, elf.limits().name)?.is_empty() {
                return Err(LoadError::MissingSoname);
            }
        }
        refuse_rel(dynamic)?;
        let rela = relocation_tables(&elf, dynamic)?;
        let symbols = symbol_table(&elf, machine, dynamic, &rela)?;
        let first_global = global_offsets(class.symbol_size(), dynamic, &symbols, &strings)?;
        for symbol in symbols.iter() {
            if !strings.valid(u64::from(symbol.name)) {
                strings.get("a symbol name", u64::from(symbol.name), elf.limits().name)?;
            }
        }
        let mut image = Self {
            elf,
            machine,
            loads,
            by_address,
            strings,
            symbols,
            first_global,
            needed: Vec::new(),
            symbolic: dynamic.get(dt::SYMBOLIC).is_some() || dynamic.get(dt::FLAGS).is_some_and(|flags| flags & 2 != 0),
            rela,
            relr: relr_table(dynamic)?,
            functions: FunctionTables::default(),
            sections: None,
        };
        if machine == Machine::C7x {
            image.sections = Some(elf.sections()?);
        } else if let Some(value) = text_relocations(dynamic) {
            return Err(LoadError::TextRelocation { what: "DT_TEXTREL", place: value });
        }
        image.functions = function_tables(dynamic)?;
        image.read_needed(dynamic)?;
        Ok(image)
    }

    fn read_needed(&mut self, dynamic: &Dynamic<'a>) -> Result<(), LoadError> {
        for entry in dynamic.iter().filter(|entry| entry.tag == dt::NEEDED) {
            let name = self.strings.get("DT_NEEDED", entry.value, self.elf.limits().name)?;
            if self.machine == Machine::C7x {
                self.check_dependency(name)?;
            }
            self.needed.push(name);
        }
        Ok(())
    }

    fn check_dependency(&self, name: &[u8]) -> Result<(), LoadError> {
        let missing = |problem| LoadError::MissingDependency { name: lossy(name), problem };
        if name != FIRMWARE_SYMBOLS {
            return Err(missing(
                "a C7x module may only depend on dsp_syms.out, the symbols of the firmware; link the library into the module",
            ));
        }
        match &self.sections {
            Some(sections) if !sections.is_empty() && sections.by_name(FIRMWARE_SYMBOLS_SECTION).is_none() => {
                Err(missing(
                    "the module has no section .dsp_syms_out with the symbols it was linked against; add it to the link",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The position in `loads` of the segment that holds link address `address`.
    pub fn load_at(&self, address: u64) -> Option<usize> {
        let next = self.by_address.partition_point(|i| self.loads.get(*i).is_some_and(|s| s.vaddr <= address));
        let position = *self.by_address.get(next.checked_sub(1)?)?;
        self.loads.get(position)?.contains(address).then_some(position)
    }

    /// The position in `loads` of the segment that ends right before link address `address`.
    pub fn load_ending_at(&self, address: u64) -> Option<usize> {
        let next = self.by_address.partition_point(|i| self.loads.get(*i).is_some_and(|s| s.vaddr < address));
        let position = *self.by_address.get(next.checked_sub(1)?)?;
        (self.loads.get(position)?.end() == Some(address)).then_some(position)
    }

    /// The name of a symbol for messages.
    pub fn name_for_message(&self, index: u32) -> String {
        let name = self
            .symbols
            .get(usize::try_from(index).unwrap_or(usize::MAX))
            .and_then(|symbol| self.strings.get("a symbol name", u64::from(symbol.name), self.elf.limits().name).ok());
        lossy(name.unwrap_or(b""))
    }
}

/// The string and symbol table of a C7x symbol file, `None` when it is damaged: it is only used for advice.
pub(crate) fn symbol_file<'a>(elf: &Elf<'a>) -> Option<(StringTable<'a>, SymbolTable<'a>)> {
    let dynamic = elf.dynamic(Machine::C7x.pointers()).ok()??;
    let strings = string_table(&dynamic).ok()?;
    let none = [RelaTable::new(elf.header().class, &[]); 3];
    let symbols = symbol_table(elf, Machine::C7x, &dynamic, &none).ok()?;
    Some((strings, symbols))
}

pub(crate) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn check_machine(elf: &Elf<'_>, request: &LoadRequest<'_>) -> Result<Machine, LoadError> {
    let found = elf.header().machine;
    let machine = Machine::from_elf(found).filter(|m| request.machines.contains(m) && m.relocations().is_some());
    machine.ok_or_else(|| LoadError::BadMachine {
        module: request.name.into(),
        found,
        found_name: em_name(found).unwrap_or("unknown"),
        accepted: names_of(request.machines),
    })
}

fn names_of(machines: &[Machine]) -> String {
    if machines.is_empty() {
        return "no machine".into();
    }
    machines.iter().map(|machine| machine.name()).collect::<Vec<_>>().join(" and ")
}

fn load_segments(elf: &Elf<'_>) -> Result<Vec<Segment>, LoadError> {
    let mut loads = Vec::new();
    for segment in elf.load_segments() {
        if segment.filesz > segment.memsz {
            return Err(segment.bad("p_filesz is larger than p_memsz").into());
        }
        if segment.offset.checked_add(segment.filesz).is_none_or(|end| end > elf.bytes().len()) {
            return Err(segment.bad("its bytes lie beyond the end of the file").into());
        }
        if segment.align != 0 && !segment.align.is_power_of_two() {
            let Segment { index, header, align, .. } = segment;
            let problem = "is not a power of two; link the module again";
            return Err(LoadError::BadAlign { index, header, align, problem });
        }
        if segment.memsz > LARGEST {
            return Err(LoadError::SegmentTooLarge {
                what: "a segment (p_memsz)",
                size: segment.memsz,
                limit: LARGEST,
            });
        }
        if segment.end().is_none() {
            return Err(segment.bad("its addresses wrap around").into());
        }
        if segment.memsz > 0 {
            loads.push(segment);
        }
    }
    Ok(loads)
}

fn sort_by_address(loads: &[Segment]) -> Result<Vec<usize>, LoadError> {
    let start = |i: &usize| loads.get(*i).map_or(0, |segment| segment.vaddr);
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_unstable_by_key(start);
    for (low, high) in order.iter().zip(order.iter().skip(1)) {
        if let (Some(low), Some(high)) = (loads.get(*low), loads.get(*high))
            && low.end().is_some_and(|end| end > high.vaddr)
        {
            return Err(high.bad("its addresses overlap those of another segment").into());
        }
    }
    Ok(order)
}

fn string_table<'a>(dynamic: &Dynamic<'a>) -> Result<StringTable<'a>, LoadError> {
    let address = dynamic.require(dt::STRTAB, "DT_STRTAB")?;
    let size = dynamic.require(dt::STRSZ, "DT_STRSZ")?;
    Ok(StringTable::new("DT_STRTAB", dynamic.data("DT_STRTAB", address, size)?)?)
}

fn symbol_table<'a>(
    elf: &Elf<'a>,
    machine: Machine,
    dynamic: &Dynamic<'a>,
    rela: &[RelaTable<'a>; 3],
) -> Result<SymbolTable<'a>, LoadError> {
    let class = elf.header().class;
    let address = dynamic.require(dt::SYMTAB, "DT_SYMTAB")?;
    if let Some(value) = dynamic.get(dt::SYMENT).filter(|size| *size != class.symbol_size()) {
        return Err(ElfError::BadDynamic { tag: "DT_SYMENT", problem: "must be the size of a symbol", value }.into());
    }
    let count = match (dynamic.get(dt::HASH), dynamic.get(dt::GNU_HASH)) {
        (Some(hash), _) if hash != 0 => u64::from(sysv_symbol_count(dynamic.data("DT_HASH", hash, 8)?)?),
        (_, Some(hash)) if machine != Machine::C7x && hash != 0 => {
            let counted = gnu_symbol_count(dynamic.rest("DT_GNU_HASH", hash)?)?;
            counted.max(highest_symbol(rela))
        }
        _ if machine == Machine::C7x => dynamic.require(dt::HASH, "DT_HASH")?,
        _ => highest_symbol(rela),
    };
    if count > elf.limits().symbols {
        return Err(ElfError::Limit { what: "the number of symbols", value: count, limit: elf.limits().symbols }.into());
    }
    Ok(SymbolTable::new(class, dynamic.data("DT_SYMTAB", address, count * class.symbol_size())?))
}

/// One more than the highest symbol that a relocation uses. The GNU hash table does not count undefined symbols when
/// nothing is defined, and a module without any hash table counts none.
fn highest_symbol(rela: &[RelaTable<'_>; 3]) -> u64 {
    rela.iter().flat_map(RelaTable::iter).map(|entry| u64::from(entry.symbol) + 1).max().unwrap_or(0)
}

/// Checks the two C7x tags that divide the tables into a local and a global part; 0 when absent.
fn global_offsets(
    symbol_size: u64,
    dynamic: &Dynamic<'_>,
    symbols: &SymbolTable<'_>,
    strings: &StringTable<'_>,
) -> Result<usize, LoadError> {
    let bad = |tag, problem, value| ElfError::BadDynamic { tag, problem, value };
    let global_symbols = dynamic.get(dt::C7X_GSYM_OFFSET).unwrap_or(0);
    let global_names = dynamic.get(dt::C7X_GSTR_OFFSET).unwrap_or(0);
    if !global_symbols.is_multiple_of(symbol_size) || global_symbols / symbol_size > symbols.len() as u64 {
        return Err(bad("DT_C7X_GSYM_OFFSET", "does not point to a symbol of the table", global_symbols).into());
    }
    if global_names > strings.len() {
        return Err(bad("DT_C7X_GSTR_OFFSET", "lies outside of the string table", global_names).into());
    }
    Ok(usize::try_from(global_symbols / symbol_size).unwrap_or(usize::MAX))
}

fn refuse_rel(dynamic: &Dynamic<'_>) -> Result<(), LoadError> {
    for (tag, name) in [(dt::REL, "DT_REL"), (dt::RELSZ, "DT_RELSZ")] {
        if let Some(value) = dynamic.get(tag) {
            return Err(LoadError::RelUnsupported { tag: name, value });
        }
    }
    match dynamic.get(dt::PLTREL) {
        None | Some(dt::RELA) => Ok(()),
        Some(value) => Err(LoadError::RelUnsupported { tag: "DT_PLTREL", value }),
    }
}

/// The relocation tables in the order in which they are applied. `DT_JMPREL` may be a part of `DT_RELA` (the C7x linker
/// does that) or a table of its own; every entry is in exactly one of the three results.
fn relocation_tables<'a>(elf: &Elf<'a>, dynamic: &Dynamic<'a>) -> Result<[RelaTable<'a>; 3], LoadError> {
    let class = elf.header().class;
    let bad = |tag, problem, value| LoadError::Elf(ElfError::BadDynamic { tag, problem, value });
    let size = dynamic.get(dt::RELASZ).unwrap_or(0);
    let plt_size = dynamic.get(dt::PLTRELSZ).unwrap_or(0);
    if size != 0 || (plt_size != 0 && dynamic.get(dt::RELAENT).is_some()) {
        check_entry_size(dynamic, class.rela_size())?;
    }
    for (tag, value) in [("DT_RELASZ", size), ("DT_PLTRELSZ", plt_size)] {
        if !value.is_multiple_of(class.rela_size()) {
            return Err(bad(tag, "is not a multiple of the size of a relocation", value));
        }
    }
    let table = |raw| RelaTable::new(class, raw);
    let slice = |offset, len| elf.bytes().range("the relocation table", offset, len).map(table);
    let main = match size {
        0 => 0,
        _ => dynamic.locate("DT_RELA", dynamic.require(dt::RELA, "DT_RELA")?, size)?,
    };
    if plt_size == 0 {
        return Ok([table(&[]), slice(main, size)?, table(&[])]);
    }
    let plt = dynamic.locate("DT_JMPREL", dynamic.require(dt::JMPREL, "DT_JMPREL")?, plt_size)?;
    let (main_end, plt_end) = (main + size, plt + plt_size);
    if size == 0 || plt_end <= main || plt >= main_end {
        return Ok([slice(plt, plt_size)?, slice(main, size)?, table(&[])]);
    }
    if plt < main || plt_end > main_end || !(plt - main).is_multiple_of(class.rela_size()) {
        return Err(bad("DT_JMPREL", "overlaps DT_RELA partly", plt));
    }
    Ok([slice(plt, plt_size)?, slice(main, plt - main)?, slice(plt_end, main_end - plt_end)?])
}

fn check_entry_size(dynamic: &Dynamic<'_>, expected: u64) -> Result<(), LoadError> {
    let value = dynamic.get(dt::RELAENT).unwrap_or(0);
    if value == expected {
        return Ok(());
    }
    let offset = dynamic.file_offset();
    Err(ElfError::BadEntrySize { field: "DT_RELAENT", offset, value, expected }.into())
}

fn relr_table<'a>(dynamic: &Dynamic<'a>) -> Result<RelrTable<'a>, LoadError> {
    let size = dynamic.get(dt::RELRSZ).unwrap_or(0);
    if size == 0 {
        return Ok(RelrTable::new(&[]));
    }
    if let Some(value) = dynamic.get(dt::RELRENT).filter(|size| *size != 8) {
        let offset = dynamic.file_offset();
        return Err(ElfError::BadEntrySize { field: "DT_RELRENT", offset, value, expected: 8 }.into());
    }
    if !size.is_multiple_of(8) {
        let problem = "is not a multiple of the size of a word";
        return Err(ElfError::BadDynamic { tag: "DT_RELRSZ", problem, value: size }.into());
    }
    Ok(RelrTable::new(dynamic.data("DT_RELR", dynamic.require(dt::RELR, "DT_RELR")?, size)?))
}

fn text_relocations(dynamic: &Dynamic<'_>) -> Option<u64> {
    const DF_TEXTREL: u64 = 4;
    dynamic.get(dt::TEXTREL).or_else(|| dynamic.get(dt::FLAGS).filter(|flags| flags & DF_TEXTREL != 0))
}

fn function_tables(dynamic: &Dynamic<'_>) -> Result<FunctionTables, LoadError> {
    let array = |pointer, size, name| -> Result<(u64, u64), LoadError> {
        let bytes = dynamic.get(size).unwrap_or(0);
        if bytes == 0 {
            return Ok((0, 0));
        }
        if !bytes.is_multiple_of(8) {
            let problem = "is not a multiple of the size of an address";
            return Err(ElfError::BadDynamic { tag: name, problem, value: bytes }.into());
        }
        Ok((dynamic.get(pointer).unwrap_or(0), bytes))
    };
    Ok(FunctionTables {
        init: dynamic.get(dt::INIT).unwrap_or(0),
        fini: dynamic.get(dt::FINI).unwrap_or(0),
        preinit_array: array(dt::PREINIT_ARRAY, dt::PREINIT_ARRAYSZ, "DT_PREINIT_ARRAYSZ")?,
        init_array: array(dt::INIT_ARRAY, dt::INIT_ARRAYSZ, "DT_INIT_ARRAYSZ")?,
        fini_array: array(dt::FINI_ARRAY, dt::FINI_ARRAYSZ, "DT_FINI_ARRAYSZ")?,
    })
}
