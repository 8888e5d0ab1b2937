//! Finds the device images inside of a host library or of any other blob.
//!
//! Images are found by their identification at any offset and measured by their section headers. Where the blob is a host
//! library with symbols, each image gets its name, its getter and its manifest.
//!
//! ```
//! use outboard_ucode::{carve, twins};
//!
//! let library = twins::container();
//! let found = carve::carve(&library);
//! assert_eq!(found.images.len(), 13);
//! assert_eq!(found.images[12].name.as_deref(), Some("SUNDA_Q7_POOL_RELEASE_EXTISA_0"));
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use memchr::memmem;
use outboard_elf::pi::DeviceShape;
use outboard_elf::{Elf, Limits, machine};

use crate::host::{Host, name_parts};
use crate::inspect::sha256;
use crate::twins::STUB;

/// What every 32-bit little-endian ELF file begins with.
const IDENT: &[u8] = b"\x7fELF\x01\x01\x01";

/// What was found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CarveReport {
    /// Bytes of the file.
    pub size: u64,
    /// The images in the order of the file.
    pub images: Vec<CarvedImage>,
    /// How many of them are different.
    pub unique: usize,
    /// Generations × libraries, where names are known.
    pub grid: Vec<GridRow>,
    /// Identifications that began no sound image.
    pub rejected: usize,
    /// Images beyond the first 65,536, which are not listed.
    pub more: usize,
}

/// An image in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CarvedImage {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Name, from the symbols of the host library.
    pub name: Option<String>,
    /// Address of the function that returns it.
    pub getter: Option<u64>,
    /// `pi`, `fll` or `other`.
    pub shape: &'static str,
    /// Entry point.
    pub entry: u64,
    /// Hash.
    pub sha256: String,
    /// Index of an earlier image with the same bytes.
    pub same_as: Option<usize>,
    /// Its manifest.
    pub json: Option<Manifest>,
}

/// The manifest of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Manifest {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// It is the placeholder that stands for none.
    pub dummy: bool,
}

/// A row of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GridRow {
    /// Generation, in lower case.
    pub generation: String,
    /// Index into the images for each library number, `None` for a gap.
    pub libraries: Vec<Option<usize>>,
}

/// Images that are listed.
const IMAGES: usize = 65_536;
/// Most libraries that one generation is shown with.
const LIBRARIES: u32 = 64;

/// The bytes of the image that begins at `offset`, `None` when none does.
#[must_use]
pub fn image_at(bytes: &[u8], offset: u64) -> Option<&[u8]> {
    let rest = bytes.get(usize::try_from(offset).ok()?..)?;
    let limits = Limits { program_headers: 16, ..Limits::DEFAULT };
    let elf = Elf::parse_with(rest, limits).ok().filter(|elf| elf.header().machine == machine::XTENSA)?;
    let header = elf.header();
    let len = if header.shnum == 0 {
        elf.segments().map(|segment| segment.offset.saturating_add(segment.filesz)).max()?
    } else {
        let table = u64::from(header.shentsize).checked_mul(u64::from(header.shnum))?;
        header.shoff.checked_add(table)?
    };
    rest.get(..usize::try_from(len).ok()?).filter(|image| image.len() >= 52)
}

/// Finds every device image in `bytes`.
#[must_use]
pub fn carve(bytes: &[u8]) -> CarveReport {
    let mut found: Vec<(u64, &[u8])> = Vec::new();
    let (mut rejected, mut more, mut end) = (0, 0, 0);
    for offset in memmem::find_iter(bytes, IDENT) {
        if offset < end {
            continue;
        }
        match image_at(bytes, offset as u64) {
            Some(image) => {
                end = offset + image.len();
                if found.len() < IMAGES {
                    found.push((offset as u64, image));
                } else {
                    more += 1;
                }
            }
            None => rejected += 1,
        }
    }
    let host = Host::open(bytes);
    let names = host.as_ref().map(names).unwrap_or_default();
    let mut images = Vec::with_capacity(found.len());
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (offset, image)) in found.into_iter().enumerate() {
        let carved = describe(bytes, offset, image, names.get(&offset), host.as_ref());
        let same_as = first.get(&carved.sha256).copied();
        first.entry(carved.sha256.clone()).or_insert(index);
        images.push(CarvedImage { same_as, ..carved });
    }
    let grid = grid(&images);
    CarveReport { size: bytes.len() as u64, unique: first.len(), images, grid, rejected, more }
}

/// The names of the images of a host library by their file offset.
fn names(host: &Host<'_>) -> BTreeMap<u64, String> {
    let place = |named: &crate::host::Named| host.bytes_of(named.data, named.getter);
    host.images.iter().filter_map(|(name, named)| Some((place(named)?.0, name.clone()))).collect()
}

fn describe(bytes: &[u8], offset: u64, image: &[u8], name: Option<&String>, host: Option<&Host<'_>>) -> CarvedImage {
    let elf = Elf::parse(image).ok();
    let shape = match elf.as_ref().map(DeviceShape::of) {
        Some(Ok(DeviceShape::Pi(_))) => "pi",
        Some(Ok(DeviceShape::Fll(_))) => "fll",
        _ => "other",
    };
    let named = name.and_then(|name| host?.images.get(name));
    CarvedImage {
        offset,
        size: image.len() as u64,
        name: name.cloned(),
        getter: named.and_then(|named| named.getter).map(|getter| getter.address),
        shape,
        entry: elf.map_or(0, |elf| elf.header().entry),
        sha256: sha256(image),
        same_as: None,
        json: manifest(bytes, offset.saturating_add(image.len() as u64), named, host),
    }
}

/// The manifest by its symbols, else the placeholder right behind the image.
fn manifest(bytes: &[u8], end: u64, named: Option<&crate::host::Named>, host: Option<&Host<'_>>) -> Option<Manifest> {
    let by_symbol = || {
        let named = named?;
        let (offset, size) = host?.bytes_of(named.json, named.json_getter)?;
        let rest = bytes.get(usize::try_from(offset).ok()?..)?;
        let text = rest.get(..rest.len().min(1 << 20))?;
        let size = size.unwrap_or_else(|| text.iter().position(|byte| *byte == 0).unwrap_or(text.len()) as u64);
        let data = rest.get(..usize::try_from(size).ok()?)?;
        Some(Manifest { offset, size, dummy: data.starts_with(STUB) })
    };
    let behind = || {
        let offset = (end..end.saturating_add(32)).find(|offset| {
            let rest = usize::try_from(*offset).ok().and_then(|offset| bytes.get(offset..));
            rest.is_some_and(|rest| rest.starts_with(STUB))
        })?;
        Some(Manifest { offset, size: STUB.len() as u64, dummy: true })
    };
    by_symbol().or_else(behind)
}

fn grid(images: &[CarvedImage]) -> Vec<GridRow> {
    let mut rows: BTreeMap<String, Vec<Option<usize>>> = BTreeMap::new();
    for (index, image) in images.iter().enumerate() {
        let Some((generation, _, library)) = image.name.as_deref().and_then(name_parts) else { continue };
        if library >= LIBRARIES {
            continue;
        }
        let row = rows.entry(generation.to_ascii_lowercase()).or_default();
        let library = usize::try_from(library).unwrap_or(0);
        if row.len() <= library {
            row.resize(library + 1, None);
        }
        if let Some(place) = row.get_mut(library) {
            *place = Some(index);
        }
    }
    let order = |name: &str| crate::opcodes::GENERATIONS.iter().position(|known| *known == name).unwrap_or(usize::MAX);
    let mut rows: Vec<_> = rows.into_iter().map(|(generation, libraries)| GridRow { generation, libraries }).collect();
    rows.sort_by_key(|row| order(&row.generation));
    rows
}

/// A file that a report writes: its name and its bytes.
pub type CarvedFile<'a> = (String, &'a [u8]);

impl CarveReport {
    /// The images, and the manifests that are not the placeholder, as files. `bytes` is what the report was made of.
    ///
    /// A name comes from the symbols of a library that nobody vouches for: what could leave a directory, or occurs twice, is
    /// replaced by the offset.
    #[must_use]
    pub fn files<'a>(&self, bytes: &'a [u8]) -> Vec<CarvedFile<'a>> {
        let range = |offset: u64, size: u64| {
            let start = usize::try_from(offset).ok()?;
            bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
        };
        let mut names = BTreeSet::new();
        let mut files = Vec::with_capacity(self.images.len());
        for image in &self.images {
            let by_symbol = image.name.as_deref().filter(|name| plain(name)).map(str::to_ascii_lowercase);
            let stem = by_symbol.filter(|name| !names.contains(name));
            let stem = stem.unwrap_or_else(|| format!("image_{:#x}", image.offset));
            names.insert(stem.clone());
            files.extend(range(image.offset, image.size).map(|data| (format!("{stem}.elf"), data)));
            let manifest = image.json.as_ref().filter(|json| !json.dummy);
            let manifest = manifest.and_then(|json| range(json.offset, json.size));
            files.extend(manifest.map(|data| (format!("{stem}.json"), data)));
        }
        files
    }
}

/// Whether a name can be the name of a file.
fn plain(name: &str) -> bool {
    let own = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("image_0x"));
    !own && (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl fmt::Display for CarveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} device images, {} different, in {} bytes", self.images.len(), self.unique, self.size)?;
        writeln!(f, "\n   # offset     size     entry      shape sha256           name")?;
        for (index, image) in self.images.iter().enumerate() {
            let name = image.name.as_deref().unwrap_or("-");
            let hash = image.sha256.get(..16).unwrap_or("");
            write!(
                f,
                "  {index:>2} {:#010x} {:#08x} {:#010x} {:<5} ",
                image.offset, image.size, image.entry, image.shape
            )?;
            write!(f, "{hash} {name}")?;
            if let Some(first) = image.same_as {
                write!(f, " (same as {first})")?;
            }
            match &image.json {
                Some(json) if !json.dummy => writeln!(f, ", manifest of {} bytes at {:#x}", json.size, json.offset)?,
                _ => writeln!(f)?,
            }
        }
        if !self.grid.is_empty() {
            writeln!(f, "\n  generation     libraries")?;
            for row in &self.grid {
                write!(f, "  {:<14}", row.generation)?;
                for library in &row.libraries {
                    match library {
                        Some(index) => write!(f, " {index:>3}")?,
                        None => write!(f, "   -")?,
                    }
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
