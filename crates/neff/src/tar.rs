//! Walks and writes archives: GNU and POSIX headers, extended (pax) names. A stream is read once, front to back.

use std::io::Read;

use crate::NeffError;

/// Size of a block.
pub(crate) const BLOCK: usize = 512;
/// Archives are padded to a multiple of this.
const RECORD: usize = 10_240;
/// Largest extended header.
const EXTENDED: u64 = 64 << 10;
/// Longest name.
const NAME: usize = 4096;

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name as stored, without a leading `./`.
    pub name: String,
    /// Bytes of its contents.
    pub size: u64,
    /// It is a directory.
    pub directory: bool,
    /// Offset of its contents in the archive.
    pub offset: u64,
}

/// Reads entries from a stream.
pub(crate) struct Reader<R> {
    source: R,
    at: u64,
    /// Bytes of the current entry and its padding that were not read.
    left: u64,
    padding: u64,
    limit: u64,
}

impl<R: Read> Reader<R> {
    /// `limit` bounds the bytes of the archive.
    pub fn new(source: R, limit: u64) -> Self {
        Self { source, at: 0, left: 0, padding: 0, limit }
    }

    /// Bytes of the archive read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, NeffError> {
        let read = self.source.read(buffer).map_err(|error| self.broken(&error))?;
        self.at = self.at.saturating_add(read as u64);
        if self.at > self.limit {
            return Err(NeffError::Limit {
                what: "the inflated size of the archive",
                value: self.at,
                limit: self.limit,
            });
        }
        Ok(read)
    }

    fn broken(&self, error: &std::io::Error) -> NeffError {
        NeffError::Inflate { at: self.at, problem: error.to_string() }
    }

    fn ended(&self) -> NeffError {
        NeffError::Inflate { at: self.at, problem: "the archive ends inside an entry".to_owned() }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, NeffError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    fn skip(&mut self, mut count: u64) -> Result<(), NeffError> {
        let mut buffer = [0; 16 << 10];
        while count > 0 {
            let wanted = usize::try_from(count).unwrap_or(buffer.len()).min(buffer.len());
            match self.read(buffer.get_mut(..wanted).unwrap_or(&mut []))? {
                0 => return Err(self.ended()),
                read => count -= read as u64,
            }
        }
        Ok(())
    }

    /// The next entry, `None` at the end. What was not read of the last one is skipped.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, NeffError> {
        let mut long_name: Option<String> = None;
        let mut long_size: Option<u64> = None;
        loop {
            let rest = self.left.saturating_add(std::mem::take(&mut self.padding));
            self.left = 0;
            self.skip(rest)?;
            let start = self.at;
            let mut block = [0; BLOCK];
            match self.fill(&mut block)? {
                0 => return Ok(None),
                BLOCK => {}
                _ => return Err(self.ended()),
            }
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            let bad = |problem: &str| NeffError::Archive { at: start, problem: problem.to_owned() };
            let header = parse(&block).map_err(bad)?;
            let size = long_size.take().filter(|_| !header.extension()).unwrap_or(header.size);
            self.left = size;
            self.padding = size.wrapping_neg() % BLOCK as u64;
            match header.kind {
                b'L' => long_name = Some(text(&self.extension(start)?)),
                b'x' => {
                    let records = self.extension(start)?;
                    let (name, size) = pax(&records).ok_or_else(|| bad("its extended header is malformed"))?;
                    long_name = name.or(long_name);
                    long_size = size;
                }
                b'g' | b'K' => {
                    self.extension(start)?;
                }
                0 | b'0' | b'7' | b'5' => {
                    let name = long_name.take().unwrap_or(header.name);
                    let directory = header.kind == b'5' || name.ends_with('/');
                    let name = name.strip_prefix("./").map(str::to_owned).unwrap_or(name);
                    return Ok(Some(Entry { name, size, directory, offset: self.at }));
                }
                b'1' | b'2' => return Err(bad("is a link; a NEFF holds files and directories only")),
                kind => return Err(bad(&format!("has type {kind:#x}; a NEFF holds files and directories only"))),
            }
        }
    }

    fn extension(&mut self, at: u64) -> Result<Vec<u8>, NeffError> {
        if self.left > EXTENDED {
            let problem = format!("its extended header has {} bytes, above the limit of {EXTENDED}", self.left);
            return Err(NeffError::Archive { at, problem });
        }
        self.contents(EXTENDED)
    }

    /// The rest of the current entry's contents, at most `limit` bytes.
    pub fn contents(&mut self, limit: u64) -> Result<Vec<u8>, NeffError> {
        if self.left > limit {
            return Err(NeffError::Limit { what: "the size of a member", value: self.left, limit });
        }
        let mut data = Vec::new();
        self.each_chunk(|chunk| {
            data.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(data)
    }

    /// Hands the rest of the current entry's contents to `sink`, piece by piece.
    pub fn each_chunk(&mut self, mut sink: impl FnMut(&[u8]) -> Result<(), NeffError>) -> Result<(), NeffError> {
        let mut buffer = [0; 16 << 10];
        while self.left > 0 {
            let wanted = usize::try_from(self.left).unwrap_or(buffer.len()).min(buffer.len());
            let read = self.read(buffer.get_mut(..wanted).unwrap_or(&mut []))?;
            if read == 0 {
                return Err(self.ended());
            }
            self.left -= read as u64;
            sink(buffer.get(..read).unwrap_or(&[]))?;
        }
        Ok(())
    }
}

struct Header {
    name: String,
    size: u64,
    kind: u8,
}

impl Header {
    fn extension(&self) -> bool {
        matches!(self.kind, b'L' | b'K' | b'x' | b'g')
    }
}

fn part(block: &[u8; BLOCK], at: usize, len: usize) -> &[u8] {
    block.get(at..at.saturating_add(len)).unwrap_or(&[])
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end.min(NAME)).unwrap_or(&[])).into_owned()
}

fn parse(block: &[u8; BLOCK]) -> Result<Header, &'static str> {
    let stored = number(part(block, 148, 8)).ok_or("its checksum is not a number")?;
    let sum: u64 =
        block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
    if sum != stored {
        return Err("its checksum is wrong");
    }
    let magic = part(block, 257, 6);
    if magic != b"ustar " && magic != b"ustar\0" && magic != [0; 6] {
        return Err("its magic is not that of an archive");
    }
    let size = number(part(block, 124, 12)).ok_or("its size is not a number")?;
    let mut name = text(part(block, 0, 100));
    let prefix = text(part(block, 345, 155));
    if magic == b"ustar\0" && !prefix.is_empty() {
        name = format!("{prefix}/{name}");
    }
    let kind = part(block, 156, 1).first().copied().unwrap_or(0);
    Ok(Header { name, size, kind })
}

/// An octal number, or a binary one when the highest bit is set.
fn number(field: &[u8]) -> Option<u64> {
    let (first, rest) = field.split_first()?;
    if *first & 0x80 != 0 {
        if *first != 0x80 {
            return None;
        }
        return rest.iter().try_fold(0_u64, |value, byte| value.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let digits = field.iter().skip_while(|byte| **byte == b' ').take_while(|byte| !matches!(**byte, 0 | b' '));
    digits.copied().try_fold(0_u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(u64::from(digit))
    })
}

/// Name and size of an extended header: lines of `length key=value`.
fn pax(mut records: &[u8]) -> Option<(Option<String>, Option<u64>)> {
    let (mut name, mut size) = (None, None);
    while !records.is_empty() {
        let space = records.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(records.get(..space)?).ok()?.parse().ok()?;
        let line = records.get(space + 1..length)?.strip_suffix(b"\n")?;
        records = records.get(length..)?;
        let equals = line.iter().position(|byte| *byte == b'=')?;
        let value = line.get(equals + 1..)?;
        match line.get(..equals)? {
            b"path" => name = Some(text(value)),
            b"size" => size = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            _ => {}
        }
    }
    Some((name, size))
}

/// Writes an archive with GNU headers and fixed times, so that equal members give equal bytes.
pub(crate) fn write(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directories = Vec::new();
    for (name, data) in members {
        let parents = name.match_indices('/').filter_map(|(at, _)| name.get(..=at));
        for directory in parents {
            if !directories.contains(&directory) {
                directories.push(directory);
                put(&mut out, directory, &[], b'5');
            }
        }
        put(&mut out, name, data, b'0');
    }
    out.resize((out.len() + 2 * BLOCK).next_multiple_of(RECORD), 0);
    out
}

fn put(out: &mut Vec<u8>, name: &str, data: &[u8], kind: u8) {
    if name.len() > 100 {
        let mut long = name.as_bytes().to_vec();
        long.push(0);
        block(out, "././@LongLink", long.len(), b'L');
        pad(out, &long);
    }
    block(out, name, data.len(), kind);
    pad(out, data);
}

fn pad(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

fn block(out: &mut Vec<u8>, name: &str, size: usize, kind: u8) {
    let mut block = [0_u8; BLOCK];
    let mut field = |at: usize, bytes: &[u8]| {
        for (to, from) in block.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    field(0, name.as_bytes().get(..name.len().min(100)).unwrap_or(&[]));
    field(100, if kind == b'5' { b"0000755\0" } else { b"0000644\0" });
    field(108, b"0000000\0");
    field(116, b"0000000\0");
    field(124, format!("{size:011o}\0").as_bytes());
    field(136, b"00000000000\0");
    field(148, b"        ");
    field(156, &[kind]);
    field(257, b"ustar  \0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    for (to, from) in block.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *to = from;
    }
    out.extend_from_slice(&block);
}
