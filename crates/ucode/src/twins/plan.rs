//! What each twin consists of: the documented numbers, and ours where none are documented.

mod cayman;
mod small;
mod sunda;

/// What a function of a twin does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    /// `DT_INIT` with the first two documented address pairs.
    FirstInit,
    /// `DT_INIT` in eight bytes.
    Init,
    /// `DT_FINI` in fourteen bytes.
    Fini,
    /// The entry point: checks the size of its descriptor.
    Entry,
    /// Returns at once.
    Nop,
    /// Executes an instruction: counts in its slot, then calls.
    Kernel { frame: u32, slot: Option<u32>, callee: Option<u32> },
    /// Counts and returns 0.
    Function,
}

impl Role {
    /// Address pairs that the role needs.
    pub fn pairs(self) -> u32 {
        match self {
            Self::FirstInit => 2,
            Self::Kernel { slot, callee, .. } => u32::from(slot.is_some()) + u32::from(callee.is_some()),
            _ => 0,
        }
    }
}

/// A function: offset in the text and role.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub at: u32,
    pub role: Role,
}

/// Contents of a data section.
#[derive(Debug, Clone)]
pub(super) enum Contents {
    /// These bytes.
    Bytes(Vec<u8>),
    /// All ones, this many relocated pointers to functions, zero.
    Constructors(Vec<u32>),
    /// The first word is a relocated pointer, the rest counters.
    Pointer(u32),
}

/// A section of the data segment.
#[derive(Debug, Clone)]
pub(super) struct DataSection {
    pub name: &'static str,
    pub address: u32,
    pub size: u32,
    pub align: u32,
    pub writable: bool,
    pub contents: Contents,
}

/// A twin.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// `e_type`.
    pub kind: u16,
    /// Size of the file.
    pub size: u32,
    pub code_base: u32,
    /// Where data addresses count from.
    pub data_base: u32,
    pub entry: u32,
    pub init: u32,
    pub fini: u32,
    pub text_size: u32,
    pub functions: Vec<Function>,
    /// Address pairs in the text.
    pub pairs: u32,
    /// Empty relocations.
    pub nones: u32,
    /// Words that functions count in.
    pub counters: u32,
    pub counter_words: u32,
    pub data: Vec<DataSection>,
    pub table: u32,
    /// Extended opcode, opcode, link address of the function.
    pub kernels: Vec<(u8, u8, u32)>,
    pub bss: (u32, u32),
    pub comment: &'static str,
    /// Mangled name and link address of the functions with a property section.
    pub properties: Vec<(String, u32)>,
    /// Empty sections that make up the number of an original whose names are not known.
    pub unnamed: u32,
}

pub(super) const CLANG_10: &str = "XtensaTools-14.09 clang version 10.0.1";
pub(super) const CLANG_15: &str = "XtensaTools-15.05 clang version 15.0.7";

/// The plan with this name.
pub(super) fn plan(name: &str) -> Option<Plan> {
    let (generation, library) = name.rsplit_once('_')?;
    match (generation, library) {
        ("sunda", "0") => Some(sunda::plan()),
        ("cayman", "0") => Some(cayman::plan(&cayman::CAYMAN)),
        ("mariana" | "mariana_plus", "0") => Some(cayman::plan(&cayman::MARIANA)),
        ("maverick", "0") => Some(cayman::plan(&cayman::MAVERICK)),
        ("cayman", _) => small::plan(&small::CAYMAN, library),
        ("mariana" | "mariana_plus", _) => small::plan(&small::MARIANA, library),
        ("maverick", _) => small::plan(&small::MAVERICK, library),
        _ => None,
    }
}

/// `.globstruct`: a sentinel, four sizes, four limits, ones.
fn globstruct() -> Vec<u8> {
    let words = [0x6099_cb34].into_iter().chain([0x0001_0000; 4]).chain([0x00ff_ffff; 4]).chain([u32::MAX; 9]);
    words.flat_map(u32::to_le_bytes).collect()
}

/// Recognisable bytes for read-only data.
fn pattern(size: u32) -> Vec<u8> {
    (0..size).map(|index| u8::try_from(index * 37 % 251).unwrap_or(0)).collect()
}

fn kernel(at: u32, slot: Option<u32>, callee: Option<u32>) -> Function {
    Function { at, role: Role::Kernel { frame: 32, slot, callee } }
}

fn function(at: u32) -> Function {
    Function { at, role: Role::Function }
}
