//! Layouts as files (TOML), for `outboard link -T`. The keys are explained in `docs/reference/static-linker.md`.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;

use crate::build::{BuildErrors, Layout, LayoutSymbol, Order, OutputSection, Region, Value};

/// A layout file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutFileError {
    /// It is not TOML, lacks a key or has one that is not known.
    #[error("the layout file cannot be read: {0}")]
    Syntax(String),
    /// It contradicts itself.
    #[error(transparent)]
    Layout(#[from] BuildErrors),
}

impl LayoutFileError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        "OB0708"
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: Option<String>,
    page: Option<u32>,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    discard: Vec<String>,
    #[serde(default, rename = "region")]
    regions: Vec<FileRegion>,
    #[serde(default, rename = "section")]
    sections: Vec<FileSection>,
    #[serde(default)]
    symbols: BTreeMap<String, FileValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRegion {
    name: String,
    base: u32,
    size: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSection {
    name: String,
    region: String,
    #[serde(default)]
    inputs: Vec<String>,
    #[serde(default)]
    order: FileOrder,
    #[serde(default)]
    keep: bool,
    #[serde(default = "word")]
    align: u32,
    address: Option<u32>,
    #[serde(default)]
    reserve: u32,
    start: Option<String>,
    stop: Option<String>,
}

const fn word() -> u32 {
    4
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum FileOrder {
    #[default]
    Patterns,
    Name,
    Priority,
    ReversePriority,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a table like { stop = \".data\" } or { region_end = \"ram\" }")]
enum FileValue {
    Number(u32),
    Place(FilePlace),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FilePlace {
    Start(String),
    Stop(String),
    Size(String),
    RegionStart(String),
    RegionEnd(String),
    RegionFree(String),
}

/// Reads a layout file and checks it.
///
/// ```
/// let layout = outboard_link::layout_file::parse(r#"
///     entry = "_start"
///     [[region]]
///     name = "ram"
///     base = 0x40_0000
///     size = 0x10_0000
///     [[section]]
///     name = ".text"
///     region = "ram"
///     inputs = [".text", ".text.*"]
///     [symbols]
///     __stack_top = { region_end = "ram" }
/// "#)?;
/// assert_eq!(layout.entry.as_deref(), Some("_start"));
/// # Ok::<(), outboard_link::layout_file::LayoutFileError>(())
/// ```
///
/// # Errors
///
/// [`LayoutFileError`] with the line, or with what is contradictory.
pub fn parse(text: &str) -> Result<Layout, LayoutFileError> {
    let file: File = toml::from_str(text).map_err(|error| LayoutFileError::Syntax(error.to_string()))?;
    let regions = file.regions.into_iter().map(|FileRegion { name, base, size }| Region { name, base, size });
    let symbols = file.symbols.into_iter().map(|(name, value)| LayoutSymbol { name, value: value.into() });
    let layout = Layout {
        entry: file.entry,
        page: file.page,
        regions: regions.collect(),
        sections: file.sections.into_iter().map(OutputSection::from).collect(),
        symbols: symbols.collect(),
        required: file.required,
        discard: file.discard,
    };
    layout.check()?;
    Ok(layout)
}

impl From<FileSection> for OutputSection {
    fn from(file: FileSection) -> Self {
        let FileSection { name, region, inputs, order, keep, align, address, reserve, start, stop } = file;
        let order = match order {
            FileOrder::Patterns => Order::Patterns,
            FileOrder::Name => Order::Name,
            FileOrder::Priority => Order::Priority,
            FileOrder::ReversePriority => Order::ReversePriority,
        };
        Self { name, region, inputs, order, keep, align, address, reserve, start, stop }
    }
}

impl From<FileValue> for Value {
    fn from(file: FileValue) -> Self {
        match file {
            FileValue::Number(number) => Self::Number(number),
            FileValue::Place(FilePlace::Start(name)) => Self::Start(name),
            FileValue::Place(FilePlace::Stop(name)) => Self::Stop(name),
            FileValue::Place(FilePlace::Size(name)) => Self::Size(name),
            FileValue::Place(FilePlace::RegionStart(name)) => Self::RegionStart(name),
            FileValue::Place(FilePlace::RegionEnd(name)) => Self::RegionEnd(name),
            FileValue::Place(FilePlace::RegionFree(name)) => Self::RegionFree(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reaches_the_layout() {
        let layout = parse(
            r#"
            entry = "go"
            page = 0x1000
            required = ["table"]
            discard = [".junk*"]
            [[region]]
            name = "ram"
            base = 0x1000
            size = 0x2000
            [[section]]
            name = ".ctors"
            region = "ram"
            inputs = [".ctors", ".ctors.*"]
            order = "reverse-priority"
            keep = true
            align = 16
            address = 0x1010
            reserve = 64
            start = "__ctors_start"
            stop = "__ctors_stop"
            [symbols]
            answer = 42
            top = { region_end = "ram" }
            bottom = { region_start = "ram" }
            heap = { region_free = "ram" }
            first = { start = ".ctors" }
            last = { stop = ".ctors" }
            length = { size = ".ctors" }
            "#,
        )
        .unwrap();
        let section = OutputSection::new(".ctors", "ram", &[".ctors", ".ctors.*"]).order(Order::ReversePriority).keep();
        let section = section.align(16).at(0x1010).reserve(64).bounds("__ctors_start", "__ctors_stop");
        assert_eq!(layout.sections, [section]);
        assert_eq!((layout.entry.as_deref(), layout.page), (Some("go"), Some(0x1000)));
        assert_eq!(layout.regions, [Region { name: "ram".into(), base: 0x1000, size: 0x2000 }]);
        assert_eq!((layout.required, layout.discard), (alloc::vec!["table".into()], alloc::vec![".junk*".into()]));
        assert_eq!(layout.symbols.len(), 7);
        assert!(layout.symbols.contains(&LayoutSymbol { name: "heap".into(), value: Value::RegionFree("ram".into()) }));
    }

    #[test]
    fn a_faulty_layout_file_names_the_line_or_what_is_contradictory() {
        let error = parse("entry = 'x'\nstack = 4").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("stack"), "{error}");
        let error = parse("[symbols]\nx = { end = 'ram' }").unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        let error = parse("[[section]]\nname = '.text'\nregion = 'rom'").unwrap_err().to_string();
        assert_eq!(error, "the layout: section .text: its region does not exist; add it or correct the name");
        let twice =
            "[[region]]\nname = 'a'\nbase = 0xffff_0000\nsize = 0x10001\n[[region]]\nname = 'a'\nbase = 0\nsize = 1";
        let error = parse(twice).unwrap_err().to_string();
        assert!(error.contains("beyond the 32-bit address space") && error.contains("two regions"), "{error}");
    }
}
