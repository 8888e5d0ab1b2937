//! The load itself: parse → plan → place → resolve → relocate → verify → commit.

use alloc::string::String;
use alloc::vec::Vec;

use crate::image::Image;
use crate::layout::{Claims, changed_segments, place};
use crate::module::{LoadedModule, Parts};
use crate::relocate::{Pass, Stop, relocate, relocate_packed};
use crate::symbols::resolve;
use crate::{ExportTable, LoadError, Machine, TargetMemory, note};

/// What happens to a module's initialisers and finalisers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Initialisers {
    /// A module that has any is refused.
    #[default]
    Refuse,
    /// Their addresses are returned ([`LoadedModule::initialisers`]); the caller runs them, in order.
    Collect,
}

/// Tells whether the device's processor has a feature, by its name in the module's note.
pub type CpuFeatures<'a> = &'a dyn Fn(&str) -> bool;

/// Finds symbols that are not in the export table.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// A module to load and what the device offers it.
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// The bytes of the module's file.
    pub file: &'a [u8],
    /// Name of the module, for messages.
    pub name: &'a str,
    /// Device address of `file[0]`. `Some`: read-only segments of a C7x module may be used where the file lies, which must
    /// then stay untouched while the module is loaded. `None`: everything is copied.
    pub staging: Option<u64>,
    /// The symbols that the device offers.
    pub exports: &'a ExportTable,
    /// Whether the device's processor has a feature. `None`: the features in the module's note are not checked.
    pub cpu_features: Option<CpuFeatures<'a>>,
    /// The machines whose modules the device accepts.
    pub machines: &'a [Machine],
    /// What happens to initialisers.
    pub initialisers: Initialisers,
}

impl core::fmt::Debug for LoadRequest<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LoadRequest")
            .field("name", &self.name)
            .field("file", &self.file.len())
            .field("staging", &self.staging)
            .field("exports", &self.exports.len())
            .field("machines", &self.machines)
            .field("initialisers", &self.initialisers)
            .finish_non_exhaustive()
    }
}

/// Where read-only segments of a C7x module go when the file is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadOnlyPlacement {
    /// They stay where the file lies when they are whole, aligned and free of relocations; else they are copied.
    #[default]
    InPlace,
    /// Always at staging address + file offset, as the original loader does: prelinking a whole memory image.
    AtStaging,
}

/// Choices that most loads leave alone.
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// Refuse branch and table targets whose low bits the instruction would drop. The original loader drops them.
    pub strict: bool,
    /// Asked for undefined symbols that the export table does not have, before the module's own definitions.
    pub resolver: Option<Resolver<'a>>,
    /// Where read-only segments go.
    pub read_only: ReadOnlyPlacement,
    /// Device addresses for given segments: (position among the `PT_LOAD` headers that occupy memory, address).
    pub bases: &'a [(usize, u64)],
}

impl core::fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LoadOptions")
            .field("strict", &self.strict)
            .field("resolver", &self.resolver.is_some())
            .field("read_only", &self.read_only)
            .field("bases", &self.bases)
            .finish()
    }
}

/// Loads a module into `memory`, whole or not at all.
///
/// # Errors
///
/// A [`LoadError`] that says what, where, why and what to do. Every block that was claimed has been zeroed and released.
///
/// ```
/// use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
/// use outboard_elf::{machine, pf};
/// use outboard_link::{ExportTable, Initialisers, LoadRequest, Machine, PoolMemory, TargetMemory, load};
///
/// // A C7x module with a pointer to the firmware's `memcpy`.
/// let mut image = ImageBuilder::new(machine::C7X);
/// let data = image.segment(SegmentSpec::new(pf::R | pf::W, vec![0; 16]));
/// image.symbol(SymbolSpec::object("pointer", data, 8, 8));
/// let memcpy = image.symbol(SymbolSpec::import("memcpy"));
/// image.relocate(RelocationSpec::new(data, 8, 18, memcpy, 0));
/// image.needed("dsp_syms.out").firmware_symbols(&["memcpy"]);
/// let file = image.build();
///
/// let exports = ExportTable::from_iter([("memcpy", 0xa220_0000)]);
/// let mut memory = PoolMemory::new("MAIN", 0x1_0200_0000, 1 << 20);
/// let module = load(
///     &LoadRequest {
///         file: &file,
///         name: "lib0.out",
///         staging: None,
///         exports: &exports,
///         cpu_features: None,
///         machines: &[Machine::C7x],
///         initialisers: Initialisers::Refuse,
///     },
///     &mut memory,
/// )?;
/// let address = module.symbol("pointer").unwrap();
/// assert_eq!(memory.bytes(address, 8).unwrap(), 0xa220_0000_u64.to_le_bytes());
/// module.release(&mut memory);
/// assert_eq!(memory.free(), 1 << 20);
/// # Ok::<(), outboard_link::LoadError>(())
/// ```
pub fn load<'f>(request: &LoadRequest<'f>, memory: &mut dyn TargetMemory) -> Result<LoadedModule<'f>, LoadError> {
    load_with(request, &LoadOptions::default(), memory)
}

/// As [`load`], with choices.
///
/// # Errors
///
/// As [`load`].
pub fn load_with<'f>(
    request: &LoadRequest<'f>,
    options: &LoadOptions<'_>,
    memory: &mut dyn TargetMemory,
) -> Result<LoadedModule<'f>, LoadError> {
    let image = Image::parse(request)?;
    check_features(&image, request)?;
    check_initialisers(&image, request)?;
    let mut claims = Claims::new(memory);
    match attempt(&image, request, options, &[], &mut claims) {
        Ok(parts) => Ok(LoadedModule::new(parts, claims.commit())),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Frozen) => {
            // Rare: read-only data that was to stay in place has relocations. Find all of it and start again.
            claims.roll_back();
            match attempt(&image, request, options, &changed_segments(&image), &mut claims) {
                Ok(parts) => Ok(LoadedModule::new(parts, claims.commit())),
                Err(Stop::Error(error)) => Err(error),
                Err(Stop::Frozen) => Err(LoadError::MemoryFault { address: 0, len: 0 }),
            }
        }
    }
}

fn attempt<'f>(
    image: &Image<'f>,
    request: &LoadRequest<'_>,
    options: &LoadOptions<'_>,
    keep_out: &[bool],
    claims: &mut Claims<'_>,
) -> Result<Parts<'f>, Stop> {
    let layout = place(image, request, options, keep_out, claims)?;
    let resolved = resolve(image, &layout, request, options)?;
    let table = image.machine.relocations().ok_or(LoadError::NotRelocatable)?;
    let pass =
        Pass { image, layout: &layout, values: &resolved.values, table, strict: options.strict, module: request.name };
    let counts = relocate(&pass, claims.memory)?;
    let packed = relocate_packed(image, &layout, claims.memory)?;
    Ok(Parts::collect(image, &layout, resolved, &counts, packed, claims.memory)?)
}

fn check_features(image: &Image<'_>, request: &LoadRequest<'_>) -> Result<(), LoadError> {
    let (true, Some(has)) = (image.machine.one_block(), request.cpu_features) else { return Ok(()) };
    let Some(note) = note::read_module_note(&image.elf)? else { return Ok(()) };
    match note.features.iter().find(|feature| !has(feature)) {
        None => Ok(()),
        Some(feature) => Err(LoadError::MissingCpuFeature {
            module: String::from(request.name),
            feature: feature.clone(),
            features: note.features.join(", "),
            arch: note.arch,
            builder: note.builder,
        }),
    }
}

fn check_initialisers(image: &Image<'_>, request: &LoadRequest<'_>) -> Result<(), LoadError> {
    let functions = &image.functions;
    let present: Vec<(&'static str, u64)> = [
        ("DT_INIT", functions.init),
        ("DT_INIT_ARRAYSZ", functions.init_array.1),
        ("DT_PREINIT_ARRAYSZ", functions.preinit_array.1),
        ("DT_FINI", functions.fini),
        ("DT_FINI_ARRAYSZ", functions.fini_array.1),
    ]
    .into_iter()
    .filter(|(_, value)| *value != 0)
    .collect();
    match (request.initialisers, present.first()) {
        (Initialisers::Refuse, Some((tag, value))) => Err(LoadError::InitUnsupported { tag, value: *value }),
        _ => Ok(()),
    }
}
