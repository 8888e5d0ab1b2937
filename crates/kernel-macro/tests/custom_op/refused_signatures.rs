//! Functions that cannot be operations.
#![allow(unused, reason = "bodies are not what is refused")]

use customop::abi::{Scalar, Tensor};
use customop::custom_op;

#[custom_op]
async fn later(x: &Tensor) -> Tensor { *x }

#[custom_op]
const fn now(x: &Tensor) -> Tensor { *x }

#[custom_op]
unsafe fn dangerous(x: &Tensor) -> Tensor { *x }

#[custom_op]
extern "C" fn foreign(x: &Tensor) -> Tensor { *x }

#[custom_op]
fn generic<T>(x: &Tensor) -> Tensor { *x }

#[custom_op]
fn bounded(x: &Tensor) -> Tensor where Tensor: Copy { *x }

#[custom_op]
fn r#match(x: &Tensor) -> Tensor { *x }

#[custom_op]
fn a_name_that_the_device_cannot_keep(x: &Tensor) -> Tensor { *x }

#[custom_op]
fn ten(a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64, j: i64) -> Tensor { Tensor::default() }

#[custom_op]
struct NoFunction;

struct Kernel;

impl Kernel {
    #[custom_op]
    fn method(&self, x: &Tensor) -> Tensor { *x }
}

fn main() {}
