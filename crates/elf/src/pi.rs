//! The two linked shapes of GPSIMD programs: *PI* (split load, relocated on the host) and *FLL* (fixed load).
//!
//! The shape decides the loader. A PI image is a text segment, a data segment, usually a third segment that only the host
//! reads, and a dynamic table. An FLL library is a null header and two segments at a fixed address, without a dynamic table.
//! Only program headers are looked at: `e_type`, `e_machine` and sections decide nothing (docs/reference/gpsimd-images.md).

use core::fmt;

use crate::{Elf, ElfError, Segment, pf, pt};

/// Lowest address of a fixed-load library: the window of core 0.
pub const FLL_BASE: u64 = 0x8400_0000;
/// Distance between the windows of two cores.
pub const FLL_STRIDE: u64 = 0x20_0000;
/// Cores that have a window.
pub const FLL_CORES: u64 = 8;

/// `DT_XTENSA_GOT_LOC_OFF`.
pub const DT_XTENSA_GOT_LOC_OFF: u64 = 0x7000_0000;
/// `DT_XTENSA_GOT_LOC_SZ`.
pub const DT_XTENSA_GOT_LOC_SZ: u64 = 0x7000_0001;
/// The prelinker knows this tag as the address of the text; no known image has it.
pub const DT_XTENSA_TEXT_ADDR: u64 = 0x7000_0002;

/// The name of a dynamic tag of an Xtensa image.
#[must_use]
pub const fn dynamic_name(tag: u64) -> Option<&'static str> {
    match tag {
        DT_XTENSA_GOT_LOC_OFF => Some("DT_XTENSA_GOT_LOC_OFF"),
        DT_XTENSA_GOT_LOC_SZ => Some("DT_XTENSA_GOT_LOC_SZ"),
        DT_XTENSA_TEXT_ADDR => Some("DT_XTENSA_TEXT_ADDR"),
        _ => crate::dynamic_tag_name(tag),
    }
}

/// The first program header that differs from a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapeFault {
    /// Index of the program header.
    pub index: usize,
    /// File offset of the field, or of where the missing header would stand.
    pub offset: u64,
    /// `p_type`, `p_flags`, `p_vaddr` or `e_phnum`.
    pub field: &'static str,
    /// Its value.
    pub found: u64,
    /// What the shape has there.
    pub expected: &'static str,
}

impl fmt::Display for ShapeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, offset, field, found, expected } = self;
        write!(f, "program header {index}: {field} (file offset {offset:#x}) is {found:#x}, expected {expected}")
    }
}

impl core::error::Error for ShapeFault {}

const TYPE: u64 = 0;
const VADDR: u64 = 8;
const FLAGS: u64 = 24;

fn fault(segment: &Segment, field: &'static str, expected: &'static str) -> ShapeFault {
    let (at, found) = match field {
        "p_type" => (TYPE, u64::from(segment.kind)),
        "p_vaddr" => (VADDR, segment.vaddr),
        _ => (FLAGS, u64::from(segment.flags)),
    };
    ShapeFault { index: segment.index, offset: segment.header.saturating_add(at), field, found, expected }
}

fn header(elf: &Elf<'_>, index: usize, expected: &'static str) -> Result<Segment, ShapeFault> {
    let found = u64::from(elf.header().phnum);
    elf.segments().nth(index).ok_or(ShapeFault { index, offset: 44, field: "e_phnum", found, expected })
}

fn require(holds: bool, segment: &Segment, field: &'static str, expected: &'static str) -> Result<(), ShapeFault> {
    if holds { Ok(()) } else { Err(fault(segment, field, expected)) }
}

/// The program headers of a PI image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PiShape {
    /// Code: loaded, read and execute.
    pub text: Segment,
    /// Data: loaded, read and write.
    pub data: Segment,
    /// What only the host reads (dynamic table, relocations): loaded, writable, not readable. Not every image has it.
    pub scratch: Option<Segment>,
    /// The dynamic table.
    pub dynamic: Segment,
}

impl PiShape {
    /// Looks at the first three or four program headers, in order.
    ///
    /// # Errors
    ///
    /// The first header that differs.
    pub fn of(elf: &Elf<'_>) -> Result<Self, ShapeFault> {
        let text = header(elf, 0, "a text segment, a data segment and a dynamic table")?;
        require(text.kind == pt::LOAD, &text, "p_type", "1 (PT_LOAD, the text)")?;
        require(text.flags & 7 == pf::R | pf::X, &text, "p_flags", "5 in the low bits (read and execute, the text)")?;
        let data = header(elf, 1, "a data segment and a dynamic table after the text")?;
        require(data.kind == pt::LOAD, &data, "p_type", "1 (PT_LOAD, the data)")?;
        require(!data.flags & (pf::R | pf::W) == 0, &data, "p_flags", "read and write (6 or 7, the data)")?;
        let third = header(elf, 2, "a dynamic table after the data")?;
        let is_scratch = third.kind == pt::LOAD && third.flags & (pf::R | pf::W) == pf::W;
        let scratch = is_scratch.then_some(third);
        let dynamic = if is_scratch { header(elf, 3, "a dynamic table after the scratch segment")? } else { third };
        require(dynamic.kind == pt::DYNAMIC, &dynamic, "p_type", "2 (PT_DYNAMIC)")?;
        require(
            dynamic.flags & 7 == pf::R | pf::W,
            &dynamic,
            "p_flags",
            "6 in the low bits (read and write, dynamic)",
        )?;
        Ok(Self { text, data, scratch, dynamic })
    }
}

/// The program headers of a fixed-load library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FllShape {
    /// Everything with bytes in the file.
    pub image: Segment,
    /// The zeroed memory behind it.
    pub bss: Segment,
    /// The core whose window it was linked for, 0..=7.
    pub core: u8,
}

impl FllShape {
    /// Looks at the three program headers.
    ///
    /// # Errors
    ///
    /// The first header that differs.
    pub fn of(elf: &Elf<'_>) -> Result<Self, ShapeFault> {
        const WINDOW: &str = "an address in one of the eight windows of 0x200000 bytes from 0x84000000";
        let first = header(elf, 0, "a null header and two segments")?;
        require(first.kind == pt::NULL, &first, "p_type", "0 (PT_NULL)")?;
        let image = header(elf, 1, "two segments after the null header")?;
        require(image.kind == pt::LOAD, &image, "p_type", "1 (PT_LOAD)")?;
        let core = image.vaddr.checked_sub(FLL_BASE).map(|inside| inside / FLL_STRIDE).filter(|c| *c < FLL_CORES);
        let core = core.and_then(|core| u8::try_from(core).ok());
        let Some(core) = core else { return Err(fault(&image, "p_vaddr", WINDOW)) };
        let bss = header(elf, 2, "a second segment")?;
        require(bss.kind == pt::LOAD, &bss, "p_type", "1 (PT_LOAD)")?;
        require(bss.vaddr >= image.vaddr, &bss, "p_vaddr", "an address behind the first segment")?;
        if let Some(extra) = elf.segments().find(|segment| segment.kind == pt::DYNAMIC) {
            return Err(fault(&extra, "p_type", "no PT_DYNAMIC in a fixed-load library"));
        }
        Ok(Self { image, bss, core })
    }
}

/// What kind of device program a file is, by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceShape {
    /// Split load, prelinked on the host.
    Pi(PiShape),
    /// Fixed load.
    Fll(FllShape),
}

/// A file that is neither shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "neither a PI image nor a fixed-load library. As a PI image (text, data, scratch, dynamic table): {pi}. \
     As a fixed-load library (null header, two segments from 0x84000000): {fll}. Link it with `outboard link --shape pi` or \
     `--shape fll`"
)]
pub struct UnknownShape {
    /// How it differs from a PI image.
    pub pi: ShapeFault,
    /// How it differs from a fixed-load library.
    pub fll: ShapeFault,
}

impl DeviceShape {
    /// Decides by the program headers.
    ///
    /// # Errors
    ///
    /// [`UnknownShape`], which names both expectations and the first difference from each.
    pub fn of(elf: &Elf<'_>) -> Result<Self, UnknownShape> {
        match (PiShape::of(elf), FllShape::of(elf)) {
            (Ok(pi), _) => Ok(Self::Pi(pi)),
            (_, Ok(fll)) => Ok(Self::Fll(fll)),
            (Err(pi), Err(fll)) => Err(UnknownShape { pi, fll }),
        }
    }
}

/// One row of a `kernel_info_table`: which function executes an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRow {
    /// Link address of the row.
    pub address: u64,
    /// The eight bytes.
    pub raw: [u8; 8],
    /// Extended opcode; 0 except for instruction 0xF0.
    pub spec: u8,
    /// Opcode of the instruction.
    pub opcode: u8,
    /// Link address of the function.
    pub function: u32,
}

/// Size of a [`KernelRow`].
pub const KERNEL_ROW: usize = 8;

/// Names of the section that holds the table: as images have it and as the device's loader spells it.
pub const KERNEL_TABLE_NAMES: [&[u8]; 2] = [b"kernel_info_table", b".kernel_info_table"];

impl KernelRow {
    /// Decodes a row that stands at `address`.
    #[must_use]
    pub const fn decode(address: u64, raw: [u8; KERNEL_ROW]) -> Self {
        let [_, _, spec, opcode, a, b, c, d] = raw;
        Self { address, raw, spec, opcode, function: u32::from_le_bytes([a, b, c, d]) }
    }

    /// Encodes a row.
    #[must_use]
    pub const fn encode(spec: u8, opcode: u8, function: u32) -> [u8; KERNEL_ROW] {
        let [a, b, c, d] = function.to_le_bytes();
        [0, 0, spec, opcode, a, b, c, d]
    }

    /// What dispatch compares: the first word of the row.
    #[must_use]
    pub const fn key(&self) -> u32 {
        let [a, b, c, d, ..] = self.raw;
        u32::from_le_bytes([a, b, c, d])
    }
}

/// A kernel table found by the name of its section.
#[derive(Debug, Clone, Copy)]
pub struct KernelTable<'a> {
    /// Link address of the first row.
    pub address: u64,
    /// Its place in the file.
    pub offset: u64,
    bytes: &'a [u8],
}

impl<'a> KernelTable<'a> {
    /// Finds the table, `None` for an image without one.
    ///
    /// # Errors
    ///
    /// An [`ElfError`] when the sections or the table do not lie in the file.
    pub fn find(elf: &Elf<'a>) -> Result<Option<Self>, ElfError> {
        let sections = elf.sections()?;
        let Some(section) = KERNEL_TABLE_NAMES.iter().find_map(|name| sections.by_name(name)) else { return Ok(None) };
        let bytes = sections.data(&section)?;
        Ok(Some(Self { address: section.address, offset: section.offset, bytes }))
    }

    /// Rows in the order in which dispatch compares them.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = KernelRow> + use<'a> {
        let start = self.address;
        let (rows, _) = self.bytes.as_chunks::<KERNEL_ROW>();
        rows.iter().enumerate().map(move |(index, raw)| {
            KernelRow::decode(start.wrapping_add((index as u64).wrapping_mul(KERNEL_ROW as u64)), *raw)
        })
    }

    /// Bytes behind the last whole row; 0 in a sound image.
    #[must_use]
    pub const fn remainder(&self) -> usize {
        self.bytes.len() % KERNEL_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;
    use crate::write::{ImageBuilder, SegmentSpec};
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn a_kernel_row_is_two_zeros_spec_opcode_and_address() {
        let raw = [0, 0, 1, 0xf0, 0x80, 0x33, 0x00, 0x01];
        let row = KernelRow::decode(0x0200_03b8, raw);
        assert_eq!((row.spec, row.opcode, row.function), (1, 0xf0, 0x0100_3380));
        assert_eq!(row.key(), 0xf001_0000);
        assert_eq!(KernelRow::encode(1, 0xf0, 0x0100_3380), raw);
    }

    #[test]
    fn a_file_of_neither_shape_gets_one_error_with_both_expectations() {
        let mut image = ImageBuilder::new(machine::XTENSA);
        image.segment(SegmentSpec::new(pf::R, vec![0; 16]).at(0x1000));
        let file = image.without_dynamic().build();
        let error = DeviceShape::of(&Elf::parse(&file).unwrap()).unwrap_err();
        assert_eq!((error.pi.field, error.pi.index, error.pi.found), ("p_flags", 0, 4));
        assert_eq!((error.fll.field, error.fll.offset, error.fll.found), ("p_type", 52, 1));
        let text = error.to_string();
        assert!(text.contains("PI image") && text.contains("fixed-load") && text.contains("0x4c"), "{text}");
    }
}
