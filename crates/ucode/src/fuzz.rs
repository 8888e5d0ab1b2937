//! Fuzz targets of this crate and of the prelinker: functions that take any bytes, must return, and must keep the promises.
//!
//! Each returns a *signature* of what happened; a runner keeps inputs with a signature that it has not seen.

use outboard_link::pi::{Mode, PrelinkError, PrelinkRequest, UcplImage, prelink as prelink_image};

use crate::resident::{Flavor, resident};
use crate::{carve as carver, cores, inspect, twins};

/// A signature under construction (FNV-1a).
#[derive(Debug, Clone, Copy)]
pub struct Signature(u64);

impl Default for Signature {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Signature {
    /// Adds a word that does not come from the input.
    pub fn word(&mut self, word: &str) {
        for byte in word.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds the order of magnitude of a count.
    pub fn count(&mut self, count: usize) {
        self.0 = (self.0 ^ u64::from(usize::BITS - count.leading_zeros())).wrapping_mul(0x0100_0000_01b3);
    }

    /// Adds a message without its numbers and names.
    pub fn message(&mut self, message: &str) {
        let plain = message.split_whitespace().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
        plain.take(12).for_each(|word| self.word(word));
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

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

/// Inputs to start from: a small image of each shape and a prelinked one.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let image = |name| twins::image(name).unwrap_or_default();
    let mut seeds =
        vec![("cayman_1", image("cayman_1")), ("cayman_2", image("cayman_2")), ("maverick_1", image("maverick_1"))];
    let cayman = cores::by_kind(13).map(|core| core.bounds);
    let staged = cayman.and_then(|bounds| prelink_image(&PrelinkRequest::new(&image("cayman_1"), &bounds)).ok());
    seeds.extend(staged.map(|staged| ("cayman_1_ucpl", staged.image())));
    seeds
}
