//! Which bytes of a section are code.

use std::collections::BTreeSet;

use crate::decode::{Decoded, Decoder};

use super::file::{CodeSection, File};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Not looked at yet.
    Unknown,
    /// First byte of an instruction of this length.
    Start(u8),
    /// A later byte of an instruction.
    Inside,
    /// A byte of a literal.
    Literal,
}

/// The reading of a section's bytes.
#[derive(Debug)]
pub(super) struct Map {
    marks: Vec<Mark>,
}

impl Map {
    pub fn of(section: &CodeSection<'_>, file: &File<'_>, decoder: &Decoder) -> Self {
        let mut map = Self { marks: vec![Mark::Unknown; section.bytes.len()] };
        let roots = file.roots(section);
        let mut work: BTreeSet<usize> = roots.iter().filter_map(|&root| section.offset(root)).collect();
        while let Some(offset) = work.pop_first() {
            map.follow(offset, section, file, decoder, &mut work);
        }
        map.sweep(section, file, decoder);
        map
    }

    /// Marks straight code from `offset` on and collects the targets it names.
    fn follow(
        &mut self,
        mut offset: usize,
        section: &CodeSection<'_>,
        file: &File<'_>,
        decoder: &Decoder,
        work: &mut BTreeSet<usize>,
    ) {
        while self.marks.get(offset) == Some(&Mark::Unknown) {
            let Ok(decoded) = decoder.decode(&section.bytes[offset..]) else { return };
            let length = usize::from(decoded.length());
            if !self.mark_code(offset, length) {
                return;
            }
            if let Decoded::Instruction(instruction) = decoded {
                let pc = section.address.wrapping_add(offset as u32);
                let relocated = file.relocated_literals(section, offset as u32);
                if instruction.literal(pc).is_some() {
                    let literal = relocated.or(instruction.literal(pc));
                    self.mark_literal(literal.and_then(|at| section.offset(at)));
                }
                work.extend(instruction.target(pc).and_then(|target| section.offset(target)));
                if !instruction.row().flow().falls_through() {
                    return;
                }
            }
            offset += length;
        }
    }

    /// Reads what no root led to: as code where it decodes, in order.
    fn sweep(&mut self, section: &CodeSection<'_>, file: &File<'_>, decoder: &Decoder) {
        let mut offset = 0;
        while offset < self.marks.len() {
            if self.marks[offset] != Mark::Unknown {
                offset += 1;
                continue;
            }
            if file.is_relocated_word(section, offset as u32) {
                self.mark_literal(Some(offset));
                continue;
            }
            let room = self.marks[offset..].iter().take_while(|mark| **mark == Mark::Unknown).count();
            match decoder.decode(&section.bytes[offset..offset + room]) {
                // A zero byte first is ILL or padding; a run of zeros is padding.
                Ok(decoded) if section.bytes[offset] != 0 && self.mark_code(offset, decoded.length().into()) => {
                    offset += usize::from(decoded.length());
                }
                _ => offset += 1,
            }
        }
    }

    fn mark_code(&mut self, offset: usize, length: usize) -> bool {
        let Some(marks) = self.marks.get_mut(offset..offset + length) else { return false };
        if marks.iter().any(|mark| *mark != Mark::Unknown) {
            return false;
        }
        marks.fill(Mark::Inside);
        marks[0] = Mark::Start(length as u8);
        true
    }

    fn mark_literal(&mut self, offset: Option<usize>) {
        let marks = offset.and_then(|offset| self.marks.get_mut(offset..offset + 4));
        if let Some(marks) = marks
            && marks.iter().all(|mark| *mark == Mark::Unknown)
        {
            marks.fill(Mark::Literal);
        }
    }

    /// Offset, kind and length of every item in order. Data comes in aligned words where it can.
    pub fn items(&self) -> impl Iterator<Item = (usize, Kind, usize)> {
        let mut offset = 0;
        core::iter::from_fn(move || {
            let mark = self.marks.get(offset)?;
            let here = offset;
            let (kind, length) = match mark {
                Mark::Start(length) => (Kind::Code, usize::from(*length)),
                _ => (Kind::Data, self.data_length(offset)),
            };
            offset += length;
            Some((here, kind, length))
        })
    }

    fn data_length(&self, offset: usize) -> usize {
        let limit = 4 - offset % 4;
        let run = self.marks[offset..].iter().take(limit);
        run.take_while(|mark| !matches!(mark, Mark::Start(_))).count().max(1)
    }
}
