//! Data memory of one core: what was taken of the 16 KiB for kernels, and which bytes of that were written.

use super::{Access, Rule, Violation};
use crate::abi::{DATARAM_POOL, DATARAM_POOL_SIZE};
use crate::target::PoolTarget;

/// A block of the heap.
#[derive(Debug)]
struct Block {
    start: u32,
    size: u32,
    live: bool,
    written: Vec<bool>,
}

/// The heap in data memory.
#[derive(Debug)]
pub(crate) struct Tcm {
    start: u32,
    end: u32,
    /// Up to here, nothing is behind the heap.
    behind: u32,
    blocks: Vec<Block>,
}

impl Tcm {
    pub(crate) fn new(target: &PoolTarget) -> Self {
        let scratch = target.local.scratch;
        let start = scratch.address + DATARAM_POOL;
        Self { start, end: start + DATARAM_POOL_SIZE, behind: scratch.address + scratch.size, blocks: Vec::new() }
    }

    /// A new operation: the heap is empty, and what was taken before is left over.
    pub(crate) fn begin(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.live = false);
    }

    pub(crate) fn take(&mut self, start: u32, size: u32) {
        self.blocks.retain(|block| block.start + block.size <= start || start + size <= block.start);
        let written = vec![false; size.min(DATARAM_POOL_SIZE) as usize];
        self.blocks.push(Block { start, size, live: true, written });
    }

    pub(crate) fn give_back(&mut self, start: u32) {
        let mine = self.blocks.iter_mut().filter(|block| block.start == start);
        mine.for_each(|block| block.live = false);
    }

    /// What an access breaks.
    pub(crate) fn touch(&mut self, address: u32, length: u32, access: Access) -> Option<Violation> {
        let last = address.saturating_add(length);
        if last <= self.start || address >= self.behind {
            return None;
        }
        let around = |block: &&mut Block| block.start <= address && address - block.start < block.size;
        let Some(block) = self.blocks.iter_mut().find(around) else {
            return Some(self.outside(address, length));
        };
        let offset = address - block.start;
        if !block.live {
            let message = format!(
                "byte {offset} of {} bytes of data memory at {:#x}, which were given back or are left from the operation before",
                block.size, block.start
            );
            return Some(Violation { rule: Rule::Freed, message });
        }
        if offset + length > block.size {
            if access == Access::Write {
                block.written.iter_mut().skip(offset as usize).for_each(|written| *written = true);
            }
            return Some(self.outside(address, length));
        }
        let bytes = block.written.get_mut(offset as usize..(offset + length) as usize).unwrap_or_default();
        match access {
            Access::Write => bytes.fill(true),
            Access::Read => {
                let first = bytes.iter().position(|written| !written)?;
                let message = format!(
                    "byte {} of {} bytes of data memory at {:#x} is read, and was never written",
                    offset as usize + first,
                    block.size,
                    block.start
                );
                // Said once for each byte.
                bytes.fill(true);
                return Some(Violation { rule: Rule::Unwritten, message });
            }
        }
        None
    }

    fn outside(&self, address: u32, length: u32) -> Violation {
        let before = self.blocks.iter().filter(|block| block.live && block.start <= address);
        let message = match before.max_by_key(|block| block.start) {
            Some(block) => format!(
                "{length} bytes at offset {} of {} bytes of data memory at {:#x}{}",
                address - block.start,
                block.size,
                block.start,
                if address + length > self.end { ", behind the 16 KiB that there are" } else { "" }
            ),
            None => format!("{length} bytes of data memory at {address:#x}, of which nothing was taken"),
        };
        Violation { rule: Rule::TcmBounds, message }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_taken_and_written_may_be_read() {
        let mut tcm = Tcm::new(&PoolTarget::default());
        let start = tcm.start;
        let rule = |found: Option<Violation>| found.map(|violation| violation.rule);
        assert_eq!(rule(tcm.touch(start, 4, Access::Write)), Some(Rule::TcmBounds), "nothing was taken");
        tcm.take(start, 0x40);
        assert_eq!(rule(tcm.touch(start + 4, 4, Access::Read)), Some(Rule::Unwritten));
        assert_eq!(rule(tcm.touch(start + 8, 4, Access::Write)), None);
        assert_eq!(rule(tcm.touch(start + 8, 4, Access::Read)), None);
        assert_eq!(rule(tcm.touch(start + 0x3e, 4, Access::Write)), Some(Rule::TcmBounds));
        assert!(tcm.touch(start + 0x4000, 4, Access::Write).unwrap().message.contains("behind the 16 KiB"));
        assert_eq!(rule(tcm.touch(start - 4, 4, Access::Write)), None, "the heap of malloc");
        tcm.give_back(start);
        assert_eq!(rule(tcm.touch(start, 4, Access::Write)), Some(Rule::Freed));
        tcm.take(start, 0x20);
        assert_eq!(rule(tcm.touch(start, 4, Access::Write)), None);
        tcm.begin();
        assert_eq!(rule(tcm.touch(start, 4, Access::Read)), Some(Rule::Freed));
    }
}
