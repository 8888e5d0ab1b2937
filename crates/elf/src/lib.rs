//! Reads ELF files that nobody vouches for, and writes whole images.
//!
//! The reader is zero-copy and bounded: every offset is checked with 64-bit arithmetic before it is used, every
//! count has a cap ([`Limits`]), nothing is allocated, nothing recurses and nothing panics. It needs no section headers:
//! program headers and the dynamic table are enough to load a module. An [`ElfError`] names the field, where it is in the
//! file, its value and the limit it broke.
//!
//! It reads the little-endian ELF32 and ELF64 files of four machines: TI C7x, Xtensa, x86-64 and AArch64. What a loader
//! makes of them is decided in `outboard-link`; this crate has no opinion about devices.
//!
//! The facts behind the constants are collected in `docs/reference/elf.md`.
//!
//! ```
//! use outboard_elf::write::{ImageBuilder, SegmentSpec, SymbolSpec};
//! use outboard_elf::{Elf, machine, pf};
//!
//! let mut image = ImageBuilder::new(machine::C7X);
//! let text = image.segment(SegmentSpec::new(pf::R | pf::X, vec![0x90; 64]));
//! image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 64));
//! let file = image.build();
//!
//! let elf = Elf::parse(&file).unwrap();
//! assert_eq!(elf.header().machine, machine::C7X);
//! assert_eq!(elf.load_segments().count(), 1);
//! assert!(Elf::parse(&file[..40]).unwrap_err().to_string().contains("ends early"));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod archive;
mod bytes;
mod consts;
mod dynamic;
mod elf;
mod error;
mod hash;
pub mod image;
mod limits;
mod note;
pub mod pi;
mod relocation;
mod section;
mod segment;
mod symbol;
pub mod write;

pub use bytes::Bytes;
pub use consts::{
    dt, dynamic_tag_name, em_name, et, et_name, machine, osabi, osabi_name, pf, pt, segment_type_name, shf, shn, sht,
    stb, stt, stv,
};
pub use dynamic::{DynEntry, Dynamic, Pointers};
pub use elf::{Class, Elf, Header};
pub use error::ElfError;
pub use hash::{gnu_hash, gnu_symbol_count, sysv_hash, sysv_symbol_count};
pub use limits::Limits;
pub use note::{Note, Notes};
pub use relocation::{Rela, RelaTable, RelrTable};
pub use section::{Section, Sections};
pub use segment::Segment;
pub use symbol::{StringTable, Symbol, SymbolTable};
