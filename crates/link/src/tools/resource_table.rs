//! The resource table of a remoteproc firmware: what Linux is told to set up before the processor starts.

use alloc::string::String;
use alloc::vec::Vec;

use outboard_elf::Elf;

/// Section that holds the table.
pub const SECTION: &str = ".resource_table";
/// Most entries that are read.
const MOST: u32 = 256;
/// Bytes of one RPMessage buffer.
pub const BUFFER: u64 = 512;
/// Address that asks Linux to choose one.
pub const ANY: u32 = u32::MAX;
/// Device id of an RPMessage device.
pub const RPMSG: u32 = 7;

/// A decoded resource table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ResourceTable {
    /// Version, 1.
    pub version: u32,
    /// Memory that the firmware needs.
    pub carveouts: Vec<Carveout>,
    /// Log buffers.
    pub traces: Vec<Trace>,
    /// Virtual devices.
    pub devices: Vec<VirtualDevice>,
    /// Types of entries that are not decoded.
    pub other: Vec<u32>,
}

/// Memory that the firmware needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Carveout {
    /// Name.
    pub name: String,
    /// Address as the device sees it.
    pub device_address: u32,
    /// Physical address; 0xffffffff lets Linux choose.
    pub physical_address: u32,
    /// Size in bytes.
    pub size: u32,
}

/// A log buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Trace {
    /// Name.
    pub name: String,
    /// Address as the device sees it.
    pub device_address: u32,
    /// Size in bytes.
    pub size: u32,
}

/// A virtual device with its rings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VirtualDevice {
    /// Kind of device; 7 is RPMessage.
    pub id: u32,
    /// Features that the device offers.
    pub features: u32,
    /// The rings.
    pub rings: Vec<Ring>,
}

/// One ring of a virtual device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Ring {
    /// Address as the device sees it; 0xffffffff lets Linux choose.
    pub device_address: u32,
    /// Alignment.
    pub align: u32,
    /// Number of buffers.
    pub count: u32,
}

impl Ring {
    /// Bytes of the ring itself: descriptors and the ring of available buffers, aligned, then the ring of used buffers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let (count, align) = (u64::from(self.count), u64::from(self.align).max(1));
        (16 * count + 2 * (3 + count)).next_multiple_of(align) + 6 + 8 * count
    }
}

impl VirtualDevice {
    /// Bytes of all rings, each starting at its alignment.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.rings.iter().map(|ring| ring.bytes().next_multiple_of(u64::from(ring.align).max(1))).sum()
    }

    /// Bytes of the message buffers of all rings.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.rings.iter().map(|ring| u64::from(ring.count) * BUFFER).sum()
    }
}

/// A table that cannot be decoded: where and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("resource table at offset {offset:#x}: {problem} (value {value:#x})")]
pub struct ResourceTableError {
    /// Offset inside the section.
    pub offset: u64,
    /// What is wrong.
    pub problem: &'static str,
    /// The value found.
    pub value: u64,
}

/// The resource table of a firmware, `None` when it has none.
///
/// # Errors
///
/// [`ResourceTableError`] when it cannot be decoded.
pub fn read(elf: &Elf<'_>) -> Result<Option<ResourceTable>, ResourceTableError> {
    let fail = |problem, value| ResourceTableError { offset: 0, problem, value };
    let sections = elf.sections().map_err(|_| fail("the section headers cannot be read", 0))?;
    let Some(section) = sections.by_name(SECTION.as_bytes()) else { return Ok(None) };
    let data =
        sections.data(&section).map_err(|_| fail("its section lies beyond the end of the file", section.offset))?;
    decode(data).map(Some)
}

/// Decodes a resource table.
///
/// # Errors
///
/// [`ResourceTableError`] when an entry lies outside of the table.
pub fn decode(data: &[u8]) -> Result<ResourceTable, ResourceTableError> {
    let input = Input { data };
    let count = input.word(4, "the header is cut off")?;
    if count > MOST {
        return Err(ResourceTableError { offset: 4, problem: "it has more than 256 entries", value: u64::from(count) });
    }
    let mut table = ResourceTable { version: input.word(0, "the header is cut off")?, ..ResourceTable::default() };
    for index in 0..u64::from(count) {
        let at = u64::from(input.word(16 + 4 * index, "the list of offsets is cut off")?);
        let kind = input.word(at, "an entry lies outside of the table")?;
        decode_entry(&input, kind, at + 4, &mut table)?;
    }
    Ok(table)
}

fn decode_entry(input: &Input<'_>, kind: u32, at: u64, table: &mut ResourceTable) -> Result<(), ResourceTableError> {
    let word = |index: u64| input.word(at + 4 * index, "an entry is cut off");
    match kind {
        0 => table.carveouts.push(Carveout {
            device_address: word(0)?,
            physical_address: word(1)?,
            size: word(2)?,
            name: input.name(at + 20)?,
        }),
        2 => table.traces.push(Trace { device_address: word(0)?, size: word(1)?, name: input.name(at + 12)? }),
        3 => {
            let [_status, rings, ..] = word(5)?.to_le_bytes();
            let mut device = VirtualDevice { id: word(0)?, features: word(2)?, rings: Vec::new() };
            for ring in 0..u64::from(rings) {
                let field = |index: u64| input.word(at + 24 + 20 * ring + 4 * index, "a ring is cut off");
                device.rings.push(Ring { device_address: field(0)?, align: field(1)?, count: field(2)? });
            }
            table.devices.push(device);
        }
        other => table.other.push(other),
    }
    Ok(())
}

struct Input<'a> {
    data: &'a [u8],
}

impl Input<'_> {
    fn word(&self, offset: u64, problem: &'static str) -> Result<u32, ResourceTableError> {
        let bytes = usize::try_from(offset).ok().and_then(|at| self.data.get(at..)).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or(ResourceTableError { offset, problem, value: offset })
    }

    /// A name of 32 bytes, padded with NUL.
    fn name(&self, offset: u64) -> Result<String, ResourceTableError> {
        let bytes = usize::try_from(offset).ok().and_then(|at| self.data.get(at..)).and_then(<[u8]>::first_chunk::<32>);
        let bytes = bytes.ok_or(ResourceTableError { offset, problem: "a name is cut off", value: offset })?;
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(32);
        Ok(String::from_utf8_lossy(bytes.get(..len).unwrap_or(bytes)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn name(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(32, 0);
        bytes
    }

    /// A table of these entries.
    fn table(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut header = vec![1, u32::try_from(entries.len()).unwrap(), 0, 0];
        let mut at = 16 + 4 * entries.len();
        for entry in entries {
            header.push(u32::try_from(at).unwrap());
            at += entry.len();
        }
        [words(&header), entries.concat()].concat()
    }

    fn sample() -> Vec<u8> {
        let rings = u32::from_le_bytes([0, 2, 0, 0]);
        let device = words(&[3, RPMSG, 0, 1, 0, 0, rings, ANY, 4096, 256, 1, 0, 0xaf80_0000, 4096, 128, 2, 0]);
        let trace = [words(&[2, 0xad10_0400, 0x4_0000, 0]), name("trace:c7x")].concat();
        let carveout = [words(&[0, 0xad20_0000, ANY, 0x10_0000, 0, 0]), name("code")].concat();
        table(&[device, trace, carveout, words(&[1, 0, 0])])
    }

    #[test]
    fn every_kind_of_entry_is_decoded() {
        let table = decode(&sample()).unwrap();
        assert_eq!(table.version, 1);
        assert_eq!(table.devices[0].id, RPMSG);
        let rings = &table.devices[0].rings;
        assert_eq!(rings[0], Ring { device_address: ANY, align: 4096, count: 256 });
        assert_eq!(rings[1], Ring { device_address: 0xaf80_0000, align: 4096, count: 128 });
        assert_eq!((table.traces[0].name.as_str(), table.traces[0].size), ("trace:c7x", 0x4_0000));
        assert_eq!((table.carveouts[0].name.as_str(), table.carveouts[0].size), ("code", 0x10_0000));
        assert_eq!(table.other, [1]);
    }

    #[test]
    fn rings_and_buffers_are_measured_as_linux_does() {
        let device = &decode(&sample()).unwrap().devices[0];
        // 256 descriptors of 16 bytes and 2 * (3 + 256) bytes round to 8192; then 6 + 8 * 256.
        assert_eq!(device.rings[0].bytes(), 8192 + 2054);
        assert_eq!(device.ring_bytes(), 12_288 + 8_192);
        assert_eq!(device.buffer_bytes(), (256 + 128) * 512);
    }

    #[test]
    fn a_table_cut_anywhere_is_refused_with_the_offset() {
        let whole = sample();
        for len in 0..whole.len() - 8 {
            let error = decode(&whole[..len]).unwrap_err();
            assert!(error.offset <= whole.len() as u64, "{error}");
        }
        let mut many = whole.clone();
        many[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(&many).unwrap_err().to_string().contains("256 entries"));
        let mut wild = whole;
        wild[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(&wild).is_err());
    }
}
