//! The print queues in HBM: made by the host, filled by cores, read after each dispatch.

use crate::bus::Bus;
use crate::error::Error;
use crate::report::Printed;

/// Bytes of a slot.
const SLOT: u64 = 256;
/// Bytes of its header, the length of the text in the last word.
const HEADER: usize = 16;
/// Bytes of its text.
const TEXT: usize = 240;
/// First half-word of a queue's block.
const MAGIC: u16 = 0x201;
/// Offsets in the block.
const WRITE_INDEX: u64 = 0x400;
const READ_INDEX: u64 = 0x420;
/// Distance between blocks, and from the blocks of a core to its slots.
const BLOCK: u64 = 0x800;
const SLOTS: u64 = 0x1000;
/// Largest queue.
pub const MAX_QUEUE_BYTES: u32 = 131_072;

/// How printing is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintOptions {
    /// Bytes of each queue, a power of two from 256 to [`MAX_QUEUE_BYTES`]; 0: nothing is printed.
    pub queue_bytes: u32,
    /// Give every core its queues. A device gives them to core 0 only.
    pub all_cores: bool,
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self { queue_bytes: 65_536, all_cores: false }
    }
}

impl PrintOptions {
    /// Says what is wrong with the size.
    pub(crate) fn problem(&self) -> Option<String> {
        let bytes = self.queue_bytes;
        let fits = bytes == 0 || (bytes.is_power_of_two() && (256..=MAX_QUEUE_BYTES).contains(&bytes));
        (!fits).then(|| {
            format!("a print queue of {bytes} bytes; expected 0 or a power of two from 256 to {MAX_QUEUE_BYTES}")
        })
    }
}

/// The queues of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queues {
    base: u64,
    options: PrintOptions,
}

impl Queues {
    /// Writes the blocks of the queues.
    pub(crate) fn create(bus: &Bus, options: PrintOptions) -> Result<Self, Error> {
        let queues = Self { base: bus.target.soc.hbm_base + bus.target.hbm.queues, options };
        for core in 0..bus.target.cores {
            for (index, block) in queues.blocks(core).into_iter().enumerate().filter(|(_, block)| *block != 0) {
                let mut bytes = [0; 24];
                let capacity = u64::from(options.queue_bytes) / SLOT;
                let data = queues.slots(core, index);
                bytes.iter_mut().zip(MAGIC.to_le_bytes()).for_each(|(place, byte)| *place = byte);
                let rest = (capacity as u32).to_le_bytes().into_iter().chain(data.to_le_bytes());
                bytes.iter_mut().skip(0xc).zip(rest).for_each(|(place, byte)| *place = byte);
                bus.write(block, &bytes)?;
            }
        }
        Ok(queues)
    }

    fn stride() -> u64 {
        SLOTS + 2 * u64::from(MAX_QUEUE_BYTES)
    }

    /// The blocks of a core's queues for standard output and standard error; 0 for none.
    pub(crate) fn blocks(&self, core: usize) -> [u64; 2] {
        if self.options.queue_bytes == 0 || (core > 0 && !self.options.all_cores) {
            return [0; 2];
        }
        let block = self.base + Self::stride() * core as u64;
        [block, block + BLOCK]
    }

    fn slots(&self, core: usize, index: usize) -> u64 {
        self.base + Self::stride() * core as u64 + SLOTS + u64::from(MAX_QUEUE_BYTES) * index as u64
    }

    /// Reads what cores printed since the last time.
    pub(crate) fn consume(&self, bus: &Bus, printed: &mut Vec<Printed>) -> Result<(), Error> {
        let capacity = self.options.queue_bytes / SLOT as u32;
        for core in 0..bus.target.cores {
            for (index, block) in self.blocks(core).into_iter().enumerate().filter(|(_, block)| *block != 0) {
                let write = word(bus, block + WRITE_INDEX)?;
                let read = word(bus, block + READ_INDEX)?;
                let there = write.wrapping_sub(read);
                if there == 0 {
                    continue;
                }
                let lost_slots = there.saturating_sub(capacity);
                let mut text = Vec::new();
                for slot in (read.wrapping_add(lost_slots)..).take((there - lost_slots) as usize) {
                    let mut bytes = [0; SLOT as usize];
                    let at = self.slots(core, index) + u64::from(slot % capacity.max(1)) * SLOT;
                    bus.read(at, &mut bytes)?;
                    let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
                    text.extend_from_slice(bytes.get(HEADER..HEADER + length.min(TEXT)).unwrap_or(&[]));
                }
                bus.write(block + READ_INDEX, &write.to_le_bytes())?;
                let stream = if index == 0 { "stdout" } else { "stderr" };
                let text = String::from_utf8_lossy(&text).into_owned();
                printed.push(Printed { core, stream, text, lost_slots });
            }
        }
        Ok(())
    }
}

fn word(bus: &Bus, address: u64) -> Result<u32, Error> {
    let mut bytes = [0; 4];
    bus.read(address, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
