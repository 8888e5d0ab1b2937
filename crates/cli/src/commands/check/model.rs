//! What a module says about its model, held against the model: declared sizes, the manifest, constants.

use crate::commands::weights::source;
use outboard_c7x::weights::{self, Constant, TensorConstant};
use outboard_elf::Elf;
use outboard_host::{Manifest, TensorSpec};
use outboard_link::check::{Finding, Severity};
use outboard_link::target::Target;
use outboard_wire::IoMeta;

/// Where vector loads and the streaming engine want tensors to start.
const VECTOR: usize = 64;

/// What is wrong with the model of a module. A file that is no module, or cannot be read at all, is judged elsewhere.
pub(super) fn findings(file: &[u8], target: &Target) -> Vec<Finding> {
    let Ok(elf) = Elf::parse(file) else { return Vec::new() };
    let Ok(records) = source::find(file) else { return Vec::new() };
    let mut found = Vec::new();
    let declared = records.io_meta.and_then(|bytes| IoMeta::parse(bytes).ok());
    match outboard_link::manifest(&elf).map(Manifest::parse) {
        Some(Ok(manifest)) => found.extend(sizes(&manifest, declared.as_ref(), target)),
        Some(Err(reason)) => found.push(finding(
            "OB0326",
            Severity::Error,
            "the manifest",
            reason,
            "build the module again with `python -m outboard.build`",
        )),
        None => {}
    }
    if let Some(bytes) = records.weights {
        found.extend(constants(bytes));
    }
    found
}

fn finding(
    code: &'static str,
    severity: Severity,
    place: impl Into<String>,
    message: impl Into<String>,
    fix: &str,
) -> Finding {
    Finding { code, severity, place: place.into(), message: message.into(), fix: fix.to_owned() }
}

/// The buffers that the manifest's tensors need, against those the module declares and those the board has.
fn sizes(manifest: &Manifest, declared: Option<&IoMeta>, target: &Target) -> Vec<Finding> {
    let bytes = |tensors: &[TensorSpec]| tensors.iter().map(TensorSpec::bytes).collect::<Vec<_>>();
    let Some(needed) = IoMeta::exact(bytes(&manifest.inputs), bytes(&manifest.outputs)) else { return Vec::new() };
    let Some(declared) = declared else { return beyond_the_window(&needed, target) };
    let sides = [
        (
            "input",
            declared.num_inputs.get(),
            needed.num_inputs.get(),
            declared.input_bytes.get(),
            needed.input_bytes.get(),
        ),
        (
            "output",
            declared.num_outputs.get(),
            needed.num_outputs.get(),
            declared.output_bytes.get(),
            needed.output_bytes.get(),
        ),
    ];
    let wrong = sides.into_iter().filter_map(|(side, count, listed, declared, needed)| {
        let message = if count != listed {
            format!("it declares {count} {side}s, and the manifest lists {listed}")
        } else if declared < needed {
            format!("it declares {declared} bytes for its {side}s, and the manifest's tensors need {needed}")
        } else {
            return None;
        };
        let fix = "build the declaration from the model's own shapes, with the rule of docs/reference/c7x-wire.md";
        Some(finding("OB0223", Severity::Error, "_binary_tvm_dsp_io_meta_start", message, fix))
    });
    wrong.collect()
}

/// A module without a declaration is measured by its manifest; one with a declaration is measured by that.
fn beyond_the_window(needed: &IoMeta, target: &Target) -> Vec<Finding> {
    let (input, output, window) = (needed.input_bytes.get(), needed.output_bytes.get(), target.window.size);
    let fix = "use a smaller model, or split it into several modules";
    if input.checked_add(output).is_some_and(|both| both <= window) {
        return Vec::new();
    }
    let message =
        format!("a call needs {input} bytes of inputs and {output} of outputs, and both share {window} bytes");
    vec![finding("OB0218", Severity::Error, "input and output window", message, fix)]
}

/// Constants that cannot be read, or start where the code may not read them.
fn constants(bytes: &[u8]) -> Vec<Finding> {
    let place = "_binary_weights_bin_start";
    let constants = match weights::parse(bytes) {
        Ok(constants) => constants,
        Err(error) => {
            let fix = "write weights.bin with `python -m outboard.build`, or see docs/reference/models.md";
            return vec![finding("OB0224", Severity::Error, place, error.to_string(), fix)];
        }
    };
    let tensors: Vec<(usize, &TensorConstant<'_>)> = constants
        .iter()
        .enumerate()
        .filter_map(|(index, constant)| match constant {
            Constant::Tensor(tensor) if !tensor.data.is_empty() => Some((index, tensor)),
            _ => None,
        })
        .collect();
    let fix =
        "put a string constant before each tensor that moves its data to a multiple of 64 (docs/reference/models.md)";
    let element = |tensor: &TensorConstant<'_>| usize::from(tensor.bits.div_ceil(8)).max(1);
    let broken = tensors.iter().filter(|(_, tensor)| !tensor.offset.is_multiple_of(element(tensor)));
    let mut found: Vec<Finding> = broken
        .map(|(index, tensor)| {
            let message = format!(
                "constant {index} has elements of {} bytes and starts at {:#x}: the code reads them unaligned",
                element(tensor),
                tensor.offset
            );
            finding("OB0225", Severity::Error, place, message, fix)
        })
        .collect();
    let slow = tensors.iter().filter(|(_, tensor)| !tensor.offset.is_multiple_of(VECTOR)).count();
    if found.is_empty() && slow > 0 {
        let message = format!("{slow} of {} tensors do not start at a multiple of {VECTOR}", tensors.len());
        found.push(finding("OB0225", Severity::Note, place, message, fix));
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn manifest(output: u64) -> Manifest {
        let text = format!(
            r#"{{"inputs":[{{"name":"x","dtype":"float32","shape":[3]}}],"outputs":[{{"name":"y","dtype":"int8","shape":[{output}]}}]}}"#
        );
        Manifest::parse(&text).unwrap()
    }

    fn messages(found: &[Finding]) -> Vec<(&'static str, &str)> {
        found.iter().map(|finding| (finding.code, finding.message.as_str())).collect()
    }

    #[test]
    fn a_declaration_may_not_be_smaller_than_the_manifest_or_count_otherwise() {
        let target = Target::am67a();
        let exact = IoMeta::exact([12], [100]).unwrap();
        assert_eq!(sizes(&manifest(100), Some(&exact), &target), []);
        let larger = IoMeta::exact([12], [1000]).unwrap();
        assert_eq!(sizes(&manifest(100), Some(&larger), &target), [], "an upper bound is no fault");
        let small = IoMeta::exact([12], [64]).unwrap();
        assert_eq!(
            messages(&sizes(&manifest(100), Some(&small), &target)),
            [("OB0223", "it declares 192 bytes for its outputs, and the manifest's tensors need 256")]
        );
        let other = IoMeta::exact([12, 12], [100]).unwrap();
        assert_eq!(
            messages(&sizes(&manifest(100), Some(&other), &target)),
            [("OB0223", "it declares 2 inputs, and the manifest lists 1")]
        );
    }

    #[test]
    fn an_output_larger_than_the_window_is_found_without_a_declaration() {
        let target = Target::am67a();
        assert_eq!(sizes(&manifest(100), None, &target), []);
        let found = sizes(&manifest(GIB), None, &target);
        assert_eq!((found.len(), found[0].code), (1, "OB0218"), "{found:?}");
    }

    /// A file with one tensor of float64[1], whose data starts at `8 + 44 + 8 + padding`.
    fn float64_at(padding: usize) -> Vec<u8> {
        let mut file = 1u64.to_le_bytes().to_vec();
        file.extend(vec![0; padding]);
        file.extend(70i32.to_le_bytes());
        file.extend(0xDD5E_40F0_96B4_A13F_u64.to_le_bytes());
        file.extend(0u64.to_le_bytes());
        file.extend([1i32, 0, 1].map(i32::to_le_bytes).concat());
        file.extend([2, 64, 1, 0]);
        file.extend([1i64, 8].map(i64::to_le_bytes).concat());
        file.extend(1f64.to_le_bytes());
        file
    }

    #[test]
    fn constants_are_read_to_their_end_and_must_be_aligned() {
        let found = constants(&float64_at(0)); // at 60
        assert_eq!((found[0].code, found[0].severity), ("OB0225", Severity::Error), "{found:?}");
        assert!(found[0].message.contains("constant 0 has elements of 8 bytes and starts at 0x3c"), "{found:?}");
        assert_eq!(constants(&float64_at(4)), []); // at 64
        let found = constants(&float64_at(12)); // at 72
        assert_eq!((found[0].code, found[0].severity), ("OB0225", Severity::Note), "{found:?}");
        let whole = float64_at(4);
        for len in 0..whole.len() {
            assert_eq!(constants(&whole[..len])[0].code, "OB0224", "{len}");
        }
    }
}
