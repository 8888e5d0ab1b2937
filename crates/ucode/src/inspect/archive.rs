//! The report of an archive.

use outboard_elf::archive::{Archive, ArchiveError};

use super::{Report, inspect};

/// Members of an archive that are reported.
const MEMBERS: usize = 65_536;

/// An archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ArchiveReport {
    /// Its members in order.
    pub members: Vec<ArchiveMember>,
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ArchiveMember {
    /// Its name.
    pub name: String,
    /// File offset of its bytes.
    pub offset: u64,
    /// Its size.
    pub size: u64,
    /// What it is; `None` when it is no device file.
    pub report: Option<Box<Report>>,
    /// Why it is not reported.
    pub problem: Option<String>,
}

impl ArchiveReport {
    pub(super) fn of(archive: Archive<'_>) -> Result<Self, ArchiveError> {
        let mut members = Vec::new();
        for member in archive {
            let member = member?;
            if members.len() >= MEMBERS {
                return Err(ArchiveError { offset: member.offset, problem: "more than 65,536 members" });
            }
            // An archive inside of an archive is not followed.
            let nested = Archive::open(member.data).is_some();
            let (report, problem) = match (!nested).then(|| inspect(member.data)) {
                None => (None, Some("an archive inside of an archive".to_owned())),
                Some(Ok(report)) => (Some(Box::new(report)), None),
                Some(Err(error)) => (None, Some(error.to_string())),
            };
            members.push(ArchiveMember {
                name: String::from_utf8_lossy(member.name).into_owned(),
                offset: member.offset,
                size: member.data.len() as u64,
                report,
                problem,
            });
        }
        Ok(Self { members })
    }
}
