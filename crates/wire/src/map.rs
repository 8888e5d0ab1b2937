//! The shared memory map as both sides see it, and the overflow-safe range checks on it.

use crate::{KV_STRIDE, KV_TENSORS};

/// A piece of device address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First device address.
    pub base: u64,
    /// Length in bytes.
    pub size: u64,
}

impl Region {
    /// One past the last address.
    pub const fn end(&self) -> u64 {
        self.base + self.size
    }

    /// Whether `[address, address + size)` lies inside; see [`in_range`].
    pub const fn contains(&self, address: u64, size: u64) -> bool {
        in_range(address, size, self.base, self.size)
    }
}

/// Addresses of the C7x service, as device virtual addresses (`docs/reference/c7x-memory.md`).
#[derive(Debug)]
pub struct SharedMap;

impl SharedMap {
    /// The carveout shared with the host: 512 MiB.
    pub const CARVEOUT: Region = Region { base: 0xC000_0000, size: 0x2000_0000 };
    /// Staging of ELF and weights files, always at offset 0 of the carveout: 468 MiB.
    pub const STAGING: Region = Region { base: 0xC000_0000, size: 0x1D40_0000 };
    /// The KV region behind staging, in the same allocation: 12 MiB.
    pub const KV: Region = Region { base: 0xDD40_0000, size: 0x00C0_0000 };
    /// What the host allocates freely: printf, input and output buffers.
    pub const DYNAMIC: Region = Region { base: 0xDE00_0000, size: 0x0200_0000 };
    /// Where the device prints before a client has named its buffer.
    pub const PRINTF_BOOT: Region = Region { base: 0xDFFF_0000, size: 0x1_0000 };
    /// The TVM DDR heap (MAIN pool): 352 MiB.
    pub const MAIN: Region = Region { base: 0x1_0200_0000, size: 0x1600_0000 };
    /// The heap for DMA, not cached: 32 MiB.
    pub const NON_CACHED: Region = Region { base: 0x1_0000_0000, size: 0x0200_0000 };
    /// L2 main memory, 1.25 MiB.
    pub const L2: Region = Region { base: 0x7E00_0000, size: 0x14_0000 };
    /// L2 auxiliary memory, 240 KiB; the FAST pool lives in its first 128 KiB.
    pub const L2_AUX: Region = Region { base: 0x7F00_0000, size: 0x3_C000 };
    /// The FAST pool: 128 KiB.
    pub const FAST: Region = Region { base: 0x7F00_0000, size: 0x2_0000 };
    /// L1 as SRAM, 16 KiB.
    pub const L1: Region = Region { base: 0x7F03_C000, size: 0x4000 };
}

/// An address window that a message declares: base and capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapWindow {
    /// First device address.
    pub base: u64,
    /// Declared capacity in bytes.
    pub size: u64,
}

impl MapWindow {
    /// Whether the window lies wholly inside the shared carveout.
    pub const fn in_carveout(&self) -> bool {
        SharedMap::CARVEOUT.contains(self.base, self.size)
    }

    /// Whether `[address, address + size)` lies inside the window.
    pub const fn contains(&self, address: u64, size: u64) -> bool {
        in_range(address, size, self.base, self.size)
    }

    /// Whether an input tensor may live at this address: inside the window or inside the KV region.
    pub const fn accepts_input(&self, address: u64, size: u64) -> bool {
        self.contains(address, size) || SharedMap::KV.contains(address, size)
    }
}

/// Whether `[address, address + size)` lies inside `[base, base + bound)`; never overflows. An empty range at the end passes.
///
/// ```
/// use outboard_wire::in_range;
/// assert!(in_range(0x1000, 0x10, 0x1000, 0x10));
/// assert!(in_range(0x1010, 0, 0x1000, 0x10));
/// assert!(!in_range(0x1001, 0x10, 0x1000, 0x10));
/// assert!(!in_range(u64::MAX, 2, 0x1000, 0x10));
/// ```
pub const fn in_range(address: u64, size: u64, base: u64, bound: u64) -> bool {
    size <= bound && address >= base && address - base <= bound - size
}

/// `value` rounded up to a multiple of 64, or `None` when that exceeds 64 bits.
pub const fn round64(value: u64) -> Option<u64> {
    match value.checked_add(63) {
        Some(sum) => Some(sum & !63),
        None => None,
    }
}

/// How tensors lie in the KV region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvLayout {
    /// As the protocol fixes it: at most 60 tensors at a distance of 196,608 bytes.
    #[default]
    Fixed,
    /// As many tensors as fit, at a distance of the largest one rounded up to 64 bytes.
    Packed,
}

impl KvLayout {
    /// Distance of two tensors when the tensors have these sizes.
    pub fn stride(self, sizes: impl Iterator<Item = u64>) -> u64 {
        match self {
            Self::Fixed => KV_STRIDE,
            Self::Packed => sizes.max().and_then(round64).unwrap_or(u64::MAX).max(64),
        }
    }

    /// Address of the `index`-th tensor, of `size` bytes; `None` when it does not fit.
    ///
    /// ```
    /// use outboard_wire::{KV_STRIDE, KvLayout, SharedMap};
    /// let fixed = KvLayout::Fixed.stride([100].into_iter());
    /// assert_eq!(KvLayout::Fixed.address(1, 100, fixed), Some(SharedMap::KV.base + KV_STRIDE));
    /// assert_eq!(KvLayout::Fixed.address(60, 100, fixed), None);
    /// let packed = KvLayout::Packed.stride([393_216].into_iter());
    /// assert_eq!(KvLayout::Packed.address(31, 393_216, packed), Some(SharedMap::KV.base + 31 * 393_216));
    /// assert_eq!(KvLayout::Packed.address(32, 393_216, packed), None);
    /// ```
    pub fn address(self, index: usize, size: u64, stride: u64) -> Option<u64> {
        let offset = u64::try_from(index).ok()?.checked_mul(stride)?;
        let fits = match self {
            Self::Fixed => index < KV_TENSORS && size <= KV_STRIDE,
            Self::Packed => in_range(offset, size, 0, SharedMap::KV.size),
        };
        fits.then_some(SharedMap::KV.base + offset)
    }
}

impl core::fmt::Display for KvLayout {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Fixed => write!(f, "{KV_TENSORS} tensors of at most {KV_STRIDE} bytes"),
            Self::Packed => write!(f, "{} bytes in all", SharedMap::KV.size),
        }
    }
}
