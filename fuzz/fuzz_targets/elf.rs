//! The reader under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = outboard_fuzz::elf::run(data);
});
