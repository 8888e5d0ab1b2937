//! Phases *relocate* and *verify*: one pass over the relocations, each checked, written, read back and compared.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use outboard_elf::{Rela, RelaTable, Segment};
use outboard_reloc::{ApplyError, Inputs, Row, Table};

use crate::image::Image;
use crate::layout::{Layout, Spot};
use crate::{LoadError, Machine, MissingSymbol, RelocFault, TargetMemory, Unresolved};

/// Why the pass stopped.
pub(crate) enum Stop {
    /// A relocation changes a segment that is used in place: the load starts again with that segment copied.
    Frozen,
    /// The load fails.
    Error(LoadError),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Self::Error(error)
    }
}

/// What the pass needs to know.
pub(crate) struct Pass<'p, 'a> {
    pub image: &'p Image<'a>,
    pub layout: &'p Layout,
    pub values: &'p [u64],
    pub table: &'static Table,
    pub strict: bool,
    /// Name of the module, for messages.
    pub module: &'p str,
}

/// Applied relocations per row of the machine's table.
pub(crate) type Counts = [u64; 64];

/// The part of a segment that one run of relocations writes to.
struct Window<'w> {
    segment: &'w Segment,
    spot: Spot,
    /// Bytes from the start of the segment, `bytes[0]` is at offset `start`.
    start: u64,
    bytes: &'w mut [u8],
}

impl Window<'_> {
    /// Link address of the first byte.
    const fn link_start(&self) -> u64 {
        self.segment.vaddr.wrapping_add(self.start)
    }

    /// Device address of the first byte.
    const fn run_start(&self) -> u64 {
        self.spot.base.wrapping_add(self.start)
    }
}

/// Applies every relocation of the image in order.
pub(crate) fn relocate(pass: &Pass<'_, '_>, memory: &mut dyn TargetMemory) -> Result<Counts, Stop> {
    let mut counts = [0; 64];
    let mut done = 0;
    for table in &pass.image.rela {
        let mut entries = table.entries64();
        while let Some(raw) = entries.first() {
            let mut window = pass.open_window(raw, done, memory)?;
            let count = pass.apply_run(entries, &mut window, &mut counts);
            entries = entries.get(count..).unwrap_or(&[]);
            done += count;
            // The run ends where the window ends, where a relocation has a fault, or within eight bytes of the window's end.
            let Some(raw) = entries.first() else { break };
            if pass.apply_one(raw, done, &mut window, &mut counts)? {
                entries = entries.get(1..).unwrap_or(&[]);
                done += 1;
            } else if count == 0 {
                // A window always takes the relocation it was opened for.
                let (address, len) = (window.run_start(), window.bytes.len() as u64);
                return Err(LoadError::MemoryFault { address, len }.into());
            }
        }
    }
    Ok(counts)
}

impl Pass<'_, '_> {
    /// The window that the next relocation needs: the segment's file bytes, or a few bytes of its zeroed tail.
    fn open_window<'w>(
        &'w self,
        raw: &[u8; 24],
        entry: usize,
        memory: &'w mut dyn TargetMemory,
    ) -> Result<Window<'w>, Stop> {
        let rela = RelaTable::decode64(raw);
        let outside = |size, problem| LoadError::RelocOutOfSegment {
            entry,
            place: rela.offset,
            name: self.table.row(rela.kind).map_or("unknown type", |row| row.name),
            size,
            problem,
        };
        let row = self.row(rela.kind, entry, rela.offset)?;
        let size = u64::from(row.field.container);
        let position =
            self.image.load_at(rela.offset).ok_or_else(|| outside(size, "is outside of every loaded segment"))?;
        let (Some(segment), Some(spot)) = (self.image.loads.get(position), self.layout.spots.get(position)) else {
            return Err(outside(size, "is outside of every loaded segment").into());
        };
        let inside = rela.offset - segment.vaddr;
        if inside + size > segment.memsz {
            return Err(outside(size, "crosses the end of its segment").into());
        }
        if spot.in_place && inside + size > segment.filesz {
            return Err(outside(size, "is behind the file bytes of read-only data that is used in place").into());
        }
        if spot.frozen {
            return Err(Stop::Frozen);
        }
        if self.image.machine.one_block() && !segment.writable() {
            return Err(LoadError::TextRelocation { what: row.name, place: rela.offset }.into());
        }
        let (start, end) = if inside < segment.filesz && inside + size <= segment.filesz {
            (0, segment.filesz)
        } else {
            (inside, (inside + 8).min(segment.memsz))
        };
        let (address, len) = (spot.base + start, end - start);
        let bytes = memory.bytes_mut(address, len).ok_or(LoadError::MemoryFault { address, len })?;
        Ok(Window { segment, spot: *spot, start, bytes })
    }

    /// Applies relocations from `entries` until one needs more than the straight path; returns how many. Nothing is written
    /// for the one that stops it, except when its bytes did not read back.
    fn apply_run(&self, entries: &[[u8; 24]], window: &mut Window<'_>, counts: &mut Counts) -> usize {
        let link_start = window.link_start();
        let run_start = window.run_start();
        let strict = if self.strict { u64::MAX } else { 0 };
        let (first_symbol, values) = self.usable_symbols();
        let (table, bias) = (self.table, self.layout.bias);
        let bytes = &mut *window.bytes;
        for (index, raw) in entries.iter().enumerate() {
            let rela = RelaTable::decode64(raw);
            let inside = rela.offset.wrapping_sub(link_start);
            let symbol = rela.symbol.wrapping_sub(first_symbol);
            let Some((row, recipe)) = table.recipe(rela.kind) else { return index };
            let Some(symbol) = usize::try_from(symbol).ok().and_then(|i| values.get(i)) else { return index };
            let place = run_start.wrapping_add(inside);
            let inputs = Inputs { symbol: *symbol, addend: rela.addend, place, bias };
            let value = recipe.value(inputs);
            if !recipe.accepts(value) || recipe.dropped_bits(value) & strict != 0 {
                return index;
            }
            let site = usize::try_from(inside).ok().and_then(|inside| bytes.get_mut(inside..));
            let Some(site) = site.and_then(<[u8]>::first_chunk_mut) else { return index };
            if recipe.store(site, value).is_err() {
                return index;
            }
            counts[row & 63] += 1;
        }
        entries.len()
    }

    /// Symbols that a relocation may name: the C7x gives no meaning to symbol 0.
    fn usable_symbols(&self) -> (u32, &[u64]) {
        match self.image.machine {
            Machine::C7x => (1, self.values.get(1..).unwrap_or(&[])),
            _ => (0, self.values),
        }
    }

    /// Applies one relocation with every fault told apart; false when it lies outside of the window.
    fn apply_one(
        &self,
        raw: &[u8; 24],
        entry: usize,
        window: &mut Window<'_>,
        counts: &mut Counts,
    ) -> Result<bool, LoadError> {
        let rela = RelaTable::decode64(raw);
        let inside = rela.offset.wrapping_sub(window.link_start());
        let len = window.bytes.len() as u64;
        if inside >= len {
            return Ok(false);
        }
        let row = self.row(rela.kind, entry, rela.offset)?;
        let Some((position, recipe)) = self.table.recipe(rela.kind) else { return Ok(false) };
        if recipe.size() > len - inside {
            return Ok(false);
        }
        let Some(symbol) = usize::try_from(rela.symbol).ok().and_then(|i| self.values.get(i)) else {
            let (place, index, count) = (rela.offset, rela.symbol, self.values.len());
            return Err(LoadError::BadSymbolIndex { entry, place, index, count });
        };
        if rela.symbol == 0 && self.usable_symbols().0 == 1 {
            return Err(self.no_symbol());
        }
        let place = window.run_start().wrapping_add(inside);
        let value = recipe.value(Inputs { symbol: *symbol, addend: rela.addend, place, bias: self.layout.bias });
        let offset = usize::try_from(inside).unwrap_or(usize::MAX);
        let applied = if self.strict && recipe.dropped_bits(value) != 0 {
            Err(ApplyError::LowBits)
        } else {
            recipe.apply(window.bytes, offset, value)
        };
        applied.map_err(|error| self.fault(error, row, &rela, entry, window, value))?;
        counts[position & 63] += 1;
        Ok(true)
    }

    fn row(&self, number: u32, entry: usize, place: u64) -> Result<&'static Row, LoadError> {
        let invalid = |name, why| LoadError::InvalidRelocType { entry, place, number, name, why };
        let row = self.table.row(number);
        let row =
            row.ok_or_else(|| invalid("unknown", "is not a relocation type of this machine; link the module again"))?;
        match row.refused() {
            Some(why) => Err(invalid(row.name, why)),
            None => Ok(row),
        }
    }

    #[cold]
    fn no_symbol(&self) -> LoadError {
        let reason = "a relocation uses symbol 0, which names nothing; link the module again";
        let symbols = vec![MissingSymbol { name: String::new(), reason, near: Vec::new() }];
        LoadError::Unresolved(Box::new(Unresolved {
            module: self.module.into(),
            symbols,
            stale: Vec::new(),
            hints: Vec::new(),
        }))
    }

    /// How many relocations from `first` on have the same fault. Nothing is written.
    #[cold]
    fn count_like(&self, error: ApplyError, first: usize) -> usize {
        let faulty = |rela: &Rela| {
            let (_, recipe) = self.table.recipe(rela.kind)?;
            let symbol = *self.values.get(usize::try_from(rela.symbol).ok()?)?;
            let delta = self.layout.spots.get(self.image.load_at(rela.offset)?)?.delta;
            let place = rela.offset.wrapping_add(delta);
            let value = recipe.value(Inputs { symbol, addend: rela.addend, place, bias: self.layout.bias });
            match error {
                ApplyError::Overflow => Some(!recipe.accepts(value)),
                ApplyError::LowBits => Some(recipe.dropped_bits(value) != 0),
                ApplyError::OutOfBounds | ApplyError::ReadBack => None,
            }
        };
        let later = self.image.rela.iter().flat_map(RelaTable::iter).skip(first);
        later.filter(|rela| faulty(rela).unwrap_or(false)).count()
    }

    #[cold]
    fn fault(
        &self,
        error: ApplyError,
        row: &Row,
        rela: &Rela,
        entry: usize,
        window: &Window<'_>,
        value: u64,
    ) -> LoadError {
        let address = rela.offset.wrapping_add(window.spot.delta);
        let fault = Box::new(RelocFault {
            entry,
            name: row.name,
            place: rela.offset,
            segment: window.segment.index,
            address,
            symbol: self.image.name_for_message(rela.symbol),
            value: value.cast_signed(),
            range: row.bounds(),
            more: self.count_like(error, entry + 1),
        });
        match error {
            ApplyError::Overflow => LoadError::Overflow(fault),
            ApplyError::LowBits => LoadError::MisalignedTarget(fault),
            ApplyError::ReadBack => LoadError::ReadBack(fault),
            ApplyError::OutOfBounds => LoadError::MemoryFault { address, len: 8 },
        }
    }
}

/// Adds the bias to every word of a packed relative table; returns how many.
pub(crate) fn relocate_packed(
    image: &Image<'_>,
    layout: &Layout,
    memory: &mut dyn TargetMemory,
) -> Result<u64, LoadError> {
    let mut count = 0;
    for place in image.relr.places() {
        let entry = usize::try_from(count).unwrap_or(usize::MAX);
        let outside = |problem| LoadError::RelocOutOfSegment { entry, place, name: "DT_RELR", size: 8, problem };
        let position = image.load_at(place).ok_or_else(|| outside("is outside of every loaded segment"))?;
        let (Some(segment), Some(spot)) = (image.loads.get(position), layout.spots.get(position)) else {
            return Err(outside("is outside of every loaded segment"));
        };
        if place - segment.vaddr + 8 > segment.memsz {
            return Err(outside("crosses the end of its segment"));
        }
        if !segment.writable() {
            return Err(LoadError::TextRelocation { what: "DT_RELR", place });
        }
        let address = place.wrapping_add(spot.delta);
        let word = memory
            .bytes_mut(address, 8)
            .and_then(<[u8]>::first_chunk_mut::<8>)
            .ok_or(LoadError::MemoryFault { address, len: 8 })?;
        *word = u64::from_le_bytes(*word).wrapping_add(layout.bias).to_le_bytes();
        count += 1;
    }
    Ok(count)
}
