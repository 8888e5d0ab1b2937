//! Twins of the compiler's eight fixed-load libraries: one for each core, with the documented sections, sizes and entry.

use outboard_elf::image::{Bss, Chunk, FllImage};
use outboard_xtensa::encode_text;
use outboard_xtensa::isa::IsaSet;

use super::plan::CLANG_10;

/// Name, offset in the window, size, alignment and whether it is written.
const SECTIONS: [(&str, u32, usize, u32, bool); 8] = [
    (".text", 0, 0x7_37d8, 32, false),
    (".clib.rodata", 0x7_3800, 0x2004, 64, false),
    (".clib.data", 0x7_5840, 0x458, 64, true),
    (".eh_frame", 0x7_5c98, 4, 4, false),
    (".ctors", 0x7_5c9c, 0x20, 4, false),
    (".dtors", 0x7_5cbc, 8, 4, false),
    (".rodata", 0x7_5d00, 0x5a48, 64, false),
    (".data", 0x7_b780, 0x1_1cc8, 64, true),
];
const ENTRY: u32 = 0xcd94;
/// Offsets of the constructors.
const CONSTRUCTORS: [u32; 6] = [0xdb90, 0xe380, 0x1_b3c8, 0x3_7018, 0x3_7ecc, 0x4_097c];
/// Word of `.data` that constructors count in.
const COUNTER: u32 = 0x7_b780;

/// The library for one core, 0 to 7.
pub(super) fn build(core: u8) -> Option<Vec<u8>> {
    let base = FllImage::window(core)?;
    let mut text = vec![0; SECTIONS[0].2];
    let mut emit = |offset: u32, lines: &[String]| {
        let mut at = usize::try_from(offset).expect("a small offset");
        for line in lines {
            let pc = base + u32::try_from(at).expect("a small offset");
            let code = encode_text(line, pc, IsaSet::vision_q7()).expect("the lines of a twin are instructions");
            text[at..at + code.bytes().len()].copy_from_slice(code.bytes());
            at += code.bytes().len();
        }
    };
    let entry = ["entry a1, 32", "l32i.n a3, a2, 0", "movi.n a4, 36", "movi.n a2, 0"].map(str::to_owned);
    let over = base + ENTRY + 3 + 2 + 2 + 2 + 3 + 2;
    let rest = [format!("bgeu a3, a4, {over}"), "movi.n a2, 2".into(), "retw.n".into()];
    emit(ENTRY, &[entry.as_slice(), &rest].concat());
    let counter = base + COUNTER;
    let high = format!("const16 a2, {}", counter >> 16);
    let low = format!("const16 a2, {}", counter & 0xffff);
    let count = ["l32i.n a3, a2, 0", "addi.n a3, a3, 1", "s32i.n a3, a2, 0", "retw.n"].map(str::to_owned);
    for constructor in CONSTRUCTORS {
        emit(constructor, &[["entry a1, 32".into(), high.clone(), low.clone()].as_slice(), &count].concat());
    }
    let pointers = [u32::MAX].into_iter().chain(CONSTRUCTORS.map(|offset| base + offset)).chain([0]);
    let pointers: Vec<u8> = pointers.flat_map(u32::to_le_bytes).collect();
    let chunks = SECTIONS.map(|(name, offset, size, align, writable)| {
        let bytes = match name {
            ".text" => text.clone(),
            ".ctors" => pointers.clone(),
            ".dtors" => [[0xff; 4], [0; 4]].concat(),
            _ => vec![0; size],
        };
        Chunk { name: name.into(), address: base + offset, align, writable, bytes }
    });
    let image = FllImage {
        core,
        single: false,
        entry: base + ENTRY,
        chunks: chunks.into(),
        bss: Bss { address: base + 0x8_d480, size: 0x1_2f20, align: 64 },
        comment: CLANG_10.into(),
        debug: Vec::new(),
        symbols: Vec::new(),
    };
    Some(image.build().expect("the parts of a twin fit"))
}
