//! Generates C7x modules of any size whose relocations are valid wherever the segments land.

use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentId, SegmentSpec, SymbolId, SymbolSpec};
use outboard_elf::{machine, pf};

use crate::random::Random;

/// What a module's relocations look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Every type in random order against sections, locals, own globals, imports and absolute symbols.
    Everything,
    /// 64-bit addresses one behind the other against one section: dispatch and jump tables.
    PointerTable,
    /// Every type against imports only.
    Imports,
    /// Every type against the module's own default-visibility globals only.
    OwnGlobals,
}

/// A module to generate.
#[derive(Debug, Clone, Copy)]
pub struct ModuleSpec {
    /// Seed of the random choices.
    pub seed: u64,
    /// Number of relocations.
    pub relocations: u64,
    /// What they look like.
    pub mix: Mix,
    /// Number of imported symbols.
    pub imports: u64,
    /// Number of global symbols.
    pub globals: u64,
    /// Number of segments, at least 1.
    pub segments: u64,
}

impl ModuleSpec {
    /// A module of two segments, 100 imports and 100 globals.
    #[must_use]
    pub const fn new(relocations: u64, mix: Mix) -> Self {
        Self { seed: 1, relocations, mix, imports: 100, globals: 100, segments: 2 }
    }
}

/// Types that take any 48-bit placement within ±2 GiB.
const ANYWHERE: [u32; 12] = [18, 21, 22, 23, 24, 25, 26, 29, 30, 31, 32, 33];
/// Types that take small absolute values only.
const SMALL: [u32; 4] = [16, 17, 19, 20];
/// Types that reach a part of their own segment: (type, reach in bytes).
const NEAR: [(u32, u64); 2] = [(27, 1 << 19), (28, 1 << 24)];
/// Bytes of segment per relocation.
const SLOT: u64 = 8;

/// The name of import `index`; `exports` of a benchmark must have them all.
#[must_use]
pub fn import_name(index: u64) -> String {
    format!("firmware_function_{index}")
}

/// Generates the file of a module.
#[must_use]
pub fn generate(spec: &ModuleSpec) -> Vec<u8> {
    Generator::new(spec).file()
}

struct Generator<'s> {
    spec: &'s ModuleSpec,
    random: Random,
    image: ImageBuilder,
    segments: Vec<(SegmentId, SymbolId)>,
    slots: u64,
    imports: Vec<SymbolId>,
    globals: Vec<SymbolId>,
    locals: Vec<SymbolId>,
    absolutes: Vec<SymbolId>,
}

impl<'s> Generator<'s> {
    fn new(spec: &'s ModuleSpec) -> Self {
        let mut generator = Self {
            spec,
            random: Random::new(spec.seed),
            image: ImageBuilder::new(machine::C7X),
            segments: Vec::new(),
            slots: spec.relocations.div_ceil(spec.segments.max(1)),
            imports: Vec::new(),
            globals: Vec::new(),
            locals: Vec::new(),
            absolutes: Vec::new(),
        };
        generator.add_segments();
        generator.add_symbols();
        generator
    }

    fn add_segments(&mut self) {
        let size = usize::try_from(self.slots * SLOT + SLOT).unwrap_or(usize::MAX);
        for index in 0..self.spec.segments {
            let flags = if index % 2 == 0 { pf::R | pf::X } else { pf::R | pf::W };
            let bytes: Vec<u8> = (0..size.div_ceil(8)).flat_map(|_| self.random.next_u64().to_le_bytes()).collect();
            let segment = self.image.segment(SegmentSpec::new(flags, bytes));
            let start = self.image.section_symbol(segment);
            self.segments.push((segment, start));
        }
    }

    fn add_symbols(&mut self) {
        let image = &mut self.image;
        for value in [0x10, 0x1234, 0x5550, 0x7000] {
            self.absolutes.push(image.symbol(SymbolSpec::absolute(&format!("absolute_{value:x}"), value).hidden()));
        }
        for index in 0..100 {
            let (segment, _) = *self.random.pick(&self.segments);
            let offset = self.random.below(self.slots) * SLOT;
            self.locals.push(image.symbol(SymbolSpec::local(&format!("local_{index}"), segment, offset)));
        }
        for index in 0..self.spec.globals {
            let (segment, _) = *self.random.pick(&self.segments);
            let offset = self.random.below(self.slots) * SLOT;
            let name = format!("module_function_{index}");
            self.globals.push(image.symbol(SymbolSpec::function(&name, segment, offset, 8)));
        }
        for index in 0..self.spec.imports {
            self.imports.push(image.symbol(SymbolSpec::import(&import_name(index))));
        }
        if self.spec.imports > 0 {
            image.needed("dsp_syms.out").firmware_symbols(&[]);
        }
    }

    fn file(mut self) -> Vec<u8> {
        for index in 0..self.spec.relocations {
            let position = usize::try_from(index / self.slots).unwrap_or(0);
            let offset = index % self.slots * SLOT;
            let Some((segment, start)) = self.segments.get(position).copied() else { break };
            let relocation = self.relocation(segment, start, offset);
            self.image.relocate(relocation);
        }
        self.image.build()
    }

    fn relocation(&mut self, segment: SegmentId, start: SymbolId, offset: u64) -> RelocationSpec {
        let random = &mut self.random;
        let anywhere = *random.pick(&ANYWHERE);
        let (kind, symbol, addend) = match self.spec.mix {
            Mix::PointerTable => (18, start, random.below(self.slots) * SLOT),
            Mix::Imports => (anywhere, *random.pick(&self.imports), 0),
            Mix::OwnGlobals => (anywhere, *random.pick(&self.globals), 0),
            Mix::Everything => match random.below(100) {
                0..30 if !self.imports.is_empty() => (anywhere, *random.pick(&self.imports), 0),
                30..40 if !self.globals.is_empty() => (anywhere, *random.pick(&self.globals), 0),
                40..46 => (*random.pick(&SMALL), *random.pick(&self.absolutes), random.below(256)),
                46..58 => {
                    let (kind, reach) = *random.pick(&NEAR);
                    let low = offset.saturating_sub(reach);
                    let high = (offset + reach).min(self.slots * SLOT);
                    (kind, start, (low + random.below(high - low)) & !3)
                }
                _ => (anywhere, *random.pick(&self.locals), random.below(64) * 4),
            },
        };
        RelocationSpec::new(segment, offset, kind, symbol, addend.cast_signed())
    }
}
