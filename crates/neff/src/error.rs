//! Why a container was refused: the original's number, the field, what was expected, which side to update.

/// A refused container.
///
/// [`NeffError::code`] is the original's result number where it has one, from 100 on ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NeffError {
    /// The file is shorter than the header.
    #[error("the file has {len} bytes, and a NEFF header alone has 1024; copy or compile the model again")]
    TooShort {
        /// Bytes of the file.
        len: usize,
    },
    /// The size of the header is impossible.
    #[error(
        "header_size at offset 0x8 is {value:#x}, expected at least 0x400 and less than the file's {len:#x} bytes; compile the model again"
    )]
    HeaderSize {
        /// The value found.
        value: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// The format is newer than the reader.
    #[error(
        "version {major}.{minor} at offset 0x18: accepted version range 0.x-2.x; update the runtime side, or compile for an older runtime"
    )]
    Version {
        /// Major version.
        major: u64,
        /// Minor version.
        minor: u64,
    },
    /// The payload does not fit.
    #[error(
        "data_size at offset 0x10 is {value:#x}, but only {available:#x} bytes follow the header; copy the file again"
    )]
    DataSize {
        /// The value found.
        value: u64,
        /// Bytes behind the header.
        available: u64,
    },
    /// The packager is not known.
    #[error("Unsupported NEFF packager {value} at offset 0x0, expected 1 (raw) or 2 (gzip); update the runtime side")]
    Packager {
        /// The value found.
        value: u64,
    },
    /// Features that the reader does not have.
    #[error(
        "feature_bits at offset 0x220 is {bits:#x}: {missing} not supported by this runtime (it supports {supported:#x}); \
         update the runtime side, or compile without"
    )]
    Features {
        /// The value found.
        bits: u64,
        /// Names of the missing features.
        missing: String,
        /// The mask of the reader.
        supported: u64,
    },
    /// The hash is wrong.
    #[error(
        "hash at offset 0xac is {stored}, but the payload's {algorithm} is {computed}; the file was changed or damaged"
    )]
    Hash {
        /// `SHA-256` or `MD5`.
        algorithm: &'static str,
        /// As stored.
        stored: String,
        /// As computed.
        computed: String,
    },
    /// The payload cannot be inflated.
    #[error(
        "the payload ends or breaks after {at:#x} bytes of the archive: {problem}; copy or compile the model again"
    )]
    Inflate {
        /// Offset in the inflated archive.
        at: u64,
        /// What the decompressor says.
        problem: String,
    },
    /// The archive is malformed.
    #[error("archive entry at offset {at:#x}: {problem}; compile or pack the model again")]
    Archive {
        /// Offset of the entry in the inflated archive.
        at: u64,
        /// What is wrong.
        problem: String,
    },
    /// A name that could leave the archive.
    #[error("archive member `{name}` {problem}; a NEFF has plain relative names")]
    MemberName {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// More than a cap.
    #[error("{what} is {value}, above the limit of {limit}; raise the limit if the file is trusted")]
    Limit {
        /// What.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The cap.
        limit: u64,
    },
    /// A member that another one names is not there.
    #[error("member `{name}`, named by {by}, is missing from the archive; pack it, or correct {by}")]
    MissingMember {
        /// Its name.
        name: String,
        /// Who names it.
        by: String,
    },
    /// A member's contents are wrong.
    #[error("{member}: {problem}")]
    Member {
        /// Its name.
        member: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The file system failed.
    #[error("{path}: {error}")]
    Io {
        /// The path.
        path: String,
        /// What it said.
        error: std::io::Error,
    },
}

impl NeffError {
    /// The original's result number, from 100 on ours.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match self {
            Self::TooShort { .. }
            | Self::HeaderSize { .. }
            | Self::DataSize { .. }
            | Self::Hash { .. }
            | Self::Inflate { .. }
            | Self::Archive { .. }
            | Self::Member { .. } => 2,
            Self::Version { .. } | Self::Packager { .. } | Self::Features { .. } => 10,
            Self::MemberName { .. } => 100,
            Self::Limit { .. } => 101,
            Self::MissingMember { .. } => 102,
            Self::Io { .. } => 103,
        }
    }

    /// The name of [`NeffError::code`].
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.code() {
            2 => "NRT_INVALID",
            10 => "NRT_UNSUPPORTED_NEFF_VERSION",
            100 => "OUTBOARD_UNSAFE_NAME",
            101 => "OUTBOARD_LIMIT",
            102 => "OUTBOARD_MISSING_MEMBER",
            _ => "OUTBOARD_IO",
        }
    }

    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::TooShort { .. } | Self::HeaderSize { .. } | Self::DataSize { .. } => "OB0640",
            Self::Version { .. } | Self::Packager { .. } => "OB0641",
            Self::Features { .. } => "OB0642",
            Self::Hash { .. } => "OB0643",
            Self::Inflate { .. } | Self::Archive { .. } => "OB0644",
            Self::MemberName { .. } => "OB0645",
            Self::Limit { .. } => "OB0646",
            Self::MissingMember { .. } => "OB0647",
            Self::Member { .. } => "OB0648",
            Self::Io { .. } => "OB0649",
        }
    }
}
