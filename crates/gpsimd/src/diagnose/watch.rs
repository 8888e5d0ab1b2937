//! What a core's memory looks at while it is diagnosed.

use std::sync::Arc;

use super::tcm::Tcm;
use super::{Access, Region, RegionKind, Rule, Shadow, Violation};
use crate::bus::Transfer;
use crate::target::PoolTarget;

/// The device code of an access that is held up to be looked at.
pub(crate) const NOTICED: u32 = 2;
/// Violations of a rule after which a core is not held up for it any more.
const MOST: u8 = 16;
/// Accesses of the runtime's own code to a tensor's elements after which it is left alone.
const RUNTIMES: u8 = 64;

/// What an access was held up for.
#[derive(Debug)]
pub(crate) enum Noticed {
    /// It breaks a rule.
    Violation(Violation),
    /// It is a core's first to the elements of a tensor through a window.
    Direct(Arc<Region>),
}

/// The state of one core.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) shadow: Arc<Shadow>,
    pub(crate) tcm: Tcm,
    core: usize,
    /// Base of this core's data memory, as the DMA engine sees it, and as the core does.
    dataram: (u64, u32),
    noticed: Vec<Noticed>,
    /// The next access was looked at already.
    passes: bool,
    known: Option<Arc<Region>>,
    generation: u64,
    counts: [u8; Rule::ALL.len()],
    of_runtime: u8,
}

impl Watch {
    pub(crate) fn new(shadow: &Arc<Shadow>, target: &PoolTarget, core: usize) -> Self {
        Self {
            shadow: Arc::clone(shadow),
            tcm: Tcm::new(target),
            core,
            dataram: (target.soc.dataram(core), target.dram().address),
            noticed: Vec::new(),
            passes: false,
            known: None,
            generation: 0,
            counts: [0; Rule::ALL.len()],
            of_runtime: 0,
        }
    }

    /// A new operation.
    pub(crate) fn begin(&mut self) {
        self.tcm.begin();
        self.noticed.clear();
        self.passes = false;
        self.counts = [0; Rule::ALL.len()];
        self.of_runtime = 0;
    }

    /// What the last access was held up for; it passes when it is made again.
    pub(crate) fn take(&mut self) -> Vec<Noticed> {
        self.passes = true;
        std::mem::take(&mut self.noticed)
    }

    /// Whether this access was looked at already.
    pub(crate) fn passes(&mut self) -> bool {
        std::mem::take(&mut self.passes)
    }

    /// An access that was held up as the first to a tensor's elements was the runtime's own.
    pub(crate) fn was_runtime(&mut self) {
        self.of_runtime = self.of_runtime.saturating_add(1);
    }

    fn notice(&mut self, found: Option<Violation>) {
        let Some(violation) = found else { return };
        let Some(count) = self.counts.get_mut(violation.rule.index()).filter(|count| **count < MOST) else { return };
        *count += 1;
        self.noticed.push(Noticed::Violation(violation));
    }

    /// Looks at an access through a window; says whether to hold it up.
    pub(crate) fn window(&mut self, address: u64, length: u32, access: Access) -> bool {
        self.shared(address, length.into(), access);
        if let Some(region) = &self.known
            && region.kind != RegionKind::Allocation
            && !region.has_direct(self.core)
            && self.of_runtime < RUNTIMES
        {
            self.noticed.push(Noticed::Direct(Arc::clone(region)));
        }
        !self.noticed.is_empty()
    }

    /// Looks at an access to data memory; says whether to hold it up.
    pub(crate) fn local(&mut self, address: u32, length: u32, access: Access) -> bool {
        let found = self.tcm.touch(address, length, access);
        self.notice(found);
        !self.noticed.is_empty()
    }

    /// Looks at a transfer that was carried out; says whether to hold up the store that started it.
    pub(crate) fn transfer(&mut self, transfer: &Transfer) -> bool {
        for (address, access) in [(transfer.from, Access::Read), (transfer.to, Access::Write)] {
            let (base, local) = self.dataram;
            match address.checked_sub(base).and_then(|offset| u32::try_from(offset).ok()) {
                // Lengths of transfers are 16 bits.
                Some(offset) if offset < 0x1_0000 => {
                    let found = self.tcm.touch(local.wrapping_add(offset), transfer.bytes as u32, access);
                    self.notice(found);
                }
                _ => self.shared(address, transfer.bytes, access),
            }
        }
        !self.noticed.is_empty()
    }

    fn shared(&mut self, address: u64, length: u64, access: Access) {
        let generation = self.shadow.generation();
        if generation != self.generation {
            (self.known, self.generation) = (None, generation);
        }
        let found = self.shadow.touch(self.core, address, length, access, &mut self.known);
        self.notice(found);
    }
}
