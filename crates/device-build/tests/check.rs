//! Conformance of custom operations: what is right passes, and what is wrong is named by the one right code (promise P19).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "check/support.rs"]
mod support;

use outboard_device_build::{DeviceBuild, OpRequest, Schema};
use support::*;

/// The samples of `device/ops`: file and schemas.
const SAMPLES: [(&str, &[&str]); 8] = [
    ("relu", &["relu(Tensor x)", "relu_tcm(Tensor x)", "relu_multicore(Tensor x)"]),
    ("negate", &["negate(Tensor x)", "negate_int(Tensor x)"]),
    ("add", &["add(Tensor x, Tensor y)", "axpy(Tensor x, Tensor y, float a, int n)"]),
    ("matmul", &["matmul(Tensor x, Tensor y)"]),
    ("softmax", &["softmax(Tensor x)"]),
    ("quantise", &["quantise(Tensor x, float scale, int zero)", "dequantise(Tensor q, float scale, int zero)"]),
    ("topk", &["topk_parts(Tensor x, int k)", "topk_merge(Tensor parts, int k)"]),
    ("giou", &["giou(Tensor boxes, Tensor others)"]),
];

#[test]
fn try_some() {
    for (file, schemas) in SAMPLES {
        let folder = tempfile::tempdir().unwrap();
        let schemas: Vec<Schema> = schemas.iter().map(|text| format!("s::{text} -> (Tensor)").parse().unwrap()).collect();
        let source = DeviceBuild::default().sources().join("ops").join(format!("{file}.cpp"));
        let request = OpRequest { multicore: true, ..OpRequest::new(schemas, vec![source], "op.so", folder.path()) };
        match DeviceBuild::default().op_library(&request) {
            Ok(library) => {
                println!("=== {file}");
                let beside = library.files.iter().cloned().collect();
                let t = std::time::Instant::now();
                let judged = judge("op_cpu0.so", &library.files[0].1, &beside);
                println!("{:?}", t.elapsed());
                for finding in &judged.findings { println!("{finding}"); }
                println!("{:?}", judged.operations);
            }
            Err(e) => println!("=== {file} {e}"),
        }
    }
}
