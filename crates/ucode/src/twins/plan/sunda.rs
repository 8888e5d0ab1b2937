//! The one library of SUNDA: eighteen kernels, data that does not start at a round address.

use super::{CLANG_10, Contents, DataSection, Function, Plan, Role, function, kernel};

const CODE: u32 = 0x0100_0000;
const DATA: u32 = 0x0200_0000;

/// Opcode and offset of the function.
const KERNELS: [(u8, u32); 18] = [
    (0xe7, 0x0748),
    (0x74, 0x1904),
    (0x67, 0x23c4),
    (0x68, 0x2590),
    (0x46, 0x2700),
    (0x47, 0x2844),
    (0xb8, 0x2f80),
    (0xbb, 0x474c),
    (0x7e, 0x5e80),
    (0x41, 0x6398),
    (0x7c, 0x7d30),
    (0x7d, 0x7d48),
    (0x49, 0x7fc4),
    (0x7a, 0x84dc),
    (0x79, 0x8520),
    (0x43, 0xa0d8),
    (0x44, 0xa0d8),
    (0x92, 0xa118),
];

const HELPERS: [u32; 8] = [0x200, 0x900, 0x1b00, 0x3000, 0x4900, 0x6500, 0x8700, 0xa200];

pub(super) fn plan() -> Plan {
    let mut starts: Vec<u32> = KERNELS.iter().map(|(_, at)| *at).collect();
    starts.dedup();
    let kernels = starts.into_iter().map(|at| match at {
        0x7d30 | 0x7d48 => kernel(at, None, Some(CODE + 0x6500)),
        _ => kernel(at, Some(DATA + 0x7f0), Some(CODE + 0x200)),
    });
    let rest = [
        Function { at: 0xc0, role: Role::Init },
        Function { at: 0xc8, role: Role::Entry },
        Function { at: 0xa9b0, role: Role::Fini },
    ];
    let section = |name, offset, size, align, writable, contents| DataSection {
        name,
        address: DATA + offset,
        size,
        align,
        writable,
        contents,
    };
    let constructors = (0..15).map(|index: usize| CODE + HELPERS[index % HELPERS.len()]).collect();
    let ones_and_zero = [[0xff; 4], [0; 4]].concat();
    Plan {
        kind: 2,
        size: 0xd308,
        code_base: CODE,
        data_base: DATA,
        entry: CODE + 0xc8,
        init: CODE + 0xc0,
        fini: CODE + 0xa9b0,
        text_size: 0xa9be,
        functions: kernels.chain(HELPERS.map(function)).chain(rest).collect(),
        pairs: 200,
        nones: 11,
        counters: DATA + 0xa0,
        counter_words: 400,
        data: vec![
            section(".eh_frame", 0x0c, 4, 4, false, Contents::Bytes(vec![0; 4])),
            section(".ctors", 0x10, 0x44, 4, false, Contents::Constructors(constructors)),
            section(".dtors", 0x54, 8, 4, false, Contents::Bytes(ones_and_zero)),
            section(".data", 0x80, 0x6dc, 64, true, Contents::Pointer(DATA + 0x80)),
        ],
        table: DATA + 0x760,
        kernels: KERNELS.iter().map(|(opcode, at)| (0, *opcode, CODE + at)).collect(),
        bss: (DATA + 0x7f0, 0x64),
        comment: CLANG_10,
        properties: Vec::new(),
        unnamed: 5,
    }
}
