//! Writes ELF32 files whose every offset is given.

/// A section header; all numbers as in the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Section {
    pub name: String,
    pub kind: u32,
    pub flags: u32,
    pub address: u32,
    pub offset: u32,
    pub size: u32,
    pub align: u32,
    pub entsize: u32,
}

/// A program header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub kind: u32,
    pub offset: u32,
    pub address: u32,
    pub filesz: u32,
    pub memsz: u32,
    pub flags: u32,
    pub align: u32,
}

/// A file under construction.
pub(super) struct File {
    bytes: Vec<u8>,
}

pub(super) struct Header {
    pub kind: u16,
    pub entry: u32,
    pub shoff: u32,
}

fn usize_of(value: u32) -> usize {
    usize::try_from(value).expect("a twin is smaller than 4 GiB")
}

impl File {
    pub fn new(size: u32) -> Self {
        Self { bytes: vec![0; usize_of(size)] }
    }

    pub fn put(&mut self, offset: u32, bytes: &[u8]) {
        let start = usize_of(offset);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    pub fn words(&mut self, offset: u32, words: impl IntoIterator<Item = u32>) {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        self.put(offset, &bytes);
    }

    fn halves(&mut self, offset: u32, halves: &[u16]) {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        self.put(offset, &bytes);
    }

    /// Writes the headers; `names` is the offset of the table of names. Returns the file.
    pub fn finish(mut self, header: &Header, segments: &[Segment], sections: &[Section], names: u32) -> Vec<u8> {
        let count = |length: usize| u16::try_from(length).expect("few headers");
        self.put(0, &[0x7f, b'E', b'L', b'F', 1, 1, 1]);
        self.halves(16, &[header.kind, 94]);
        self.words(20, [1, header.entry, 52, header.shoff, 0x300]);
        let last = sections.len() - 1;
        self.halves(40, &[52, 32, count(segments.len()), 40, count(sections.len()), count(last)]);
        for (segment, offset) in segments.iter().zip((52_u32..).step_by(32)) {
            let Segment { kind, offset: at, address, filesz, memsz, flags, align } = *segment;
            self.words(offset, [kind, at, address, address, filesz, memsz, flags, align]);
        }
        let mut table = vec![0];
        for (section, offset) in sections.iter().zip((header.shoff..).step_by(40)) {
            let name = if section.name.is_empty() { 0 } else { u32::try_from(table.len()).expect("short names") };
            if !section.name.is_empty() {
                table.extend(section.name.bytes().chain([0]));
            }
            let Section { kind, flags, address, offset: at, size, align, entsize, .. } = *section;
            self.words(offset, [name, kind, flags, address, at, size, 0, 0, align, entsize]);
        }
        let size = u32::try_from(table.len()).expect("short names");
        self.words(header.shoff + 40 * u32::from(count(last)) + 16, [names, size]);
        self.put(names, &table);
        assert!(
            names + size <= header.shoff,
            "the names end at {:#x}, the section headers begin earlier",
            names + size
        );
        self.bytes
    }
}
