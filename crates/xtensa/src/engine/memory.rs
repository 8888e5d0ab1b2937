//! The memory a core sees: a trait, and an implementation made of regions.

use core::fmt;

/// What an access wanted to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read data.
    Load,
    /// Write data.
    Store,
    /// Read instructions.
    Fetch,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Fetch => "instruction fetch",
        })
    }
}

/// Why a memory access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// No region there.
    #[error("{access} at {address:#010x}: nothing is mapped there")]
    Unmapped {
        /// What was wanted.
        access: Access,
        /// Where.
        address: u32,
    },
    /// The region does not permit it.
    #[error("{access} at {address:#010x}: the region does not permit it")]
    Prohibited {
        /// What was wanted.
        access: Access,
        /// Where.
        address: u32,
    },
    /// A device refused it.
    #[error("{access} at {address:#010x}: the device refused it (code {code})")]
    Device {
        /// What was wanted.
        access: Access,
        /// Where.
        address: u32,
        /// The device's reason.
        code: u32,
    },
}

impl MemoryError {
    /// The address of the access.
    pub fn address(&self) -> u32 {
        match *self {
            Self::Unmapped { address, .. } | Self::Prohibited { address, .. } | Self::Device { address, .. } => address,
        }
    }

    /// What the access wanted.
    pub fn access(&self) -> Access {
        match *self {
            Self::Unmapped { access, .. } | Self::Prohibited { access, .. } | Self::Device { access, .. } => access,
        }
    }
}

/// Memory as a core sees it, little-endian. Addresses of 16- and 32-bit accesses are aligned
/// unless the core's alignment policy is [`super::Alignment::Allow`].
pub trait Memory {
    /// Reads a byte.
    ///
    /// # Errors
    /// The address is not readable.
    fn load8(&mut self, address: u32) -> Result<u8, MemoryError>;
    /// Reads 16 bits.
    ///
    /// # Errors
    /// The address is not readable.
    fn load16(&mut self, address: u32) -> Result<u16, MemoryError>;
    /// Reads 32 bits.
    ///
    /// # Errors
    /// The address is not readable.
    fn load32(&mut self, address: u32) -> Result<u32, MemoryError>;
    /// Writes a byte.
    ///
    /// # Errors
    /// The address is not writable.
    fn store8(&mut self, address: u32, value: u8) -> Result<(), MemoryError>;
    /// Writes 16 bits.
    ///
    /// # Errors
    /// The address is not writable.
    fn store16(&mut self, address: u32, value: u16) -> Result<(), MemoryError>;
    /// Writes 32 bits.
    ///
    /// # Errors
    /// The address is not writable.
    fn store32(&mut self, address: u32, value: u32) -> Result<(), MemoryError>;

    /// Reads the 32-bit literal of an L32R: a load, from a place of its own in most programs.
    ///
    /// # Errors
    /// The address is not readable.
    fn load_literal(&mut self, address: u32) -> Result<u32, MemoryError> {
        self.load32(address)
    }

    /// The word at an aligned address, if reading it has no side effect whatever; `None` leaves it
    /// to [`Memory::load32`]. Recognised loops go through this.
    fn peek32(&self, address: u32) -> Option<u32> {
        let _ = address;
        None
    }

    /// MEMW and EXTW: stores before it become visible to everybody who shares this memory. Memory that holds stores back
    /// must override this.
    fn barrier(&mut self) {}

    /// Copies executable bytes from `address` on into `buffer`, as many as there are, and
    /// returns their number.
    ///
    /// # Errors
    /// Not even the first byte is executable.
    fn fetch(&mut self, address: u32, buffer: &mut [u8]) -> Result<usize, MemoryError>;

    /// Atomically replaces the word at `address` by `new` if it equals `expected`, and returns
    /// what was there. Memory that several cores share must override this.
    ///
    /// # Errors
    /// The address is not readable or not writable.
    fn compare_exchange32(&mut self, address: u32, expected: u32, new: u32) -> Result<u32, MemoryError> {
        let old = self.load32(address)?;
        self.store32(address, if old == expected { new } else { old })?;
        Ok(old)
    }
}

/// Something other than bytes behind a region: called for each access with the offset from the
/// region's base and the size in bytes (1, 2 or 4).
pub trait Device: fmt::Debug + Send {
    /// Reads.
    ///
    /// # Errors
    /// A code of the device's own; it becomes [`MemoryError::Device`].
    fn load(&mut self, offset: u32, size: u32) -> Result<u32, u32>;
    /// Writes.
    ///
    /// # Errors
    /// A code of the device's own; it becomes [`MemoryError::Device`].
    fn store(&mut self, offset: u32, size: u32, value: u32) -> Result<(), u32>;
}

/// What may be done with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Loads are allowed.
    pub read: bool,
    /// Stores are allowed.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
}

impl Permissions {
    /// Loads only.
    pub const READ: Self = Self { read: true, write: false, execute: false };
    /// Loads and stores.
    pub const READ_WRITE: Self = Self { read: true, write: true, execute: false };
    /// Loads and instructions.
    pub const READ_EXECUTE: Self = Self { read: true, write: false, execute: true };
    /// Everything.
    pub const ALL: Self = Self { read: true, write: true, execute: true };
}

#[derive(Debug)]
enum Backing {
    Bytes(Vec<u8>),
    Device(Box<dyn Device>),
}

#[derive(Debug)]
struct Region {
    base: u32,
    size: u32,
    permissions: Permissions,
    /// Where its bytes begin in the arena; unused for a device.
    start: usize,
    device: Option<Box<dyn Device>>,
}

impl Region {
    fn contains(&self, address: u32) -> bool {
        address.wrapping_sub(self.base) < self.size
    }
}

/// A region that was used lately: byte-backed, and permitted for what it is remembered for.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    base: u32,
    /// Offsets below this have at least four bytes behind them.
    span: u32,
    start: usize,
}

impl Hint {
    /// Where up to four bytes at `address` lie in the arena, if they surely lie in this region.
    #[inline(always)]
    fn place(&self, address: u32) -> Option<usize> {
        let offset = address.wrapping_sub(self.base);
        (offset < self.span).then(|| self.start.wrapping_add(offset as usize))
    }
}

/// A region that cannot be mapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Empty, or beyond the 32-bit address space.
    #[error("a region of {size:#x} bytes at {base:#010x} is empty or leaves the 32-bit address space")]
    Size {
        /// Its base.
        base: u32,
        /// Its size in bytes.
        size: usize,
    },
    /// Overlaps another region.
    #[error("a region of {size:#x} bytes at {base:#010x} overlaps the one at {other:#010x}")]
    Overlap {
        /// Its base.
        base: u32,
        /// Its size in bytes.
        size: usize,
        /// Base of the region that is there already.
        other: u32,
    },
}

/// Memory made of regions that do not overlap.
///
/// ```
/// use outboard_xtensa::engine::{Memory, Permissions, RegionMemory};
/// let mut memory = RegionMemory::new();
/// memory.map(0x1000, vec![0; 16], Permissions::READ_WRITE)?;
/// memory.store32(0x1004, 7)?;
/// assert_eq!(memory.load8(0x1004)?, 7);
/// assert!(memory.load8(0x1010).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct RegionMemory {
    /// By base.
    regions: Vec<Region>,
    /// The bytes of all regions.
    arena: Vec<u8>,
    /// The regions of the last loads and stores, and of the last literal.
    loads: [Hint; 2],
    stores: [Hint; 2],
    literals: Hint,
}

macro_rules! accessors {
    ($load:ident, $store:ident, $type:ty, $size:literal) => {
        #[inline(always)]
        fn $load(&mut self, address: u32) -> Result<$type, MemoryError> {
            for hint in self.loads {
                if let Some(bytes) = self.arena_at(hint.place(address)) {
                    return Ok(<$type>::from_le_bytes(*bytes));
                }
            }
            self.slow_load(address, $size).map(|value| value as $type)
        }

        #[inline(always)]
        fn $store(&mut self, address: u32, value: $type) -> Result<(), MemoryError> {
            for hint in self.stores {
                let place = hint.place(address);
                if let Some(bytes) =
                    place.and_then(|place| self.arena.get_mut(place..)).and_then(<[u8]>::first_chunk_mut)
                {
                    *bytes = value.to_le_bytes();
                    return Ok(());
                }
            }
            self.slow_store(address, $size, value.into())
        }
    };
}

impl RegionMemory {
    /// Without any region.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps bytes at `base`.
    ///
    /// # Errors
    /// The region is empty, leaves the address space or overlaps another.
    pub fn map(&mut self, base: u32, bytes: Vec<u8>, permissions: Permissions) -> Result<(), MapError> {
        let size = bytes.len();
        self.insert(base, size, permissions, Backing::Bytes(bytes))
    }

    /// Maps a device of `size` bytes at `base`.
    ///
    /// # Errors
    /// The region is empty, leaves the address space or overlaps another.
    pub fn map_device(&mut self, base: u32, size: u32, device: Box<dyn Device>) -> Result<(), MapError> {
        self.insert(base, size as usize, Permissions::READ_WRITE, Backing::Device(device))
    }

    fn insert(&mut self, base: u32, size: usize, permissions: Permissions, backing: Backing) -> Result<(), MapError> {
        let end = (base as usize).checked_add(size);
        if size == 0 || end.is_none_or(|end| end > 1 << 32 || size > u32::MAX as usize) {
            return Err(MapError::Size { base, size });
        }
        let position = self.regions.partition_point(|region| region.base < base);
        let overlapped = |region: &Region| region.contains(base) || region.base.wrapping_sub(base) < size as u32;
        let around = self.regions.iter().skip(position.saturating_sub(1)).take(2);
        if let Some(other) = around.into_iter().find(|region| overlapped(region)) {
            return Err(MapError::Overlap { base, size, other: other.base });
        }
        let start = self.arena.len();
        let device = match backing {
            Backing::Bytes(bytes) if self.arena.is_empty() => {
                self.arena = bytes;
                None
            }
            Backing::Bytes(bytes) => {
                self.arena.extend(bytes);
                None
            }
            Backing::Device(device) => Some(device),
        };
        self.regions.insert(position, Region { base, size: size as u32, permissions, start, device });
        Ok(())
    }

    #[inline(always)]
    fn arena_at<const N: usize>(&self, place: Option<usize>) -> Option<&[u8; N]> {
        self.arena.get(place?..)?.first_chunk()
    }

    /// The hint that remembers a region.
    fn hint(&self, index: usize) -> Hint {
        let region = &self.regions[index];
        Hint { base: region.base, span: region.size.saturating_sub(3), start: region.start }
    }

    /// The arena range of `length` bytes at `address` in one region of bytes.
    fn range(&self, address: u32, length: usize) -> Option<core::ops::Range<usize>> {
        let region = &self.regions[self.find(address)?];
        let offset = address.wrapping_sub(region.base) as usize;
        let inside = region.device.is_none() && length <= region.size as usize - offset;
        inside.then(|| region.start + offset..region.start + offset + length)
    }

    /// The bytes at `address..address + length`, whatever their permissions, when they lie in
    /// one region of bytes.
    pub fn bytes(&self, address: u32, length: usize) -> Option<&[u8]> {
        self.arena.get(self.range(address, length)?)
    }

    /// The same to write to.
    pub fn bytes_mut(&mut self, address: u32, length: usize) -> Option<&mut [u8]> {
        let range = self.range(address, length)?;
        self.arena.get_mut(range)
    }

    /// Base, size and permissions of every region, by address.
    pub fn regions(&self) -> impl Iterator<Item = (u32, u32, Permissions)> {
        self.regions.iter().map(|region| (region.base, region.size, region.permissions))
    }

    fn find(&self, address: u32) -> Option<usize> {
        let after = self.regions.partition_point(|region| region.base <= address);
        let index = after.checked_sub(1)?;
        self.regions[index].contains(address).then_some(index)
    }

    fn locate(&self, address: u32, access: Access) -> Result<usize, MemoryError> {
        let index = self.find(address).ok_or(MemoryError::Unmapped { access, address })?;
        let permissions = self.regions[index].permissions;
        let permitted = match access {
            Access::Load => permissions.read,
            Access::Store => permissions.write,
            Access::Fetch => permissions.execute,
        };
        if permitted { Ok(index) } else { Err(MemoryError::Prohibited { access, address }) }
    }

    #[cold]
    #[inline(never)]
    fn slow_load(&mut self, address: u32, size: u32) -> Result<u32, MemoryError> {
        let index = self.locate(address, Access::Load)?;
        let region = &mut self.regions[index];
        if let Some(device) = &mut region.device {
            return device.load(address.wrapping_sub(region.base), size).map_err(|code| MemoryError::Device {
                access: Access::Load,
                address,
                code,
            });
        }
        self.loads = [self.hint(index), self.loads[0]];
        let mut value = 0;
        for byte in 0..size {
            let at = address.wrapping_add(byte);
            self.locate(at, Access::Load)?;
            let missing = MemoryError::Unmapped { access: Access::Load, address: at };
            let found = self.bytes(at, 1).ok_or(missing)?;
            value |= u32::from(found[0]) << (8 * byte);
        }
        Ok(value)
    }

    #[cold]
    #[inline(never)]
    fn slow_store(&mut self, address: u32, size: u32, value: u32) -> Result<(), MemoryError> {
        let index = self.locate(address, Access::Store)?;
        let region = &mut self.regions[index];
        if let Some(device) = &mut region.device {
            return device.store(address.wrapping_sub(region.base), size, value).map_err(|code| MemoryError::Device {
                access: Access::Store,
                address,
                code,
            });
        }
        self.stores = [self.hint(index), self.stores[0]];
        // All bytes are checked before the first is written.
        for byte in 1..size {
            let at = address.wrapping_add(byte);
            let region = self.locate(at, Access::Store)?;
            if self.regions[region].device.is_some() {
                return Err(MemoryError::Unmapped { access: Access::Store, address: at });
            }
        }
        for byte in 0..size {
            if let Some(slot) = self.bytes_mut(address.wrapping_add(byte), 1) {
                slot[0] = (value >> (8 * byte)) as u8;
            }
        }
        Ok(())
    }
}

impl Memory for RegionMemory {
    accessors!(load8, store8, u8, 1);
    accessors!(load16, store16, u16, 2);
    accessors!(load32, store32, u32, 4);

    #[inline(always)]
    fn load_literal(&mut self, address: u32) -> Result<u32, MemoryError> {
        if let Some(bytes) = self.arena_at(self.literals.place(address)) {
            return Ok(u32::from_le_bytes(*bytes));
        }
        let value = self.slow_load(address, 4)?;
        if let Some(index) = self.find(address).filter(|&index| self.regions[index].device.is_none()) {
            self.literals = self.hint(index);
        }
        Ok(value)
    }

    #[inline(always)]
    fn peek32(&self, address: u32) -> Option<u32> {
        let bytes = self.arena_at(self.loads[0].place(address)).or_else(|| self.arena_at(self.loads[1].place(address)));
        bytes.map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn fetch(&mut self, address: u32, buffer: &mut [u8]) -> Result<usize, MemoryError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = address.wrapping_add(filled as u32);
            let region = match self.locate(at, Access::Fetch) {
                Ok(index) => &self.regions[index],
                Err(error) if filled == 0 => return Err(error),
                Err(_) => break,
            };
            if region.device.is_some() {
                break;
            }
            let offset = at.wrapping_sub(region.base);
            let count = ((region.size - offset) as usize).min(buffer.len() - filled);
            let place = region.start + offset as usize;
            let bytes = &self.arena[place..place + count];
            buffer[filled..filled + count].copy_from_slice(bytes);
            filled += count;
        }
        if filled == 0 && !buffer.is_empty() {
            return Err(MemoryError::Prohibited { access: Access::Fetch, address });
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_across_two_adjacent_regions_is_whole_and_a_failed_store_changes_nothing() {
        let mut memory = RegionMemory::new();
        memory.map(0x1000, vec![0x11; 8], Permissions::READ_WRITE).unwrap();
        memory.map(0x1008, vec![0x22; 8], Permissions::READ_WRITE).unwrap();
        memory.map(0x1010, vec![0x33; 8], Permissions::READ).unwrap();
        assert_eq!(memory.load32(0x1006), Ok(0x2222_1111));
        memory.store32(0x1006, 0xaabb_ccdd).unwrap();
        assert_eq!(memory.load32(0x1006), Ok(0xaabb_ccdd));
        let error = memory.store32(0x100e, 0).unwrap_err();
        assert_eq!(error, MemoryError::Prohibited { access: Access::Store, address: 0x1010 });
        assert_eq!(memory.load16(0x100e), Ok(0x2222));
    }

    #[test]
    fn overlapping_and_wrapping_regions_are_refused() {
        let mut memory = RegionMemory::new();
        memory.map(0x1000, vec![0; 0x100], Permissions::READ).unwrap();
        for (base, size) in [(0x10ff, 1), (0xf01, 0x100), (0x800, 0x10000), (0x1000, 0x100)] {
            assert!(memory.map(base, vec![0; size], Permissions::READ).is_err(), "{base:#x}");
        }
        assert!(memory.map(0xffff_ffff, vec![0; 2], Permissions::READ).is_err());
        memory.map(0xffff_ffff, vec![7], Permissions::READ).unwrap();
        assert_eq!(memory.load8(u32::MAX), Ok(7));
        assert!(memory.load16(u32::MAX).is_err());
    }

    #[derive(Debug)]
    struct Counter(u32);

    impl Device for Counter {
        fn load(&mut self, offset: u32, _size: u32) -> Result<u32, u32> {
            self.0 += 1;
            if offset == 0 { Ok(self.0) } else { Err(offset) }
        }

        fn store(&mut self, _offset: u32, _size: u32, value: u32) -> Result<(), u32> {
            self.0 = value;
            Ok(())
        }
    }

    #[test]
    fn a_device_sees_each_access_and_its_refusal_is_named() {
        let mut memory = RegionMemory::new();
        memory.map_device(0x4000, 8, Box::new(Counter(0))).unwrap();
        memory.store32(0x4000, 41).unwrap();
        assert_eq!(memory.load32(0x4000), Ok(42));
        let error = memory.load32(0x4004).unwrap_err();
        assert_eq!(error, MemoryError::Device { access: Access::Load, address: 0x4004, code: 4 });
    }
}
