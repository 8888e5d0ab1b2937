//! Phases *plan* and *place*: which segment goes where, which blocks are claimed, and the bytes that move there.

use alloc::vec;
use alloc::vec::Vec;

use crate::image::{Image, LARGEST};
use crate::load::ReadOnlyPlacement;
use crate::{LoadError, LoadOptions, LoadRequest, SegmentKind, SegmentRequest, TargetMemory};

/// Smallest alignment of a pool block of a C7x module: a cache line.
pub(crate) const POOL_ALIGN: u64 = 128;
/// Smallest alignment of the block of a host-CPU module: a page.
const PAGE: u64 = 4096;

/// Where every segment of an image is. Positions are those of [`Image::loads`].
#[derive(Debug)]
pub(crate) struct Layout {
    pub spots: Vec<Spot>,
    /// Load address minus link address of an image that is placed as one block, else 0.
    pub bias: u64,
}

/// Where one segment is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    /// Device address of its first byte.
    pub base: u64,
    /// `base` minus link address, mod 2^64.
    pub delta: u64,
    /// It is used where the file lies and must not be changed.
    pub frozen: bool,
    /// It lies inside the staged file.
    pub in_place: bool,
}

/// Blocks claimed by a load that has not been committed. Dropping it zeroes and releases them in reverse order.
pub(crate) struct Claims<'m> {
    pub memory: &'m mut dyn TargetMemory,
    blocks: Vec<(u64, u64)>,
}

impl<'m> Claims<'m> {
    pub fn new(memory: &'m mut dyn TargetMemory) -> Self {
        Self { memory, blocks: Vec::new() }
    }

    /// The blocks now belong to a loaded module.
    pub fn commit(mut self) -> Vec<(u64, u64)> {
        core::mem::take(&mut self.blocks)
    }

    /// Gives everything back.
    pub fn roll_back(&mut self) {
        release_all(self.memory, &core::mem::take(&mut self.blocks));
    }

    fn claim(&mut self, index: usize, request: &SegmentRequest) -> Result<u64, LoadError> {
        let address = self.memory.allocate(request).map_err(|oom| LoadError::OutOfMemory { index, oom })?;
        self.blocks.push((address, request.size));
        let misplaced = request.address.is_some_and(|wanted| wanted != address) || address & (request.align - 1) != 0;
        if misplaced || address.checked_add(request.size).is_none() {
            return Err(LoadError::MemoryFault { address, len: request.size });
        }
        Ok(address)
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        self.roll_back();
    }
}

/// Zeroes and releases blocks, newest first.
pub(crate) fn release_all(memory: &mut dyn TargetMemory, blocks: &[(u64, u64)]) {
    for (address, size) in blocks.iter().rev() {
        memory.zero(*address, *size);
        memory.release(*address);
    }
}

/// Claims the blocks and copies the segments. `keep_out` marks the segments that must not be used in place.
pub(crate) fn place(
    image: &Image<'_>,
    request: &LoadRequest<'_>,
    options: &LoadOptions<'_>,
    keep_out: &[bool],
    claims: &mut Claims<'_>,
) -> Result<Layout, LoadError> {
    let layout = if image.machine.one_block() {
        place_block(image, claims)?
    } else {
        place_segments(image, request, options, keep_out, claims)?
    };
    copy_segments(image, &layout, claims)?;
    Ok(layout)
}

fn place_block(image: &Image<'_>, claims: &mut Claims<'_>) -> Result<Layout, LoadError> {
    let align = image.loads.iter().map(|segment| segment.align).fold(PAGE, u64::max);
    let lowest = image.loads.iter().map(|segment| segment.vaddr).min().unwrap_or(0) & !(align - 1);
    let highest = image.loads.iter().filter_map(outboard_elf::Segment::end).max().unwrap_or(lowest);
    let size = highest - lowest;
    if size > LARGEST || align > LARGEST {
        let what = "the image (from its lowest to its highest address, or its alignment)";
        return Err(LoadError::SegmentTooLarge { what, size: size.max(align), limit: LARGEST });
    }
    let index = image.loads.first().map_or(0, |segment| segment.index);
    let base = match size {
        0 => lowest,
        _ => claims.claim(index, &SegmentRequest { size, align, kind: SegmentKind::Block, address: None })?,
    };
    zero_gaps(image, base, lowest, claims)?;
    let bias = base.wrapping_sub(lowest);
    let spot = |vaddr: u64| Spot { base: vaddr.wrapping_add(bias), delta: bias, frozen: false, in_place: false };
    Ok(Layout { spots: image.loads.iter().map(|segment| spot(segment.vaddr)).collect(), bias })
}

/// Zeroes what lies between the segments of a block; the segments themselves are written by [`copy_segments`].
fn zero_gaps(image: &Image<'_>, base: u64, lowest: u64, claims: &mut Claims<'_>) -> Result<(), LoadError> {
    let mut at = lowest;
    for segment in image.by_address.iter().filter_map(|i| image.loads.get(*i)) {
        zero(claims.memory, base + (at - lowest), segment.vaddr - at)?;
        at = segment.end().unwrap_or(segment.vaddr);
    }
    Ok(())
}

fn place_segments(
    image: &Image<'_>,
    request: &LoadRequest<'_>,
    options: &LoadOptions<'_>,
    keep_out: &[bool],
    claims: &mut Claims<'_>,
) -> Result<Layout, LoadError> {
    let mut spots = Vec::with_capacity(image.loads.len());
    for (position, segment) in image.loads.iter().enumerate() {
        let staged = request.staging.and_then(|staging| staging.checked_add(segment.offset));
        let align = segment.align.max(1);
        let mut spot = Spot { base: 0, delta: 0, frozen: false, in_place: false };
        match (staged.filter(|_| segment.read_only()), options.read_only) {
            (Some(base), ReadOnlyPlacement::InPlace) if may_stay(segment, base) && !is_set(keep_out, position) => {
                spot = Spot { base, frozen: true, in_place: true, ..spot };
            }
            (Some(base), ReadOnlyPlacement::AtStaging) => {
                if base & (align - 1) != 0 {
                    let problem = "is not honoured at its place in the staging area; align its file offset";
                    let (index, header, align) = (segment.index, segment.header, segment.align);
                    return Err(LoadError::BadAlign { index, header, align, problem });
                }
                let kind = SegmentKind::ReadOnly;
                let request = SegmentRequest { size: segment.memsz, align: 1, kind, address: Some(base) };
                spot = Spot { base: claims.claim(segment.index, &request)?, in_place: true, ..spot };
            }
            _ => {
                let address = options.bases.iter().find(|(index, _)| *index == position).map(|(_, base)| *base);
                let (align, kind) = (align.max(POOL_ALIGN), kind_of(segment));
                let request = SegmentRequest { size: segment.memsz, align, kind, address };
                spot.base = claims.claim(segment.index, &request)?;
            }
        }
        spot.delta = spot.base.wrapping_sub(segment.vaddr);
        spots.push(spot);
    }
    Ok(Layout { spots, bias: 0 })
}

/// A read-only segment may be used where the file lies when it is whole and aligned there.
fn may_stay(segment: &outboard_elf::Segment, base: u64) -> bool {
    segment.filesz == segment.memsz && base & (segment.align.max(1) - 1) == 0
}

fn kind_of(segment: &outboard_elf::Segment) -> SegmentKind {
    if segment.executable() {
        SegmentKind::Text
    } else if segment.writable() {
        SegmentKind::Data
    } else {
        SegmentKind::ReadOnly
    }
}

fn copy_segments(image: &Image<'_>, layout: &Layout, claims: &mut Claims<'_>) -> Result<(), LoadError> {
    for (segment, spot) in image.loads.iter().zip(&layout.spots).filter(|(_, spot)| !spot.frozen) {
        let fault = LoadError::MemoryFault { address: spot.base, len: segment.filesz };
        let bytes = claims.memory.bytes_mut(spot.base, segment.filesz).ok_or(fault)?;
        bytes.copy_from_slice(image.elf.segment_data(segment)?);
        zero(claims.memory, spot.base + segment.filesz, segment.memsz - segment.filesz)?;
    }
    Ok(())
}

fn zero(memory: &mut dyn TargetMemory, address: u64, len: u64) -> Result<(), LoadError> {
    if len == 0 || memory.zero(address, len) { Ok(()) } else { Err(LoadError::MemoryFault { address, len }) }
}

fn is_set(flags: &[bool], position: usize) -> bool {
    flags.get(position).copied().unwrap_or(false)
}

/// The segments that some relocation changes.
pub(crate) fn changed_segments(image: &Image<'_>) -> Vec<bool> {
    let mut changed = vec![false; image.loads.len()];
    for entry in image.rela.iter().flat_map(outboard_elf::RelaTable::iter) {
        if let Some(flag) = image.load_at(entry.offset).and_then(|position| changed.get_mut(position)) {
            *flag = true;
        }
    }
    changed
}
