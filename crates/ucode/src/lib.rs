//! GPSIMD device images: read, judged, carved out of host libraries, and built again as twins.
//!
//! [`inspect`] tells everything about a file: PI images, fixed-load libraries, objects, archives and prelinked images.
//! [`carve`] finds the images inside a host library or any blob, [`resident`] picks the one that a core would get, and
//! [`twins`] writes stand-ins of the images that cannot be shipped: the same header, sections, tables and relocations, with
//! code of our own. What to do with an image (prelink, stage) is in `outboard_link::pi`; [`report`] turns its results into
//! the JSON that the command line prints.
//!
//! Hardware knowledge is data: [`cores`] and [`opcodes`] read `targets/gpsimd-*.toml`. The facts are explained in
//! `docs/reference/gpsimd-images.md`.
//!
//! ```
//! use outboard_ucode::{inspect, twins};
//!
//! let image = twins::image("cayman_0").unwrap();
//! let inspect::Report::Pi(report) = inspect::inspect(&image).unwrap() else { panic!("a PI image") };
//! assert_eq!(report.kernel_table.unwrap().rows.len(), 17);
//! assert_eq!(report.relocations.histogram["R_XTENSA_SLOT0_OP"], 101);
//! ```
#![forbid(unsafe_code)]

pub mod carve;
pub mod cores;
mod host;
pub mod inspect;
pub mod opcodes;
pub mod report;
pub mod resident;
pub mod slots;
pub mod twins;
