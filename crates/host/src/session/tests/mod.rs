//! Sessions with scripted devices: good ones, bad ones, dying ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod hostile;
mod life;

use crate::{Module, Session};
use outboard_tensor::Tensor;

/// A module of any bytes: the fake devices do not look at them.
fn load(session: &mut Session) -> Module {
    session.load(b"not an ELF file", "lib0.out").unwrap()
}

fn tensor(shape: &str, start: f32) -> Tensor {
    let shape: outboard_tensor::Shape = shape.parse().unwrap();
    let count = u16::try_from(shape.elements().unwrap()).unwrap();
    let values: Vec<f32> = (0..count).map(|index| start + f32::from(index)).collect();
    Tensor::from_values(shape, &values).unwrap()
}
