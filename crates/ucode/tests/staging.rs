//! Staging: three writes in order, or nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_link::pi::ll::{self, Gate, LlError, MemHandle, NoBackend};
use outboard_link::pi::{MemoryBounds, PrelinkRequest, prelink};
use outboard_ucode::{cores, twins};

/// Records what it is asked, and fails at the write with this number.
#[derive(Default)]
struct Recorder {
    fail_at: Option<usize>,
    mallocs: Vec<u64>,
    writes: Vec<(u64, Vec<u8>)>,
    frees: usize,
}

impl MemHandle for Recorder {
    type Handle = u32;

    fn malloc(&mut self, size: u64) -> Result<u32, u32> {
        self.mallocs.push(size);
        Ok(7)
    }

    fn free(&mut self, handle: u32) {
        assert_eq!(handle, 7);
        self.frees += 1;
    }

    fn read(&mut self, _handle: u32, _offset: u64, _bytes: &mut [u8]) -> Result<(), u32> {
        Err(3)
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> Result<(), u32> {
        assert_eq!(handle, 7);
        if self.fail_at == Some(self.writes.len()) {
            return Err(42);
        }
        self.writes.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn device_addr(&self, _handle: u32) -> Option<u64> {
        None
    }
}

fn cayman() -> &'static MemoryBounds {
    &cores::find("cayman").unwrap().bounds
}

#[test]
fn a_library_is_staged_with_three_writes_header_code_data() {
    let file = twins::image("cayman_0").unwrap();
    let image = prelink(&PrelinkRequest::new(&file, cayman())).unwrap();
    let mut memory = Recorder::default();
    let loaded = ll::create(&mut memory, 13, 3, &file, cayman()).unwrap();
    assert_eq!((loaded.selector, loaded.staged.unwrap().size), (3, 0x73cc));
    assert_eq!(memory.mallocs, [0x100_0000]);
    let places: Vec<_> = memory.writes.iter().map(|(offset, bytes)| (*offset, bytes.len())).collect();
    assert_eq!(places, [(0, 0x20), (0x20, 0x6f20), (0x6f40, 0x48c)]);
    assert_eq!(memory.writes[1].1, image.code());
    assert_eq!(memory.frees, 0);
}

#[test]
fn a_failing_write_frees_and_passes_the_number_on() {
    let file = twins::image("cayman_0").unwrap();
    for (fail_at, part) in [(0, "header"), (1, "code"), (2, "data")] {
        let mut memory = Recorder { fail_at: Some(fail_at), ..Recorder::default() };
        let error = ll::create(&mut memory, 13, 0, &file, cayman()).unwrap_err();
        assert_eq!(error, LlError::Write { part, status: 42 });
        assert_eq!((error.code(), memory.frees, memory.writes.len()), (42, 1, fail_at));
    }
}

#[test]
fn sixty_four_kilobytes_are_accepted_and_one_more_is_status_7() {
    // Windows larger than any core's, so that the image can reach the limit of the device's buffer.
    let bounds = MemoryBounds::from_words([0, 0x4_0000, 0, 0x2_0000, 0x8_0000, 0x4_0000, 0x8_0000, 0x2_0000]);
    let staged = |data_memsz: u32| {
        let mut file = twins::image("cayman_0").unwrap();
        let code_memsz = 0x1_0000 - 0x20 - 0x4a0_u32;
        file[0x34 + 20..0x34 + 24].copy_from_slice(&code_memsz.to_le_bytes());
        file[0x54 + 20..0x54 + 24].copy_from_slice(&data_memsz.to_le_bytes());
        let mut memory = Recorder::default();
        (ll::create(&mut memory, 13, 0, &file, &bounds), memory)
    };
    let (result, memory) = staged(0x4a0);
    assert_eq!(result.unwrap().staged.unwrap().size, 0x1_0000);
    assert_eq!(memory.writes.len(), 3);
    let (result, memory) = staged(0x4a1);
    let error = result.unwrap_err();
    assert_eq!(error, LlError::TooLarge { size: 0x1_0004 });
    assert_eq!((error.code(), memory.mallocs.len(), memory.writes.len()), (7, 0, 0));
    assert!(error.to_string().starts_with("Prelinked library would be larger than the available buffer on device"));
}

#[test]
fn a_failed_prelink_claims_nothing_and_is_status_9() {
    let mut memory = Recorder::default();
    let error = ll::create(&mut memory, 37, 0, b"\x7fELF", cayman()).unwrap_err();
    assert_eq!((error.code(), memory.mallocs.len()), (9, 0));
    assert!(error.to_string().starts_with("Failed prelink with status = 100"), "{error}");
}

#[test]
fn core_kinds_are_prelinked_registered_or_refused() {
    for kind in 0..=64 {
        let expected = match kind {
            13 | 21 | 29 | 37 => Some(Gate::Prelink),
            6 => Some(Gate::Register),
            _ => None,
        };
        assert_eq!(ll::gate(kind), expected, "{kind}");
    }
    let sunda = ll::create(&mut NoBackend, 6, 0, &[], cayman()).unwrap();
    assert!(sunda.staged.is_none());
    assert_eq!(ll::create(&mut NoBackend, 12, 0, &[], cayman()).unwrap_err().code(), 8);
    let file = twins::image("cayman_1").unwrap();
    assert_eq!(ll::create(&mut NoBackend, 13, 0, &file, cayman()).unwrap_err().code(), 8, "no backend is attached");
}
