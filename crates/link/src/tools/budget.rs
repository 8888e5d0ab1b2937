//! The memory a module needs on a board, beside what the board has.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use outboard_elf::Elf;
use outboard_wire::IoMeta;

use super::target::Target;
use crate::image::Image;
use crate::layout::POOL_ALIGN;

/// Symbol of a module's declaration of its input and output sizes.
pub(crate) const IO_META: &str = "_binary_tvm_dsp_io_meta_start";

/// What a module needs and what the board has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryBudget {
    /// Name of the board.
    pub target: String,
    /// One row per resource.
    pub rows: Vec<BudgetRow>,
}

/// One resource. All figures in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BudgetRow {
    /// What is stored.
    pub what: &'static str,
    /// Where.
    pub place: &'static str,
    /// What the module needs.
    pub needed: u64,
    /// What there is.
    pub limit: u64,
    /// What is left; negative when it does not fit.
    pub headroom: i64,
}

impl MemoryBudget {
    /// The rows that do not fit.
    pub fn exceeded(&self) -> impl Iterator<Item = &BudgetRow> {
        self.rows.iter().filter(|row| row.headroom < 0)
    }

    /// A row by its place.
    #[must_use]
    pub fn row(&self, place: &str) -> Option<&BudgetRow> {
        self.rows.iter().find(|row| row.place == place)
    }
}

/// The budget of a module on a board. Read-only data is counted in MAIN, where the service copies it when it fits; what a
/// module allocates while it runs (workspace) has to fit into the headroom of MAIN and FAST.
pub(crate) fn budget(image: &Image<'_>, target: &Target) -> MemoryBudget {
    let rounded = |size: u64| size.checked_next_multiple_of(POOL_ALIGN).unwrap_or(u64::MAX);
    let segments = if image.machine.one_block() {
        let lowest = image.loads.iter().map(|segment| segment.vaddr).min().unwrap_or(0);
        let highest = image.loads.iter().filter_map(outboard_elf::Segment::end).max().unwrap_or(lowest);
        highest - lowest
    } else {
        image.loads.iter().map(|segment| rounded(segment.memsz)).fold(0, u64::saturating_add)
    };
    let io = io_meta(image).and_then(Result::ok);
    let (input, output) = io.map_or((0, 0), |io| (io.input_bytes.get(), io.output_bytes.get()));
    let window = target.window.size;
    let row = |what, place, needed: u64, limit: u64| BudgetRow {
        what,
        place,
        needed,
        limit,
        headroom: i64::try_from(i128::from(limit) - i128::from(needed)).unwrap_or(i64::MIN),
    };
    MemoryBudget {
        target: target.name.to_string(),
        rows: vec![
            row("the file of the module", "staging", image.elf.bytes().len(), target.staging.size),
            row("code, data and constants", "MAIN", segments, target.pool("MAIN").size),
            row("on-chip memory before the first call", "FAST", 0, target.pool("FAST").size),
            row("inputs of a call", "input window", input, window),
            row("outputs of a call", "output window", output, window.saturating_sub(input)),
        ],
    }
}

/// Why a module's declaration of its sizes cannot be used.
pub(crate) type IoMetaFault = String;

/// The declaration of input and output sizes, `None` when the module has none.
pub(crate) fn io_meta(image: &Image<'_>) -> Option<Result<IoMeta, IoMetaFault>> {
    let address = symbol_value(image, IO_META)?;
    let Some(bytes) = bytes_at(&image.elf, address, IoMeta::SIZE as u64) else {
        return Some(Err("it points outside of the bytes of the file".to_string()));
    };
    Some(IoMeta::parse(bytes).map_err(|error| error.to_string()))
}

/// The link address of a symbol that the module defines and others may see.
pub(crate) fn symbol_value(image: &Image<'_>, name: &str) -> Option<u64> {
    let wanted = |symbol: &outboard_elf::Symbol| {
        symbol.defined() && !symbol.local() && image.strings.matches(u64::from(symbol.name), name.as_bytes())
    };
    image.symbols.iter().find(wanted).map(|symbol| symbol.value)
}

/// Bytes of the file at a link address.
pub(crate) fn bytes_at<'a>(elf: &Elf<'a>, address: u64, len: u64) -> Option<&'a [u8]> {
    let offset = elf.file_offset(address, len)?;
    elf.bytes().range("data", offset, len).ok()
}
