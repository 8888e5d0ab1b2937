//! The device shows memory through windows of 16 MiB. A tensor that reaches from one into the next is read and written whole, by
//! every method of copying and element by element.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use outboard_device_build::{DeviceBuild, OpRequest};
use outboard_gpsimd::{Arg, PoolTarget, Rules, Runtime, RuntimeOptions};
use outboard_tensor::{Shape, Tensor};

/// Dimensions with more bytes than a window, so that a boundary lies inside.
const SHAPE: [usize; 2] = [17 << 8, 1024];
/// Elements around the boundary that are copied.
const AROUND: usize = 64;

/// Copies the elements around the boundary in the operand to those around the boundary in the result.
const SOURCE: &str = "
use customop::prelude::*;

const AROUND: u32 = 64;

fn boundary(x: &Tensor) -> u32 {
    let (window, start) = (1_u64 << 24, x.data());
    (((start + 1).next_multiple_of(window) - start) / 4) as u32 - AROUND / 2
}

#[custom_op]
fn around(x: &Tensor, way: i32) -> Tensor {
    let y = routine::get_dst_tensor();
    let (from, to) = (boundary(x), boundary(&y));
    if way < 3 {
        assert!(way >= 0);
        routine::neuron_set_memcpy_method(way as u32);
        let Some(mut block) = Tcm::<f32>::new(AROUND as usize) else { fail(\"no data memory\") };
        x.read_into(block.as_mut(), from);
        y.write_from(block.as_mut(), to);
    } else {
        for index in 0..AROUND {
            y.set(to + index, x.get::<f32>(from + index));
        }
    }
    y
}
";

#[test]
fn copies_and_elements_cross_from_one_window_into_the_next() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("around.rs");
    fs::write(&source, SOURCE).unwrap();
    let schemas = vec!["ns::around(Tensor x, int way) -> (Tensor)".parse().unwrap()];
    let request = OpRequest::new(schemas, vec![source], "op.so", scratch.path());
    let library = DeviceBuild::default().op_library(&request).unwrap();
    let target = PoolTarget { cores: 1, ..PoolTarget::default() };
    let options = RuntimeOptions { target, rules: Rules::all(), ..RuntimeOptions::default() };
    let mut runtime = Runtime::new(options).unwrap();
    let mut loaded = runtime.load(&[&library.files[0].1]).unwrap();
    let values: Vec<f32> = (1..=SHAPE[0] * SHAPE[1]).map(|n| n as f32).collect();
    let x = Tensor::from_values(Shape::new(&SHAPE).unwrap(), &values).unwrap();
    for way in 0..4 {
        let outcome = loaded.op("around").unwrap().run(&[Arg::from(x.clone()), Arg::Int(way)]).unwrap();
        // Most of the result is left as it was, which is told; nothing else is.
        let mut findings = outcome.report.findings.iter();
        assert!(findings.all(|finding| finding.code == "OB0848"), "way {way}: {:?}", outcome.report.findings);
        let found: Vec<f32> = outcome.result.values().unwrap();
        let written: Vec<f32> = found.iter().copied().skip_while(|value| *value == 0.0).take(AROUND).collect();
        let expected: Vec<f32> = (0..AROUND).map(|n| written[0] + n as f32).collect();
        assert!(written == expected, "way {way}: {written:?}");
        assert_eq!(found.iter().filter(|value| **value != 0.0).count(), AROUND, "way {way}");
    }
}
