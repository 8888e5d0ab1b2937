//! Targets `pi`, `prelink`, `ucpl` and `carve`: GPSIMD images, looked at, prelinked and searched for.

use outboard_link::pi::{Mode, PrelinkError, PrelinkRequest, UcplImage, prelink as prelink_image};
use outboard_ucode::resident::{Flavor, resident};
use outboard_ucode::{carve as carver, cores, inspect};

use crate::signature::Signature;

/// Target `pi`: inspects, and prints what it saw.
#[must_use]
pub fn pi(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    match inspect::inspect(data) {
        Ok(report) => {
            signature.count(report.to_string().len());
            if let inspect::Report::Pi(report) = report {
                report.notes.iter().for_each(|note| signature.word(note.code));
            }
        }
        Err(error) => signature.message(&error.to_string()),
    }
    signature.value()
}

/// Target `prelink`: an accepted image is a sound prelinked image and is recognised as one.
///
/// # Panics
///
/// When that does not hold.
#[must_use]
pub fn prelink(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    for core in cores::all().iter().filter(|core| matches!(core.name.as_str(), "cayman" | "sunda")) {
        for mode in [Mode::Strict, Mode::Compatible] {
            let request = PrelinkRequest { mode, ..PrelinkRequest::new(data, &core.bounds) };
            match prelink_image(&request) {
                Ok(image) => {
                    let staged = image.image();
                    assert_eq!(staged.len() as u64, image.staged_size(), "the image is as long as its header says");
                    let again = prelink_image(&PrelinkRequest::new(&staged, &core.bounds));
                    assert_eq!(again, Err(PrelinkError::AlreadyPrelinked), "a prelinked image is recognised");
                    signature.count(image.warnings.len());
                    signature.count(usize::try_from(image.counts.total()).unwrap_or(usize::MAX));
                }
                Err(error) => {
                    signature.word(error.name());
                    signature.message(&error.to_string());
                }
            }
        }
    }
    signature.value()
}

/// Target `ucpl`: an accepted prelinked image encodes back to its own header.
///
/// # Panics
///
/// When that does not hold.
#[must_use]
pub fn ucpl(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    match UcplImage::parse(data) {
        Ok(image) => {
            assert!(data.starts_with(&image.header.encode()), "the header encodes back");
            signature.count(image.code.len());
            signature.count(image.data.len());
        }
        Err(error) => signature.message(&error.to_string()),
    }
    signature.value()
}

/// Target `carve`: searches, and asks the registry for every core.
#[must_use]
pub fn carve(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    let report = carver::carve(data);
    signature.count(report.images.len());
    signature.count(report.rejected);
    for core in cores::all() {
        match resident(data, core, Flavor::Perf, 0) {
            Ok(image) => signature.count(image.bytes.len()),
            Err(error) => signature.message(&error.to_string()),
        }
    }
    signature.value()
}
