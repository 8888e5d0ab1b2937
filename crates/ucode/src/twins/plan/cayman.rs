//! Library 0 of CAYMAN, MARIANA and MAVERICK: the image with seventeen kernels.

use super::{CLANG_10, CLANG_15, Contents, DataSection, Function, Plan, Role, function, globstruct, kernel, pattern};

/// What differs between the generations.
pub(in super::super) struct Variant {
    kind: u16,
    size: u32,
    code_base: u32,
    entry: u32,
    text_size: u32,
    /// How far the five extended kernels lie behind those of CAYMAN.
    shifts: [u32; 5],
    comment: &'static str,
    properties: bool,
}

pub(in super::super) const CAYMAN: Variant = Variant {
    kind: 2,
    size: 0xa260,
    code_base: 0x0100_0000,
    entry: 0x5610,
    text_size: 0x6f1e,
    shifts: [0; 5],
    comment: CLANG_10,
    properties: true,
};

pub(in super::super) const MARIANA: Variant =
    Variant { entry: 0x5658, shifts: [0x20, 0x20, 0x20, 0x30, 0x30], ..CAYMAN };

pub(in super::super) const MAVERICK: Variant = Variant {
    kind: 3,
    size: 0x7fb0,
    code_base: 0,
    entry: 0x594c,
    text_size: 0x5a1e,
    shifts: [0; 5],
    comment: CLANG_15,
    properties: false,
};

const DATA: u32 = 0x0200_0000;

/// Kernels in the order of the table: extended opcode, opcode, offset of the function.
const KERNELS: [(u8, u8, u32); 17] = [
    (0, 0x7e, 0x0080),
    (0, 0x7c, 0x03f8),
    (0, 0x7d, 0x0410),
    (0, 0x45, 0x0b90),
    (0, 0x51, 0x105c),
    (0, 0x41, 0x0f1c),
    (0, 0xf0, 0x3370),
    (1, 0xf0, 0x3380),
    (2, 0xf0, 0x3484),
    (4, 0xf0, 0x37a8),
    (3, 0xf0, 0x3a60),
    (0, 0x52, 0x3b40),
    (0, 0x46, 0x40c0),
    (0, 0x47, 0x4160),
    (0, 0xbe, 0x4204),
    (0, 0xf2, 0x484c),
    (0, 0x7b, 0x4dc4),
];

fn address(variant: &Variant, row: usize) -> u32 {
    let shift = row.checked_sub(6).and_then(|index| variant.shifts.get(index)).copied().unwrap_or(0);
    KERNELS[row].2 + shift
}

fn functions(variant: &Variant) -> Vec<Function> {
    let slot = |offset: u32| Some(DATA + offset);
    let call = |offset: u32| Some(variant.code_base + offset);
    let extended = 0x34b0 + variant.shifts[2];
    let kernels = [
        (None, call(0x100)),
        (None, call(0x430)),
        (None, call(0x430)),
        (slot(0x458), call(0xbc0)),
        (None, call(0x1108)),
        (slot(0x45c), call(0xf60)),
        (None, None),
        (slot(0x468), None),
        (slot(0x468), call(extended)),
        (slot(0x46c), None),
        (slot(0x470), None),
        (None, None),
        (None, None),
        (None, None),
        (slot(0x47c), call(0x4284)),
        (None, call(0x4940)),
        (slot(0x480), call(0x4e00)),
    ];
    let rows = kernels.into_iter().enumerate().map(|(row, (slot, callee))| {
        let at = address(variant, row);
        match row {
            6 => Function { at, role: Role::Nop },
            9 => Function { at, role: Role::Kernel { frame: 48, slot, callee } },
            _ => kernel(at, slot, callee),
        }
    });
    let helpers = [
        0x100, 0x280, 0x430, 0x700, 0xbc0, 0xf60, 0x1108, 0x1280, 0x1f7c, 0x2720, 0x2c2c, 0x2fc4, extended, 0x4284,
        0x4940, 0x4b80, 0x4e00, 0x5200,
    ];
    let rest = [
        Function { at: 0, role: Role::FirstInit },
        Function { at: variant.entry, role: Role::Entry },
        Function { at: variant.text_size - 14, role: Role::Fini },
    ];
    rows.chain(helpers.map(function)).chain(rest).collect()
}

fn properties(variant: &Variant) -> Vec<(String, u32)> {
    let name = |name: &str, rest: &str| format!("_Z{}{name}{rest}", name.len());
    let alu = "21NEURON_ISA_TPB_ALU_OP";
    let wide = |function: &str, vector: &str, arguments: &str| {
        name(function, &format!("I{}{vector}Ev{arguments}{alu}", vector.len()))
    };
    let (signed, unsigned) = ("VectorInt64", "VectorUint64");
    let nonzero = |element: &str| name("nonzero_with_count_impl", &format!("I{element}Evjiijj"));
    let list = [
        (name("iota_impl", "ILb1EEvv"), 0x100),
        (name("iota_impl", "ILb0EEvv"), 0x280),
        (name("pool_cross_lane_reduce_arith", "v"), 0x3f8),
        (name("pool_cross_lane_reduce_bitvec", "v"), 0x410),
        (name("cross_lane_reduce_impl", "b"), 0x430),
        (name("clr_reduce_local", "jh24NEURON_ISA_TPB_REDUCE_OPf"), 0x700),
        (name("decode_pool", "b"), 0xbc0),
        (name("decode_tensor_tensor_arith", "j"), 0xf60),
        (name("setup_64bit_rw", &format!("j{alu}")), 0x1108),
        (name("tensor_tensor_arith_impl", "jjj"), 0x1280),
        (wide("tensor_tensor_64bit_dispatch", signed, "jj"), 0x1f7c),
        (wide("tensor_tensor_64bit_dispatch", unsigned, "jj"), 0x2720),
        (wide("tensor_tensor_64bit_bitvec_dispatch", signed, "j"), 0x2c2c),
        (wide("tensor_tensor_64bit_bitvec_dispatch", unsigned, "j"), 0x2fc4),
        (name("pool_extended_inst_copy", "v"), address(variant, 7)),
        (name("decode_extended_inst_tensor_tensor_arith", "bj"), 0x34b0 + variant.shifts[2]),
        (name("get_sequence_bounds_impl", "j20NEURON_ISA_TPB_DTYPE"), 0x4284),
        (nonzero("f"), 0x4940),
        (nonzero("i"), 0x4b80),
        (name("decode_tensor_dequantize", "b"), 0x4e00),
        ("_ZN16TensorDequantize14proc_4bit_mx_8Ej".to_owned(), 0x5200),
    ];
    list.into_iter().map(|(name, at)| (name, variant.code_base + at)).collect()
}

/// The plan of a variant.
pub(in super::super) fn plan(variant: &Variant) -> Plan {
    let code = variant.code_base;
    let helper =
        |index: u32| code + [0x100, 0x280, 0x430, 0x700, 0x1280, 0x5200][usize::try_from(index % 6).unwrap_or(0)];
    let section = |name, offset, size, align, writable, contents| DataSection {
        name,
        address: DATA + offset,
        size,
        align,
        writable,
        contents,
    };
    let ones_and_zero = [[0xff; 4], [0; 4]].concat();
    Plan {
        kind: variant.kind,
        size: variant.size,
        code_base: code,
        data_base: DATA,
        entry: code + variant.entry,
        init: code,
        fini: code + variant.text_size - 14,
        text_size: variant.text_size,
        functions: functions(variant),
        pairs: 101,
        nones: 8,
        counters: DATA + 0x260,
        counter_words: 72,
        data: vec![
            section(".rodata", 0, 0x1ec, 64, false, Contents::Bytes(pattern(0x1ec))),
            section(".eh_frame", 0x1f8, 4, 4, false, Contents::Bytes(vec![0; 4])),
            section(".ctors", 0x1fc, 0x38, 4, false, Contents::Constructors((0..12).map(helper).collect())),
            section(".dtors", 0x234, 8, 4, false, Contents::Bytes(ones_and_zero)),
            section(".data", 0x240, 0x140, 64, true, Contents::Pointer(DATA)),
            section(".globstruct", 0x408, 0x48, 8, true, Contents::Bytes(globstruct())),
        ],
        table: DATA + 0x380,
        kernels: (0..KERNELS.len()).map(|row| (KERNELS[row].0, KERNELS[row].1, code + address(variant, row))).collect(),
        bss: (DATA + 0x450, 0x3c),
        comment: variant.comment,
        properties: if variant.properties { properties(variant) } else { Vec::new() },
        unnamed: 0,
    }
}
