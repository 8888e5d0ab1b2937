//! The prelinked form: a header of 32 bytes, the code, the data.

use super::{Descriptor, Mode, Placement};

/// The first eight bytes. Bytes 4..8 are also the offset of the code.
pub const UCPL_MAGIC: [u8; 8] = *b"UCPL \0\0\0";
/// Size of the header.
pub const UCPL_HEADER_SIZE: u32 = 32;
/// Largest staged image.
pub const STAGED_MAX: u64 = 0x1_0000;

/// The header of a prelinked image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UcplHeader {
    /// Bytes of code, a multiple of 4.
    pub code_len: u32,
    /// Offset of the data in the staged image, a multiple of 32.
    pub data_offset: u32,
    /// Bytes of data, a multiple of 4.
    pub data_len: u32,
    /// Device address of the initialisation function.
    pub init: u32,
    /// Device address of the termination function.
    pub fini: u32,
    /// Device address of the entry point; a device refuses 0.
    pub start: u32,
}

const fn align4(value: u32) -> u32 {
    value.wrapping_add(3) & !3
}

impl UcplHeader {
    /// A header for segments of these sizes in memory.
    #[must_use]
    pub const fn new(code_size: u32, data_size: u32, init: u32, fini: u32, start: u32) -> Self {
        let code_len = align4(code_size);
        let data_offset = code_len.wrapping_add(0x3f) & !0x1f;
        Self { code_len, data_offset, data_len: align4(data_size), init, fini, start }
    }

    /// The header of a prelinked image. The bodies are cut from the start of the windows: strict counts the bytes before
    /// a segment that does not start there, so that its last bytes are not lost; the original does not.
    pub(super) const fn of(descriptor: &Descriptor, placement: &Placement, mode: Mode) -> Self {
        let (code, data) = match mode {
            Mode::Strict => (
                placement.code.inside.wrapping_add(placement.code.used),
                placement.data.inside.wrapping_add(placement.data.used),
            ),
            Mode::Compatible => (placement.code.used, placement.data.used),
        };
        Self::new(code, data, descriptor.init, descriptor.fini, descriptor.start_sym)
    }

    /// Bytes of the whole staged image.
    #[must_use]
    pub const fn staged_size(&self) -> u64 {
        self.data_offset as u64 + self.data_len as u64
    }

    /// The 32 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let words = [self.code_len, self.data_offset, self.data_len, self.init, self.fini, self.start];
        let (magic, rest) = bytes.split_at_mut(UCPL_MAGIC.len());
        magic.copy_from_slice(&UCPL_MAGIC);
        for (place, word) in rest.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

/// Why bytes are not a prelinked image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UcplError {
    /// The first bytes are others.
    #[error(
        "not a prelinked image: it does not start with 55 43 50 4c 20 00 00 00 (\"UCPL \"); run `outboard prelink` first"
    )]
    BadMagic,
    /// A field contradicts the others or the file.
    #[error(
        "UCPL header: {field} at offset {offset:#x} is {found:#x}, expected {expected:#x}; prelink the image again"
    )]
    BadField {
        /// Name of the field.
        field: &'static str,
        /// Its offset.
        offset: u64,
        /// Its value.
        found: u64,
        /// What it must be.
        expected: u64,
    },
    /// The bytes end early.
    #[error("the prelinked image needs {need:#x} bytes, the file has {have:#x}; copy or prelink it again")]
    Truncated {
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },
    /// The image is larger than the device's buffer.
    #[error("the prelinked image has {size:#x} bytes, above the device's {STAGED_MAX:#x}; make the library smaller")]
    TooLarge {
        /// Its size.
        size: u64,
    },
    /// No entry point.
    #[error(
        "UCPL header: start_sym at offset 0x1c is 0, and the device refuses a library without entry; set the entry point"
    )]
    NullStart,
}

/// A prelinked image, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UcplImage<'a> {
    /// Its header.
    pub header: UcplHeader,
    /// The code body.
    pub code: &'a [u8],
    /// The data body.
    pub data: &'a [u8],
}

impl<'a> UcplImage<'a> {
    /// Checks the header against itself and against the file.
    ///
    /// # Errors
    ///
    /// A [`UcplError`].
    pub fn parse(file: &'a [u8]) -> Result<Self, UcplError> {
        let have = file.len() as u64;
        let Some(([magic, tail @ ..], _)) =
            file.split_first_chunk::<32>().map(|(head, rest)| (head.as_chunks::<8>().0, rest))
        else {
            let prefix = file.get(..UCPL_MAGIC.len().min(file.len())).unwrap_or(&[]);
            let is_ucpl = prefix == UCPL_MAGIC;
            return Err(if is_ucpl { UcplError::Truncated { need: 32, have } } else { UcplError::BadMagic });
        };
        if *magic != UCPL_MAGIC {
            return Err(UcplError::BadMagic);
        }
        let mut words = tail.iter().flat_map(|pair| pair.as_chunks::<4>().0).map(|word| u32::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let header = UcplHeader {
            code_len: next(),
            data_offset: next(),
            data_len: next(),
            init: next(),
            fini: next(),
            start: next(),
        };
        let expected = UcplHeader::new(header.code_len, header.data_len, header.init, header.fini, header.start);
        let fields = [
            ("code_seg_len", 0x08, header.code_len, expected.code_len),
            ("data_seg_off", 0x0c, header.data_offset, expected.data_offset),
            ("data_seg_len", 0x10, header.data_len, expected.data_len),
        ];
        for (field, offset, found, expected) in fields {
            if found != expected {
                let (found, expected) = (u64::from(found), u64::from(expected));
                return Err(UcplError::BadField { field, offset, found, expected });
            }
        }
        let size = header.staged_size();
        if size > STAGED_MAX {
            return Err(UcplError::TooLarge { size });
        }
        if header.start == 0 {
            return Err(UcplError::NullStart);
        }
        let body = |offset: u32, len: u32| {
            let start = super::usize_of(offset);
            file.get(start..start.saturating_add(super::usize_of(len)))
        };
        let short = UcplError::Truncated { need: size, have };
        let code = body(UCPL_HEADER_SIZE, header.code_len).ok_or(short)?;
        let data = body(header.data_offset, header.data_len).ok_or(short)?;
        if have != size {
            return Err(UcplError::BadField { field: "file size", offset: 0, found: have, expected: size });
        }
        Ok(Self { header, code, data })
    }
}
