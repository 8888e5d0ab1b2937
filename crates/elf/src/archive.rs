//! Archives (`.a`): the members of a library of objects, without unpacking.

use core::fmt;

/// Why an archive could not be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveError {
    /// File offset of the member header.
    pub offset: u64,
    /// What is wrong there.
    pub problem: &'static str,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "archive member at file offset {:#x}: {}; build the archive again", self.offset, self.problem)
    }
}

impl core::error::Error for ArchiveError {}

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name, not necessarily UTF-8.
    pub name: &'a [u8],
    /// File offset of its bytes.
    pub offset: u64,
    /// Its bytes.
    pub data: &'a [u8],
}

/// The first bytes of an archive.
pub const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;

/// Walks the members of an archive; tables of symbols and of long names are not members.
#[derive(Debug, Clone)]
pub struct Archive<'a> {
    file: &'a [u8],
    at: usize,
    names: &'a [u8],
}

impl<'a> Archive<'a> {
    /// Starts at the first member; `None` when the bytes are not an archive.
    #[must_use]
    pub fn open(file: &'a [u8]) -> Option<Self> {
        file.starts_with(MAGIC).then_some(Self { file, at: MAGIC.len(), names: &[] })
    }

    fn step(&mut self) -> Option<Result<Option<Member<'a>>, ArchiveError>> {
        let offset = self.at as u64;
        let fail = |problem| Some(Err(ArchiveError { offset, problem }));
        let rest = self.file.get(self.at..).filter(|rest| !rest.is_empty())?;
        let Some(header) = rest.first_chunk::<HEADER>() else { return fail("the file ends inside its header") };
        if header.get(58..) != Some(b"`\n") {
            return fail("the header does not end with 60 0a");
        }
        let Some(size) = decimal(header.get(48..58).unwrap_or(&[])) else {
            return fail("its size is not a decimal number");
        };
        let Some(data) = rest.get(HEADER..).and_then(|rest| rest.get(..size)) else {
            return fail("its bytes reach beyond the end of the file");
        };
        self.at = self.at.saturating_add(HEADER).saturating_add(size).saturating_add(size & 1);
        let name = trim(header.get(..16).unwrap_or(&[]));
        let start = offset.saturating_add(HEADER as u64);
        match name {
            b"//" => {
                self.names = data;
                Some(Ok(None))
            }
            b"/" | b"/SYM64/" | b"__.SYMDEF" | b"__.SYMDEF SORTED" => Some(Ok(None)),
            _ => match self.resolve(name, data) {
                Some((name, skip)) => {
                    let data = data.get(skip..).unwrap_or(&[]);
                    Some(Ok(Some(Member { name, offset: start.saturating_add(skip as u64), data })))
                }
                None => fail("its long name does not lie in the table of names"),
            },
        }
    }

    /// The full name and how many bytes of the data it occupies (BSD archives).
    fn resolve(&self, name: &'a [u8], data: &'a [u8]) -> Option<(&'a [u8], usize)> {
        if let Some(length) = name.strip_prefix(b"#1/") {
            let length = decimal(length)?;
            let stored = data.get(..length)?;
            let end = stored.iter().position(|byte| *byte == 0).unwrap_or(length);
            return Some((stored.get(..end)?, length));
        }
        if let Some(index) = name.strip_prefix(b"/") {
            let tail = self.names.get(decimal(index)?..)?;
            let end = tail.iter().position(|byte| *byte == b'\n').unwrap_or(tail.len());
            let long = tail.get(..end)?;
            return Some((long.strip_suffix(b"/").unwrap_or(long), 0));
        }
        Some((name.strip_suffix(b"/").unwrap_or(name), 0))
    }
}

impl<'a> Iterator for Archive<'a> {
    type Item = Result<Member<'a>, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step()? {
                Ok(None) => {}
                Ok(Some(member)) => return Some(Ok(member)),
                Err(error) => {
                    self.at = self.file.len();
                    return Some(Err(error));
                }
            }
        }
    }
}

fn trim(field: &[u8]) -> &[u8] {
    let end = field.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    field.get(..end).unwrap_or(&[])
}

fn decimal(field: &[u8]) -> Option<usize> {
    let digits = trim(field);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_usize, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(usize::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

    fn member(file: &mut Vec<u8>, name: &str, data: &[u8]) {
        file.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).bytes());
        file.extend(data);
        if data.len() % 2 == 1 {
            file.push(b'\n');
        }
    }

    #[test]
    fn short_long_and_bsd_names_are_read_and_tables_skipped() {
        let mut file = MAGIC.to_vec();
        member(&mut file, "/", b"symbols");
        member(&mut file, "//", b"a_name_longer_than_fifteen.o/\nother_long_name.o/\n");
        member(&mut file, "parallel.o/", b"odd");
        member(&mut file, "/30", b"two");
        member(&mut file, "#1/8", b"bsd.o\0\0\0data");
        let members: Vec<_> = Archive::open(&file).unwrap().map(Result::unwrap).collect();
        let names: Vec<_> = members.iter().map(|m| core::str::from_utf8(m.name).unwrap()).collect();
        assert_eq!(names, ["parallel.o", "other_long_name.o", "bsd.o"]);
        assert_eq!(members[2].data, b"data");
        for member in members {
            let at = usize::try_from(member.offset).unwrap();
            assert_eq!(&file[at..at + member.data.len()], member.data);
        }
    }

    #[test]
    fn every_cut_of_an_archive_is_an_error_or_a_shorter_list() {
        let mut file = MAGIC.to_vec();
        member(&mut file, "a.o/", b"1234");
        member(&mut file, "b.o/", b"5678");
        for end in 0..file.len() {
            let Some(archive) = Archive::open(&file[..end]) else { continue };
            let members: Vec<_> = archive.collect();
            assert!(members.len() <= 2);
            assert!(members.iter().rev().skip(1).all(Result::is_ok), "only the last may fail");
        }
    }
}
