//! Files to judge: a small operation with its wrapper written out, compiled with one thing changed.

use std::fs;
use std::collections::BTreeMap;

use outboard_device_build::{DeviceBuild, OpCheck, OpJudgement};

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

int get_func_cnt() { return 1; }

const char* get_func_name(int index) {
  switch (index) {
    case 0: return "scale";
    default: return "error";
  }
}

int (*get_func_ptr(int index))() {
  switch (index) {
    case 0: return &scale_stack_switch;
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

/// Judges a file with others beside it.
pub fn judge(name: &str, file: &[u8], beside: &BTreeMap<String, Vec<u8>>) -> OpJudgement {
    let check = OpCheck { name, file, beside: &|name| beside.get(name).cloned(), schemas: &[] };
    DeviceBuild::default().check_op(&check).unwrap()
}

pub fn show(name: &str, file: &[u8]) {
    let judged = judge(name, file, &BTreeMap::new());
    for finding in &judged.findings { println!("{finding}"); }
    println!("{:?}", judged.operations);
}
