//! The kernel table: rows that objects bring, rows that are declared, and what a row must be.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use outboard_elf::image::Chunk;
use outboard_elf::pi::{KERNEL_ROW, KernelRow};

use super::ShapeError;
use super::error::Faults;

/// The section of the table, in objects and in images; objects may write it with a leading dot.
pub const SECTION: &str = "kernel_info_table";

/// A kernel and its opcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Opcode of the instruction that runs it.
    pub opcode: u8,
    /// Extended opcode; 0 unless the opcode is 0xF0.
    pub spec: u8,
    /// Name of its function.
    pub function: String,
}

/// Declarations that cannot be, before anything is linked.
pub(super) fn check(kernels: &[Kernel]) -> Result<(), super::ShapeErrors> {
    let mut faults = Faults::default();
    let mut keys = BTreeSet::new();
    for kernel in kernels {
        let Kernel { opcode, spec, function } = kernel;
        let mut bad = |problem| {
            faults.push(ShapeError::Kernel { opcode: *opcode, spec: *spec, function: function.clone(), problem });
        };
        if *spec != 0 && *opcode != 0xf0 {
            bad("only opcode 0xf0 has extended opcodes: dispatch looks for spec 0; write spec = 0");
        }
        if function.is_empty() {
            bad("the function has no name; name it");
        }
        if !keys.insert((*opcode, *spec)) {
            bad("the opcode is declared twice, and dispatch would take the first; remove one");
        }
    }
    faults.finish()
}

/// The declared rows; `address` knows the functions.
pub(super) fn rows(kernels: &[Kernel], address: impl Fn(&str) -> Option<u32>) -> Result<Vec<u8>, super::ShapeErrors> {
    let mut faults = Faults::default();
    let mut bytes = Vec::with_capacity(KERNEL_ROW * kernels.len());
    for kernel in kernels {
        let Kernel { opcode, spec, function } = kernel;
        match address(function) {
            Some(address) => bytes.extend(KernelRow::encode(*spec, *opcode, address)),
            None => faults.push(ShapeError::Kernel {
                opcode: *opcode,
                spec: *spec,
                function: function.clone(),
                problem: "the function is a number and no code; define it in an object",
            }),
        }
    }
    faults.finish().map(|()| bytes)
}

/// Checks every row of the finished table: zero bytes, keys that differ, functions that begin with `entry`, and that the host
/// moves its address (`moved`).
pub(super) fn verify(table: &Chunk, text: &Chunk, moved: &BTreeSet<u32>) -> Result<usize, super::ShapeErrors> {
    let (rows, rest) = table.bytes.as_chunks::<KERNEL_ROW>();
    if !rest.is_empty() {
        return Err(ShapeError::KernelTable {
            problem: "is no multiple of 8 bytes; write rows of the documented form",
        }
        .into());
    }
    let mut faults = Faults::default();
    let mut keys = BTreeSet::new();
    for (raw, address) in rows.iter().zip((table.address..).step_by(KERNEL_ROW)) {
        let row = KernelRow::decode(address.into(), *raw);
        let mut bad = |problem| {
            let function = alloc::format!("{:#x}", row.function);
            faults.push(ShapeError::Kernel { opcode: row.opcode, spec: row.spec, function, problem });
        };
        let code = row.function.checked_sub(text.address).and_then(|inside| usize::try_from(inside).ok());
        let code = code.and_then(|inside| text.bytes.get(inside..));
        match code {
            None | Some([] | [_]) => {
                bad("the function does not lie in the text; a row holds the address of a function")
            }
            Some([first, second, ..]) if *first != 0x36 || second & 0xf != 1 => {
                bad(
                    "the function does not begin with `entry`, and dispatch calls it with callx8; build it with the windowed ABI",
                );
            }
            Some(_) => {}
        }
        if raw.first_chunk() != Some(&[0, 0]) {
            bad("its first two bytes are not 0; write rows of the documented form");
        }
        if !moved.contains(&address.wrapping_add(4)) {
            bad("its address is a number that the host does not move; write the name of the function");
        }
        if !keys.insert(row.key()) {
            bad("an earlier row has the same opcode, so dispatch never reaches this one; remove one");
        }
    }
    faults.finish().map(|()| rows.len())
}
