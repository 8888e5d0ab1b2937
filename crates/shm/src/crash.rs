//! What a dying device leaves behind: written from a signal handler, read by the host after the process is gone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Longest symbol or module name kept.
const NAME_BYTES: usize = 120;

/// A crash as the device's signal handler saw it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CrashRecord {
    /// Signal number.
    pub signal: u32,
    /// The signal's `si_code`; for `SIGSYS` the number of the system call that was refused.
    pub code: u32,
    /// Address of the faulting access, 0 when the signal has none.
    pub fault_address: u64,
    /// Program counter, as a device address.
    pub pc: u64,
    /// Handle of the module that ran, 0 when the service itself did.
    pub module_handle: u32,
    /// Code of the last message received.
    pub last_message: u32,
    /// Nearest function of the module, empty when the pc lies outside.
    pub symbol: String,
    /// Distance of the pc from that function.
    pub offset: u64,
}

/// The record as it lies in shared memory; all zero means no crash.
#[repr(C)]
pub(crate) struct CrashCell {
    present: AtomicU32,
    signal: AtomicU32,
    code: AtomicU32,
    module_handle: AtomicU32,
    last_message: AtomicU32,
    name_len: AtomicU32,
    fault_address: AtomicU64,
    pc: AtomicU64,
    offset: AtomicU64,
    name: [AtomicU32; NAME_BYTES / 4],
}

impl CrashCell {
    /// Stores a record without allocating or locking, so that a signal handler may call it.
    pub(crate) fn store(&self, numbers: &CrashRecord, symbol: &[u8]) {
        let symbol = &symbol[..symbol.len().min(NAME_BYTES)];
        self.signal.store(numbers.signal, Ordering::Relaxed);
        self.code.store(numbers.code, Ordering::Relaxed);
        self.module_handle.store(numbers.module_handle, Ordering::Relaxed);
        self.last_message.store(numbers.last_message, Ordering::Relaxed);
        self.fault_address.store(numbers.fault_address, Ordering::Relaxed);
        self.pc.store(numbers.pc, Ordering::Relaxed);
        self.offset.store(numbers.offset, Ordering::Relaxed);
        for (word, chunk) in self.name.iter().zip(symbol.chunks(4)) {
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        }
        self.name_len.store(u32::try_from(symbol.len()).unwrap_or(0), Ordering::Relaxed);
        self.present.store(1, Ordering::Release);
    }

    pub(crate) fn load(&self) -> Option<CrashRecord> {
        if self.present.load(Ordering::Acquire) == 0 {
            return None;
        }
        let len = (self.name_len.load(Ordering::Relaxed) as usize).min(NAME_BYTES);
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        Some(CrashRecord {
            signal: self.signal.load(Ordering::Relaxed),
            code: self.code.load(Ordering::Relaxed),
            fault_address: self.fault_address.load(Ordering::Relaxed),
            pc: self.pc.load(Ordering::Relaxed),
            module_handle: self.module_handle.load(Ordering::Relaxed),
            last_message: self.last_message.load(Ordering::Relaxed),
            symbol: String::from_utf8_lossy(&bytes[..len]).into_owned(),
            offset: self.offset.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn clear(&self) {
        self.present.store(0, Ordering::Release);
    }
}
