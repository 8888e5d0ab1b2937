//! NEFF containers, and the instructions of the pool engine's sequencer.
//!
//! A NEFF is a header of 1,024 bytes and an archive, usually compressed. [`Neff::parse`] walks the gates of the header in
//! the order of the original; the archive is walked as a stream, so that listing a large file inflates it once and keeps
//! only what it needs. Member names never leave the archive, and sizes, counts and the ratio of compression are bounded.
//! [`pack`] writes a container that the original accepts.
//!
//! [`seq`] encodes and decodes the 64-byte instructions that load a library, start an operation and carry its arguments.
//! The layouts are in `docs/reference/gpsimd-neff.md` and `docs/reference/gpsimd-sequencer.md`.
//!
//! ```
//! use outboard_neff::{Neff, PackOptions, pack};
//!
//! let members = [("neff.json".to_owned(), b"{}".to_vec())];
//! let file = pack(&members, &PackOptions::default()).unwrap();
//! let neff = Neff::parse(&file).unwrap();
//! neff.verify_hash().unwrap();
//! assert_eq!(neff.list().unwrap().members[0].name, "neff.json");
//! ```
#![forbid(unsafe_code)]

pub mod check;
mod container;
mod definition;
mod error;
mod file;
mod header;
mod json;
pub mod metaneff;
mod pack;
pub mod patch;
mod profile;
mod report;
pub mod seq;
mod tar;
mod ucode_lib;
mod unpack;

pub use container::{Limits, Listing, Member, MemberKind, Neff};
pub use definition::{DefVar, Definition, Engine, UcodeReference};
pub use error::NeffError;
pub use file::{DeviceFile, FileError, inspect_file, is_container};
pub use header::{CUSTOM_OPS, HEADER_SIZE, NeffHeader, Packager, SUPPORTED_FEATURES, feature_names};
pub use pack::{PackOptions, directory_members, pack};
pub use profile::{Finding, custom_op_findings};
pub use report::{GraphReport, NeffPart, NeffReport, VerifyReport, check_target, inspect, inspect_part, verify};
pub use ucode_lib::{RuntimeVersion, UcodeFunction, UcodeLib, parse_ucode_lib};
pub use unpack::{Unpacked, unpack};
