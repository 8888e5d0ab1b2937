//! Operations in Rust, compiled, linked and run: by every channel, in both shapes, in every order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_gpsimd::{Answer, Arg, DispatchBy, Outcome, OutputSpec, Runtime, RuntimeOptions, Schedule, UcodePair};
use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_tensor::{DType, Shape, Tensor};
use support::{build, floats, pi, slices, values};

/// Numbers of both signs; not a multiple of eight of them.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| if n % 3 == 0 { n as f32 } else { -(n as f32) * 0.5 }).collect()
}

fn relu(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| value.max(0.0)).collect()
}

#[test]
fn relu_runs_on_eight_cores_from_fixed_load_images() {
    let files = build().fixed_op("relu", 8).unwrap();
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let mut library = runtime.load(&slices(&files)).unwrap();
    assert_eq!(library.functions(), ["relu_forward", "relu_backward"]);
    let x = numbers(10_007);
    let y = library.op("relu_forward").unwrap().run(&[Arg::from(floats(&x))]).unwrap();
    assert!(values(&y.result) == relu(&x));
    assert_eq!(y.report.cores.len(), 8);
    assert!(y.report.cores.iter().all(|core| core.instructions > 0 && core.hooks.transfers > 0));
    assert_eq!((y.report.notifications.len(), y.report.findings.len()), (1, 0));
}

#[test]
fn relu_runs_from_the_window_for_resident_libraries_by_number_and_by_kernel_table() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let mut library = runtime.load(&[&pi("relu").image]).unwrap();
    let (x, g) = (numbers(5000), numbers(5000).into_iter().rev().collect::<Vec<_>>());
    for by in [DispatchBy::FunctionId, DispatchBy::KernelTable] {
        let mut op = library.op("relu_backward").unwrap().dispatch_by(by);
        let y = op.run(&[Arg::from(floats(&g)), Arg::from(floats(&x))]).unwrap();
        let expected: Vec<f32> = g.iter().zip(&x).map(|(g, x)| if *x > 0.0 { *g } else { 0.0 }).collect();
        assert!(values(&y.result) == expected, "{by:?}");
        assert!(y.report.findings.is_empty());
    }
}

#[test]
fn a_result_of_the_kernels_own_is_copied_and_numbers_are_pulled() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let mut library = runtime.load(&[&pi("add").image]).unwrap();
    let (x, y) = (numbers(3000), vec![2.0; 3000]);
    let args = [Arg::from(floats(&x)), Arg::from(floats(&y))];
    let sum = library.op("add").unwrap().call(&args).unwrap();
    assert!(values(&sum) == x.iter().map(|x| x + 2.0).collect::<Vec<_>>());
    let args = [Arg::from(floats(&x)), Arg::from(floats(&y)), Arg::from(0.5), Arg::from(3)];
    let z = library.op("axpy").unwrap().run(&args).unwrap();
    assert!(values(&z.result) == x.iter().map(|x| 0.5 * x + 6.0).collect::<Vec<_>>());
    assert!(z.report.findings.is_empty());
}

fn sum(runtime: &mut Runtime, x: &[f32]) -> Outcome {
    let spec = OutputSpec { dtype: DType::Float32, shape: vec![8] };
    let mut library = runtime.library().unwrap();
    library.op("sum").unwrap().output(spec).run(&[Arg::from(floats(x))]).unwrap()
}

#[test]
fn a_reduction_has_a_part_from_each_core() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    runtime.load(&[&pi("sum").image]).unwrap();
    let x = numbers(8 * 700 + 3);
    let y = sum(&mut runtime, &x);
    let parts = values(&y.result);
    for (core, part) in parts.iter().enumerate() {
        let end = if core == 7 { x.len() } else { 700 * (core + 1) };
        assert_eq!(*part, x[700 * core..end].iter().sum::<f32>(), "core {core}");
    }
    assert!(y.report.cores.iter().all(|core| core.hooks.transfers > 0));
}

#[test]
fn p21_two_hundred_orders_of_cores_give_the_same_bytes() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    runtime.load(&[&pi("sum").image]).unwrap();
    let x = numbers(4001);
    let expected = sum(&mut runtime, &x).result;
    for seed in 1..=200 {
        runtime.set_schedule(Schedule::Seeded(seed));
        let y = sum(&mut runtime, &x);
        assert!(y.result == expected, "seed {seed}");
        assert!(y.report.findings.is_empty());
    }
}

#[test]
fn the_same_number_gives_the_same_run() {
    let run = |seed| {
        let options = RuntimeOptions { schedule: Schedule::Seeded(seed), trace: true, ..RuntimeOptions::default() };
        let mut runtime = Runtime::new(options).unwrap();
        runtime.load(&[&pi("sum").image]).unwrap();
        sum(&mut runtime, &numbers(999)).report
    };
    assert!(run(5) == run(5));
}

#[test]
fn one_operation_gives_the_same_bytes_by_all_three_channels() {
    let file = &pi("relu").image;
    let x = numbers(2049);
    let args = [Arg::from(floats(&x))];
    let mut resident = Runtime::new(RuntimeOptions::default()).unwrap();
    let first = resident.load(&[file]).unwrap().op("relu_forward").unwrap().call(&args).unwrap();

    let mut replaced = Runtime::new(RuntimeOptions::default()).unwrap();
    let image = prelink(&PrelinkRequest::new(file, replaced.target().bounds())).unwrap();
    let pair = UcodePair { iram: image.code().to_vec(), dram: image.data().to_vec(), entry: image.header.start };
    let second = replaced.set_pool_eng_ucode(&pair).unwrap().op("relu_forward").unwrap().call(&args).unwrap();

    let mut packed = Runtime::new(RuntimeOptions::default()).unwrap();
    let model = support::model::relu(file, x.len());
    let third = packed.run_neff(&model.pack(), None, &[floats(&x)]).unwrap();
    assert!(first == second && values(&first) == relu(&x));
    assert!(third.outputs.len() == 1 && third.outputs[0].1 == first);
}

#[test]
fn a_pair_is_taken_before_the_runtime_is_in_use_only() {
    let pair = UcodePair { iram: vec![0; 4], dram: vec![0; 4], entry: 0x1_8000 };
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    runtime.load(&[&pi("relu").image]).unwrap();
    let running = runtime.set_pool_eng_ucode(&pair).unwrap_err();
    assert!(matches!(running, outboard_gpsimd::Error::State { status: 0xd, .. }), "{running}");
    runtime.close();
    let closed = runtime.set_pool_eng_ucode(&pair).unwrap_err();
    assert!(matches!(closed, outboard_gpsimd::Error::State { status: 0xe, .. }), "{closed}");
}

#[test]
fn dispatches_leave_heaps_and_windows_as_they_were() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    runtime.load(&[&pi("sum").image]).unwrap();
    runtime.set_schedule(Schedule::Seeded(1));
    let x = numbers(16);
    sum(&mut runtime, &x);
    let before: Vec<_> = (0..8).map(|core| runtime.core_state(core).unwrap()).collect();
    let held = runtime.resident_bytes();
    for _ in 0..10_000 {
        sum(&mut runtime, &x);
    }
    let after: Vec<_> = (0..8).map(|core| runtime.core_state(core).unwrap()).collect();
    assert!(before == after);
    assert_eq!(runtime.resident_bytes(), held);
}

#[test]
fn libraries_replace_each_other_and_can_be_loaded_again() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let x = numbers(64);
    for _ in 0..3 {
        let y = runtime.load(&[&pi("relu").image]).unwrap().op("relu_forward").unwrap().call(&[Arg::from(floats(&x))]);
        assert!(values(&y.unwrap()) == relu(&x));
        runtime.load(&[&pi("sum").image]).unwrap();
        assert_eq!(sum(&mut runtime, &x).result.shape().dims(), [8]);
        runtime.unload();
        assert!(runtime.library().is_err());
    }
}

#[test]
fn an_empty_result_is_known_without_the_device_and_an_empty_operand_of_anything_else_is_refused() {
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let mut library = runtime.load(&[&pi("relu").image]).unwrap();
    let empty = Arg::from(Tensor::from_values::<f32>(Shape::new(&[3, 0, 5]).unwrap(), &[]).unwrap());
    let y = library.op("relu_forward").unwrap().run(std::slice::from_ref(&empty)).unwrap();
    assert_eq!((y.result.shape().dims(), y.result.bytes().len()), (&[3, 0, 5][..], 0));
    assert_eq!((y.report.dispatches, y.report.log.len()), (0, 1));
    let one = OutputSpec { dtype: DType::Float32, shape: vec![1] };
    let error = library.op("relu_forward").unwrap().output(one).run(&[empty]).unwrap_err();
    assert!(error.explain() == "OB0809" && error.to_string().contains("ends a shape"), "{error}");
}

#[test]
fn functions_of_a_library_are_asked_beside_its_dispatches() {
    let files = build().fixed_op("relu", 8).unwrap();
    let mut runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let [count, name, pointer] = ["_Z12get_func_cntv", "_Z13get_func_namei", "_Z12get_func_ptri"];
    assert_eq!(runtime.ask(0, count, 0).unwrap(), Answer::NoSuchFunction);
    runtime.load(&slices(&files)).unwrap();
    for core in 0..8 {
        assert_eq!(runtime.ask(core, count, 0).unwrap(), Answer::Returned(2));
        let Answer::Returned(text) = runtime.ask(core, name, 1).unwrap() else { panic!("no name") };
        assert_eq!(runtime.text_at(core, text, 64).as_deref(), Some("relu_backward"));
        assert_eq!(runtime.text_at(core, text, 5), None);
        let Answer::Returned(function) = runtime.ask(core, pointer, 1).unwrap() else { panic!("no address") };
        assert!(runtime.function_at(core, function).is_some() && runtime.function_at(core, function + 1).is_none());
    }
    assert!(
        runtime.has_names(7) && runtime.has_function(7, count) && runtime.function_names(7).any(|known| known == name)
    );
    assert!(!runtime.has_names(8) && !runtime.has_function(0, "nothing") && runtime.function_names(8).next().is_none());
    assert_eq!(runtime.ask(8, count, 0).unwrap(), Answer::NoSuchFunction);
    assert_eq!(runtime.text_at(0, u32::MAX, 64), None);
}
