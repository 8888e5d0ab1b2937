//! Arguments and results that no schema has.
#![allow(unused, reason = "bodies are not what is refused")]

use customop::abi::{Scalar, Tensor};
use customop::custom_op;

#[custom_op]
fn owned(x: Tensor) -> Tensor { x }

#[custom_op]
fn exclusive(x: &mut Tensor) -> Tensor { *x }

#[custom_op]
fn forever(x: &'static Tensor) -> Tensor { *x }

#[custom_op]
fn several(x: &[Tensor]) -> Tensor { x[0] }

#[custom_op]
fn narrow(x: &Tensor, n: u8) -> Tensor { *x }

#[custom_op]
fn flag(x: &Tensor, on: bool) -> Tensor { *x }

#[custom_op]
fn referenced(x: &Tensor, a: &f64) -> Tensor { *x }

#[custom_op]
fn optional(x: Option<&Tensor>) -> Tensor { Tensor::default() }

#[custom_op]
fn nameless(_: &Tensor) -> Tensor { Tensor::default() }

#[custom_op]
fn taken_apart((x, y): (&Tensor, &Tensor)) -> Tensor { *x }

#[custom_op]
fn sometimes(#[cfg(unix)] x: &Tensor) -> Tensor { Tensor::default() }

#[custom_op]
fn no_result(x: &Tensor) {}

#[custom_op]
fn two_results(x: &Tensor) -> (Tensor, Tensor) { (*x, *x) }

#[custom_op]
fn borrowed(x: &Tensor) -> &Tensor { x }

#[custom_op]
fn may_fail(x: &Tensor) -> Result<Tensor, ()> { Ok(*x) }

fn main() {}
