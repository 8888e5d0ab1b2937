//! `kbin_patch` records: hints for traces about instructions that were inserted, changed or removed. They move nothing and
//! share only a word with relocations: a bad record is worth a warning and never fails a load.

/// Size of a record.
pub const PATCH_SIZE: usize = 16;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Patch {
    /// Slot at which it applies.
    pub offset: u32,
    /// Slots.
    pub slots: u32,
    /// 0 insert, 1 modify, 2 delete.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: u32,
    /// 0 preamble, 1 postamble, 2 main, 3 function.
    pub section: u32,
}

impl Patch {
    /// Name of the kind.
    #[must_use]
    pub const fn kind_name(&self) -> Option<&'static str> {
        match self.kind {
            0 => Some("INSERT"),
            1 => Some("MODIFY"),
            2 => Some("DELETE"),
            _ => None,
        }
    }

    /// Name of the section.
    #[must_use]
    pub const fn section_name(&self) -> Option<&'static str> {
        match self.section {
            0 => Some("PREAMBLE"),
            1 => Some("POSTAMBLE"),
            2 => Some("MAIN"),
            3 => Some("FUNCTION"),
            _ => None,
        }
    }

    /// The sixteen bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; PATCH_SIZE] {
        let mut bytes = [0; PATCH_SIZE];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip([self.offset, self.slots, self.kind, self.section])
        {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

/// Reads records for a stream of `slots` instructions. What is wrong is a warning beside the records.
#[must_use]
pub fn parse(bytes: &[u8], slots: u64) -> (Vec<Patch>, Vec<String>) {
    let (records, rest) = bytes.as_chunks::<PATCH_SIZE>();
    let mut warnings = Vec::new();
    if !rest.is_empty() {
        warnings.push(format!("the patch table ends with {} bytes that are no record of {PATCH_SIZE}", rest.len()));
    }
    let mut patches = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let mut words = record.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let patch = Patch { offset: next(), slots: next(), kind: next(), section: next() };
        let beyond = u64::from(patch.offset).saturating_add(u64::from(patch.slots)) > slots;
        let problem = if patch.kind_name().is_none() {
            Some(format!("has type {}, expected 0 to 2", patch.kind))
        } else if patch.section_name().is_none() {
            Some(format!("has section {}, expected 0 to 3", patch.section))
        } else if beyond && patch.kind != 0 {
            Some(format!("covers slots {}..+{}, the stream has {slots}", patch.offset, patch.slots))
        } else {
            None
        };
        if let Some(problem) = problem {
            warnings.push(format!("patch {index} {problem}; it is ignored"));
        } else {
            patches.push(patch);
        }
    }
    (patches, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_record_is_a_warning_and_the_others_are_kept() {
        let good = Patch { offset: 4, slots: 2, kind: 1, section: 2 };
        let bad = [
            Patch { kind: 3, ..good },
            Patch { section: 4, ..good },
            Patch { offset: 9, ..good },
            Patch { offset: u32::MAX, ..good },
        ];
        let mut bytes: Vec<u8> = bad.iter().flat_map(Patch::encode).collect();
        bytes.extend(good.encode());
        bytes.push(0);
        let (patches, warnings) = parse(&bytes, 10);
        assert_eq!(patches, [good]);
        assert_eq!((good.kind_name(), good.section_name()), (Some("MODIFY"), Some("MAIN")));
        assert_eq!(warnings.len(), 5);
        assert!(warnings[1].contains("patch 0 has type 3"), "{}", warnings[1]);
    }
}
