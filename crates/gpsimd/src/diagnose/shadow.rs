//! Memory that cores share: which bytes are a tensor, who wrote and who read each of them in this operation.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::{Access, Rule, Violation};

/// Bytes of a region whose marks are made together.
const PAGE: u64 = 0x1_0000;

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionKind {
    /// A tensor of the host with contents.
    Operand,
    /// Where the host expects a result.
    Result,
    /// What a core took from its heap.
    Allocation,
}

/// A range of shared memory.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) kind: RegionKind,
    /// What messages call it.
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    live: AtomicBool,
    /// A bit for each core that accessed elements through a window.
    direct: AtomicU8,
    /// For each byte the core that wrote it, plus one, and a bit for each that read it.
    marks: Box<[OnceLock<Box<[AtomicU16]>>]>,
}

impl Region {
    pub(crate) fn new(kind: RegionKind, name: String, start: u64, size: u64) -> Self {
        let marks = (0..size.div_ceil(PAGE)).map(|_| OnceLock::new()).collect();
        let end = start.saturating_add(size);
        Self { kind, name, start, end, live: AtomicBool::new(true), direct: AtomicU8::new(0), marks }
    }

    /// Notes that a core accesses elements; says whether another core did it before.
    pub(crate) fn note_direct(&self, core: usize) -> bool {
        let own = 1_u8 << (core & 7);
        self.direct.fetch_or(own, Ordering::Relaxed) & !own != 0
    }

    pub(crate) fn has_direct(&self, core: usize) -> bool {
        self.direct.load(Ordering::Relaxed) >> (core & 7) & 1 == 1
    }

    fn mark(&self, offset: u64) -> Option<&AtomicU16> {
        let page = self.marks.get(usize::try_from(offset / PAGE).ok()?)?;
        let page = page.get_or_init(|| (0..PAGE).map(|_| AtomicU16::new(0)).collect());
        page.get(usize::try_from(offset % PAGE).ok()?)
    }

    /// Bytes that nobody wrote, as the first run of them: offset and length.
    pub(crate) fn unwritten(&self) -> Option<(u64, u64)> {
        let written = |offset: u64| {
            let page = usize::try_from(offset / PAGE).ok().and_then(|page| self.marks.get(page)?.get());
            let mark = page.and_then(|page| page.get(usize::try_from(offset % PAGE).ok()?));
            mark.is_some_and(|mark| mark.load(Ordering::Relaxed) & 0xff != 0)
        };
        let size = self.end - self.start;
        let first = (0..size).find(|offset| !written(*offset))?;
        let length = (first..size).take_while(|offset| !written(*offset)).count() as u64;
        Some((first, length))
    }

    /// What an access of bytes inside of the region breaks.
    fn touch(&self, core: usize, offset: u64, length: u64, access: Access) -> Option<Violation> {
        let (own, bit) = ((core & 7) as u16 + 1, 0x100_u16 << (core & 7));
        let mut found = None;
        for at in offset..offset + length {
            let Some(mark) = self.mark(at) else { break };
            let before = match access {
                Access::Read => mark.fetch_or(bit, Ordering::AcqRel),
                Access::Write => {
                    let with_writer = |old: u16| Some(old & 0xff00 | own);
                    mark.fetch_update(Ordering::AcqRel, Ordering::Relaxed, with_writer).unwrap_or_else(|old| old)
                }
            };
            if found.is_none() {
                found = self.judge(core, at, access, before, (own, bit));
            }
        }
        found
    }

    fn judge(&self, core: usize, at: u64, access: Access, before: u16, (own, bit): (u16, u16)) -> Option<Violation> {
        let (writer, readers) = (before & 0xff, before & 0xff00 & !bit);
        let race = |what: &str, other: u16| Violation {
            rule: Rule::Race,
            message: format!(
                "byte {at} of {} {what} core {other} in the same operation; cores run in any order, so the bytes depend on luck",
                self.name
            ),
        };
        match access {
            Access::Write if writer != 0 && writer != own => {
                Some(race(&format!("is written by core {core} and was written by"), writer - 1))
            }
            Access::Write if readers != 0 => {
                let other = (readers >> 8).trailing_zeros() as u16;
                Some(race(&format!("is written by core {core} and was read by"), other))
            }
            Access::Read if writer != 0 && writer != own => {
                Some(race(&format!("is read by core {core} and was written by"), writer - 1))
            }
            Access::Read if writer == 0 && self.kind != RegionKind::Operand => Some(Violation {
                rule: Rule::Unwritten,
                message: format!("byte {at} of {} is read, and nobody wrote it in this operation", self.name),
            }),
            _ => None,
        }
    }
}

/// All regions, and the range that holds nothing but tensors.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// Where the host puts tensors: an access there is in a tensor or wrong.
    tensors: (u64, u64),
    regions: RwLock<Vec<Arc<Region>>>,
    generation: AtomicU64,
}

impl Shadow {
    pub(crate) fn new(tensors: (u64, u64)) -> Self {
        Self { tensors, regions: RwLock::default(), generation: AtomicU64::new(1) }
    }

    /// Changes whenever a region comes or goes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn change<R>(&self, work: impl FnOnce(&mut Vec<Arc<Region>>) -> R) -> R {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut regions);
        self.generation.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// A new operation: the host's tensors are these; what cores had taken is left over.
    pub(crate) fn begin(&self, tensors: Vec<Region>) {
        self.change(|regions| {
            regions.retain(|region| region.kind == RegionKind::Allocation);
            regions.iter().for_each(|region| region.live.store(false, Ordering::Release));
            regions.extend(tensors.into_iter().map(Arc::new));
        });
    }

    /// A core has taken memory: what was known of that place is over.
    pub(crate) fn take(&self, region: Region) {
        self.change(|regions| {
            let apart = |other: &Arc<Region>| other.end <= region.start || region.end <= other.start;
            regions.retain(|other| other.kind != RegionKind::Allocation || apart(other));
            regions.push(Arc::new(region));
        });
    }

    /// A core has given memory back.
    pub(crate) fn give_back(&self, start: u64) {
        self.change(|regions| {
            let mine = |region: &&Arc<Region>| region.kind == RegionKind::Allocation && region.start == start;
            regions.iter().filter(mine).for_each(|region| region.live.store(false, Ordering::Release));
        });
    }

    /// The region around an address.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Region>> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        regions.iter().find(|region| (region.start..region.end).contains(&address)).map(Arc::clone)
    }

    /// A region whose address, cut to 32 bits, is this one.
    pub(crate) fn find_low(&self, address: u32) -> Option<Arc<Region>> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let holds = |region: &&Arc<Region>| {
            let offset = address.wrapping_sub(region.start as u32);
            u64::from(offset) < region.end - region.start
        };
        regions.iter().find(holds).map(Arc::clone)
    }

    /// Results with bytes that nobody wrote.
    pub(crate) fn unwritten(&self) -> Vec<Violation> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let results = regions.iter().filter(|region| region.kind == RegionKind::Result);
        let violation = |region: &Arc<Region>| {
            let (first, length) = region.unwritten()?;
            let message = format!(
                "{} has {} bytes, and no core wrote the {length} from byte {first} on: the result has whatever was there",
                region.name,
                region.end - region.start
            );
            Some(Violation { rule: Rule::Unwritten, message })
        };
        results.filter_map(violation).collect()
    }

    /// What an access breaks. `known` is the region that the same core looked at last.
    pub(crate) fn touch(
        &self,
        core: usize,
        address: u64,
        length: u64,
        access: Access,
        known: &mut Option<Arc<Region>>,
    ) -> Option<Violation> {
        let inside = |region: &Arc<Region>| (region.start..region.end).contains(&address);
        if !known.as_ref().is_some_and(inside) {
            *known = self.find(address);
        }
        let Some(region) = known else {
            let (first, end) = self.tensors;
            return (first..end).contains(&address).then(|| self.outside(address, length));
        };
        if !region.live.load(Ordering::Acquire) {
            let message = format!(
                "byte {} of {} is used after it was given back, or in an operation after the one that took it",
                address - region.start,
                region.name
            );
            return Some(Violation { rule: Rule::Freed, message });
        }
        let here = length.min(region.end - address);
        let found = region.touch(core, address - region.start, here, access);
        if here < length { Some(self.outside(region.end, length - here)) } else { found }
    }

    /// An access to no tensor: the message names the one before it.
    fn outside(&self, address: u64, length: u64) -> Violation {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let tensors = regions.iter().filter(|region| region.end <= address && region.kind != RegionKind::Allocation);
        let message = match tensors.max_by_key(|region| region.end) {
            Some(region) => format!(
                "{length} bytes at offset {} of {}, which has {} bytes",
                address - region.start,
                region.name,
                region.end - region.start
            ),
            None => format!("{length} bytes at {address:#x}, before every tensor of the operation"),
        };
        Violation { rule: Rule::TensorBounds, message }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn shadow() -> Shadow {
        let shadow = Shadow::new((0x1000, 0x9000));
        shadow.begin(vec![
            Region::new(RegionKind::Operand, "argument 0".into(), 0x1000, 64),
            Region::new(RegionKind::Result, "the result".into(), 0x2000, 64),
        ]);
        shadow
    }

    fn rule(shadow: &Shadow, core: usize, address: u64, length: u64, access: Access) -> Option<Rule> {
        shadow.touch(core, address, length, access, &mut None).map(|violation| violation.rule)
    }

    #[test]
    fn bytes_belong_to_one_writer_or_to_any_number_of_readers() {
        let shadow = shadow();
        for core in 0..8 {
            assert_eq!(rule(&shadow, core, 0x1000, 64, Access::Read), None);
            assert_eq!(rule(&shadow, core, 0x2000 + 8 * core as u64, 8, Access::Write), None);
            assert_eq!(rule(&shadow, core, 0x2000 + 8 * core as u64, 8, Access::Read), None);
        }
        assert_eq!(rule(&shadow, 1, 0x1000, 1, Access::Write), Some(Rule::Race), "others read it");
        assert_eq!(rule(&shadow, 1, 0x2007, 1, Access::Read), Some(Rule::Race), "core 0 wrote it");
        assert_eq!(rule(&shadow, 1, 0x2000, 1, Access::Write), Some(Rule::Race), "core 0 wrote it, too");
        assert_eq!(shadow.unwritten(), []);
    }

    #[test]
    fn what_is_outside_left_over_or_never_written_is_named() {
        let shadow = shadow();
        assert_eq!(rule(&shadow, 0, 0x2000, 4, Access::Read), Some(Rule::Unwritten));
        assert_eq!(rule(&shadow, 0, 0x1040, 1, Access::Read), Some(Rule::TensorBounds));
        assert_eq!(rule(&shadow, 0, 0x103c, 8, Access::Read), Some(Rule::TensorBounds));
        assert_eq!(rule(&shadow, 0, 0xa000, 8, Access::Read), None, "not where tensors are");
        rule(&shadow, 0, 0x2000, 60, Access::Write);
        assert!(shadow.unwritten()[0].message.contains("no core wrote the 4 from byte 60 on"));
        shadow.take(Region::new(RegionKind::Allocation, "a tensor".into(), 0xb000, 16));
        assert_eq!(rule(&shadow, 0, 0xb000, 4, Access::Write), None);
        shadow.give_back(0xb000);
        assert_eq!(rule(&shadow, 0, 0xb000, 4, Access::Read), Some(Rule::Freed));
        shadow.take(Region::new(RegionKind::Allocation, "another".into(), 0xb008, 16));
        assert_eq!(rule(&shadow, 0, 0xb008, 4, Access::Write), None);
        shadow.begin(Vec::new());
        assert_eq!(rule(&shadow, 0, 0xb008, 4, Access::Read), Some(Rule::Freed), "left from the operation before");
    }
}
