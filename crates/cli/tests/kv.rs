//! Caches that stay on the device: a hundred steps equal those of a host that carries the caches itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::client::{Client, RawData, RawTensor};
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

#[test]
fn a_module_that_declares_more_than_the_window_loads_with_a_warning_and_only_calls_that_need_it_are_efbig() {
    const LENGTH: i64 = 800_000; // three caches of 3.2 MB
    const LEFT: u64 = 1 << 20;
    let mut session = session(KvLayout::Packed);
    let room = session.room();
    session.reserve_io(room.largest - LEFT, 0).unwrap();
    let mut client = Client::over(session);
    let handle = client.load(&module("kv_declared.c")).unwrap();
    let [warning] = client.warnings(handle) else { panic!("{:?}", client.warnings(handle)) };
    assert!(warning.contains("output window") && warning.contains("could not be reserved"), "{warning}");
    assert_eq!(client.io().unwrap().num_outputs, 4);

    let (x, step, cache) = (2.0f32.to_ne_bytes(), 0i64.to_ne_bytes(), vec![0; 4 * 800_000]);
    let tensor = |bytes, dtype, dims| RawTensor { data: RawData::Bytes(bytes), size: bytes.len() as u64, dtype, dims };
    let from_host = tensor(&cache, (2, 32), &[LENGTH]);
    let resident = RawTensor { data: RawData::Resident, ..from_host };
    let call = |cache| [tensor(&x, (2, 32), &[1]), tensor(&step, (0, 64), &[1]), cache, cache, cache];
    let sum = 2.0f32 * (1.0 + 4.0 + 9.0); // each cache holds x times its number, and is weighted with it

    for cache in [from_host, resident] {
        let outputs = client.infer(handle, 0, &call(cache), 1 << 16 | 1).unwrap();
        assert_eq!((outputs.len(), outputs.view(0).unwrap().values::<f32>().unwrap()[0]), (1, sum));
        drop(outputs);
        let refused = client.infer(handle, 0, &call(from_host), 1).unwrap_err();
        assert_eq!(refused.number(), -27, "EFBIG: {refused}");
        assert!(refused.to_string().contains("9600"), "it says how much is needed: {refused}");
    }
}
