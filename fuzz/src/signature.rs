//! What happened to an input, as a number.

use outboard_elf::ElfError;
use outboard_link::LoadError;

/// Collects words into a hash (FNV-1a).
#[derive(Debug, Clone, Copy)]
pub struct Signature(u64);

impl Default for Signature {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Signature {
    /// Adds a word that does not come from the input.
    pub fn word(&mut self, word: &str) {
        word.bytes().chain([0]).for_each(|byte| self.byte(byte));
    }

    /// Adds a message without its numbers and names.
    pub fn message(&mut self, message: &str) {
        let plain = message.split_whitespace().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
        plain.take(12).for_each(|word| self.word(word));
    }

    /// Adds which rule an error is about, without offsets, values and names.
    pub fn elf_error(&mut self, error: &ElfError) {
        self.word(error.kind());
        match error {
            ElfError::Truncated { what, .. } | ElfError::Limit { what, .. } => self.word(what),
            ElfError::BadVersion { field, .. } | ElfError::BadEntrySize { field, .. } => self.word(field),
            ElfError::BadSegment { problem, .. } | ElfError::BadNote { problem, .. } => self.word(problem),
            ElfError::BadDynamic { tag, problem, .. } => [tag, problem].iter().for_each(|word| self.word(word)),
            ElfError::BadString { what, problem, .. } => [what, problem].iter().for_each(|word| self.word(word)),
            _ => {}
        }
    }

    /// The same for an error of the loader.
    pub fn load_error(&mut self, error: &LoadError) {
        self.word(error.kind());
        match error {
            LoadError::Elf(error) => self.elf_error(error),
            LoadError::BadAlign { problem, .. } | LoadError::MissingDependency { problem, .. } => self.word(problem),
            LoadError::RelocOutOfSegment { name, problem, .. } => {
                [name, problem].iter().for_each(|word| self.word(word))
            }
            LoadError::SegmentTooLarge { what, .. } => self.word(what),
            LoadError::RelUnsupported { tag, .. } | LoadError::InitUnsupported { tag, .. } => self.word(tag),
            LoadError::InvalidRelocType { name, .. } => self.word(name),
            LoadError::TextRelocation { what, .. } => self.word(what),
            LoadError::Overflow(fault) | LoadError::MisalignedTarget(fault) => self.word(fault.name),
            LoadError::Unresolved(unresolved) => {
                unresolved.symbols.first().map(|symbol| symbol.reason).into_iter().for_each(|reason| self.word(reason));
            }
            _ => {}
        }
    }

    /// Adds the order of magnitude of a count.
    pub fn count(&mut self, count: usize) {
        self.byte(u8::try_from(usize::BITS - count.leading_zeros()).unwrap_or(u8::MAX));
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
}
