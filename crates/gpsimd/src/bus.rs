//! What the cores and the DMA engine share: memories by their address, doorbells, semaphores, the notification queue.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{COMPLETION_RING, RING, RX_RING, TX_RING};
use crate::memory::{PAGE_BITS, Page, SharedError, SharedMemory, load_bytes, store_bytes};
use crate::target::PoolTarget;

/// Semaphores of the sequencer: an index is a byte.
const SEMAPHORES: usize = 256;
/// Bytes of a core's data memory that the DMA engine reaches.
const DMA_WINDOW: u64 = 0x1_0000;
/// Transfers that a trace keeps for each core.
const TRACE: usize = 1 << 16;

/// Why an access by address failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// Nothing is there.
    #[error("there is no memory at {address:#x}")]
    Nothing {
        /// The address.
        address: u64,
    },
    /// The memory refused.
    #[error("{error} (address {address:#x})")]
    Shared {
        /// The address.
        address: u64,
        /// Why.
        error: SharedError,
    },
    /// Two descriptors that belong together disagree.
    #[error("the DMA descriptors of slot {slot} name {read} bytes to read and {written} to write")]
    Lengths {
        /// Position in the ring.
        slot: u32,
        /// Bytes to read.
        read: u32,
        /// Bytes to write.
        written: u32,
    },
}

/// A transfer of the DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Transfer {
    /// The core whose queue it was in; `None` for queues of the host.
    pub core: Option<usize>,
    /// Where it read.
    pub from: u64,
    /// Where it wrote.
    pub to: u64,
    /// Bytes.
    pub bytes: u64,
}

/// An entry of the notification queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Notification {
    /// Which queue.
    pub queue: u32,
    /// The semaphore that was raised.
    pub semaphore: u8,
    /// Its value then.
    pub value: u32,
}

/// Where an address leads.
enum Place<'a> {
    Shared(&'a SharedMemory, u64),
    Dataram(&'a [AtomicU32], usize),
}

/// Everything but the cores.
#[derive(Debug)]
pub(crate) struct Bus {
    pub(crate) target: Arc<PoolTarget>,
    hbm: SharedMemory,
    sbuf: SharedMemory,
    datarams: Vec<Arc<[AtomicU32]>>,
    semaphores: Vec<AtomicU32>,
    notifications: Mutex<Vec<Notification>>,
    transfers: Mutex<Vec<Transfer>>,
}

impl Bus {
    pub(crate) fn new(target: Arc<PoolTarget>) -> Self {
        let words = target.dram().size as usize / 4;
        let dataram = || (0..words).map(|_| AtomicU32::new(0)).collect();
        Self {
            hbm: SharedMemory::new(target.soc.hbm_size, target.soc.resident_limit),
            sbuf: SharedMemory::new(target.soc.sbuf_size, target.soc.sbuf_size),
            datarams: (0..target.cores).map(|_| dataram()).collect(),
            semaphores: (0..SEMAPHORES).map(|_| AtomicU32::new(0)).collect(),
            notifications: Mutex::default(),
            transfers: Mutex::default(),
            target,
        }
    }

    /// The data memory of a core.
    pub(crate) fn dataram(&self, core: usize) -> Arc<[AtomicU32]> {
        self.datarams.get(core).map_or_else(|| Arc::from([]), Arc::clone)
    }

    /// Bytes of memory that are held.
    pub(crate) fn resident(&self) -> u64 {
        self.hbm.resident() + self.sbuf.resident()
    }

    fn place(&self, address: u64) -> Result<Place<'_>, BusError> {
        let soc = &self.target.soc;
        let inside = |base: u64, size: u64| address.checked_sub(base).filter(|offset| *offset < size);
        if let Some(offset) = inside(soc.hbm_base, self.hbm.size()) {
            return Ok(Place::Shared(&self.hbm, offset));
        }
        if let Some(offset) = inside(soc.sbuf_base(), self.sbuf.size()) {
            return Ok(Place::Shared(&self.sbuf, offset));
        }
        for (core, dataram) in self.datarams.iter().enumerate() {
            if let Some(offset) = inside(soc.dataram(core), DMA_WINDOW) {
                // 64 KiB at most, so that it fits.
                return Ok(Place::Dataram(dataram, offset as usize));
            }
        }
        Err(BusError::Nothing { address })
    }

    /// Reads bytes at an address.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        match self.place(address)? {
            Place::Shared(memory, offset) => {
                memory.read(offset, bytes).map_err(|error| BusError::Shared { address, error })
            }
            Place::Dataram(words, offset) => {
                self.check_dataram(address, bytes.len())?;
                load_bytes(words, offset, bytes);
                Ok(())
            }
        }
    }

    /// Writes bytes at an address.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), BusError> {
        match self.place(address)? {
            Place::Shared(memory, offset) => {
                memory.write(offset, bytes).map_err(|error| BusError::Shared { address, error })
            }
            Place::Dataram(words, offset) => {
                self.check_dataram(address, bytes.len())?;
                store_bytes(words, offset, bytes);
                Ok(())
            }
        }
    }

    fn check_dataram(&self, address: u64, length: usize) -> Result<(), BusError> {
        let end = (address & (DMA_WINDOW - 1)) + length as u64;
        if end <= DMA_WINDOW { Ok(()) } else { Err(BusError::Nothing { address: (address | (DMA_WINDOW - 1)) + 1 }) }
    }

    /// The page with this number (address / 64 KiB), if there is memory and it was written before.
    pub(crate) fn page(&self, number: u64) -> Result<Option<&Page>, BusError> {
        match self.place(number << PAGE_BITS)? {
            Place::Shared(memory, offset) => Ok(memory.page(offset >> PAGE_BITS)),
            Place::Dataram(..) => Err(BusError::Nothing { address: number << PAGE_BITS }),
        }
    }

    /// The page with this number, to be written.
    pub(crate) fn page_for_writing(&self, number: u64) -> Result<&Page, BusError> {
        let address = number << PAGE_BITS;
        match self.place(address)? {
            Place::Shared(memory, offset) => {
                memory.page_for_writing(offset >> PAGE_BITS).map_err(|error| BusError::Shared { address, error })
            }
            Place::Dataram(..) => Err(BusError::Nothing { address }),
        }
    }

    /// Carries out the transfer in a slot of a core's rings.
    pub(crate) fn transfer(&self, core: usize, slot: u32) -> Result<Transfer, BusError> {
        let scratch = self.target.local.scratch.address - self.target.dram().address;
        let dataram = self.dataram(core);
        let slot = slot % RING;
        let descriptor = |ring: u32| {
            let mut bytes = [0; 16];
            load_bytes(&dataram, (scratch + ring + 16 * slot) as usize, &mut bytes);
            let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let [.., a, b, c, d, e, f, g, h] = bytes;
            let length = match word & 0xffff {
                0 => 0x1_0000,
                length => length,
            };
            (length, u64::from_le_bytes([a, b, c, d, e, f, g, h]))
        };
        let ((read, from), (written, to)) = (descriptor(TX_RING), descriptor(RX_RING));
        if read != written {
            return Err(BusError::Lengths { slot, read, written });
        }
        self.copy(from, to, read.into())?;
        store_bytes(&dataram, (scratch + COMPLETION_RING + 16 * slot) as usize + 3, &[1]);
        let transfer = Transfer { core: Some(core), from, to, bytes: read.into() };
        self.record(transfer);
        Ok(transfer)
    }

    /// Carries out a transfer of the host's queues.
    pub(crate) fn host_transfer(&self, from: u64, to: u64, bytes: u64) -> Result<(), BusError> {
        self.copy(from, to, bytes)?;
        self.record(Transfer { core: None, from, to, bytes });
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), BusError> {
        let mut buffer = vec![0; bytes.min(DMA_WINDOW) as usize];
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(DMA_WINDOW) as usize;
            let piece = buffer.get_mut(..now).unwrap_or_default();
            self.read(from + done, piece)?;
            self.write(to + done, piece)?;
            done += now as u64;
        }
        Ok(())
    }

    fn record(&self, transfer: Transfer) {
        let mut transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        if transfers.len() < TRACE {
            transfers.push(transfer);
        }
    }

    /// Transfers since the last call, each core's in their order, cores one after the other.
    pub(crate) fn take_transfers(&self) -> Vec<Transfer> {
        let mut taken = std::mem::take(&mut *self.transfers.lock().unwrap_or_else(PoisonError::into_inner));
        taken.sort_by_key(|transfer| transfer.core);
        taken
    }

    /// Raises a semaphore and returns its new value.
    pub(crate) fn raise(&self, index: u8) -> u32 {
        let old = self.semaphores.get(usize::from(index)).map_or(0, |value| value.fetch_add(1, Ordering::Relaxed));
        old.wrapping_add(1)
    }

    /// The value of a semaphore.
    pub(crate) fn semaphore(&self, index: u8) -> u32 {
        self.semaphores.get(usize::from(index)).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// Appends to the notification queue.
    pub(crate) fn notify(&self, notification: Notification) {
        self.notifications.lock().unwrap_or_else(PoisonError::into_inner).push(notification);
    }

    /// The entries since the last call.
    pub(crate) fn take_notifications(&self) -> Vec<Notification> {
        std::mem::take(&mut *self.notifications.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
