//! Writes containers.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};

use crate::{HEADER_SIZE, MemberKind, NeffError, NeffHeader, Packager, tar};

/// What the header of a packed container says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackOptions {
    /// Raw or compressed.
    pub packager: Packager,
    /// Major and minor version.
    pub version: (u64, u64),
    /// Version of the compiler.
    pub build_version: String,
    /// Name of the model.
    pub name: String,
    /// Identity of the model.
    pub uuid: [u8; 16],
    /// Features beside [`crate::CUSTOM_OPS`], which is set when a library is packed.
    pub feature_bits: u64,
    /// Cores asked for.
    pub requested_tpb_count: u32,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            packager: Packager::Gzip,
            version: (2, 0),
            build_version: concat!("2.0.0.0%outboard@", env!("CARGO_PKG_VERSION")).to_owned(),
            name: "model".to_owned(),
            uuid: [0; 16],
            feature_bits: 0,
            requested_tpb_count: 1,
        }
    }
}

/// Packs members, in the given order, into a container. Equal input gives equal bytes.
///
/// # Errors
///
/// A name that a reader would refuse, or that occurs twice.
pub fn pack(members: &[(String, Vec<u8>)], options: &PackOptions) -> Result<Vec<u8>, NeffError> {
    let mut names = std::collections::BTreeSet::new();
    for (name, _) in members {
        crate::container::check_name(name)?;
        if !names.insert(name) {
            return Err(NeffError::MemberName { name: name.clone(), problem: "occurs twice" });
        }
    }
    let archive = tar::write(members);
    let io = |error| NeffError::Io { path: "compressing the archive".to_owned(), error };
    let payload = match options.packager {
        Packager::Raw => archive,
        Packager::Gzip => {
            let mut writer = GzBuilder::new().operating_system(3).write(Vec::new(), Compression::default());
            writer.write_all(&archive).map_err(io)?;
            writer.finish().map_err(io)?
        }
    };
    let custom = members.iter().any(|(name, _)| MemberKind::of(name) == MemberKind::Library);
    let mut tpb_per_node = [0; 64];
    let [first, ..] = &mut tpb_per_node;
    *first = u8::try_from(options.requested_tpb_count).unwrap_or(u8::MAX);
    let header = NeffHeader {
        packager: options.packager,
        header_size: HEADER_SIZE as u64,
        data_size: payload.len() as u64,
        version_major: options.version.0,
        version_minor: options.version.1,
        build_version: options.build_version.clone(),
        compression: u32::from(options.packager == Packager::Gzip),
        hash: options.packager.hash(&payload),
        uuid: options.uuid,
        name: options.name.clone(),
        requested_tpb_count: options.requested_tpb_count,
        tpb_per_node,
        feature_bits: options.feature_bits | if custom { crate::CUSTOM_OPS } else { 0 },
        vnc_size: 0,
    };
    let mut file = header.encode().to_vec();
    file.extend(payload);
    Ok(file)
}

/// Most files of a directory that are packed.
const FILES: usize = 16_384;

/// The files of a directory as members: manifests of the top first, as packagers write them, then all others by name.
///
/// # Errors
///
/// A file that cannot be read, a link (it could lead out of the directory), a name that is no UTF-8, or more than 16,384 files.
pub fn directory_members(directory: &Path) -> Result<Vec<(String, Vec<u8>)>, NeffError> {
    let mut paths = Vec::new();
    collect(directory, &mut paths)?;
    let mut named = Vec::with_capacity(paths.len());
    for path in paths {
        let inside = path.strip_prefix(directory).unwrap_or(&path);
        let parts: Option<Vec<&str>> = inside.components().map(|part| part.as_os_str().to_str()).collect();
        let shown = || inside.to_string_lossy().into_owned();
        let parts = parts.ok_or_else(|| NeffError::MemberName { name: shown(), problem: "is no UTF-8" })?;
        named.push((parts.join("/"), path));
    }
    let rank = |name: &str| match MemberKind::of(name) {
        MemberKind::Kelf => 0,
        MemberKind::Graph => 1,
        _ => 2,
    };
    named.sort_by(|(left, _), (right, _)| (rank(left), left).cmp(&(rank(right), right)));
    named.into_iter().map(|(name, path)| Ok((name, fs::read(&path).map_err(at(&path))?))).collect()
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> NeffError {
    let path = path.display().to_string();
    move |error| NeffError::Io { path: path.clone(), error }
}

/// Adds the files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), NeffError> {
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).map_err(at(&directory))? {
            let entry = entry.map_err(at(&directory))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(at(&directory))?);
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                files.push(path);
            } else {
                let name = path.display().to_string();
                return Err(NeffError::MemberName {
                    name,
                    problem: "is a link or a device, and a container has files",
                });
            }
            if files.len() > FILES || open.len() > FILES {
                let value = files.len().max(open.len()) as u64;
                return Err(NeffError::Limit { what: "the number of files", value, limit: FILES as u64 });
            }
        }
    }
    Ok(())
}
