//! Numbers of the ELF format that modules of the four machines use, with their names.

/// Machines (`e_machine`).
pub mod machine {
    /// AMD x86-64.
    pub const X86_64: u16 = 62;
    /// Tensilica Xtensa.
    pub const XTENSA: u16 = 94;
    /// TI C7x.
    pub const C7X: u16 = 145;
    /// ARM AArch64.
    pub const AARCH64: u16 = 183;
}

/// File types (`e_type`).
pub mod et {
    /// Relocatable object.
    pub const REL: u16 = 1;
    /// Executable.
    pub const EXEC: u16 = 2;
    /// Shared object.
    pub const DYN: u16 = 3;
    /// Core dump.
    pub const CORE: u16 = 4;
}

/// Operating system and ABI (`EI_OSABI`).
pub mod osabi {
    /// System V.
    pub const SYSV: u8 = 0;
    /// GNU/Linux.
    pub const GNU: u8 = 3;
    /// C7x bare metal.
    pub const C7X_BARE: u8 = 64;
    /// C7x Linux.
    pub const C7X_LINUX: u8 = 65;
}

/// Segment types (`p_type`).
pub mod pt {
    /// Unused.
    pub const NULL: u32 = 0;
    /// Loaded into memory.
    pub const LOAD: u32 = 1;
    /// Dynamic table.
    pub const DYNAMIC: u32 = 2;
    /// Program interpreter.
    pub const INTERP: u32 = 3;
    /// Notes.
    pub const NOTE: u32 = 4;
    /// The program header table itself.
    pub const PHDR: u32 = 6;
    /// Thread-local storage template.
    pub const TLS: u32 = 7;
    /// GNU exception index.
    pub const GNU_EH_FRAME: u32 = 0x6474_e550;
    /// GNU stack permissions.
    pub const GNU_STACK: u32 = 0x6474_e551;
    /// GNU read-only after relocation.
    pub const GNU_RELRO: u32 = 0x6474_e552;
    /// GNU properties.
    pub const GNU_PROPERTY: u32 = 0x6474_e553;
    /// C7x segment attributes.
    pub const C7X_PHATTR: u32 = 0x7000_0000;
}

/// Segment permissions (`p_flags`).
pub mod pf {
    /// Executable.
    pub const X: u32 = 1;
    /// Writable.
    pub const W: u32 = 2;
    /// Readable.
    pub const R: u32 = 4;
}

/// Section types (`sh_type`).
pub mod sht {
    /// Unused.
    pub const NULL: u32 = 0;
    /// Program data.
    pub const PROGBITS: u32 = 1;
    /// Symbol table.
    pub const SYMTAB: u32 = 2;
    /// String table.
    pub const STRTAB: u32 = 3;
    /// Relocations with addends.
    pub const RELA: u32 = 4;
    /// Symbol hash table.
    pub const HASH: u32 = 5;
    /// Dynamic table.
    pub const DYNAMIC: u32 = 6;
    /// Notes.
    pub const NOTE: u32 = 7;
    /// Occupies no file bytes.
    pub const NOBITS: u32 = 8;
    /// Relocations without addends.
    pub const REL: u32 = 9;
    /// Dynamic symbol table.
    pub const DYNSYM: u32 = 11;
    /// Table of initialisation functions.
    pub const INIT_ARRAY: u32 = 14;
    /// Table of termination functions.
    pub const FINI_ARRAY: u32 = 15;
    /// Sections that stand or fall together.
    pub const GROUP: u32 = 17;
    /// GNU symbol hash table.
    pub const GNU_HASH: u32 = 0x6fff_fff6;
}

/// Section attributes (`sh_flags`).
pub mod shf {
    /// May be written at run time.
    pub const WRITE: u64 = 1;
    /// Occupies memory at run time.
    pub const ALLOC: u64 = 2;
    /// Holds instructions.
    pub const EXECINSTR: u64 = 4;
    /// `sh_info` is the index of a section.
    pub const INFO_LINK: u64 = 0x40;
    /// Thread-local storage.
    pub const TLS: u64 = 0x400;
    /// Never removed by a linker.
    pub const GNU_RETAIN: u64 = 0x20_0000;
}

/// Section indices with a meaning (`st_shndx`).
pub mod shn {
    /// Undefined.
    pub const UNDEF: u16 = 0;
    /// First reserved index.
    pub const LORESERVE: u16 = 0xff00;
    /// Absolute value, never moved.
    pub const ABS: u16 = 0xfff1;
    /// Common block.
    pub const COMMON: u16 = 0xfff2;
    /// The index is in an extension table.
    pub const XINDEX: u16 = 0xffff;
}

/// Symbol bindings.
pub mod stb {
    /// Not visible outside of the object.
    pub const LOCAL: u8 = 0;
    /// Visible everywhere.
    pub const GLOBAL: u8 = 1;
    /// Visible, may stay undefined on host processors.
    pub const WEAK: u8 = 2;
}

/// Symbol types.
pub mod stt {
    /// Unspecified.
    pub const NOTYPE: u8 = 0;
    /// Data.
    pub const OBJECT: u8 = 1;
    /// Code.
    pub const FUNC: u8 = 2;
    /// A section.
    pub const SECTION: u8 = 3;
    /// A source file.
    pub const FILE: u8 = 4;
    /// Thread-local data.
    pub const TLS: u8 = 6;
    /// Function chosen at load time.
    pub const GNU_IFUNC: u8 = 10;
}

/// Symbol visibilities.
pub mod stv {
    /// As the binding says.
    pub const DEFAULT: u8 = 0;
    /// Processor-specific hidden.
    pub const INTERNAL: u8 = 1;
    /// Not visible to other modules.
    pub const HIDDEN: u8 = 2;
    /// Visible but never pre-empted.
    pub const PROTECTED: u8 = 3;
}

macro_rules! dynamic_tags {
    ($($name:ident = $value:expr, $text:literal;)*) => {
        /// Dynamic tags (`d_tag`).
        pub mod dt {
            $(#[doc = $text] pub const $name: u64 = $value;)*
        }
        /// The name of a dynamic tag, `None` when it is not known.
        #[must_use]
        pub const fn dynamic_tag_name(tag: u64) -> Option<&'static str> {
            match tag {
                $($value => Some(concat!("DT_", stringify!($name))),)*
                _ => None,
            }
        }
    };
}

dynamic_tags! {
    NULL = 0, "End of the table.";
    NEEDED = 1, "Name of a library this module depends on.";
    PLTRELSZ = 2, "Size of the PLT relocations.";
    PLTGOT = 3, "Address of the PLT's table.";
    HASH = 4, "System V symbol hash table.";
    STRTAB = 5, "String table.";
    SYMTAB = 6, "Symbol table.";
    RELA = 7, "Relocations with addends.";
    RELASZ = 8, "Size of the relocations in bytes.";
    RELAENT = 9, "Size of one relocation.";
    STRSZ = 10, "Size of the string table.";
    SYMENT = 11, "Size of one symbol.";
    INIT = 12, "Initialisation function.";
    FINI = 13, "Termination function.";
    SONAME = 14, "Name of this module.";
    RPATH = 15, "Library search path.";
    SYMBOLIC = 16, "Own definitions come first.";
    REL = 17, "Relocations without addends.";
    RELSZ = 18, "Size of the relocations without addends.";
    RELENT = 19, "Size of one relocation without addend.";
    PLTREL = 20, "Kind of the PLT relocations: 7 (RELA) or 17 (REL).";
    DEBUG = 21, "For debuggers.";
    TEXTREL = 22, "Relocations may change read-only segments.";
    JMPREL = 23, "Relocations of the PLT.";
    BIND_NOW = 24, "Resolve everything at load.";
    INIT_ARRAY = 25, "Table of initialisation functions.";
    FINI_ARRAY = 26, "Table of termination functions.";
    INIT_ARRAYSZ = 27, "Size of that table in bytes.";
    FINI_ARRAYSZ = 28, "Size of that table in bytes.";
    RUNPATH = 29, "Library search path.";
    FLAGS = 30, "Flags.";
    PREINIT_ARRAY = 32, "Functions that run before the initialisers.";
    PREINIT_ARRAYSZ = 33, "Size of that table in bytes.";
    SYMTAB_SHNDX = 34, "Extended section indices.";
    RELRSZ = 35, "Size of the packed relative relocations.";
    RELR = 36, "Packed relative relocations.";
    RELRENT = 37, "Size of one packed word.";
    C7X_GSYM_OFFSET = 0x6000_000d, "Byte offset of the first global symbol inside the symbol table.";
    C7X_GSTR_OFFSET = 0x6000_000f, "Byte offset of the first global name inside the string table.";
    C7X_PRELINKED = 0x6000_0011, "The module was prelinked.";
    GNU_HASH = 0x6fff_fef5, "GNU symbol hash table.";
    VERSYM = 0x6fff_fff0, "Symbol versions.";
    RELACOUNT = 0x6fff_fff9, "Number of relative relocations.";
    FLAGS_1 = 0x6fff_fffb, "More flags.";
    VERDEF = 0x6fff_fffc, "Version definitions.";
    VERDEFNUM = 0x6fff_fffd, "Number of version definitions.";
    VERNEED = 0x6fff_fffe, "Needed versions.";
    VERNEEDNUM = 0x6fff_ffff, "Number of needed versions.";
    C7X_PREEMPTMAP = 0x7000_0002, "Pre-emption map.";
}

/// The name of a machine, `None` when it is not one of the four.
#[must_use]
pub const fn em_name(value: u16) -> Option<&'static str> {
    match value {
        machine::X86_64 => Some("x86-64"),
        machine::XTENSA => Some("Xtensa"),
        machine::C7X => Some("TI C7x"),
        machine::AARCH64 => Some("AArch64"),
        _ => None,
    }
}

/// The name of a file type.
#[must_use]
pub const fn et_name(value: u16) -> Option<&'static str> {
    match value {
        et::REL => Some("relocatable object"),
        et::EXEC => Some("executable"),
        et::DYN => Some("shared object"),
        et::CORE => Some("core dump"),
        _ => None,
    }
}

/// The name of an `EI_OSABI` value.
#[must_use]
pub const fn osabi_name(value: u8) -> Option<&'static str> {
    match value {
        osabi::SYSV => Some("System V"),
        osabi::GNU => Some("GNU/Linux"),
        osabi::C7X_BARE => Some("C7x bare metal"),
        osabi::C7X_LINUX => Some("C7x Linux"),
        _ => None,
    }
}

/// The name of a segment type.
#[must_use]
pub const fn segment_type_name(value: u32) -> Option<&'static str> {
    match value {
        pt::NULL => Some("NULL"),
        pt::LOAD => Some("LOAD"),
        pt::DYNAMIC => Some("DYNAMIC"),
        pt::INTERP => Some("INTERP"),
        pt::NOTE => Some("NOTE"),
        pt::PHDR => Some("PHDR"),
        pt::TLS => Some("TLS"),
        pt::GNU_EH_FRAME => Some("GNU_EH_FRAME"),
        pt::GNU_STACK => Some("GNU_STACK"),
        pt::GNU_RELRO => Some("GNU_RELRO"),
        pt::GNU_PROPERTY => Some("GNU_PROPERTY"),
        pt::C7X_PHATTR => Some("C7X_PHATTR"),
        _ => None,
    }
}
