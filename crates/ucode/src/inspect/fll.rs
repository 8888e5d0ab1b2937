//! The report of a fixed-load library.

use outboard_elf::pi::{FLL_STRIDE, FllShape};
use outboard_elf::{Elf, ElfError};

use super::lint::{Note, Notes};
use super::{HeaderReport, SectionReport, SegmentReport, sections, segments, sha256, toolchain};

/// A fixed-load library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FllReport {
    /// Bytes of the file.
    pub size: u64,
    /// Hash of the file.
    pub sha256: String,
    /// Who built it, from `.comment`.
    pub toolchain: Option<String>,
    /// The core whose window it was linked for.
    pub core: u8,
    /// First address of that window.
    pub window: u64,
    /// Bytes from the first address to the end of the zeroed memory.
    pub span: u64,
    /// File header.
    pub header: HeaderReport,
    /// Program headers.
    pub segments: Vec<SegmentReport>,
    /// Sections.
    pub sections: Vec<SectionReport>,
    /// What deserves attention.
    pub notes: Vec<Note>,
}

impl FllReport {
    pub(super) fn of(elf: &Elf<'_>, shape: &FllShape) -> Result<Self, ElfError> {
        let mut notes = Notes::default();
        let sections = sections(elf)?;
        let window = shape.image.vaddr - (shape.image.vaddr % FLL_STRIDE);
        let end = shape.bss.vaddr.saturating_add(shape.bss.memsz);
        let span = end.saturating_sub(window);
        if span > FLL_STRIDE {
            let text = format!(
                "the library ends {span:#x} bytes behind the start of its window of {FLL_STRIDE:#x}; link it for a single core \
                 or make it smaller"
            );
            notes.push("OB0633", Some(end), text);
        }
        let entry = elf.header().entry;
        if !shape.image.contains(entry) {
            notes.push("OB0634", Some(entry), format!("the entry point {entry:#x} lies outside of the library"));
        }
        elf.segment_data(&shape.image)?;
        Ok(Self {
            size: elf.bytes().len(),
            sha256: sha256(elf.bytes().all()),
            toolchain: toolchain(elf),
            core: shape.core,
            window,
            span,
            header: HeaderReport::of(elf),
            segments: segments(elf, &sections, |index| if index == 0 { "none" } else { "window" }),
            sections,
            notes: notes.finish(),
        })
    }
}
