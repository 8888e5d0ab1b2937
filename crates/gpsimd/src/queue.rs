//! DMA queues of the host: what a DMA trigger of the pool engine's stream moves.

use std::collections::BTreeMap;

use crate::bus::{Bus, BusError};

/// Most bytes of one block.
const BLOCK_LIMIT: u64 = 1 << 32;

/// One side of a block: where it begins, and how its bytes lie. The innermost dimension comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) base: u64,
    /// Bytes that belong to it: an access outside is refused.
    pub(crate) room: u64,
    pub(crate) sizes: Vec<u64>,
    pub(crate) steps: Vec<u64>,
}

/// What one trigger moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) id: u64,
    pub(crate) from: Pattern,
    pub(crate) to: Pattern,
}

/// Queues by name.
pub(crate) type DmaQueues = BTreeMap<String, Vec<Block>>;

impl Pattern {
    /// Bytes in all.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size)).filter(|bytes| *bytes <= BLOCK_LIMIT)
    }

    /// Checks that every byte lies in the room.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.sizes.len() != self.steps.len() || self.sizes.is_empty() || self.sizes.contains(&0) {
            return Some("sizes and steps must be lists of the same length, without a size of 0".to_owned());
        }
        let Some(_) = self.bytes() else { return Some("more than 4 GiB in one block".to_owned()) };
        let extent = self
            .sizes
            .iter()
            .zip(&self.steps)
            .try_fold(1_u64, |end, (size, step)| end.checked_add((size - 1).checked_mul(*step)?));
        match extent {
            Some(extent) if extent <= self.room => None,
            _ => Some(format!("it reaches beyond the {:#x} bytes of its variable", self.room)),
        }
    }

    /// Pieces of consecutive bytes: offset and length.
    fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        // Dimensions that continue the bytes before them make the runs longer.
        let mut run = 1_u64;
        let mut outer = 0;
        for (size, step) in self.sizes.iter().zip(&self.steps) {
            if *step != run && *size != 1 {
                break;
            }
            run *= size;
            outer += 1;
        }
        let sizes = self.sizes.get(outer..).unwrap_or(&[]);
        let steps = self.steps.get(outer..).unwrap_or(&[]);
        let count: u64 = sizes.iter().product();
        (0..count).map(move |mut index| {
            let mut offset = 0;
            for (size, step) in sizes.iter().zip(steps) {
                offset += index % size * step;
                index /= size;
            }
            (offset, run)
        })
    }
}

impl Block {
    /// Moves the bytes.
    pub(crate) fn run(&self, bus: &Bus) -> Result<(), BusError> {
        let mut from = self.from.runs();
        let mut to = self.to.runs();
        let (mut source, mut target) = ((0, 0), (0, 0));
        loop {
            if source.1 == 0 {
                match from.next() {
                    Some(run) => source = run,
                    None => return Ok(()),
                }
            }
            if target.1 == 0 {
                match to.next() {
                    Some(run) => target = run,
                    None => return Ok(()),
                }
            }
            let now = source.1.min(target.1);
            bus.host_transfer(self.from.base + source.0, self.to.base + target.0, now)?;
            source = (source.0 + now, source.1 - now);
            target = (target.0 + now, target.1 - now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::PoolTarget;
    use std::sync::Arc;

    fn pattern(base: u64, sizes: &[u64], steps: &[u64]) -> Pattern {
        Pattern { base, room: 1 << 20, sizes: sizes.to_vec(), steps: steps.to_vec() }
    }

    #[test]
    fn a_block_gathers_and_scatters_by_its_steps() {
        let bus = Bus::new(Arc::new(PoolTarget::default()));
        let base = bus.target.soc.hbm_base;
        bus.write(base, &(0..64).collect::<Vec<u8>>()).unwrap();
        let from = pattern(base, &[4, 4], &[1, 16]);
        let to = pattern(base + 0x1000, &[8, 2], &[1, 8]);
        assert_eq!(from.runs().collect::<Vec<_>>(), [(0, 4), (16, 4), (32, 4), (48, 4)]);
        assert_eq!(to.runs().collect::<Vec<_>>(), [(0, 16)], "rows that touch are one run");
        Block { id: 0, from, to }.run(&bus).unwrap();
        let mut moved = [0; 16];
        bus.read(base + 0x1000, &mut moved).unwrap();
        assert_eq!(moved, [0, 1, 2, 3, 16, 17, 18, 19, 32, 33, 34, 35, 48, 49, 50, 51]);
        assert_eq!(bus.take_transfers().len(), 4);
    }

    #[test]
    fn a_pattern_that_leaves_its_variable_is_refused() {
        assert_eq!(pattern(0, &[16], &[1]).problem(), None);
        let small = Pattern { room: 15, ..pattern(0, &[16], &[1]) };
        assert!(small.problem().unwrap().contains("beyond"));
        assert!(pattern(0, &[1 << 40, 1 << 40], &[1, 1]).problem().unwrap().contains("4 GiB"));
        assert!(pattern(0, &[4], &[1, 2]).problem().unwrap().contains("same length"));
        assert!(pattern(0, &[2], &[u64::MAX]).problem().unwrap().contains("beyond"));
    }
}
