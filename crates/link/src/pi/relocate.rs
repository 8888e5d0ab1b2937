//! Walks the relocations: maps the place, checks the instruction, writes the field, reads it back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use outboard_reloc::xtensa::{self, Half};
use outboard_reloc::{ApplyError, Recipe};

use super::error::Entry;
use super::plan::RELA;
use super::{Descriptor, FlixSlot, Mode, Placement, PrelinkError, PrelinkRequest, format_of};

/// Highest type number that the prelinker applies.
const LAST_TYPE: usize = 49;

/// Relocations by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts([u32; LAST_TYPE + 1]);

impl Counts {
    /// How many there are of type `number`.
    #[must_use]
    pub fn of(&self, number: u32) -> u32 {
        usize::try_from(number).ok().and_then(|number| self.0.get(number)).copied().unwrap_or(0)
    }

    /// Type name and count, for every type that occurs.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u32)> {
        xtensa::table().rows().iter().map(|row| (row.name, self.of(row.number))).filter(|(_, count)| *count > 0)
    }

    /// All relocations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }
}

/// Something that is not refused, and deserves attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The word and the addend of a relative relocation are both not zero; their sum was used.
    #[error(
        "relocation {index} at {place:#x}: both the word ({word:#x}) and r_addend ({addend:#x}) are not zero; their sum is used"
    )]
    BothAddends {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The word in the file.
        word: u32,
        /// `r_addend`.
        addend: u32,
    },
    /// The target lies in neither segment.
    #[error("relocation {index} at {place:#x}: its target {address:#x} lies in neither segment")]
    Outside {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The link address.
        address: u32,
    },
    /// Compatible mode: a half without the other.
    #[error("relocation {index} at {place:#x}: one half of {address:#x} is set and the other is not")]
    OrphanHalf {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The link address.
        address: u32,
    },
    /// Compatible mode: a word outside of both windows was skipped.
    #[error("relocation {index} at {place:#x}: the word at {address:#x} lies in neither window and was skipped")]
    Skipped {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The device address.
        address: u32,
    },
    /// Compatible mode: an immediate that is relative to the program counter got half an address.
    #[error(
        "relocation {index} at {place:#x}: the field of an l32r is relative to its place, and half an address was written there"
    )]
    Literal {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
    },
}

impl Warning {
    /// How many warnings are kept.
    pub const KEPT: usize = 256;
}

/// Which buffer a place lies in, and where.
#[derive(Clone, Copy)]
enum Site {
    Code(usize),
    Data(usize),
}

/// One walk over the relocations of an image.
pub(super) struct Walk<'a> {
    mode: Mode,
    flix: &'a [FlixSlot],
    descriptor: &'a Descriptor,
    placement: &'a Placement,
    code: &'a mut [u8],
    data: &'a mut [u8],
    written: [Marks; 2],
    slots: BTreeSet<(u32, u8)>,
    halves: Halves,
    counts: Counts,
    warnings: Vec<Warning>,
    more_warnings: usize,
}

impl<'a> Walk<'a> {
    pub fn new(
        request: &PrelinkRequest<'a>,
        descriptor: &'a Descriptor,
        placement: &'a Placement,
        code: &'a mut [u8],
        data: &'a mut [u8],
    ) -> Self {
        Self {
            mode: request.mode,
            flix: request.flix,
            descriptor,
            placement,
            written: [Marks::new(code.len()), Marks::new(data.len())],
            slots: BTreeSet::new(),
            code,
            data,
            halves: Halves::default(),
            counts: Counts([0; LAST_TYPE + 1]),
            warnings: Vec::new(),
            more_warnings: 0,
        }
    }

    pub fn finish(self) -> (Counts, Vec<Warning>, usize) {
        (self.counts, self.warnings, self.more_warnings)
    }

    pub fn run(&mut self, table: &[[u8; RELA]]) -> Result<(), PrelinkError> {
        for (index, raw) in table.iter().enumerate() {
            let [o0, o1, o2, o3, i0, i1, i2, i3, a0, a1, a2, a3] = *raw;
            let place = u32::from_le_bytes([o0, o1, o2, o3]);
            let info = u32::from_le_bytes([i0, i1, i2, i3]);
            let addend = u32::from_le_bytes([a0, a1, a2, a3]);
            if info > 0xff {
                return Err(PrelinkError::UnknownSymbol { index, place, info });
            }
            let entry = Entry { index, place, number: info };
            match (info, Half::of(info)) {
                (xtensa::NONE, _) => {}
                (xtensa::RELATIVE, _) => self.relative(entry, addend)?,
                (_, Some(half)) => self.half(entry, half, addend)?,
                _ => return Err(PrelinkError::UnknownType { index, place, number: info }),
            }
            if let Some(count) = usize::try_from(info).ok().and_then(|number| self.counts.0.get_mut(number)) {
                *count = count.saturating_add(1);
            }
        }
        self.check_halves()
    }

    /// A word that holds a link address, anywhere, aligned or not.
    fn relative(&mut self, entry: Entry, addend: u32) -> Result<(), PrelinkError> {
        let Entry { index, place, .. } = entry;
        let address = self.descriptor.rebase(place);
        let Some(site) = self.locate(address, 4) else {
            if self.mode == Mode::Strict {
                return Err(PrelinkError::BadLoad { index, place, address });
            }
            self.warn(Warning::Skipped { index, place, address });
            return Ok(());
        };
        self.mark(entry, site, 0, 4)?;
        let word = self.read(site);
        if word != 0 && addend != 0 {
            self.warn(Warning::BothAddends { index, place, word, addend });
        }
        let target = word.wrapping_add(addend);
        let value = self.target(entry, target);
        self.apply(entry, site, xtensa::WORD, value)
    }

    /// Half an address, into the immediate of the instruction at the place.
    fn half(&mut self, entry: Entry, half: Half, addend: u32) -> Result<(), PrelinkError> {
        let Entry { index, place, number } = entry;
        let address = self.descriptor.rebase(place);
        let bad_site = |problem| PrelinkError::BadSite { index, place, number, address, problem };
        let site = self.locate(address, 3).ok_or(bad_site("the instruction is in neither segment"))?;
        self.halves.note(half, addend, entry);
        let value = self.target(entry, addend);
        let insn = self.read(site);
        if insn & 8 != 0 {
            return self.bundle(entry, half, insn, half.of_address(value));
        }
        let bad = |problem| PrelinkError::BadInstruction { index, place, number, insn, problem };
        let [first, ..] = insn.to_le_bytes();
        if first & 0xf == 1 {
            if self.mode == Mode::Strict {
                return Err(bad(
                    "the instruction is an l32r, whose field is relative to its place: half an address cannot be right",
                ));
            }
            self.warn(Warning::Literal { index, place });
        } else if !xtensa::takes_half(first) {
            return Err(bad("the instruction is no const16 and takes no half of an address"));
        }
        if half.slot() != 0 && self.mode == Mode::Strict {
            return Err(bad("the type names a slot of a bundle, but a 24-bit instruction stands there"));
        }
        self.mark(entry, site, 1, 2)?;
        let recipe = if matches!(half, Half::Low(_)) { xtensa::LOW_HALF } else { xtensa::HIGH_HALF };
        self.apply(entry, site, recipe, value)
    }

    /// A FLIX bundle: only with a row that says where the immediate lies.
    fn bundle(&mut self, entry: Entry, half: Half, insn: u32, value: u16) -> Result<(), PrelinkError> {
        let Entry { index, place, .. } = entry;
        let slot = half.slot();
        let format = format_of(insn);
        // What the original takes for a bundle; its test of the lengths is reversed, which only matters for this.
        let is_bundle = insn & 0xf == 0xe || insn & 0x0100_000f == 0xf || insn & 0x0300_000f == 0x0100_000f;
        let unknown = if is_bundle {
            PrelinkError::Flix { index, place, slot, format: format.map_or("unknown", |format| format.name) }
        } else {
            PrelinkError::InsnFormat { index, place, insn }
        };
        let format = format.ok_or(unknown)?;
        if self.flix.is_empty() {
            return Err(unknown);
        }
        let length = usize::from(format.length);
        let address = self.descriptor.rebase(place);
        let problem = "the bundle reaches beyond its segment";
        let beyond = PrelinkError::BadSite { index, place, number: entry.number, address, problem };
        let site = self.locate(address, u32::from(format.length)).ok_or(beyond)?;
        let bytes = self.bytes(site).get_mut(..length).ok_or(unknown)?;
        let mut padded = [0; 16];
        for (to, from) in padded.iter_mut().zip(bytes.iter()) {
            *to = *from;
        }
        let bundle = u128::from_le_bytes(padded);
        let rows = self.flix;
        let row =
            rows.iter().find(|row| row.matches(format, slot, bundle) && row.problem().is_none()).ok_or(unknown)?;
        if !self.slots.insert((address, slot)) && self.mode == Mode::Strict {
            return Err(PrelinkError::Overlap { index, place, number: entry.number });
        }
        let after = row.insert(bundle, value);
        let bytes = self.bytes(site).get_mut(..length).ok_or(unknown)?;
        for (to, from) in bytes.iter_mut().zip(after.to_le_bytes()) {
            *to = from;
        }
        let same = bytes.iter().zip(after.to_le_bytes()).all(|(found, written)| *found == written);
        if same && row.extract(after) == value { Ok(()) } else { Err(PrelinkError::ReadBack { index, place }) }
    }

    /// The device address of a target; one outside of both segments is rebased as the original does, and noted.
    fn target(&mut self, entry: Entry, address: u32) -> u32 {
        let value = self.descriptor.rebase(address);
        let inside = |window: &super::Window| window.in_segment(value, 0).is_some();
        if !inside(&self.placement.code) && !inside(&self.placement.data) {
            self.warn(Warning::Outside { index: entry.index, place: entry.place, address });
        }
        value
    }

    fn locate(&self, address: u32, len: u32) -> Option<Site> {
        let Placement { code, data, .. } = self.placement;
        match self.mode {
            Mode::Strict => {
                let data = data.in_segment(address, len).map(Site::Data);
                data.or_else(|| code.in_segment(address, len).map(Site::Code))
            }
            Mode::Compatible => {
                let data = data.in_window(address, len).map(Site::Data);
                data.or_else(|| code.in_window(address, len).map(Site::Code))
            }
        }
    }

    fn bytes(&mut self, site: Site) -> &mut [u8] {
        match site {
            Site::Code(at) => self.code.get_mut(at..).unwrap_or(&mut []),
            Site::Data(at) => self.data.get_mut(at..).unwrap_or(&mut []),
        }
    }

    /// The word at a place; the windows have bytes behind their ends.
    fn read(&self, site: Site) -> u32 {
        let bytes = match site {
            Site::Code(at) => self.code.get(at..),
            Site::Data(at) => self.data.get(at..),
        };
        bytes.and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_le_bytes(*word))
    }

    fn apply(&mut self, entry: Entry, site: Site, recipe: Recipe, value: u32) -> Result<(), PrelinkError> {
        let Entry { index, place, number } = entry;
        recipe.apply(self.bytes(site), 0, u64::from(value)).map_err(|error| match error {
            ApplyError::ReadBack => PrelinkError::ReadBack { index, place },
            _ => {
                let address = self.descriptor.rebase(place);
                PrelinkError::BadSite { index, place, number, address, problem: "the field does not lie in the window" }
            }
        })
    }

    /// Claims the bytes that an entry writes; a second claim on one of them is an error in strict mode.
    fn mark(&mut self, entry: Entry, site: Site, skip: usize, len: usize) -> Result<(), PrelinkError> {
        let [code, data] = &mut self.written;
        let fresh = match site {
            Site::Code(at) => code.claim(at.saturating_add(skip), len),
            Site::Data(at) => data.claim(at.saturating_add(skip), len),
        };
        if fresh || self.mode == Mode::Compatible {
            return Ok(());
        }
        let Entry { index, place, number } = entry;
        Err(PrelinkError::Overlap { index, place, number })
    }

    fn check_halves(&mut self) -> Result<(), PrelinkError> {
        let orphans = core::mem::take(&mut self.halves).orphans();
        for (entry, address) in orphans {
            let Entry { index, place, number } = entry;
            if self.mode == Mode::Strict {
                let missing = if number < xtensa::SLOT0_ALT { "R_XTENSA_SLOT*_ALT" } else { "R_XTENSA_SLOT*_OP" };
                return Err(PrelinkError::OrphanHalf { index, place, address, missing });
            }
            self.warn(Warning::OrphanHalf { index, place, address });
        }
        Ok(())
    }

    fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < Warning::KEPT {
            self.warnings.push(warning);
        } else {
            self.more_warnings = self.more_warnings.saturating_add(1);
        }
    }
}

/// One bit for each byte of a window.
struct Marks(Vec<u64>);

impl Marks {
    fn new(bytes: usize) -> Self {
        Self(alloc::vec![0; bytes.div_ceil(64) + 1])
    }

    /// True when none of `len` (at most 32) bytes at `at` was claimed before.
    fn claim(&mut self, at: usize, len: usize) -> bool {
        let bits = ((1_u128 << len) - 1) << (at % 64);
        let halves = [bits & u128::from(u64::MAX), bits >> 64].map(|half| u64::try_from(half).unwrap_or(0));
        let words = self.0.get_mut(at / 64..).unwrap_or(&mut []);
        let mut fresh = true;
        for (word, half) in words.iter_mut().zip(halves) {
            fresh &= *word & half == 0;
            *word |= half;
        }
        fresh
    }
}

/// High halves that wait for their low half and the reverse. Linkers write the two next to each other.
#[derive(Default)]
struct Halves {
    last: Option<(u32, Entry)>,
    open: BTreeMap<(u32, bool), (u64, Entry)>,
}

impl Halves {
    fn note(&mut self, half: Half, address: u32, entry: Entry) {
        if matches!(half, Half::High(_)) {
            if let Some((address, entry)) = self.last.replace((address, entry)) {
                self.settle(address, true, entry);
            }
        } else if self.last.is_some_and(|(waiting, _)| waiting == address) {
            self.last = None;
        } else {
            self.settle(address, false, entry);
        }
    }

    fn settle(&mut self, address: u32, high: bool, entry: Entry) {
        if let Some((count, _)) = self.open.get_mut(&(address, !high)) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&(address, !high));
            }
        } else {
            self.open.entry((address, high)).or_insert((0, entry)).0 += 1;
        }
    }

    /// What is left over, in the order of the table.
    fn orphans(mut self) -> Vec<(Entry, u32)> {
        if let Some((address, entry)) = self.last.take() {
            self.settle(address, true, entry);
        }
        let mut left: Vec<_> = self.open.into_iter().map(|((address, _), (_, entry))| (entry, address)).collect();
        left.sort_by_key(|(entry, _)| entry.index);
        left
    }
}
