//! Checked access to the bytes of a file. Everything that reads a file goes through here.

use crate::ElfError;

/// The bytes of a file. All offsets are 64-bit and checked; reads beyond the end are [`ElfError::Truncated`].
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Wraps the bytes of a file.
    #[must_use]
    pub const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Size of the file.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// True for a file without bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The whole file.
    #[must_use]
    pub const fn all(&self) -> &'a [u8] {
        self.0
    }

    /// `len` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// [`ElfError::Truncated`], naming `what`, when they do not all lie in the file.
    pub fn range(&self, what: &'static str, offset: u64, len: u64) -> Result<&'a [u8], ElfError> {
        self.get(offset, len).ok_or(ElfError::Truncated { what, offset, len, file_size: self.len() })
    }

    /// `count` entries of `size` bytes at `offset`; the product is checked.
    ///
    /// # Errors
    ///
    /// [`ElfError::Truncated`] when the table does not lie in the file.
    pub fn table(&self, what: &'static str, offset: u64, count: u64, size: u64) -> Result<&'a [u8], ElfError> {
        self.range(what, offset, count.saturating_mul(size))
    }

    fn get(&self, offset: u64, len: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        self.0.get(start..end)
    }
}

/// Little-endian u16 at `at` of a slice; 0 beyond its end. Only for slices whose length was checked.
pub(crate) fn u16_at(data: &[u8], at: usize) -> u16 {
    data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u16::from_le_bytes(*b))
}

/// Little-endian u32 at `at` of a slice; 0 beyond its end. Only for slices whose length was checked.
pub(crate) fn u32_at(data: &[u8], at: usize) -> u32 {
    data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_le_bytes(*b))
}

/// Little-endian u64 at `at` of a slice; 0 beyond its end. Only for slices whose length was checked.
pub(crate) fn u64_at(data: &[u8], at: usize) -> u64 {
    data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_at_the_end_is_read_and_one_byte_more_is_refused() {
        let bytes = Bytes::new(&[1, 2, 3, 4]);
        assert_eq!(bytes.range("x", 2, 2).unwrap(), &[3, 4]);
        assert_eq!(bytes.range("x", 4, 0).unwrap(), &[] as &[u8]);
        assert_eq!(bytes.range("x", 2, 3), Err(ElfError::Truncated { what: "x", offset: 2, len: 3, file_size: 4 }));
    }

    #[test]
    fn offsets_and_products_that_wrap_are_refused() {
        let bytes = Bytes::new(&[0; 16]);
        assert!(bytes.range("x", u64::MAX, 2).is_err());
        assert!(bytes.range("x", 8, u64::MAX).is_err());
        assert!(bytes.table("x", 0, u64::MAX / 2, 4).is_err());
        assert!(bytes.table("x", 0, 4, 4).is_ok());
    }
}
