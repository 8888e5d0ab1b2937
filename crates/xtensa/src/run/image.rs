//! The loadable part of an executable ELF file.

use outboard_elf::{Elf, ElfError, et, machine, pf};

use crate::engine::{MapError, Permissions, RegionMemory};

/// A segment to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its address.
    pub address: u32,
    /// Its bytes, with the zero-initialised part.
    pub bytes: Vec<u8>,
    /// What may be done with it.
    pub permissions: Permissions,
}

/// An executable image.
#[derive(Clone, Debug)]
pub struct Image {
    entry: u32,
    segments: Vec<Segment>,
}

/// Why a file is no executable image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Not a readable ELF file.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// Another kind of ELF file.
    #[error("not an executable for Xtensa: {0}")]
    Kind(&'static str),
    /// A segment that contradicts itself.
    #[error("segment {index}: {reason}")]
    Segment {
        /// Number of the program header.
        index: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// More memory than allowed.
    #[error("the segments need {needed:#x} bytes, the limit is {limit:#x}")]
    TooLarge {
        /// Bytes needed so far.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Nothing to load.
    #[error("the file has no loadable segment: link it before running it")]
    Empty,
}

impl Image {
    /// Reads the segments of a file, which may claim at most `memory_limit` bytes.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn parse(file: &[u8], memory_limit: u64) -> Result<Self, ImageError> {
        let elf = Elf::parse(file)?;
        let header = elf.header();
        if header.machine != machine::XTENSA {
            return Err(ImageError::Kind("it is for another machine"));
        }
        if header.kind != et::EXEC {
            return Err(ImageError::Kind("its type is not ET_EXEC; link it before running it"));
        }
        let entry = u32::try_from(header.entry).map_err(|_| ImageError::Kind("its entry point is beyond 32 bits"))?;
        let mut segments = Vec::new();
        let mut needed = 0;
        for segment in elf.load_segments() {
            let wrong = |reason| ImageError::Segment { index: segment.index, reason };
            if segment.filesz > segment.memsz {
                return Err(wrong("larger in the file than in memory"));
            }
            if segment.memsz == 0 {
                continue;
            }
            needed += segment.memsz;
            if needed > memory_limit {
                return Err(ImageError::TooLarge { needed, limit: memory_limit });
            }
            let end = segment.vaddr.checked_add(segment.memsz);
            let (true, Ok(address), Ok(size)) =
                (end.is_some_and(|end| end <= 1 << 32), u32::try_from(segment.vaddr), usize::try_from(segment.memsz))
            else {
                return Err(wrong("leaves the 32-bit address space"));
            };
            let mut bytes = elf.segment_data(&segment)?.to_vec();
            bytes.resize(size, 0);
            let permissions = Permissions {
                execute: segment.flags & pf::X != 0,
                write: segment.flags & pf::W != 0,
                read: segment.flags & pf::R != 0,
            };
            segments.push(Segment { address, bytes, permissions });
        }
        if segments.is_empty() {
            return Err(ImageError::Empty);
        }
        Ok(Self { entry, segments })
    }

    /// Address of the first instruction.
    pub fn entry(&self) -> u32 {
        self.entry
    }

    /// The segments in file order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Memory with the segments in it.
    ///
    /// # Errors
    /// Segments overlap.
    pub fn map(&self) -> Result<RegionMemory, MapError> {
        let mut memory = RegionMemory::new();
        for segment in &self.segments {
            memory.map(segment.address, segment.bytes.clone(), segment.permissions)?;
        }
        Ok(memory)
    }
}
