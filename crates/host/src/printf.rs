//! What modules print: read from the shared buffer, bounded by the host's own numbers.

use crate::{Buffer, Error, Host};
use outboard_wire::PrintfHeader;
use zerocopy::FromBytes;

/// Text of a module, as bytes: nothing says that it is UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleText {
    bytes: Vec<u8>,
    dropped: u32,
}

impl ModuleText {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Bytes that were printed and did not fit.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.dropped == 0
    }

    /// Empties the buffer, so that text found later is new. A buffer that is empty is not touched.
    pub(crate) fn forget(buffer: &mut Buffer<Host>) -> Result<(), Error> {
        // The magic and the size are the device's; it writes them when the buffer is bound.
        for counter in [4, 12] {
            if buffer.bytes(counter, 4)? != [0; 4] {
                buffer.write(counter, &[0; 4])?;
            }
        }
        Ok(())
    }

    /// Copies out the text that the device announced (`len` bytes) or, without an announcement, what the header says.
    /// Lengths that cannot be are taken for no text.
    pub(crate) fn capture(buffer: &Buffer<Host>, len: Option<u32>) -> Result<Self, Error> {
        let mut header = [0; PrintfHeader::SIZE as usize];
        buffer.read(0, &mut header)?;
        let Ok(header) = PrintfHeader::read_from_bytes(&header) else { return Ok(Self::default()) };
        if header.magic.get() != PrintfHeader::MAGIC {
            return Ok(Self::default());
        }
        let room = buffer.len().saturating_sub(PrintfHeader::SIZE as usize);
        let len = usize::try_from(len.unwrap_or(header.wr_index.get())).unwrap_or(usize::MAX);
        if len > room {
            return Ok(Self::default());
        }
        let mut bytes = vec![0; len];
        buffer.read(PrintfHeader::SIZE as usize, &mut bytes)?;
        Ok(Self { bytes, dropped: header.dropped.get() })
    }
}
