//! NEFF models: the stream in the file is what runs, and what it is bound to must fit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_gpsimd::{Error, FaultKind, ModelOutcome, Runtime, RuntimeOptions, Schedule};
use outboard_neff::metaneff::{DataType, MetaNeff, MetaTensor, TensorRole};
use outboard_neff::seq::{Dialect, Events, Instruction, Shape};
use outboard_tensor::Tensor;
use serde_json::json;
use support::model::{Model, relu};
use support::{floats, pi, slices, values};

const COUNT: usize = 300;

fn model() -> Model {
    relu(&pi("relu").image, COUNT)
}

fn input() -> Tensor {
    floats(&(0..COUNT).map(|n| if n % 2 == 0 { n as f32 } else { -1.0 }).collect::<Vec<_>>())
}

fn run(model: &Model) -> Result<ModelOutcome, Box<Error>> {
    let mut runtime =
        Runtime::new(RuntimeOptions { schedule: Schedule::Seeded(2), ..RuntimeOptions::default() }).unwrap();
    runtime.run_neff(&model.pack(), None, &[input()]).map_err(Box::new)
}

fn problem(change: impl FnOnce(&mut Model)) -> String {
    let mut model = model();
    change(&mut model);
    run(&model).unwrap_err().to_string()
}

#[test]
fn the_stream_in_the_file_moves_computes_moves_back_and_signals() {
    let outcome = run(&model()).unwrap();
    let expected: Vec<f32> = values(&input()).iter().map(|value| value.max(0.0)).collect();
    assert_eq!(outcome.outputs[0].0, "y");
    assert!(values(&outcome.outputs[0].1) == expected);
    let notification = outcome.report.notifications[0];
    assert_eq!((notification.queue, notification.semaphore, notification.value), (6, 11, 1));
    assert!(outcome.report.log.iter().any(|line| line == "P7: Library loaded"));
}

#[test]
fn every_byte_of_the_stream_matters() {
    let model = model();
    let original = run(&model).unwrap();
    for at in 0..model.stream.len() {
        let mut changed = model.clone();
        changed.stream[at] ^= 0x40;
        match run(&changed) {
            Err(_) => {}
            Ok(outcome) => {
                let same = outcome.outputs == original.outputs
                    && outcome.report.log == original.report.log
                    && outcome.report.notifications == original.report.notifications;
                assert!(!same, "byte {at:#x} of instruction {} has no effect", at / 64);
            }
        }
    }
}

#[test]
fn shapes_that_the_device_does_not_take_abort_there_with_the_reason() {
    let model = model();
    let mut four = [0; 4];
    four[0] = u32::try_from(COUNT).unwrap();
    assert_eq!(run(&model.with_operand(Shape::Inline4(four), four[0])).unwrap().outputs, run(&model).unwrap().outputs);
    for (shape, elements, reason) in [
        (Shape::Inline8([0; 8]), 1, "utypes.hpp:139: Input and output tensors cannot have 0 dimensions"),
        (Shape::Inline4([0; 4]), 1, "utypes.hpp:139: Input and output tensors cannot have 0 dimensions"),
        (Shape::OutOfLine(0x2000), four[0], "utypes.hpp:94: out-of-line shapes are not supported"),
    ] {
        let error = run(&model.with_operand(shape, elements)).unwrap_err();
        let Error::Device(fault) = &*error else { panic!("{shape:?}: {error}") };
        assert!(matches!(&fault.kind, FaultKind::Abort { text } if text.contains(reason)), "{shape:?}: {fault}");
    }
}

#[test]
fn a_stream_without_a_signal_is_an_error() {
    let text = problem(|model| {
        let end = model.stream.len() - 64;
        model.stream.truncate(end);
    });
    assert!(text.contains("notification queue"), "{text}");
}

#[test]
fn a_wait_that_nothing_ends_is_an_error_at_once() {
    let text = problem(|model| {
        let events = Events { wait_mode: 4, wait_index: 3, semaphore_value: 2, ..Events::default() };
        model.stream.extend(Instruction::EventSemaphore.encode_with(&events, Dialect::V2));
    });
    assert!(text.contains("semaphore 3 reaches 2"), "{text}");
}

#[test]
fn what_does_not_fit_together_is_named() {
    for (change, named) in [
        ((|m: &mut Model| m.definition["var"]["x"]["dtype"] = json!("int32")) as fn(&mut Model), "input x"),
        (|m| m.definition["var"]["x"]["framework_shape"] = json!([COUNT, 1]), "input x"),
        (|m| m.definition["var"]["y"]["size"] = json!(4), "y"),
        (|m| m.definition["var"]["x_sb"]["backing_variable_off"] = json!(1_u64 << 40), "on-chip"),
        (|m| m.definition["pool"]["dma"][0]["from"] = json!("z"), "no variable"),
        (|m| m.definition["pool"]["dma"][0]["from_sizes"] = json!([4 * COUNT + 4]), "beyond"),
        (|m| m.definition["pool"]["dma"][1]["to_sizes"] = json!([4]), "it reads"),
        (|m| m.definition["dma_queue"] = json!({"q_in": {"type": "in"}}), "q_out"),
        (|m| m.definition["pool"]["dma"] = json!([]), "not described"),
        (|m| m.manifest["ucode_lib"][0]["functions"][0]["name"] = json!("gelu"), "gelu"),
        (|m| m.manifest["ucode_lib"][0]["library"] = json!("other.so"), "other.so"),
        (|m| m.library.truncate(200), "Failed prelink"),
    ] {
        let text = problem(change);
        assert!(text.contains(named), "{named}: {text}");
    }
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let text = runtime.run_neff(&model().pack(), None, &[]).unwrap_err().to_string();
    assert!(text.contains("0 inputs were given, the model has 1: x"), "{text}");
}

fn meta(name: &str, shape: &[i64], data_type: u64) -> MetaTensor {
    MetaTensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        data_type: DataType(data_type),
        role: TensorRole(1),
        ..MetaTensor::default()
    }
}

#[test]
fn metaneff_is_bound_by_position_and_compared() {
    let count = i64::try_from(COUNT).unwrap();
    let described = |input: MetaTensor| MetaNeff {
        input_tensors: vec![input],
        output_tensors: vec![meta("output0", &[count], 1)],
        ..MetaNeff::default()
    };
    let run = |input: MetaTensor| {
        let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
        let outcome = runtime.run_neff(&model().pack(), Some(&described(input)), &[self::input()]);
        outcome.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(run(meta("input0", &[count], 1)), Ok(()));
    assert!(run(meta("input1", &[count], 1)).unwrap_err().contains("`input1`, expected `input0`"));
    assert!(run(meta("input0", &[count, 1], 1)).unwrap_err().contains("input0"));
    assert!(run(meta("input0", &[count], 2)).unwrap_err().contains("INT32"));
}

#[test]
fn a_fixed_load_library_runs_from_a_container_too() {
    let files = support::build().fixed_op("relu", 8).unwrap();
    let mut model = model();
    // Fixed-load libraries are there before the stream begins.
    model.stream.drain(..64);
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let outcome = runtime.run_neff(&model.pack_fixed(&slices(&files)), None, &[input()]).unwrap();
    assert!(values(&outcome.outputs[0].1).iter().all(|value| *value >= 0.0));
}
