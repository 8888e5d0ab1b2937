//! Links a PI image: text and data at link addresses of their own, and a relocation for every place that holds an address.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use outboard_elf::image::{Chunk, PiImage};
use outboard_reloc::xtensa;

use super::error::Faults;
use super::{COMMENT, Kernel, ShapeError, ShapeErrors, TEXT, kernels};
use crate::build::{self, Inputs, Layout, Linked, Options, OutputSection, Patch, Site, Value};
use crate::pi::{MemoryBounds, PrelinkRequest, Prelinked, prelink, usize_of};

/// Link address of the text.
pub const TEXT_BASE: u32 = 0x0100_0000;
/// Link address of the data.
pub const DATA_BASE: u32 = 0x0200_0000;
/// Rows of [`PiOptions::kernels`], behind those of the objects.
const DECLARED: &str = "kernel_info_table.declared";
/// `entry a1, 32` and `retw`: what runs at the start and the end of an image without such functions.
const NOTHING: [u8; 8] = [0x36, 0x41, 0x00, 0x90, 0x00, 0x00, 0x00, 0x00];

/// How to link a PI image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PiOptions<'a> {
    /// The function that the device calls when it has loaded the image.
    pub entry: String,
    /// The initialisation function; a function that returns at once is added when there is none.
    pub init: Option<String>,
    /// The termination function; the same.
    pub fini: Option<String>,
    /// Kernels beside those that objects declare in their section `kernel_info_table`.
    pub kernels: Vec<Kernel>,
    /// Memory of the core: the image must fit into its windows.
    pub bounds: &'a MemoryBounds,
    /// Leave the symbol table out.
    pub strip: bool,
    /// Keep sections that nothing refers to.
    pub keep_all: bool,
}

impl<'a> PiOptions<'a> {
    /// Entry `_start`, no kernels declared, for a core with this memory.
    #[must_use]
    pub fn new(bounds: &'a MemoryBounds) -> Self {
        let entry = "_start".to_string();
        Self { entry, init: None, fini: None, kernels: Vec::new(), bounds, strip: false, keep_all: false }
    }
}

/// A linked PI image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PiLinked {
    /// The file.
    pub image: Vec<u8>,
    /// What was linked, before the host moves it.
    pub linked: Linked,
    /// The image as the host would stage it for the core that it was linked for.
    pub prelinked: Prelinked,
    /// Rows of the kernel table.
    pub kernels: usize,
}

/// The layout of a PI image.
#[must_use]
pub fn layout(options: &PiOptions<'_>) -> Layout {
    let window = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
    let mut layout = Layout::new(&options.entry);
    // The function that stands in for a missing hook follows the text.
    let hook = if options.init.is_some() && options.fini.is_some() { 0 } else { NOTHING.len() as u64 };
    layout.region("text", TEXT_BASE, window(options.bounds.code_size.saturating_sub(hook)));
    layout.region("data", DATA_BASE, window(options.bounds.data_size));
    layout.section(super::text("text"));
    layout.section(OutputSection::new(".rodata", "data", &[".rodata", ".rodata.*", ".gcc_except_table*"]));
    for section in super::constructors("data") {
        layout.section(section);
    }
    layout.section(OutputSection::new(".data", "data", &[".data", ".data.*", ".sdata", ".sdata.*"]));
    let rows = [kernels::SECTION, ".kernel_info_table"];
    layout.section(OutputSection::new(kernels::SECTION, "data", &rows).align(8).keep());
    let declared = u32::try_from(8 * options.kernels.len()).unwrap_or(u32::MAX);
    layout.section(OutputSection::new(DECLARED, "data", &[]).align(8).reserve(declared));
    layout.section(OutputSection::new(".globstruct", "data", &[".globstruct"]).align(8).keep());
    layout.section(super::bss("data"));
    layout
        .symbol("__ctors_start", Value::Start(".ctors".into()))
        .symbol("__ctors_end", Value::Stop(".init_array".into()));
    layout.required.extend(options.kernels.iter().map(|kernel| kernel.function.clone()));
    layout.required.extend(options.init.iter().chain(&options.fini).cloned());
    layout
}

/// Links objects to a PI image.
///
/// # Errors
///
/// [`ShapeErrors`]: what cannot be linked, what cannot be moved apart, or what the prelinker refuses.
pub fn link(inputs: Inputs<'_>, options: &PiOptions<'_>) -> Result<PiLinked, ShapeErrors> {
    kernels::check(&options.kernels)?;
    let build = Options { keep_all: options.keep_all, ..Options::default() };
    let linked = build::link(inputs, &layout(options), &build)?;
    let entry = super::function(&linked, "the entry point", &options.entry)?;
    let mut relocations = relocations(&linked)?;
    let mut text = match super::find(&linked, TEXT) {
        Some(section) => super::chunk(section),
        None => Chunk { name: TEXT.into(), address: TEXT_BASE, align: 32, writable: false, bytes: Vec::new() },
    };
    text.writable = false;
    let (init, fini) = hooks(&linked, options, &mut text)?;
    let data = data(&linked, options)?;
    let table = data.iter().find(|chunk| chunk.name == kernels::SECTION);
    if let Some(table) = table {
        let declared = u32::try_from(8 * options.kernels.len()).unwrap_or(u32::MAX);
        let end = table.address.wrapping_add(u32::try_from(table.bytes.len()).unwrap_or(u32::MAX));
        let rows = (end.wrapping_sub(declared)..end).step_by(8);
        relocations.extend(rows.map(|row| [row.wrapping_add(4), xtensa::RELATIVE, 0]));
    }
    let moved = relocations.iter().filter(|[_, kind, _]| *kind == xtensa::RELATIVE).map(|[place, ..]| *place).collect();
    let kernels = table.map_or(Ok(0), |table| kernels::verify(table, &text, &moved))?;
    let end =
        data.last().map_or(DATA_BASE, |last| last.address.wrapping_add(u32::try_from(last.bytes.len()).unwrap_or(0)));
    let image = PiImage {
        entry,
        init,
        fini,
        text,
        data,
        bss: super::zeros(&linked, end),
        relocations,
        comment: COMMENT.into(),
        debug: super::debug(&linked, options.strip),
        properties: super::functions(&linked),
        symbols: if options.strip { Vec::new() } else { super::symbols(&linked) },
        ..PiImage::default()
    };
    let image = image.build().map_err(ShapeError::Image)?;
    let prelinked = verify(&image, &linked, options.bounds)?;
    Ok(PiLinked { image, linked, prelinked, kernels })
}

/// The two functions that the dynamic table names.
fn hooks(linked: &Linked, options: &PiOptions<'_>, text: &mut Chunk) -> Result<(u32, u32), ShapeErrors> {
    let nothing = if options.init.is_some() && options.fini.is_some() {
        0
    } else {
        text.bytes.resize(text.bytes.len().next_multiple_of(4), 0);
        let address = text.address.wrapping_add(u32::try_from(text.bytes.len()).unwrap_or(u32::MAX));
        text.bytes.extend(NOTHING);
        address
    };
    let find = |what, name: &Option<String>| match name {
        None => Ok(nothing),
        Some(name) => super::function(linked, what, name),
    };
    let init = find("the initialisation function", &options.init)?;
    let fini = find("the termination function", &options.fini)?;
    Ok((init, fini))
}

/// The data by ascending address; rows that are declared lie in the table behind those of the objects.
fn data(linked: &Linked, options: &PiOptions<'_>) -> Result<Vec<Chunk>, ShapeErrors> {
    let is_data = |name: &str| name != TEXT && name != super::BSS && name != DECLARED;
    let sections = linked.sections.iter().filter(|section| section.size > 0 && is_data(&section.name));
    let mut chunks: Vec<Chunk> = sections.map(super::chunk).collect();
    let Some(declared) = super::find(linked, DECLARED) else { return Ok(chunks) };
    let text = linked.sections.iter().position(|section| section.name == TEXT);
    let function = |name: &str| {
        let symbol = linked.symbols.iter().find(|symbol| symbol.global && symbol.name == name);
        symbol.filter(|symbol| symbol.section == text).map(|symbol| symbol.value)
    };
    let rows = kernels::rows(&options.kernels, function)?;
    match chunks.iter_mut().find(|chunk| chunk.name == kernels::SECTION) {
        Some(table) => {
            // Rows of objects may end with a gap only when they are no rows; the check of the table finds that.
            let inside = usize_of(declared.address.wrapping_sub(table.address));
            table.bytes.resize(inside, 0);
            table.bytes.extend(rows);
        }
        None => {
            let table = Chunk { name: kernels::SECTION.into(), writable: true, bytes: rows, ..super::chunk(declared) };
            let place = chunks.partition_point(|chunk| chunk.address < table.address);
            chunks.insert(place, table);
        }
    }
    Ok(chunks)
}

/// The part of an image that moves as one.
fn segment(linked: &Linked, section: usize) -> Option<&str> {
    linked.sections.get(section).map(|section| section.region.as_str())
}

/// A relocation for every place that holds an address: pairs of halves first, the high one before the low one, then words.
fn relocations(linked: &Linked) -> Result<Vec<[u32; 3]>, ShapeErrors> {
    let mut faults = Faults::default();
    let (mut pairs, mut words) = (Vec::new(), Vec::new());
    let mut open: BTreeMap<u32, Vec<&Site>> = BTreeMap::new();
    for site in &linked.sites {
        let Some(other) = site.target_section else { continue };
        if !site.moves() {
            if segment(linked, site.section) != segment(linked, other) {
                let name =
                    |index: usize| linked.sections.get(index).map(|section| section.name.clone()).unwrap_or_default();
                let (section, other) = (name(site.section), name(other));
                let Site { name, place, target, .. } = *site;
                faults.push(ShapeError::Distance { name, place, section, target, other });
            }
            continue;
        }
        match site.patch {
            Patch::HighHalf => open.entry(site.target).or_default().push(site),
            Patch::LowHalf => match open.get_mut(&site.target).and_then(Vec::pop) {
                Some(high) => pairs.extend([
                    [high.place, xtensa::SLOT0_ALT, site.target],
                    [site.place, xtensa::SLOT0_OP, site.target],
                ]),
                None => faults.push(half(site, "R_XTENSA_SLOT0_ALT")),
            },
            _ => words.push([site.place, xtensa::RELATIVE, 0]),
        }
    }
    for site in open.into_values().flatten() {
        faults.push(half(site, "R_XTENSA_SLOT0_OP"));
    }
    faults.finish()?;
    pairs.extend(words);
    Ok(pairs)
}

fn half(site: &Site, missing: &'static str) -> ShapeError {
    let Site { name, place, target, .. } = *site;
    ShapeError::Half { name, place, target, missing }
}

/// Moves the finished image to the windows of the core, and reads every place that holds an address there.
fn verify(image: &[u8], linked: &Linked, bounds: &MemoryBounds) -> Result<Prelinked, ShapeErrors> {
    let prelinked = prelink(&PrelinkRequest::new(image, bounds)).map_err(ShapeError::Refused)?;
    let rebase = |address: u32| prelinked.descriptor.rebase(address);
    for site in linked.sites.iter().filter(|site| site.moves()) {
        let place = rebase(site.place);
        let bytes = moved_bytes(&prelinked, place, site.patch.length());
        if !bytes.is_some_and(|bytes| site.patch.refers(bytes, place, rebase(site.target))) {
            return Err(ShapeError::Moved { place: site.place, target: site.target }.into());
        }
    }
    Ok(prelinked)
}

/// Bytes of a prelinked image at a device address.
fn moved_bytes(prelinked: &Prelinked, address: u32, len: u32) -> Option<&[u8]> {
    let (code, data) = (prelinked.placement.code, prelinked.placement.data);
    let (start, bytes) = match code.in_segment(address, len) {
        Some(start) => (start, prelinked.code()),
        None => (data.in_segment(address, len)?, prelinked.data()),
    };
    bytes.get(start..start.checked_add(usize_of(len))?)
}
