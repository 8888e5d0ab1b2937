//! The caches of a host that are not coherent with a device: a model for finding missed synchronisations.

use crate::map::{MapError, Mapping, Object};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a line, that of the board's Cortex-A53. Tensors start at multiples of it.
const LINE: usize = 64;
/// Bytes that are compared and copied at a time.
const CHUNK: usize = 0x1_0000;

/// What a host sees of a memory object that it shares with a device: its own view, and what that was when the two last agreed. Lines
/// that differ from it are dirty: a flush writes them to memory, an invalidation loses them, as in a processor.
///
/// ```
/// use outboard_shm::{HostCache, Mapping, Object};
///
/// let object = Object::create("memory", 0x1000)?;
/// let memory = Mapping::of(&object)?;
/// let cache = HostCache::new(0x1000)?;
/// let byte = |mapping: &Mapping| -> Result<u8, outboard_shm::MapError> {
///     let mut byte = [0];
///     mapping.read(0, &mut byte)?;
///     Ok(byte[0])
/// };
/// cache.view().write(0, &[7])?;
/// assert_eq!(byte(&memory)?, 0); // the device does not see it
/// cache.flush(0..0x1000, &memory)?;
/// assert_eq!(byte(&memory)?, 7);
/// memory.write(0, &[8])?;
/// assert_eq!(byte(cache.view())?, 7); // the host does not see it
/// cache.invalidate(0..0x1000, &object, &memory)?;
/// assert_eq!(byte(cache.view())?, 8);
/// # Ok::<(), outboard_shm::MapError>(())
/// ```
#[derive(Debug)]
pub struct HostCache {
    object: Object,
    view: Arc<Mapping>,
    agreed: Mapping,
}

impl HostCache {
    /// The caches over an object of `size` bytes, which is all zero.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(size: u64) -> Result<Self, MapError> {
        let object = Object::create("outboard-host-view", size)?;
        let view = Arc::new(Mapping::of(&object)?);
        Ok(Self { object, view, agreed: Mapping::of(&Object::create("outboard-host-lines", size)?)? })
    }

    /// What the host reads and writes.
    pub fn view(&self) -> &Arc<Mapping> {
        &self.view
    }

    /// The object behind the view, for others to map.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Writes the dirty lines of a range to memory.
    ///
    /// # Errors
    /// The range does not lie in the object.
    pub fn flush(&self, range: Range<u64>, memory: &Mapping) -> Result<(), MapError> {
        let (mut seen, mut agreed) = (vec![0; CHUNK], vec![0; CHUNK]);
        for (offset, len) in chunks(&self.object, range)? {
            let (seen, agreed) = (&mut seen[..len], &mut agreed[..len]);
            self.view.read(offset, seen)?;
            self.agreed.read(offset, agreed)?;
            for (at, (line, before)) in seen.chunks(LINE).zip(agreed.chunks(LINE)).enumerate() {
                if line != before {
                    memory.write(offset + at * LINE, line)?;
                    self.agreed.write(offset + at * LINE, line)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a range from memory, whatever the caches held. `object` is the one behind `memory`.
    ///
    /// # Errors
    /// As [`HostCache::flush`].
    pub fn invalidate(&self, range: Range<u64>, object: &Object, memory: &Mapping) -> Result<(), MapError> {
        let mut bytes = vec![0; CHUNK];
        let parts = [chunks(object, range.clone())?, chunks(&self.object, range)?].concat();
        for (offset, len) in parts {
            memory.read(offset, &mut bytes[..len])?;
            self.view.write(offset, &bytes[..len])?;
            self.agreed.write(offset, &bytes[..len])?;
        }
        Ok(())
    }
}

/// The written parts of a range of an object, as offsets and lengths of at most [`CHUNK`] bytes.
fn chunks(object: &Object, range: Range<u64>) -> Result<Vec<(usize, usize)>, MapError> {
    let parts =
        object.written(range.start, range.end).map_err(|source| MapError::Create { size: object.size(), source })?;
    let cut = parts.into_iter().flat_map(|part| {
        part.clone().step_by(CHUNK).map(move |at| {
            let len = usize::try_from(part.end - at).unwrap_or(usize::MAX).min(CHUNK);
            (usize::try_from(at).unwrap_or(usize::MAX), len)
        })
    });
    Ok(cut.collect())
}
