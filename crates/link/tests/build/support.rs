//! Objects, layouts and runs for the tests.

use outboard_link::build::{BuildErrors, Inputs, Layout, Linked, Options, Order, OutputSection, link};
use outboard_xtensa::asm::{AsmOptions, assemble};
use outboard_xtensa::run::{Abi, Ending, RunOptions, Streams, run};

/// Assembles one source.
pub fn object(source: &str) -> Vec<u8> {
    assemble(source, &AsmOptions::default()).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"))
}

/// A layout with the usual sections at 0x100_0000, entered at `_start`.
pub fn layout() -> Layout {
    let mut layout = Layout::new("_start");
    layout.region("ram", 0x100_0000, 0x100_0000);
    layout.section(OutputSection::new(".text", "ram", &[".text.start", ".text", ".text.*"]));
    layout.section(OutputSection::new(".rodata", "ram", &[".rodata", ".rodata.*"]).align(0x1000));
    layout.section(OutputSection::new(".data", "ram", &[".data", ".data.*"]).align(0x1000));
    let table = OutputSection::new(".init_array", "ram", &[".init_array", ".init_array.*"]);
    layout.section(table.order(Order::Priority).keep().bounds("__init_array_start", "__init_array_end"));
    layout.section(OutputSection::new(".bss", "ram", &[".bss", ".bss.*", "COMMON"]));
    layout
}

/// Links assembled sources.
pub fn link_sources(sources: &[&str], layout: &Layout) -> Result<Linked, BuildErrors> {
    link_sources_with(sources, layout, &Options::default())
}

pub fn link_sources_with(sources: &[&str], layout: &Layout, options: &Options) -> Result<Linked, BuildErrors> {
    let objects: Vec<Vec<u8>> = sources.iter().map(|source| object(source)).collect();
    link_objects(&objects, layout, options)
}

pub fn link_objects(objects: &[Vec<u8>], layout: &Layout, options: &Options) -> Result<Linked, BuildErrors> {
    let mut inputs = Inputs::new();
    for (number, object) in objects.iter().enumerate() {
        inputs.add(&format!("{}.o", char::from(b'a' + u8::try_from(number).unwrap())), object)?;
    }
    link(inputs, layout, options)
}

/// Runs an image that ends with the exit system call; its output and status.
pub fn execute(linked: &Linked) -> (String, u8) {
    let file = linked.elf().unwrap();
    let mut output = Vec::new();
    let streams =
        Streams { input: &mut std::io::empty(), output: &mut output, error: &mut std::io::sink(), trace: None };
    let options = RunOptions { max_instructions: Some(50_000_000), ..RunOptions::new(Abi::LinuxUser) };
    let report = run(&file, &options, streams).unwrap();
    assert!(matches!(report.ending, Ending::Exit(_)), "{:?}", report.ending);
    (String::from_utf8(output).unwrap(), report.ending.status())
}

/// The word at an address of an image.
pub fn word(linked: &Linked, address: u32) -> u32 {
    let inside = |size: u32, start: u32| address.checked_sub(start).filter(|offset| *offset < size);
    let found = linked.sections.iter().find_map(|section| Some((section, inside(section.size, section.address)?)));
    let (section, offset) = found.unwrap();
    let offset = usize::try_from(offset).unwrap();
    u32::from_le_bytes(section.data[offset..offset + 4].try_into().unwrap())
}

/// Ends the program with the value of a register of the first window.
pub const EXIT_A2: &str = "\n mov a6, a2\n movi a2, 118\n syscall\n";
