//! Where the records of a model are: in a module behind their symbols, or in a file of their own.

use outboard_elf::Elf;
use outboard_link::inspect::inspect;
use outboard_wire::IoMeta;

const START: &str = "_binary_weights_bin_start";
const END: &str = "_binary_weights_bin_end";
const SIZE: &str = "_binary_weights_bin_size";
const IO_META: &str = "_binary_tvm_dsp_io_meta_start";

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Record {
    /// A module, with its records behind symbols.
    Module,
    /// `weights.bin`.
    Weights,
    /// `tvm_dsp_io_meta.bin`.
    IoMeta,
}

impl Record {
    pub(in crate::commands) fn name(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Weights => "weights.bin",
            Self::IoMeta => "tvm_dsp_io_meta.bin",
        }
    }
}

/// The records of a file.
#[derive(Debug)]
pub(in crate::commands) struct Source<'a> {
    pub(in crate::commands) record: Record,
    pub(in crate::commands) weights: Option<&'a [u8]>,
    pub(in crate::commands) io_meta: Option<&'a [u8]>,
}

/// The records of a file, whatever kind it is; the text of what is wrong with a module.
pub(in crate::commands) fn find(file: &[u8]) -> Result<Source<'_>, String> {
    if file.starts_with(b"\x7fELF") {
        return in_module(file);
    }
    if file.starts_with(&IoMeta::MAGIC.to_le_bytes()) {
        return Ok(Source { record: Record::IoMeta, weights: None, io_meta: Some(file) });
    }
    Ok(Source { record: Record::Weights, weights: Some(file), io_meta: None })
}

fn in_module(file: &[u8]) -> Result<Source<'_>, String> {
    let elf = Elf::parse(file).map_err(|error| error.to_string())?;
    let found = inspect(file).map_err(|error| error.to_string())?;
    let symbol = |name| found.exports.symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.value);
    let bytes = |what: &str, address: u64, len: u64| {
        elf.file_offset(address, len)
            .and_then(|offset| elf.bytes().range("data", offset, len).ok())
            .ok_or_else(|| format!("{what} at {address:#x} has no {len} bytes in the file"))
    };
    let weights = match (symbol(START), symbol(SIZE)) {
        (Some(start), Some(size)) => {
            let stored = bytes(SIZE, size, 4)?.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            if let Some(end) = symbol(END)
                && end.checked_sub(start) != Some(u64::from(stored))
            {
                return Err(format!("the constants span {start:#x} to {end:#x}, and their size says {stored} bytes"));
            }
            Some(bytes(START, start, stored.into())?)
        }
        (None, None) => None,
        (Some(_), None) => return Err(format!("it has {START} without {SIZE}")),
        (None, Some(_)) => return Err(format!("it has {SIZE} without {START}")),
    };
    let io_meta = symbol(IO_META).map(|address| bytes(IO_META, address, IoMeta::SIZE as u64)).transpose()?;
    Ok(Source { record: Record::Module, weights, io_meta })
}
