//! What the tests of this crate share: device code that is built once, tensors, models.
#![allow(dead_code, reason = "not every test uses everything")]

pub mod model;

use outboard_device_build::{DeviceBuild, PiLinked};
use outboard_gpsimd::PoolTarget;
use outboard_tensor::{Shape, Tensor};

pub fn build() -> DeviceBuild {
    DeviceBuild::default()
}

/// An operation as a prelinked library for the default pool.
pub fn pi(name: &str) -> PiLinked {
    build().resident_op(name, PoolTarget::default().bounds()).unwrap()
}

pub fn slices(files: &[Vec<u8>]) -> Vec<&[u8]> {
    files.iter().map(Vec::as_slice).collect()
}

pub fn floats(values: &[f32]) -> Tensor {
    Tensor::from_values(Shape::new(&[values.len()]).unwrap(), values).unwrap()
}

pub fn ints(values: &[i32]) -> Tensor {
    Tensor::from_values(Shape::new(&[values.len()]).unwrap(), values).unwrap()
}

pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.values().unwrap()
}
