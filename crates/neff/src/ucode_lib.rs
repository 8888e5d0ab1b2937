//! The manifest of the libraries: `ucode_lib.json`, or the same array inside of `def.json`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::NeffError;
use crate::json::{self, Node};

/// Functions of all libraries of a table.
const FUNCTIONS: usize = 97;
/// Functions that one core gets.
const FUNCTIONS_OF_A_CORE: usize = 28;
/// Bytes of a function's name.
const FUNCTION_NAME: usize = 64;
/// Libraries of a model.
const LIBRARIES: usize = 9;
/// Bytes of a library's name, the terminator included.
const LIBRARY_NAME: usize = 32;
/// Highest function id; 255 means unset.
const LAST_FUNCTION: u64 = 254;
/// The opcode of a custom operation.
const CUSTOM_OP: i64 = 0x85;

/// The runtime's version that libraries must match in their first number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// Major number.
    pub major: u64,
}

impl Default for RuntimeVersion {
    /// 1, as in `1.21.1.0`.
    fn default() -> Self {
        Self { major: 1 }
    }
}

/// A function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UcodeFunction {
    /// Its name.
    pub name: String,
    /// Opcode of the instruction that runs it.
    pub opcode: u8,
    /// Function id of a custom operation.
    pub sub_opcode: Option<u8>,
}

/// A library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UcodeLib {
    /// Name of the member with its bytes.
    pub library: String,
    /// Version of the library, such as `1.21.1.0`.
    pub version: String,
    /// Version of the instruction set.
    pub isa_version: Option<String>,
    /// It belongs to the compiler.
    pub is_builtin: bool,
    /// The core it is for.
    pub cpu_id: u8,
    /// Cores that take part: 0, 1 or 8.
    pub total_cpus: u8,
    /// 0 for custom operations by name, 6 for libraries bound to an opcode.
    pub flags: u32,
    /// Its functions.
    pub functions: Vec<UcodeFunction>,
}

/// Reads a manifest: an object with the key `ucode_lib`, or the array itself, or a single library.
///
/// # Errors
///
/// The messages of the original where it has one; the key and what was expected otherwise.
pub fn parse_ucode_lib(member: &str, bytes: &[u8], runtime: RuntimeVersion) -> Result<Vec<UcodeLib>, NeffError> {
    let value = json::parse(member, bytes)?;
    from_value(member, &value, runtime)
}

/// As [`parse_ucode_lib`], from a value that is already parsed.
pub(crate) fn from_value(member: &str, value: &Value, runtime: RuntimeVersion) -> Result<Vec<UcodeLib>, NeffError> {
    let root = Node { member, value };
    let list = value.get("ucode_lib").unwrap_or(value);
    let items = match list {
        Value::Array(items) => items.as_slice(),
        Value::Object(map) if map.contains_key("library") => std::slice::from_ref(list),
        _ => return Err(root.bad("holds neither a key `ucode_lib` with an array nor an array of libraries")),
    };
    if items.len() > LIBRARIES {
        return Err(root.bad(format!("names {} libraries, the runtime takes at most {LIBRARIES}", items.len())));
    }
    let mut libraries = Vec::with_capacity(items.len());
    let mut names = BTreeSet::new();
    for item in items {
        let library = library(Node { member, value: item }, runtime)?;
        if !names.insert(library.library.clone()) {
            return Err(root.bad(format!("UCode Library {} has already been added", library.library)));
        }
        libraries.push(library);
    }
    let functions: usize = libraries.iter().map(|library| library.functions.len()).sum();
    if functions > FUNCTIONS {
        return Err(root.bad(format!("too many ucode functions in this table: {functions}, at most {FUNCTIONS}")));
    }
    for core in 0..8 {
        let mine = libraries.iter().filter(|library| library.cpu_id == core);
        let count: usize = mine.map(|library| library.functions.len()).sum();
        if count > FUNCTIONS_OF_A_CORE {
            return Err(root.bad(format!("core {core} gets {count} functions, at most {FUNCTIONS_OF_A_CORE}")));
        }
    }
    Ok(libraries)
}

fn library(node: Node<'_>, runtime: RuntimeVersion) -> Result<UcodeLib, NeffError> {
    let name = node.text("library").ok_or_else(|| node.bad("a library has no `library` (the name of its member)"))?;
    if name.is_empty() || name.len() >= LIBRARY_NAME {
        return Err(node.bad(format!(
            "library name `{name}` has {} bytes, expected 1 to {}",
            name.len(),
            LIBRARY_NAME - 1
        )));
    }
    let version = node.text("ulib_to_ucode_version").or_else(|| node.text("version"));
    let version = version.ok_or_else(|| node.bad(format!("Missing GPSIMD lib version! (library {name})")))?;
    let major: Option<u64> = version.split('.').next().and_then(|major| major.parse().ok());
    if major != Some(runtime.major) {
        return Err(node.bad(format!(
            "Mismatch between GPSIMD lib version and NRT version! Library {name} is for {version}, the runtime has major \
             version {}; rebuild the library or update the runtime",
            runtime.major
        )));
    }
    let total_cpus = node.number("total_cpus").unwrap_or(0);
    if !matches!(total_cpus, 0 | 1 | 8) {
        return Err(
            node.bad(format!("UCode Library {name} has invalid number of total cpus {total_cpus}; expected 0, 1 or 8"))
        );
    }
    let cpu_id = node.number("cpu_id").unwrap_or(0);
    let last = if total_cpus == 8 { 7 } else { 0 };
    if cpu_id > last {
        return Err(
            node.bad(format!("library {name} has cpu_id {cpu_id}, expected 0..={last} for {total_cpus} total cpus"))
        );
    }
    let opcode = node.value.get("opcode").and_then(Value::as_i64);
    // The original compares the low byte.
    let flags = match opcode {
        None => 0,
        Some(opcode) if opcode.rem_euclid(256) == CUSTOM_OP => 0,
        Some(_) => 6,
    };
    let functions = node.items("functions").map(|item| function(item, name)).collect::<Result<_, _>>()?;
    Ok(UcodeLib {
        library: name.to_owned(),
        version: version.to_owned(),
        isa_version: node.text("ulib_to_isa_version").map(str::to_owned),
        is_builtin: node.value.get("is_builtin").and_then(Value::as_bool).unwrap_or(false),
        cpu_id: u8::try_from(cpu_id).unwrap_or(u8::MAX),
        total_cpus: u8::try_from(total_cpus).unwrap_or(u8::MAX),
        flags,
        functions,
    })
}

fn function(node: Node<'_>, library: &str) -> Result<UcodeFunction, NeffError> {
    let name = node.text("name").ok_or_else(|| node.bad(format!("a function of {library} has no `name`")))?;
    if name.len() > FUNCTION_NAME {
        return Err(
            node.bad(format!("ucode function name `{name}` of {library} is too long: at most {FUNCTION_NAME} bytes"))
        );
    }
    let missing = || node.bad(format!("function {name} of {library} has no `opcode` from 0 to 255"));
    let opcode = node.number("opcode").and_then(|opcode| u8::try_from(opcode).ok()).ok_or_else(missing)?;
    let sub_opcode = match node.number("sub_opcode") {
        None => None,
        Some(id) if id <= LAST_FUNCTION => u8::try_from(id).ok(),
        Some(id) => {
            return Err(node.bad(format!("function {name} of {library} has sub_opcode {id}, at most {LAST_FUNCTION}")));
        }
    };
    Ok(UcodeFunction { name: name.to_owned(), opcode, sub_opcode })
}
