//! The container: gates, hash, and one walk over the members.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::bufread::MultiGzDecoder;

use crate::tar::{Entry, Reader};
use crate::{HEADER_SIZE, NeffError, NeffHeader, Packager, SUPPORTED_FEATURES};

/// Bounds for files that nobody vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Members (default 16,384).
    pub members: u64,
    /// Bytes of one member that is read into memory (default 256 MiB).
    pub member: u64,
    /// Bytes of all manifests that a listing keeps, beside an eighth of the bytes stored (default 1 MiB): parsed JSON takes
    /// up to thirty times its text.
    pub manifests: u64,
    /// Bytes of the inflated archive for each byte stored, beyond [`Limits::free`] (default 32).
    pub ratio: u64,
    /// Bytes of the inflated archive that are always allowed (default 64 MiB).
    pub free: u64,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Self =
        Self { members: 16_384, member: 256 << 20, manifests: 1 << 20, ratio: 32, free: 64 << 20 };

    fn kept(&self, stored: usize) -> u64 {
        self.manifests.saturating_add(stored as u64 / 8)
    }

    fn inflated(&self, stored: usize) -> u64 {
        self.free.saturating_add(self.ratio.saturating_mul(stored as u64))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a member is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum MemberKind {
    /// `kelf-a.json`: the list of graphs.
    Kelf,
    /// `neff.json`: the outer graph.
    Graph,
    /// `sgNN/def.json`: variables, queues, engines.
    Definition,
    /// `sgNN/ENGINE.json`.
    EngineJson,
    /// `sgNN/ENGINE.bin`: instructions.
    EngineBin,
    /// `sgNN/ENGINE.asm`.
    EngineAsm,
    /// `ucode_lib.json`: the manifest of the libraries.
    UcodeManifest,
    /// A library: `*.so` or `*.elf`.
    Library,
    /// `*.npy`.
    Weights,
    /// What readers skip: `*wavegraph-bin.json`.
    Skipped,
    /// Nothing that a reader needs. It is listed and not unpacked unless asked for.
    Other,
}

const ENGINES: [&str; 5] = ["pe", "act", "pool", "dve", "sp"];

impl MemberKind {
    /// Decides by the name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
        let engine = |suffix: &str| file.strip_suffix(suffix).is_some_and(|stem| ENGINES.contains(&stem));
        if name.ends_with("wavegraph-bin.json") {
            Self::Skipped
        } else if file == "kelf-a.json" {
            Self::Kelf
        } else if file == "neff.json" {
            Self::Graph
        } else if file == "def.json" && !directory.is_empty() {
            Self::Definition
        } else if file == "ucode_lib.json" {
            Self::UcodeManifest
        } else if engine(".json") {
            Self::EngineJson
        } else if engine(".bin") {
            Self::EngineBin
        } else if engine(".asm") {
            Self::EngineAsm
        } else if file.ends_with(".npy") {
            Self::Weights
        } else if file.ends_with(".so") || file.ends_with(".elf") {
            Self::Library
        } else {
            Self::Other
        }
    }

    /// Whether a listing keeps its contents.
    #[must_use]
    pub const fn manifest(self) -> bool {
        matches!(self, Self::Kelf | Self::Definition | Self::UcodeManifest)
    }
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Member {
    /// Its name in the archive.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Offset of its contents in the inflated archive.
    pub offset: u64,
    /// What it is.
    pub kind: MemberKind,
}

/// The members, and the manifests among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// In the order of the archive, without directories.
    pub members: Vec<Member>,
    /// Contents of the members whose kind is a manifest.
    pub manifests: BTreeMap<String, Vec<u8>>,
    /// Bytes of the inflated archive.
    pub inflated: u64,
}

impl Listing {
    /// The member with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

/// A container whose header passed the gates.
#[derive(Debug, Clone)]
pub struct Neff<'a> {
    header: NeffHeader,
    payload: &'a [u8],
    limits: Limits,
}

impl<'a> Neff<'a> {
    /// Walks the gates of the header with the features of the original.
    ///
    /// # Errors
    ///
    /// The first gate that does not pass.
    pub fn parse(file: &'a [u8]) -> Result<Self, NeffError> {
        Self::parse_with(file, SUPPORTED_FEATURES, Limits::DEFAULT)
    }

    /// As [`Neff::parse`] for a reader with other features and bounds.
    ///
    /// # Errors
    ///
    /// As [`Neff::parse`].
    pub fn parse_with(file: &'a [u8], supported: u64, limits: Limits) -> Result<Self, NeffError> {
        let header = NeffHeader::check(file, supported)?;
        let short = NeffError::TooShort { len: file.len() };
        let start = usize::try_from(header.header_size).unwrap_or(HEADER_SIZE);
        let rest = file.get(start..).ok_or(short)?;
        let payload = usize::try_from(header.data_size).ok().and_then(|len| rest.get(..len));
        let available = rest.len() as u64;
        let payload = payload.ok_or(NeffError::DataSize { value: header.data_size, available })?;
        Ok(Self { header, payload, limits })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &NeffHeader {
        &self.header
    }

    /// The payload as stored.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Compares the hash with the payload, as the original does when asked.
    ///
    /// # Errors
    ///
    /// [`NeffError::Hash`]; an empty payload is refused too.
    pub fn verify_hash(&self) -> Result<(), NeffError> {
        let packager = self.header.packager;
        let computed = packager.hash(self.payload);
        if computed == self.header.hash && !self.payload.is_empty() {
            return Ok(());
        }
        let len = if packager == Packager::Raw { 32 } else { 16 };
        let hex = |hash: &[u8]| hash.iter().take(len).map(|byte| format!("{byte:02x}")).collect();
        Err(NeffError::Hash {
            algorithm: packager.algorithm(),
            stored: hex(&self.header.hash),
            computed: hex(&computed),
        })
    }

    fn archive(&self) -> Reader<Box<dyn Read + 'a>> {
        // The header says raw or gzip; a gzip stream in a raw package is recognised as readers do.
        let gzip = self.header.packager == Packager::Gzip || self.payload.starts_with(&[0x1f, 0x8b]);
        let source: Box<dyn Read + 'a> =
            if gzip { Box::new(MultiGzDecoder::new(self.payload)) } else { Box::new(self.payload) };
        Reader::new(source, self.limits.inflated(self.payload.len()))
    }

    /// Walks the members once and hands each to `visit`, which may read it.
    fn walk(
        &self,
        mut visit: impl FnMut(Member, &mut Reader<Box<dyn Read + 'a>>) -> Result<Step, NeffError>,
    ) -> Result<u64, NeffError> {
        let mut archive = self.archive();
        let mut count = 0;
        while let Some(entry) = archive.next_entry()? {
            if entry.directory {
                match entry.name.trim_end_matches('/') {
                    "" | "." => {}
                    name => check_name(name)?,
                }
                continue;
            }
            count += 1;
            if count > self.limits.members {
                return Err(NeffError::Limit {
                    what: "the number of members",
                    value: count,
                    limit: self.limits.members,
                });
            }
            check_name(&entry.name)?;
            let Entry { name, size, offset, .. } = entry;
            let kind = MemberKind::of(&name);
            if let Step::Stop = visit(Member { name, size, offset, kind }, &mut archive)? {
                break;
            }
        }
        Ok(archive.position())
    }

    /// All members, and the contents of the manifests, in one pass.
    ///
    /// # Errors
    ///
    /// When the payload cannot be inflated, an entry is malformed, a name is unsafe, occurs twice, or a limit is exceeded.
    pub fn list(&self) -> Result<Listing, NeffError> {
        let mut listing = Listing::default();
        let mut kept = 0_u64;
        let limit = self.limits.kept(self.payload.len());
        let mut names = std::collections::BTreeSet::new();
        listing.inflated = self.walk(|member, archive| {
            if member.kind.manifest() {
                kept = kept.saturating_add(member.size);
                if kept > limit {
                    return Err(NeffError::Limit { what: "the size of all manifests", value: kept, limit });
                }
                listing.manifests.insert(member.name.clone(), archive.contents(limit)?);
            }
            if !names.insert(member.name.clone()) {
                return Err(NeffError::MemberName { name: member.name, problem: "occurs twice" });
            }
            listing.members.push(member);
            Ok(Step::On)
        })?;
        Ok(listing)
    }

    /// The contents of one member.
    ///
    /// # Errors
    ///
    /// [`NeffError::MissingMember`], and as [`Neff::list`].
    pub fn read(&self, name: &str) -> Result<Vec<u8>, NeffError> {
        let mut found = None;
        self.walk(|member, archive| {
            if member.name != name {
                return Ok(Step::On);
            }
            found = Some(archive.contents(self.limits.member)?);
            Ok(Step::Stop)
        })?;
        found.ok_or_else(|| NeffError::MissingMember { name: name.to_owned(), by: "the caller".to_owned() })
    }

    /// Hands every member to `visit` with its contents where `wanted` says so, in one pass.
    ///
    /// # Errors
    ///
    /// As [`Neff::list`], and what `visit` says.
    pub fn each(
        &self,
        mut wanted: impl FnMut(&Member) -> bool,
        mut visit: impl FnMut(&Member, Option<&[u8]>) -> Result<(), NeffError>,
    ) -> Result<(), NeffError> {
        self.walk(|member, archive| {
            let data = if wanted(&member) { Some(archive.contents(self.limits.member)?) } else { None };
            visit(&member, data.as_deref())?;
            Ok(Step::On)
        })?;
        Ok(())
    }

    /// Hands the contents of every member to `sink` in pieces; used to write them out.
    pub(crate) fn stream(
        &self,
        mut sink: impl FnMut(
            &Member,
            &mut dyn FnMut(&mut dyn FnMut(&[u8]) -> Result<(), NeffError>) -> Result<(), NeffError>,
        ) -> Result<(), NeffError>,
    ) -> Result<(), NeffError> {
        self.walk(|member, archive| {
            sink(&member, &mut |write| archive.each_chunk(|chunk| write(chunk)))?;
            Ok(Step::On)
        })?;
        Ok(())
    }
}

enum Step {
    On,
    Stop,
}

/// Refuses names that could leave a directory or confuse a file system.
pub(crate) fn check_name(name: &str) -> Result<(), NeffError> {
    let parts = || name.split('/');
    let problem = if name.is_empty() {
        "is empty"
    } else if name.starts_with('/') {
        "is absolute"
    } else if name.contains('\\') || name.contains(':') {
        "contains a backslash or a colon"
    } else if name.chars().any(char::is_control) {
        "contains control characters"
    } else if parts().any(|part| part == "..") {
        "leaves the archive"
    } else if parts().any(|part| part.is_empty() || part == ".") {
        "contains an empty part"
    } else if parts().count() > 8 || name.len() > 255 {
        "is too deep or too long"
    } else {
        return Ok(());
    };
    Err(NeffError::MemberName { name: name.chars().take(300).collect(), problem })
}
