//! Notes (`PT_NOTE`), bounded by their segments.

use crate::bytes::u32_at;
use crate::{Elf, ElfError, pt};

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// Owner, without the terminating NUL.
    pub owner: &'a [u8],
    /// Type, whose meaning belongs to the owner.
    pub kind: u32,
    /// Contents.
    pub desc: &'a [u8],
    /// File offset of the note's header.
    pub offset: u64,
}

/// Iterator over the notes of a file. It ends after the first error.
#[derive(Debug, Clone)]
pub struct Notes<'a> {
    elf: Elf<'a>,
    next_segment: usize,
    rest: &'a [u8],
    offset: u64,
    align: u64,
    seen: u64,
    failed: bool,
}

impl<'a> Notes<'a> {
    pub(crate) const fn new(elf: Elf<'a>) -> Self {
        Self { elf, next_segment: 0, rest: &[], offset: 0, align: 4, seen: 0, failed: false }
    }

    fn step(&mut self) -> Result<Option<Note<'a>>, ElfError> {
        while self.rest.is_empty() {
            let Some(segment) = self.elf.segments().skip(self.next_segment).find(|s| s.kind == pt::NOTE) else {
                return Ok(None);
            };
            self.next_segment = segment.index + 1;
            self.rest = self.elf.segment_data(&segment)?;
            self.offset = segment.offset;
            self.align = if segment.align == 8 { 8 } else { 4 };
        }
        self.seen += 1;
        crate::elf::limit("the number of notes", self.seen, self.elf.limits().notes)?;
        self.decode().map(Some)
    }

    fn decode(&mut self) -> Result<Note<'a>, ElfError> {
        let offset = self.offset;
        let bad = |problem, value| ElfError::BadNote { offset, problem, value };
        let left = self.rest.len() as u64;
        let header = self.rest.get(..12).ok_or(bad("its header is cut off", left))?;
        let (namesz, descsz, kind) = (u64::from(u32_at(header, 0)), u64::from(u32_at(header, 4)), u32_at(header, 8));
        let desc_at = (12 + namesz).next_multiple_of(self.align);
        let end = desc_at + descsz;
        let owner = slice(self.rest, 12, 12 + namesz).ok_or(bad("its owner runs past the segment", namesz))?;
        let desc = slice(self.rest, desc_at, end).ok_or(bad("its contents run past the segment", descsz))?;
        let step = end.next_multiple_of(self.align).min(left);
        self.rest = slice(self.rest, step, left).unwrap_or(&[]);
        self.offset = self.offset.saturating_add(step);
        Ok(Note { owner: owner.strip_suffix(b"\0").unwrap_or(owner), kind, desc, offset })
    }
}

fn slice(data: &[u8], start: u64, end: u64) -> Option<&[u8]> {
    data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

impl<'a> Iterator for Notes<'a> {
    type Item = Result<Note<'a>, ElfError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.step().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}
