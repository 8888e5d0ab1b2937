//! The documented limits of custom operations: what the vendor's guide promises, narrower than what the formats carry.

use crate::{DefVar, UcodeLib};

/// Functions of a library.
const FUNCTIONS: usize = 10;
/// Dimensions of a tensor.
const RANK: usize = 8;
/// Largest dimension.
const DIMENSION: u64 = 65_535;
/// Opcode of a custom operation.
const CUSTOM_OP: u8 = 0x85;

/// A limit that is exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// Stable code, explained by `outboard explain`.
    pub code: &'static str,
    /// What it is and what to do.
    pub message: String,
}

/// Checks libraries and variables of a model against the documented limits.
#[must_use]
pub fn custom_op_findings(libraries: &[UcodeLib], vars: &[DefVar]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |message: String| findings.push(Finding { code: "OB0652", message });
    // The images of one multi-core library count once.
    let own: Vec<&UcodeLib> = libraries.iter().filter(|library| library.cpu_id == 0 && !library.is_builtin).collect();
    if own.len() > 1 {
        let names: Vec<&str> = own.iter().map(|library| library.library.as_str()).collect();
        add(format!("a model has one custom-op library, this one has {}: {}; merge them", own.len(), names.join(", ")));
    }
    for library in libraries {
        let name = &library.library;
        if library.functions.len() > FUNCTIONS {
            add(format!(
                "{name} has {} functions, at most {FUNCTIONS} are supported; split the model",
                library.functions.len()
            ));
        }
        if !library.is_builtin && name.contains("builtin") {
            add(format!("the name {name} is reserved for libraries of the compiler; rename it"));
        }
        if library.is_builtin && !name.starts_with("libbuiltincustomop_cpu") {
            add(format!("{name} says is_builtin and is not a library of the compiler; set is_builtin to false"));
        }
        for function in &library.functions {
            if function.opcode != CUSTOM_OP {
                let opcode = function.opcode;
                add(format!(
                    "function {} of {name} has opcode {opcode:#x}, custom operations have 0x85",
                    function.name
                ));
            }
        }
        let mut ids: Vec<u8> = library.functions.iter().filter_map(|function| function.sub_opcode).collect();
        ids.sort_unstable();
        if !ids.iter().copied().map(usize::from).eq(0..ids.len()) {
            add(format!("the sub_opcodes of {name} are {ids:?}, expected 0..{} in order of registration", ids.len()));
        }
    }
    for var in vars.iter().filter(|var| var.kind == "input" || var.kind == "output") {
        if var.shape.len() > RANK {
            add(format!("{} has {} dimensions, at most {RANK} are supported; reshape it", var.name, var.shape.len()));
        }
        if let Some(dim) = var.shape.iter().find(|dim| **dim > DIMENSION) {
            add(format!("{} has a dimension of {dim}, at most {DIMENSION} is supported; split it", var.name));
        }
    }
    findings
}
