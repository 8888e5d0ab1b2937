//! Where the segments go, and what the dynamic table says about the image.

use outboard_elf::pi::{DT_XTENSA_TEXT_ADDR, PiShape};
use outboard_elf::{Dynamic, Elf, ElfError, Pointers, Segment, dt, sht};

use super::bounds::WINDOW_MAX;
use super::{MemoryBounds, PrelinkError, Window, low32};

/// Where the alignment of the segments is taken from: the sources disagree, the results agree for every known image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AlignReading {
    /// From the sections when there are any, else from the program headers.
    #[default]
    Auto,
    /// The largest `sh_addralign` of the sections that are not empty.
    Sections,
    /// The largest `p_align` of the loaded segments.
    Segments,
    /// This one, in bytes.
    Fixed(u32),
}

/// The alignment of the segments in bytes: a power of two.
///
/// # Errors
///
/// [`PrelinkError::BadAlign`] when it is none, [`PrelinkError::Elf`] when the sections cannot be read.
pub fn find_align(elf: &Elf<'_>, reading: AlignReading) -> Result<u32, PrelinkError> {
    let segments = || elf.load_segments().map(|segment| segment.align).max().unwrap_or(1);
    let sections = || -> Result<Option<u64>, ElfError> {
        let sections = elf.sections()?;
        Ok(sections.iter().filter(|s| s.kind != sht::NULL && s.size != 0).map(|s| s.align).max())
    };
    let found = match reading {
        AlignReading::Fixed(align) => u64::from(align),
        AlignReading::Segments => segments(),
        AlignReading::Sections => sections()?.unwrap_or(1),
        AlignReading::Auto => sections()?.unwrap_or_else(segments),
    };
    let align = found.max(1);
    if align.is_power_of_two() && align <= 1 << 31 {
        return Ok(low32(align));
    }
    Err(PrelinkError::BadAlign { align })
}

/// Where both segments go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Alignment in bytes.
    pub align: u32,
    /// The code segment.
    pub code: Window,
    /// The data segment.
    pub data: Window,
}

impl Placement {
    /// Places a segment at the aligned base of its window plus the low bits of its physical address.
    pub(super) fn plan(shape: &PiShape, bounds: &MemoryBounds, align: u32) -> Result<Self, PrelinkError> {
        if let Some(problem) = bounds.problem() {
            return Err(PrelinkError::BadBounds { problem });
        }
        let code = window("code", &shape.text, bounds.code_base, bounds.code_size, align)?;
        let data = window("data", &shape.data, bounds.data_base, bounds.data_size, align)?;
        Ok(Self { align, code, data })
    }
}

fn window(which: &'static str, segment: &Segment, base: u64, size: u64, align: u32) -> Result<Window, PrelinkError> {
    let align = u64::from(align);
    let inside = (base.next_multiple_of(align) - base).saturating_add(segment.paddr & (align - 1));
    let need = inside.saturating_add(segment.memsz);
    if need > size {
        return Err(PrelinkError::SegmentTooLarge {
            which,
            header: segment.header,
            need,
            window: size.min(WINDOW_MAX),
        });
    }
    if segment.filesz > segment.memsz {
        return Err(segment.bad("p_filesz is larger than p_memsz").into());
    }
    Ok(Window { base: low32(base), size: low32(size), inside: low32(inside), used: low32(segment.memsz) })
}

/// What the original collects about an image before it relocates. All fields are 32 bits and wrap as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Device address of the code.
    pub dst_addr: u32,
    /// Link address of the code (`p_paddr`).
    pub src_offs: u32,
    /// Device address of the data.
    pub dst_data_addr: u32,
    /// Link address of the data (`p_paddr`).
    pub src_data_offs: u32,
    /// Entry point on the device.
    pub start_sym: u32,
    /// Text address on the device, 0 when the image has no such tag.
    pub text_addr: u32,
    /// Initialisation function on the device.
    pub init: u32,
    /// Termination function on the device.
    pub fini: u32,
    /// Number of relocations.
    pub rela_count: u32,
    /// Hash table, rebased as data.
    pub hash: u32,
    /// Symbol table, rebased as data.
    pub symtab: u32,
    /// String table, rebased as data.
    pub strtab: u32,
    /// Alignment.
    pub align: u32,
    /// Whether the image has the segment that only the host reads.
    pub scratch_section_found: bool,
}

/// Size of one relocation in the file.
pub(super) const RELA: usize = 12;

impl Descriptor {
    /// Reads the dynamic table and finds the relocations.
    pub(super) fn read<'a>(
        elf: &Elf<'a>,
        shape: &PiShape,
        placement: &Placement,
    ) -> Result<(Self, &'a [[u8; RELA]]), PrelinkError> {
        let bad = PrelinkError::NoDynamic;
        let dynamic = elf.dynamic(Pointers::Virtual).map_err(bad)?;
        let missing = ElfError::BadDynamic { tag: "PT_DYNAMIC", problem: "is missing", value: 0 };
        let dynamic = dynamic.ok_or(bad(missing))?;
        let (src_offs, src_data_offs) = (low32(shape.text.paddr), low32(shape.data.paddr));
        let (dst_addr, dst_data_addr) = (placement.code.address(), placement.data.address());
        // The deltas of the descriptor differ from those of `rebase` by the low bits of an unaligned physical address.
        let delta = |dst: u32, src: u32| dst.wrapping_sub(src.wrapping_add(src & (placement.align - 1)));
        let (text, data) = (delta(dst_addr, src_offs), delta(dst_data_addr, src_data_offs));
        let rebased = |tag: u64, delta: u32| dynamic.get(tag).map_or(0, |value| low32(value).wrapping_add(delta));
        let table = relocations(elf, shape, &dynamic).map_err(bad)?;
        let descriptor = Self {
            dst_addr,
            src_offs,
            dst_data_addr,
            src_data_offs,
            start_sym: low32(elf.header().entry).wrapping_add(text),
            text_addr: rebased(DT_XTENSA_TEXT_ADDR, text),
            init: rebased(dt::INIT, text),
            fini: rebased(dt::FINI, text),
            rela_count: u32::try_from(table.len()).unwrap_or(u32::MAX),
            hash: rebased(dt::HASH, data),
            symtab: rebased(dt::SYMTAB, data),
            strtab: rebased(dt::STRTAB, data),
            align: placement.align,
            scratch_section_found: shape.scratch.is_some(),
        };
        Ok((descriptor, table))
    }

    /// Where link address `address` is on the device. With a scratch segment the data begins 0x400 bytes early.
    #[inline]
    #[must_use]
    pub const fn rebase(&self, address: u32) -> u32 {
        let early = if self.scratch_section_found { 0x400 } else { 0 };
        if address.wrapping_add(early) >= self.src_data_offs {
            address.wrapping_sub(self.src_data_offs).wrapping_add(self.dst_data_addr)
        } else {
            address.wrapping_sub(self.src_offs).wrapping_add(self.dst_addr)
        }
    }
}

/// Most relocations of an image: the windows of a core have 40 KiB.
const RELOCATIONS: u64 = 1 << 16;

/// The relocation entries of an image, as in the file: in the scratch segment when there is one, else in the data segment.
///
/// # Errors
///
/// [`ElfError::BadDynamic`] when they do not lie there, [`ElfError::Truncated`] when not in the file.
pub fn relocations<'a>(elf: &Elf<'a>, shape: &PiShape, dynamic: &Dynamic<'_>) -> Result<&'a [[u8; RELA]], ElfError> {
    let (address, size) = (dynamic.get(dt::RELA).unwrap_or(0), dynamic.get(dt::RELASZ).unwrap_or(0));
    let bytes = size - size % RELA as u64;
    if bytes == 0 {
        return Ok(&[]);
    }
    let count = bytes / RELA as u64;
    if count > RELOCATIONS {
        return Err(ElfError::Limit {
            what: "the number of relocations (DT_RELASZ)",
            value: count,
            limit: RELOCATIONS,
        });
    }
    let home = shape.scratch.as_ref().unwrap_or(&shape.data);
    let problem = "points to bytes that the segment of the host's tables does not hold in the file";
    let outside = ElfError::BadDynamic { tag: "DT_RELA", problem, value: address };
    let inside = address.checked_sub(home.vaddr).ok_or(outside)?;
    if inside.checked_add(bytes).is_none_or(|end| end > home.filesz) {
        return Err(outside);
    }
    let offset = home.offset.checked_add(inside).ok_or(outside)?;
    Ok(elf.bytes().range("the relocation table (DT_RELA)", offset, bytes)?.as_chunks().0)
}
