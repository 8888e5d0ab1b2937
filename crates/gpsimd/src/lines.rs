//! Source lines of an image with debug information (DWARF, as clang 22 and rustc write it).

use std::collections::BTreeMap;
use std::sync::Arc;

use addr2line::Context;
use addr2line::gimli::{DwarfSections, EndianSlice, Error, LittleEndian, SectionId};
use outboard_elf::Elf;

/// Where the headers of this project and the compilers' own libraries are: a line there is that of a caller's mistake.
const LIBRARIES: [&str; 8] = [
    "include/outboard/",
    "include/torch/",
    "include/neuron/",
    "include/std/",
    "library/core/",
    "library/alloc/",
    "customop/src/",
    "customop-rt/src/",
];

/// The debug information of an image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines {
    sections: Arc<BTreeMap<String, Vec<u8>>>,
    /// How far the code moved from its link address.
    moved: u32,
}

impl Lines {
    /// What a file has; `moved` turns a link address of code into where it is now.
    pub(crate) fn of(elf: &Elf<'_>, moved: impl Fn(u32) -> u32) -> Self {
        let mut found = BTreeMap::new();
        if let Ok(sections) = elf.sections() {
            for section in sections.iter() {
                let name = sections.name(&section).map(String::from_utf8_lossy).unwrap_or_default();
                if let (true, Ok(bytes)) = (name.starts_with(".debug_"), sections.data(&section)) {
                    found.insert(name.into_owned(), bytes.to_vec());
                }
            }
        }
        let entry = elf.header().entry as u32;
        Self { sections: Arc::new(found), moved: moved(entry).wrapping_sub(entry) }
    }

    /// The file and line of an instruction: of what was inlined there, the innermost that is the kernel's own.
    pub(crate) fn find(&self, address: u32) -> Option<(String, u32)> {
        if self.sections.is_empty() {
            return None;
        }
        let context = self.context()?;
        let linked = u64::from(address.wrapping_sub(self.moved));
        let mut frames = context.find_frames(linked).skip_all_loads().ok()?;
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let place = frame.location.and_then(|place| Some((place.file?.to_owned(), place.line?)));
            found.extend(place);
        }
        let own = |(file, _): &&(String, u32)| !LIBRARIES.iter().any(|folder| file.contains(folder));
        found.iter().find(own).or(found.first()).cloned()
    }

    fn context(&self) -> Option<Context<EndianSlice<'_, LittleEndian>>> {
        let section = |id: SectionId| Ok::<_, Error>(self.sections.get(id.name()).map_or(&[][..], |bytes| &bytes[..]));
        let sections = DwarfSections::load(section).ok()?;
        Context::from_dwarf(sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian))).ok()
    }
}
