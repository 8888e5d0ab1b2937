//! Libraries 1 to 3: one or two kernels, and the library with the compressed-weights decoder.

use super::{CLANG_10, CLANG_15, Contents, DataSection, Function, Plan, Role, function, globstruct, kernel, pattern};

/// A generation: entry point, size of the text and size of the file of each library.
pub(in super::super) struct Generation {
    kind: u16,
    code_base: u32,
    comment: &'static str,
    properties: bool,
    entries: [u32; 3],
    texts: [u32; 3],
    sizes: [u32; 3],
    /// Where the second helper of the first two libraries begins.
    helper: u32,
}

pub(in super::super) const CAYMAN: Generation = Generation {
    kind: 2,
    code_base: 0x0100_0000,
    comment: CLANG_10,
    properties: true,
    entries: [0x410, 0x828, 0x3c74],
    texts: [0x45e, 0x8be, 0x3d1e],
    sizes: [0xf5c, 0x1500, 0x6974],
    helper: 0x240,
};

pub(in super::super) const MARIANA: Generation =
    Generation { entries: [0x410, 0x828, 0x3c88], helper: 0x260, ..CAYMAN };

pub(in super::super) const MAVERICK: Generation = Generation {
    kind: 3,
    code_base: 0,
    comment: CLANG_15,
    properties: false,
    entries: [0x39c, 0x900, 0x3ccc],
    texts: [0x3fe, 0x95e, 0x3d5e],
    sizes: [0xc64, 0x1280, 0x55a0],
    helper: 0x240,
};

const DATA: u32 = 0x0200_0000;

/// Kernels of library 3: extended opcode, opcode, offset of the function.
const CPTC: [(u8, u8, u32); 9] = [
    (0, 0x7e, 0x0080),
    (0, 0x7c, 0x03f8),
    (0, 0x7d, 0x0410),
    (0, 0x45, 0x0b90),
    (0, 0xbe, 0x0dac),
    (0, 0xf2, 0x13f4),
    (0, 0x7b, 0x1964),
    (0, 0xe4, 0x2258),
    (7, 0xf0, 0x3b64),
];

/// Start of the decoder for 1 to 6 planes.
const DECODERS: [u32; 6] = [0x24b4, 0x2934, 0x2bf8, 0x30cc, 0x32c8, 0x3794];

fn decoder(planes: usize) -> String {
    format!("_Z16cptc_decode_implILh{planes}EEvj25_TIE_xt_ivp32_xb_vec2Nx8US0_ttthb")
}

/// The plan of library `library` (`"1"`, `"2"` or `"3"`).
pub(in super::super) fn plan(generation: &Generation, library: &str) -> Option<Plan> {
    let index = ["1", "2", "3"].iter().position(|known| *known == library)?;
    let code = generation.code_base;
    let (kernels, table, pairs): (Vec<(u8, u8, u32)>, u32, u32) = match index {
        0 => (vec![(0, 0x7e, 0x80)], 0x48, 6),
        1 => (vec![(0, 0x7c, 0x80), (0, 0x7d, 0x98)], 0x70, 20),
        _ => (CPTC.to_vec(), 0x8c8, 70),
    };
    let with_start = index < 2;
    let start = if with_start { 0x0c } else { 0 };
    let counters = DATA + start + 0x14;
    let end = table + 8 * u32::try_from(kernels.len()).ok()?;
    let mut data = Vec::new();
    let mut section = |name, offset, size, align, writable, contents| {
        data.push(DataSection { name, address: DATA + offset, size, align, writable, contents });
    };
    if with_start {
        section(".data", start, table - start, 4, true, Contents::Pointer(DATA + table));
    } else {
        section(".rodata", 0, 0x400, 64, false, Contents::Bytes(pattern(0x400)));
        section(".data", 0x400, table - 0x400, 64, true, Contents::Pointer(DATA));
        section(".globstruct", end, 0x48, 8, true, Contents::Bytes(globstruct()));
    }
    let bss = DATA + end + if with_start { 0 } else { 0x48 };
    let text_size = generation.texts[index];
    let short = [0x100, generation.helper];
    let helpers: &[u32] = if with_start { &short } else { &DECODERS };
    let first = helpers[0];
    let functions = kernels.iter().map(|(_, _, at)| match index {
        1 if *at == 0x80 => Function { at: *at, role: Role::Nop },
        _ => kernel(*at, None, Some(code + first)),
    });
    let rest = [
        Function { at: 0, role: Role::Init },
        Function { at: generation.entries[index], role: Role::Entry },
        Function { at: text_size - 14, role: Role::Fini },
    ];
    let names: Vec<(String, u32)> = match index {
        0 => vec![("_Z9iota_implILb1EEvv".into(), 0x100), ("_Z9iota_implILb0EEvv".into(), generation.helper)],
        1 => vec![("_Z22cross_lane_reduce_implb".into(), 0x100)],
        _ => DECODERS.iter().enumerate().map(|(planes, at)| (decoder(planes + 1), *at)).collect(),
    };
    let counters = if with_start { counters } else { DATA + 0x440 };
    Some(Plan {
        kind: generation.kind,
        size: generation.sizes[index],
        code_base: code,
        data_base: DATA,
        entry: code + generation.entries[index],
        init: code,
        fini: code + text_size - 14,
        text_size,
        functions: functions.chain(helpers.iter().copied().map(function)).chain(rest).collect(),
        pairs,
        nones: 2,
        counters,
        counter_words: if with_start { 8 } else { 64 },
        data,
        table: DATA + table,
        kernels: kernels.into_iter().map(|(spec, opcode, at)| (spec, opcode, code + at)).collect(),
        bss: (bss, 0x10),
        comment: generation.comment,
        properties: if generation.properties {
            names.into_iter().map(|(name, at)| (name, code + at)).collect()
        } else {
            Vec::new()
        },
        unnamed: 0,
    })
}
