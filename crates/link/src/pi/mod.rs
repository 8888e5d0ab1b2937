//! Prepares PI images for GPSIMD cores on the host: validate, place, relocate, verify, emit the UCPL image, stage it.
//!
//! [`prelink`] is the work of the original host library, check by check, with its status numbers; [`ll::create`] is the
//! call around it. Where the original writes what cannot be right, [`Mode::Strict`] refuses and [`Mode::Compatible`]
//! does as the original does. Every patched field is read back, no byte is patched twice, and nothing is staged unless
//! all of it is right. The rules and the differences are in `docs/reference/gpsimd-prelink.md`.
//!
//! ```
//! use outboard_link::pi::{MemoryBounds, PrelinkError, PrelinkRequest, prelink};
//!
//! // IRAM, its reserved window, DRAM, its reserved window: base and size of each.
//! let cayman = MemoryBounds::from_words([0, 0x2_0000, 0x1_8000, 0x8000, 0x8_0000, 0x4_0000, 0xb_e000, 0x2000]);
//! let error = prelink(&PrelinkRequest::new(b"UCPL \0\0\0", &cayman)).unwrap_err();
//! assert!(matches!(error, PrelinkError::AlreadyPrelinked));
//! ```

mod bounds;
mod error;
mod flix;
pub mod ll;
mod plan;
mod relocate;
mod status;
mod ucpl;

use alloc::vec::Vec;

pub use bounds::{MemoryBounds, Window};
pub use error::PrelinkError;
pub use flix::{FORMATS, FlixFormat, FlixSlot, format_of};
pub use plan::{AlignReading, Descriptor, Placement, find_align, relocations};
pub use relocate::{Counts, Warning};
pub use status::{LlStatus, XtlibStatus};
pub use ucpl::{STAGED_MAX, UCPL_HEADER_SIZE, UCPL_MAGIC, UcplError, UcplHeader, UcplImage};

use outboard_elf::pi::PiShape;
use outboard_elf::{Elf, ElfError, machine};

/// What to do where the original writes something that cannot be right, or where the sources disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Refuse it.
    #[default]
    Strict,
    /// Do as the original does, with a [`Warning`].
    Compatible,
}

/// What to prelink, and for which core.
#[derive(Debug, Clone, Copy)]
pub struct PrelinkRequest<'a> {
    /// The bytes of the file.
    pub file: &'a [u8],
    /// The memory of the core.
    pub bounds: &'a MemoryBounds,
    /// Strict or compatible.
    pub mode: Mode,
    /// Where the alignment of the segments is taken from.
    pub align: AlignReading,
    /// Bit positions of immediates in FLIX bundles; none are known publicly.
    pub flix: &'a [FlixSlot],
}

impl<'a> PrelinkRequest<'a> {
    /// Strict, with the default reading of the alignment and no FLIX slots.
    #[must_use]
    pub const fn new(file: &'a [u8], bounds: &'a MemoryBounds) -> Self {
        Self { file, bounds, mode: Mode::Strict, align: AlignReading::Auto, flix: &[] }
    }
}

/// An image that is ready for the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prelinked {
    /// The header that precedes it.
    pub header: UcplHeader,
    /// What the original calls its descriptor.
    pub descriptor: Descriptor,
    /// Where the segments went.
    pub placement: Placement,
    /// Relocations by type.
    pub counts: Counts,
    /// What deserves attention, at most [`Warning::KEPT`] of them.
    pub warnings: Vec<Warning>,
    /// Warnings beyond those.
    pub more_warnings: usize,
    code: Vec<u8>,
    data: Vec<u8>,
}

impl Prelinked {
    /// The code body: [`UcplHeader::code_len`] bytes that go to the code window.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        self.code.get(..usize_of(self.header.code_len)).unwrap_or(&[])
    }

    /// The data body: [`UcplHeader::data_len`] bytes that go to the data window.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.data.get(..usize_of(self.header.data_len)).unwrap_or(&[])
    }

    /// Bytes of the staged image.
    #[must_use]
    pub fn staged_size(&self) -> u64 {
        self.header.staged_size()
    }

    /// The staged image: header, code, gap of zeros, data.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        let mut image = Vec::with_capacity(usize::try_from(self.staged_size()).unwrap_or(0));
        image.extend_from_slice(&self.header.encode());
        image.extend_from_slice(self.code());
        image.resize(usize_of(self.header.data_offset), 0);
        image.extend_from_slice(self.data());
        image
    }
}

/// Moves a PI image to the windows of a core.
///
/// # Errors
///
/// [`PrelinkError`] with the status of the original where it has one. Nothing was changed anywhere.
pub fn prelink(request: &PrelinkRequest<'_>) -> Result<Prelinked, PrelinkError> {
    if request.file.starts_with(&UCPL_MAGIC) {
        return Err(PrelinkError::AlreadyPrelinked);
    }
    let elf = Elf::parse(request.file)?;
    let shape = PiShape::of(&elf).map_err(PrelinkError::NotSplitLoad)?;
    if elf.header().machine != machine::XTENSA {
        return Err(PrelinkError::WrongMachine { found: elf.header().machine });
    }
    let align = find_align(&elf, request.align)?;
    let placement = Placement::plan(&shape, request.bounds, align)?;
    let (descriptor, table) = Descriptor::read(&elf, &shape, &placement)?;
    let mut code = load(&elf, &shape.text, placement.code)?;
    let mut data = load(&elf, &shape.data, placement.data)?;
    let mut walk = relocate::Walk::new(request, &descriptor, &placement, &mut code, &mut data);
    walk.run(table)?;
    let (counts, warnings, more_warnings) = walk.finish();
    let header = UcplHeader::of(&descriptor, &placement, request.mode);
    Ok(Prelinked { header, descriptor, placement, counts, warnings, more_warnings, code, data })
}

/// Filler of the windows around the segments.
const FILLER: u8 = 0xa5;
/// Bytes behind a window, so that a field at its end can be read as one word.
const GUARD: usize = 8;

/// A window with the segment in it: filler, the file's bytes, zeros up to the size in memory, filler.
fn load(elf: &Elf<'_>, segment: &outboard_elf::Segment, window: Window) -> Result<Vec<u8>, PrelinkError> {
    let bytes = elf.segment_data(segment)?;
    let mut memory = alloc::vec![FILLER; usize_of(window.size).saturating_add(GUARD)];
    let start = usize_of(window.inside);
    let end = start.saturating_add(usize_of(window.used));
    let misfit = || PrelinkError::Elf(segment.bad("p_filesz is larger than p_memsz"));
    let place = memory.get_mut(start..end).ok_or_else(misfit)?;
    let (filled, rest) = place.split_at_mut_checked(bytes.len()).ok_or_else(misfit)?;
    filled.copy_from_slice(bytes);
    rest.fill(0);
    Ok(memory)
}

pub(crate) fn usize_of(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The low 32 bits of an ELF32 field, which has no more.
fn low32(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(u32::MAX)
}

impl From<ElfError> for PrelinkError {
    fn from(error: ElfError) -> Self {
        Self::Elf(error)
    }
}
