//! Files to judge: the samples in every shape, and a small operation with its wrapper written out, with one thing changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use outboard_device_build::{DeviceBuild, OpCheck, OpJudgement, OpLibrary, OpRequest, OpShape, Schema};
use outboard_gpsimd::PoolTarget;

/// Files by name; the first argument of a check is one of them.
pub type Files = BTreeMap<String, Vec<u8>>;

/// An operation that is as it should be.
pub const GOOD: &str = r#"
#include <torch/torch.h>
#include <outboard/wrapper.hpp>

torch::Tensor scale(const torch::Tensor& x, double factor) {
  torch::Tensor y = torch::empty(x.sizes(), x.scalar_type());
  auto in = x.accessor<float, 1>();
  auto out = y.accessor<float, 1>();
  for (uint32_t i = 0; i < x.numel(); i++) out[i] = in[i] * static_cast<float>(factor);
  return y;
}

extern "C" int scale_wrapper() {
  customop_setup(true);
  torch::Tensor a0 = customop_next_tensor();
  double a1 = customop_next_float();
  torch::Tensor result = scale(a0, a1);
  customop_return_tensor(result);
  customop_cleanup();
  return 0;
}

extern "C" int scale_stack_switch() {
  return switch_stack_or_call_wrapper(STACK_SIZE, reinterpret_cast<uint32_t>(&scale_wrapper));
}

torch::Tensor twice(const torch::Tensor& x) { return torch::mul(x, 2); }

extern "C" int twice_wrapper() {
  customop_setup(true);
  torch::Tensor b0 = customop_next_tensor();
  torch::Tensor result = twice(b0);
  customop_return_tensor(result);
  customop_cleanup();
  return 0;
}

extern "C" int twice_stack_switch() {
  return switch_stack_or_call_wrapper(STACK_SIZE, reinterpret_cast<uint32_t>(&twice_wrapper));
}

int get_func_cnt() { return 2; }

const char* get_func_name(int index) {
  switch (index) {
    case 0: return "scale";
    case 1: return "twice";
    default: return "error";
  }
}

int (*get_func_ptr(int index))() {
  switch (index) {
    case 0: return &scale_stack_switch;
    case 1: return &twice_stack_switch;
    default: return nullptr;
  }
}
"#;

/// Compiles a text.
pub fn cxx(text: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("op.cpp");
    fs::write(&source, text).unwrap();
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    DeviceBuild::default().cxx(&source, &folder.path().join("op.o"), &flags).unwrap()
}

/// The good operation with parts of its text replaced; each part must be there.
pub fn changed(changes: &[(&str, &str)]) -> Vec<u8> {
    let text = changes.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the text has no `{from}`");
        text.replace(from, to)
    });
    cxx(&text, &[])
}

/// A library of one source, in one shape.
pub fn library(source: &Path, functions: &[&str], adjust: impl FnOnce(OpRequest) -> OpRequest) -> OpLibrary {
    let folder = tempfile::tempdir().unwrap();
    let schema = |text: &&str| format!("s::{text} -> (Tensor)").parse::<Schema>().unwrap();
    let schemas = functions.iter().map(schema).collect();
    let request = adjust(OpRequest::new(schemas, vec![source.to_owned()], "op.so", folder.path()));
    DeviceBuild::default().op_library(&request).unwrap()
}

/// The files of a library, its manifest among them.
pub fn files(library: &OpLibrary) -> Files {
    let manifest = ("op.ucode_lib.json".to_owned(), serde_json::to_vec(&library.manifest).unwrap());
    library.files.iter().cloned().chain([manifest]).collect()
}

/// The window of the default core.
pub fn resident() -> OpShape {
    OpShape::Resident { bounds: *PoolTarget::default().bounds(), first_spec: 0x20 }
}

/// Judges one of some files, with the others beside it.
pub fn judge(name: &str, files: &Files, schemas: &[&str]) -> OpJudgement {
    let schemas: Vec<Schema> = schemas.iter().map(|text| text.parse().unwrap()).collect();
    let beside = |name: &str| files.get(name).cloned();
    let check = OpCheck { name, file: &files[name], beside: &beside, schemas: &schemas };
    DeviceBuild::default().check_op(&check).unwrap()
}

/// Judges a file that stands alone.
pub fn alone(name: &str, file: Vec<u8>, schemas: &[&str]) -> OpJudgement {
    judge(name, &[(name.to_owned(), file)].into(), schemas)
}

/// Demands that nothing is found and every operation was followed to its end.
pub fn passes(sentence: &str, judged: &OpJudgement, operations: usize) {
    let found: Vec<String> = judged.findings.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{sentence}: {}", found.join("\n"));
    assert_eq!(judged.operations.len(), operations, "{sentence}");
    assert!(judged.operations.iter().all(|operation| operation.completed), "{sentence}: {:?}", judged.operations);
}

/// Demands that exactly one code is found, with these words in the place or the message of one finding, and a fix.
pub fn names(sentence: &str, judged: &OpJudgement, code: &str, words: &str) {
    let found: Vec<String> = judged.findings.iter().map(ToString::to_string).collect();
    let all = found.join("\n");
    assert!(!found.is_empty(), "{sentence}: nothing was found");
    assert!(judged.findings.iter().all(|finding| finding.code == code), "{sentence}, expected {code}:\n{all}");
    assert!(judged.findings.iter().all(|finding| !finding.place.is_empty() && !finding.fix.is_empty()), "{sentence}");
    assert!(all.contains(words), "{sentence}, expected `{words}`:\n{all}");
}
