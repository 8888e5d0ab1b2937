//! Picks the image that a core would get from a host library, as the original does: by core kind, flavor and library.
//!
//! ```
//! use outboard_ucode::resident::{Flavor, resident};
//! use outboard_ucode::{cores, twins};
//!
//! let library = twins::host_library();
//! let image = resident(&library, cores::find("cayman").unwrap(), Flavor::Perf, 3).unwrap();
//! assert_eq!(image.bytes, twins::image("cayman_3").unwrap());
//! ```

use outboard_link::pi::ll::SUNDA_Q7_POOL;

use crate::carve::image_at;
use crate::cores::{self, CoreKind};
use crate::host::{Host, Named, name_parts};

/// Environment variable that chooses the flavor.
pub const FLAVOR_VARIABLE: &str = "NEURON_UCODE_FLAVOR";
/// Environment variable that chooses the library with the compressed-weights decoder.
pub const CPTC_VARIABLE: &str = "NRT_UCODE_UNSTABLE_LIBRARY_FLAG_CPTC_DECODE";
/// Highest index of a table of core kinds.
const TABLE_MAX: u32 = 0x1f;

/// Flavor of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Flavor {
    /// The default.
    #[default]
    Perf = 1,
    /// With checks.
    Debug = 2,
    /// For tests of the vendor.
    Test = 3,
}

impl Flavor {
    /// The flavor that a value of [`FLAVOR_VARIABLE`] means: only two spellings of two words are known.
    #[must_use]
    pub fn from_variable(value: Option<&str>) -> Self {
        match value {
            Some("debug" | "DEBUG") => Self::Debug,
            Some("test" | "TEST") => Self::Test,
            _ => Self::Perf,
        }
    }

    /// The number.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Why there is no image. [`ResidentError::code`] is the original's number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResidentError {
    /// The core kind has no libraries.
    #[error("core kind {kind} has no ext-ISA libraries; expected 6, 13, 21, 29 or 37")]
    Kind {
        /// The kind.
        kind: u32,
    },
    /// The library has no table for this core kind and flavor.
    #[error(
        "the library has no {table} for flavor {flavor:?}; only the flavor PERF is embedded, and not in every library"
    )]
    NoTable {
        /// Name of the table.
        table: String,
        /// The flavor.
        flavor: Flavor,
    },
    /// The getter is null.
    #[error("{table} has no getter for library {library}: it is a null pointer; its image lives in another library")]
    NullGetter {
        /// Name of the table.
        table: String,
        /// Number of the library.
        library: u32,
    },
    /// The core kind has fewer libraries.
    #[error("library {library} does not exist: {core} has {count}, numbered from 0")]
    Library {
        /// The number.
        library: u32,
        /// Name of the core kind.
        core: String,
        /// How many there are.
        count: u32,
    },
    /// The getter returns no image.
    #[error("the getter at {getter:#x} returns no device image; pass an unmodified x86-64 library")]
    NoImage {
        /// Its address.
        getter: u64,
    },
    /// The file is no host library.
    #[error("the file is no host library (an ELF file for a host with symbols); `outboard carve` searches any blob")]
    NotALibrary,
}

impl ResidentError {
    /// The number of the original, from 100 on ours.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match self {
            Self::Kind { .. } => 1,
            Self::NoTable { .. } => 2,
            Self::NullGetter { .. } => 3,
            Self::Library { .. } => 100,
            Self::NoImage { .. } => 101,
            Self::NotALibrary => 102,
        }
    }

    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        "OB0620"
    }
}

/// An image and its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident<'a> {
    /// Offset in the file.
    pub offset: u64,
    /// The image.
    pub bytes: &'a [u8],
    /// The manifest; the placeholder where there is none.
    pub json: Option<&'a [u8]>,
}

/// How many ext-ISA libraries a core kind has.
///
/// # Errors
///
/// [`ResidentError::Kind`].
pub fn library_count(kind: u32) -> Result<u32, ResidentError> {
    cores::by_kind(kind).map(|core| core.libraries).ok_or(ResidentError::Kind { kind })
}

/// The image of library `library` for a core kind.
///
/// # Errors
///
/// A [`ResidentError`] with the original's number.
pub fn resident<'a>(
    file: &'a [u8],
    core: &CoreKind,
    flavor: Flavor,
    library: u32,
) -> Result<Resident<'a>, ResidentError> {
    let index = core.kind.checked_sub(SUNDA_Q7_POOL).filter(|index| *index <= TABLE_MAX);
    index.ok_or(ResidentError::Kind { kind: core.kind })?;
    let host = Host::open(file).ok_or(ResidentError::NotALibrary)?;
    let no_table = || ResidentError::NoTable { table: core.table.clone(), flavor };
    if flavor != Flavor::Perf {
        return Err(no_table());
    }
    if library >= core.libraries {
        return Err(ResidentError::Library { library, core: core.name.clone(), count: core.libraries });
    }
    let (getter, json_getter) = match host.tables.get(&core.table) {
        Some(table) => {
            let pointers = host.pointers(*table).ok_or_else(no_table)?;
            let row = usize::try_from(library).unwrap_or(usize::MAX).saturating_mul(2);
            let pointer = |index: usize| pointers.get(index).copied().filter(|pointer| *pointer != 0);
            let null = || ResidentError::NullGetter { table: core.table.clone(), library };
            (pointer(row).ok_or_else(null)?, pointer(row.saturating_add(1)))
        }
        None => by_name(&host, core, library).ok_or_else(no_table)?,
    };
    let image = |getter: u64| -> Option<(u64, &'a [u8])> {
        let offset = place(&host, getter)?.0;
        Some((offset, image_at(file, offset)?))
    };
    let (offset, bytes) = image(getter).ok_or(ResidentError::NoImage { getter })?;
    let json = json_getter.and_then(|getter| {
        let (offset, size) = place(&host, getter)?;
        let rest = file.get(usize::try_from(offset).ok()?..)?;
        let text = || rest.iter().take(1 << 20).position(|byte| *byte == 0).unwrap_or(rest.len());
        let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or_else(text);
        rest.get(..size)
    });
    Ok(Resident { offset, bytes, json })
}

/// Where the bytes behind the getter at an address lie: by the symbol of the bytes, else by its code.
fn place(host: &Host<'_>, getter: u64) -> Option<(u64, Option<u64>)> {
    let at = |place: Option<crate::host::Place>| place.is_some_and(|place| place.address == getter);
    for named in host.images.values() {
        if at(named.getter) {
            return host.bytes_of(named.data, named.getter);
        }
        if at(named.json_getter) {
            return host.bytes_of(named.json, named.json_getter);
        }
    }
    let target = host.returned(getter)?;
    Some((host.offset(target, 1)?, None))
}

/// A library without tables: the getters by the form of their names.
fn by_name(host: &Host<'_>, core: &CoreKind, library: u32) -> Option<(u64, Option<u64>)> {
    let wanted = |name: &str| {
        name_parts(name).is_some_and(|(generation, flavor, number)| {
            generation.eq_ignore_ascii_case(&core.name) && flavor == core.flavor && number == library
        })
    };
    let (_, Named { getter, json_getter, .. }) = host.images.iter().find(|(name, _)| wanted(name))?;
    Some(((*getter)?.address, json_getter.map(|json| json.address)))
}

/// The libraries that a model's opcodes need. The opcodes themselves do not matter to the original.
///
/// # Errors
///
/// [`ResidentError::NoTable`] (the original returns 1) for a flavor that is not embedded.
pub fn libraries_from_opcodes(
    core: &CoreKind,
    opcodes: &[u8],
    flavor: Flavor,
    cptc_decode: bool,
) -> Result<Vec<u32>, ResidentError> {
    if opcodes.is_empty() {
        return Ok(Vec::new());
    }
    match (core.kind, flavor) {
        (SUNDA_Q7_POOL, _) => Ok(vec![0]),
        (_, Flavor::Perf) => Ok(vec![if cptc_decode { 3 } else { 0 }]),
        _ => Err(ResidentError::NoTable { table: core.table.clone(), flavor }),
    }
}
