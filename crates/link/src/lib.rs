//! Loads device modules: right or refused.
//!
//! [`load`] takes a module's file, a table of the symbols that the device offers and the device's memory, and walks
//! the phases *parse → plan → place → resolve → relocate → verify → commit*. Each phase borrows immutably from the ones
//! before. Every relocation is checked against its row, lies inside one loaded segment and is read back after the write;
//! every missing symbol is reported at once. A load that fails leaves the memory as it was: claimed blocks are zeroed and
//! released. There is no global state; any number of modules may be loaded at the same time.
//!
//! C7x images are placed segment by segment, with read-only data used in place in the staged file where that is safe;
//! images for the processor of the host are placed as one block. `docs/reference/loader.md` has the rules.
//!
//! The crate is `no_std` with `alloc`. It reads files that nobody vouches for and never panics on them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod build;
mod error;
mod exports;
mod hints;
mod image;
mod layout;
mod load;
mod machine;
mod memory;
mod module;
mod names;
mod note;
pub mod pi;
mod pool;
mod relocate;
pub mod shape;
mod symbols;
#[cfg(feature = "tools")]
mod tools;

pub use error::{LoadError, MissingSymbol, RelocFault, Unresolved};
pub use exports::ExportTable;
pub use load::{CpuFeatures, Initialisers, LoadOptions, LoadRequest, ReadOnlyPlacement, Resolver, load, load_with};
pub use machine::Machine;
pub use memory::{OutOfMemory, SegmentKind, SegmentRequest, TargetMemory};
pub use module::{LoadedModule, LoadedSegment, Perms};
pub use note::{ModuleNote, NOTE_BUILD, NOTE_MANIFEST, NOTE_OWNER, manifest, module_note};
pub use pool::PoolMemory;
#[cfg(feature = "tools")]
pub use tools::{budget, check, export_sets, inspect, kernel_file, layout_file, prelink, resource_table, target};
