//! The loadable part of an executable ELF file.

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
    /// Not a 32-bit little-endian ELF file for Xtensa.
    #[error("not a little-endian 32-bit ELF file for Xtensa: {0}")]
    Kind(&'static str),
    /// An offset or size that leaves the file.
    #[error("{what} at file offset {offset:#x} leaves the file of {length:#x} bytes")]
    OutOfFile {
        /// What was to be read.
        what: &'static str,
        /// Where.
        offset: u64,
        /// The file's length.
        length: usize,
    },
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

const MACHINE_XTENSA: u16 = 94;
const TYPE_EXECUTABLE: u16 = 2;
const PT_LOAD: u32 = 1;

/// Little-endian reads that name what they were after.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&self, offset: u64, length: u64, what: &'static str) -> Result<&'a [u8], ImageError> {
        let error = ImageError::OutOfFile { what, offset, length: self.0.len() };
        let range = usize::try_from(offset).ok().zip(usize::try_from(offset + length).ok());
        range.and_then(|(start, end)| self.0.get(start..end)).ok_or(error)
    }

    fn u16(&self, offset: u64, what: &'static str) -> Result<u16, ImageError> {
        let bytes = self.bytes(offset, 2, what)?;
        Ok(u16::from(bytes[0]) | u16::from(bytes[1]) << 8)
    }

    fn u32(&self, offset: u64, what: &'static str) -> Result<u32, ImageError> {
        let bytes = self.bytes(offset, 4, what)?;
        Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }
}

impl Image {
    /// Reads the segments of a file, which may claim at most `memory_limit` bytes.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn parse(file: &[u8], memory_limit: u64) -> Result<Self, ImageError> {
        let reader = Reader(file);
        let identification = reader.bytes(0, 16, "the identification")?;
        if identification[..4] != *b"\x7fELF" {
            return Err(ImageError::Kind("the magic number is missing"));
        }
        if identification[4] != 1 || identification[5] != 1 {
            return Err(ImageError::Kind("another class or byte order"));
        }
        if reader.u16(18, "the machine")? != MACHINE_XTENSA {
            return Err(ImageError::Kind("another machine"));
        }
        if reader.u16(16, "the type")? != TYPE_EXECUTABLE {
            return Err(ImageError::Kind("not an executable (ET_EXEC); link it before running it"));
        }
        let entry = reader.u32(24, "the entry point")?;
        let table = u64::from(reader.u32(28, "the program header offset")?);
        let entry_size = reader.u16(42, "the program header size")?;
        let count = reader.u16(44, "the program header count")?;
        if count > 0 && entry_size < 32 {
            return Err(ImageError::Kind("program headers are smaller than 32 bytes"));
        }
        let mut segments = Vec::new();
        let mut needed = 0;
        for index in 0..count {
            let header = table + u64::from(entry_size) * u64::from(index);
            if reader.u32(header, "a program header")? != PT_LOAD {
                continue;
            }
            let segment = read_segment(&reader, header, index.into(), &mut needed, memory_limit)?;
            segments.extend(segment);
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

fn read_segment(
    reader: &Reader<'_>,
    header: u64,
    index: usize,
    needed: &mut u64,
    limit: u64,
) -> Result<Option<Segment>, ImageError> {
    let field = |number: u64| reader.u32(header + 4 * number, "a program header");
    let (offset, address) = (field(1)?, field(2)?);
    let (file_size, memory_size, flags) = (field(4)?, field(5)?, field(6)?);
    let wrong = |reason| ImageError::Segment { index, reason };
    if file_size > memory_size {
        return Err(wrong("larger in the file than in memory"));
    }
    if memory_size == 0 {
        return Ok(None);
    }
    if u64::from(address) + u64::from(memory_size) > 1 << 32 {
        return Err(wrong("leaves the 32-bit address space"));
    }
    *needed += u64::from(memory_size);
    if *needed > limit {
        return Err(ImageError::TooLarge { needed: *needed, limit });
    }
    let mut bytes = reader.bytes(offset.into(), file_size.into(), "a segment")?.to_vec();
    bytes.resize(memory_size as usize, 0);
    let permissions = Permissions { execute: flags & 1 != 0, write: flags & 2 != 0, read: flags & 4 != 0 };
    Ok(Some(Segment { address, bytes, permissions }))
}
