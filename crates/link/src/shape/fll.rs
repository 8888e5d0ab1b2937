//! Links a fixed-load library: everything at the addresses of one core's window.

use alloc::string::{String, ToString};

use outboard_elf::image::FllImage;

use super::{COMMENT, ShapeError, ShapeErrors, TEXT};
use crate::build::{self, Inputs, Layout, Linked, Options, OutputSection, Value};

/// Bytes of the window of one of eight cores.
const STRIDE: u32 = 0x20_0000;

/// The core that a library is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// One of eight that run the same program, each from its own window of 2 MiB.
    Core(u8),
    /// The only one, with a window of 32 MiB.
    Single,
}

/// How to link a fixed-load library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FllOptions {
    /// The function that the device calls when it has loaded the library.
    pub entry: String,
    /// The core.
    pub cpu: Cpu,
    /// Leave the symbol table out.
    pub strip: bool,
    /// Keep sections that nothing refers to.
    pub keep_all: bool,
}

impl FllOptions {
    /// Entry `_start`.
    #[must_use]
    pub fn new(cpu: Cpu) -> Self {
        Self { entry: "_start".to_string(), cpu, strip: false, keep_all: false }
    }
}

/// A linked fixed-load library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FllLinked {
    /// The file.
    pub image: alloc::vec::Vec<u8>,
    /// What was linked.
    pub linked: Linked,
}

/// The layout of a library for the window at `base`, of `size` bytes. Only these two numbers, and the symbols that hold them,
/// differ between the eight libraries of a program.
#[must_use]
pub fn layout(options: &FllOptions, base: u32, size: u32) -> Layout {
    const REGION: &str = "sram0";
    let mut layout = Layout::new(&options.entry);
    layout.region(REGION, base, size);
    layout.section(super::text(REGION));
    let clib = |name: &str, inputs: [&str; 2]| OutputSection::new(name, REGION, &inputs).align(64);
    layout.section(clib(".clib.rodata", [".clib.rodata", ".clib.rodata.*"]));
    layout.section(clib(".clib.data", [".clib.data", ".clib.data.*"]));
    for section in super::constructors(REGION) {
        layout.section(section);
    }
    let rodata = [".rodata", ".rodata.*", ".gcc_except_table*"];
    layout.section(OutputSection::new(".rodata", REGION, &rodata).align(64));
    // Rows for a kernel table are data here: nothing on the device looks for the table of a fixed-load library.
    let data = [".data", ".data.*", ".sdata", ".sdata.*", super::KERNEL_SECTION, ".kernel_info_table"];
    layout.section(OutputSection::new(".data", REGION, &data).align(64));
    layout.section(super::bss(REGION).align(64));
    layout
        .symbol("__ctors_start", Value::Start(".ctors".into()))
        .symbol("__ctors_end", Value::Stop(".init_array".into()));
    for (name, value) in [
        ("_memmap_mem_sram0_start", Value::RegionStart(REGION.into())),
        ("_memmap_mem_sram0_end", Value::RegionEnd(REGION.into())),
        ("_memmap_seg_sram0_0_start", Value::RegionStart(REGION.into())),
        ("_memmap_seg_sram0_0_max", Value::RegionFree(REGION.into())),
    ] {
        layout.symbol(name, value);
    }
    layout
}

/// Links objects to a fixed-load library.
///
/// # Errors
///
/// [`ShapeErrors`]: what cannot be linked, or does not fit into the window.
pub fn link(inputs: Inputs<'_>, options: &FllOptions) -> Result<FllLinked, ShapeErrors> {
    let (core, size) = match options.cpu {
        Cpu::Core(core) => (core, STRIDE),
        Cpu::Single => (0, FllImage::SINGLE),
    };
    let base = FllImage::window(core).ok_or(ShapeError::Core { cpu: core })?;
    let build = Options { keep_all: options.keep_all, ..Options::default() };
    let linked = build::link(inputs, &layout(options, base, size), &build)?;
    let with_bytes = linked.sections.iter().filter(|section| section.size > 0 && section.name != super::BSS);
    let mut chunks: alloc::vec::Vec<_> = with_bytes.map(super::chunk).collect();
    for chunk in chunks.iter_mut().filter(|chunk| chunk.name == TEXT) {
        chunk.writable = false;
    }
    let end =
        chunks.last().map_or(base, |last| last.address.wrapping_add(u32::try_from(last.bytes.len()).unwrap_or(0)));
    let image = FllImage {
        core,
        single: options.cpu == Cpu::Single,
        entry: super::function(&linked, "the entry point", &options.entry)?,
        chunks,
        bss: super::zeros(&linked, end),
        comment: COMMENT.into(),
        debug: super::debug(&linked, options.strip),
        symbols: if options.strip { alloc::vec::Vec::new() } else { super::symbols(&linked) },
    };
    Ok(FllLinked { image: image.build().map_err(ShapeError::Image)?, linked })
}
