//! Phases *relocate* and *verify*: one pass over the relocations, each checked, written, read back and compared.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use outboard_elf::{RelaTable, Segment};
use outboard_reloc::{ApplyError, Inputs, Recipe, Row, Table};

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

/// Counts per row of the machine's table.
pub(crate) type Counts = Vec<u64>;

/// A type number's recipe, or why there is none.
struct Recipes {
    by_row: Vec<Option<Recipe>>,
    table: &'static Table,
}

/// The part of a segment that one run of relocations writes to.
struct Window<'w> {
    segment: &'w Segment,
    spot: Spot,
    /// Bytes from the start of the segment, `bytes[0]` is at offset `start`.
    start: u64,
    bytes: &'w mut [u8],
}

/// Applies every relocation of the image in order.
pub(crate) fn relocate(pass: &Pass<'_, '_>, memory: &mut dyn TargetMemory) -> Result<Counts, Stop> {
    let by_row = pass.table.rows().iter().map(Row::recipe).collect();
    let recipes = Recipes { by_row, table: pass.table };
    let mut counts = vec![0; pass.table.rows().len()];
    let mut entry = 0;
    for table in &pass.image.rela {
        pass.apply_table(table, entry, &recipes, &mut counts, memory)?;
        entry += table.len();
    }
    Ok(counts)
}

impl Pass<'_, '_> {
    fn apply_table(
        &self,
        table: &RelaTable<'_>,
        first: usize,
        recipes: &Recipes,
        counts: &mut [u64],
        memory: &mut dyn TargetMemory,
    ) -> Result<(), Stop> {
        let mut entries = table.entries64();
        let mut done = first;
        while let Some(raw) = entries.first() {
            let mut window = self.open_window(raw, done, memory)?;
            let count = self.apply_run(entries, done, &mut window, recipes, counts)?;
            done += count;
            entries = entries.get(count..).unwrap_or(&[]);
        }
        Ok(())
    }

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
        let (start, end) = if inside + size <= segment.filesz {
            (0, segment.filesz)
        } else {
            (inside, (inside + 8).min(segment.memsz))
        };
        let (address, len) = (spot.base + start, end - start);
        let bytes = memory.bytes_mut(address, len).ok_or(LoadError::MemoryFault { address, len })?;
        Ok(Window { segment, spot: *spot, start, bytes })
    }

    /// Applies relocations from `entries` while they stay inside the window; returns how many.
    fn apply_run(
        &self,
        entries: &[[u8; 24]],
        first: usize,
        window: &mut Window<'_>,
        recipes: &Recipes,
        counts: &mut [u64],
    ) -> Result<usize, Stop> {
        let link_start = window.segment.vaddr + window.start;
        let run_start = window.spot.base + window.start;
        let len = window.bytes.len() as u64;
        let needs_symbol = self.image.machine == Machine::C7x;
        for (index, raw) in entries.iter().enumerate() {
            let rela = RelaTable::decode64(raw);
            let inside = rela.offset.wrapping_sub(link_start);
            if inside >= len {
                return Ok(index);
            }
            let entry = first + index;
            let Some((row, recipe)) = recipes.find(rela.kind) else {
                self.row(rela.kind, entry, rela.offset)?;
                return Ok(index);
            };
            if recipe.size() > len - inside {
                // The container leaves the window: the next window decides whether it is inside the segment.
                return if index == 0 { Err(self.crossing(&rela, entry, recipe).into()) } else { Ok(index) };
            }
            let Some(symbol) = usize::try_from(rela.symbol).ok().and_then(|i| self.values.get(i)) else {
                return Err(self.bad_symbol(&rela, entry).into());
            };
            if rela.symbol == 0 && needs_symbol {
                return Err(self.no_symbol().into());
            }
            let place = run_start.wrapping_add(inside);
            let inputs = Inputs { symbol: *symbol, addend: rela.addend, place, bias: self.layout.bias };
            let value = recipe.value(inputs);
            let offset = usize::try_from(inside).unwrap_or(usize::MAX);
            let applied = if self.strict && recipe.drops_low_bits(value) {
                Err(ApplyError::LowBits)
            } else {
                recipe.apply(window.bytes, offset, value)
            };
            if let Err(error) = applied {
                return Err(self.fault(error, &rela, entry, window, place, value).into());
            }
            if let Some(count) = counts.get_mut(row) {
                *count += 1;
            }
        }
        Ok(entries.len())
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
    fn crossing(&self, rela: &outboard_elf::Rela, entry: usize, recipe: &Recipe) -> LoadError {
        let name = self.table.row(rela.kind).map_or("unknown type", |row| row.name);
        let problem = "crosses the end of its segment";
        LoadError::RelocOutOfSegment { entry, place: rela.offset, name, size: recipe.size(), problem }
    }

    #[cold]
    fn no_symbol(&self) -> LoadError {
        let reason = "a relocation uses symbol 0, which names nothing; link the module again";
        let symbols = vec![MissingSymbol { name: String::new(), reason, near: Vec::new() }];
        LoadError::Unresolved(Box::new(Unresolved { module: self.module.into(), symbols, hints: Vec::new() }))
    }

    #[cold]
    fn bad_symbol(&self, rela: &outboard_elf::Rela, entry: usize) -> LoadError {
        LoadError::BadSymbolIndex { entry, place: rela.offset, index: rela.symbol, count: self.values.len() }
    }

    #[cold]
    fn fault(
        &self,
        error: ApplyError,
        rela: &outboard_elf::Rela,
        entry: usize,
        window: &Window<'_>,
        address: u64,
        value: u64,
    ) -> LoadError {
        let row = self.table.row(rela.kind);
        let fault = Box::new(RelocFault {
            entry,
            name: row.map_or("unknown type", |row| row.name),
            place: rela.offset,
            segment: window.segment.index,
            address,
            symbol: self.image.name_for_message(rela.symbol),
            value: value.cast_signed(),
            range: row.and_then(Row::bounds),
        });
        match error {
            ApplyError::Overflow => LoadError::Overflow(fault),
            ApplyError::LowBits => LoadError::MisalignedTarget(fault),
            ApplyError::ReadBack => LoadError::ReadBack(fault),
            ApplyError::OutOfBounds => LoadError::MemoryFault { address, len: 8 },
        }
    }
}

impl Recipes {
    #[inline]
    fn find(&self, number: u32) -> Option<(usize, &Recipe)> {
        let position = self.table.position(number)?;
        Some((position, self.by_row.get(position)?.as_ref()?))
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
