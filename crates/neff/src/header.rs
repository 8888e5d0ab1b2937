//! The header of 1,024 bytes and its gates.

use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::NeffError;

/// Size of the header in bytes.
pub const HEADER_SIZE: usize = 0x400;
/// Feature bit of a model with custom operations.
pub const CUSTOM_OPS: u64 = 0x8;
/// Feature bits that the original supports.
pub const SUPPORTED_FEATURES: u64 = 0x7ff_ffff;
/// Bits that the original tests; the highest one is not among them.
const TESTED_FEATURES: u64 = 0x7fff_ffff_f800_0000 | SUPPORTED_FEATURES;
/// Highest major version.
const MAJOR: u64 = 2;

/// How the payload is stored and hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packager {
    /// A plain archive, hashed with SHA-256.
    Raw,
    /// A gzip stream, hashed with MD5.
    Gzip,
}

impl Packager {
    /// The number in the header.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Raw => 1,
            Self::Gzip => 2,
        }
    }

    /// Name of the hash.
    #[must_use]
    pub const fn algorithm(self) -> &'static str {
        match self {
            Self::Raw => "SHA-256",
            Self::Gzip => "MD5",
        }
    }

    /// The 32 bytes of the header's hash field for a payload as stored.
    #[must_use]
    pub fn hash(self, payload: &[u8]) -> [u8; 32] {
        match self {
            Self::Raw => Sha256::digest(payload).into(),
            Self::Gzip => {
                let mut field = [b'0'; 32];
                let (digest, _) = field.split_at_mut(16);
                digest.copy_from_slice(&Md5::digest(payload));
                field
            }
        }
    }
}

/// The header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeffHeader {
    /// How the payload is stored.
    pub packager: Packager,
    /// Bytes before the payload.
    pub header_size: u64,
    /// Bytes of the payload as stored.
    pub data_size: u64,
    /// Major version of the format.
    pub version_major: u64,
    /// Minor version.
    pub version_minor: u64,
    /// Version of the compiler.
    pub build_version: String,
    /// 1 for a compressed payload.
    pub compression: u32,
    /// Hash of the payload as stored; MD5 in the first half.
    pub hash: [u8; 32],
    /// Identity of the model.
    pub uuid: [u8; 16],
    /// Name of the model.
    pub name: String,
    /// Cores asked for.
    pub requested_tpb_count: u32,
    /// Cores of each node.
    pub tpb_per_node: [u8; 64],
    /// Features that the model needs.
    pub feature_bits: u64,
    /// Cores that form a virtual one.
    pub vnc_size: u32,
}

/// Names of feature bits, lowest first. Only one has a public name.
#[must_use]
pub fn feature_names(bits: u64) -> Vec<String> {
    let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
    set.map(|bit| if 1 << bit == CUSTOM_OPS { "custom_ops".to_owned() } else { format!("feature bit {bit}") }).collect()
}

/// A field of the header: every range below lies inside of its 1,024 bytes.
fn field<const N: usize>(header: &[u8; HEADER_SIZE], at: usize) -> [u8; N] {
    header.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes)).into_owned()
}

impl NeffHeader {
    /// Reads the header and walks its gates; `supported` is the mask of features of the reader.
    ///
    /// # Errors
    ///
    /// The first gate that does not pass, in the order of the original.
    pub fn check(file: &[u8], supported: u64) -> Result<Self, NeffError> {
        let len = file.len() as u64;
        let raw = file.first_chunk::<HEADER_SIZE>().ok_or(NeffError::TooShort { len: file.len() })?;
        let quad = |at| u64::from_le_bytes(field(raw, at));
        let word = |at| u32::from_le_bytes(field(raw, at));
        let header_size = quad(0x08);
        if header_size >= len || header_size < HEADER_SIZE as u64 {
            return Err(NeffError::HeaderSize { value: header_size, len });
        }
        let (major, minor) = (quad(0x18), quad(0x20));
        if major > MAJOR {
            return Err(NeffError::Version { major, minor });
        }
        let data_size = quad(0x10);
        let available = len - header_size;
        if data_size > available {
            return Err(NeffError::DataSize { value: data_size, available });
        }
        let packager = match quad(0) {
            1 => Packager::Raw,
            2 => Packager::Gzip,
            value => return Err(NeffError::Packager { value }),
        };
        let bits = quad(0x220);
        let missing = bits & TESTED_FEATURES & !supported;
        if major == MAJOR && missing != 0 {
            let missing = feature_names(missing).join(", ");
            return Err(NeffError::Features { bits, missing, supported });
        }
        Ok(Self {
            packager,
            header_size,
            data_size,
            version_major: major,
            version_minor: minor,
            build_version: text(&field::<128>(raw, 0x28)),
            compression: word(0xa8),
            hash: field(raw, 0xac),
            uuid: field(raw, 0xcc),
            name: text(&field::<256>(raw, 0xdc)),
            requested_tpb_count: word(0x1dc),
            tpb_per_node: field(raw, 0x1e0),
            feature_bits: bits,
            vnc_size: word(0x228),
        })
    }

    /// The 1,024 bytes. Texts that are too long are cut.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut raw = [0; HEADER_SIZE];
        let mut put = |at: usize, room: usize, bytes: &[u8]| {
            let place = raw.iter_mut().skip(at).take(room);
            for (to, from) in place.zip(bytes) {
                *to = *from;
            }
        };
        put(0x00, 8, &self.packager.number().to_le_bytes());
        put(0x08, 8, &self.header_size.to_le_bytes());
        put(0x10, 8, &self.data_size.to_le_bytes());
        put(0x18, 8, &self.version_major.to_le_bytes());
        put(0x20, 8, &self.version_minor.to_le_bytes());
        put(0x28, 127, self.build_version.as_bytes());
        put(0xa8, 4, &self.compression.to_le_bytes());
        put(0xac, 32, &self.hash);
        put(0xcc, 16, &self.uuid);
        put(0xdc, 255, self.name.as_bytes());
        put(0x1dc, 4, &self.requested_tpb_count.to_le_bytes());
        put(0x1e0, 64, &self.tpb_per_node);
        put(0x220, 8, &self.feature_bits.to_le_bytes());
        put(0x228, 4, &self.vnc_size.to_le_bytes());
        raw
    }

    /// The identity as text, such as `561826fb-125f-4bb8-991c-29e085c8949a`.
    #[must_use]
    pub fn uuid_text(&self) -> String {
        let mut text = String::with_capacity(36);
        for (index, byte) in self.uuid.iter().enumerate() {
            if [4, 6, 8, 10].contains(&index) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}
