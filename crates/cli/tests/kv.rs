//! Caches that stay on the device: a hundred steps equal those of a host that carries the caches itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::{Error, Input, RunOptions, Session, SessionOptions, SimOptions, simulated};
use outboard_tensor::{DType, Shape, Tensor};
use outboard_wire::KvLayout;
use support::{PROGRAM, floats, module};

fn session(kv: KvLayout) -> Session {
    let transport = simulated(SimOptions { program: Some(PROGRAM.into()), kv, ..SimOptions::default() }).unwrap();
    Session::open(transport, SessionOptions::default()).unwrap()
}

fn step_input(step: u8) -> (Tensor, Tensor) {
    let x = floats("1", &[f32::from(step) * 0.25 - 3.0]);
    (x, Tensor::from_values("1".parse().unwrap(), &[i64::from(step)]).unwrap())
}

/// A hundred steps with the caches carried by the host.
fn on_the_host(source: &str, length: usize) -> Vec<f32> {
    let mut session = session(KvLayout::Fixed);
    let model = session.load_file(&module(source)).unwrap();
    let mut caches = vec![Tensor::zeros(DType::Float32, Shape::new(&[length]).unwrap()).unwrap(); 3];
    (0..100)
        .map(|step| {
            let (x, at) = step_input(step);
            let mut inputs = vec![Input::from(&x), Input::from(&at)];
            inputs.extend(caches.iter().map(Input::from));
            let outputs = session.run(&model, &inputs).unwrap();
            let y = outputs.view(0).unwrap().values::<f32>().unwrap()[0];
            caches = (1..4).map(|index| outputs.to_tensor(index).unwrap()).collect();
            y
        })
        .collect()
}

/// A hundred steps with the caches resident on the device.
fn on_the_device(source: &str, length: usize, kv: KvLayout) -> Result<Vec<f32>, Error> {
    let mut session = session(kv);
    let model = session.load_file(&module(source))?;
    let shape = Shape::new(&[length]).unwrap();
    let empty = Tensor::zeros(DType::Float32, shape.clone())?;
    let resident = Input::Resident { dtype: DType::Float32, shape: &shape };
    let options = RunOptions { kv_resident: true, ..RunOptions::default() };
    (0..100)
        .map(|step| {
            let (x, at) = step_input(step);
            let mut inputs = vec![Input::from(&x), Input::from(&at)];
            inputs.extend([if step == 0 { Input::from(&empty) } else { resident }; 3]);
            let outputs = session.run_with(&model, &inputs, &options)?;
            assert_eq!(outputs.len(), 1, "only the first output comes back");
            Ok(outputs.view(0).unwrap().values::<f32>().unwrap()[0])
        })
        .collect()
}

#[test]
fn a_hundred_steps_with_a_resident_cache_equal_those_of_the_host() {
    let expected = on_the_host("kv.c", 128);
    assert!(expected.windows(2).any(|pair| pair[0] != pair[1]));
    assert_eq!(on_the_device("kv.c", 128, KvLayout::Fixed).unwrap(), expected);
    assert_eq!(on_the_device("kv.c", 128, KvLayout::Packed).unwrap(), expected);
}

#[test]
fn a_cache_beyond_the_fixed_slot_is_an_error_and_fits_when_the_limits_are_lifted() {
    const LENGTH: usize = 60_000; // 240,000 bytes, more than 196,608
    let error = on_the_device("kv_large.c", LENGTH, KvLayout::Fixed).unwrap_err();
    assert!(error.to_string().contains("does not fit the KV region (60 tensors of at most 196608 bytes)"), "{error}");
    let resident = on_the_device("kv_large.c", LENGTH, KvLayout::Packed).unwrap();
    assert_eq!(resident, on_the_host("kv_large.c", LENGTH));
}
