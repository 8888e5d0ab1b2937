//! Schemas that are none, or another function's; libraries that cannot be.
#![allow(unused, reason = "bodies are not what is refused")]

use customop::abi::Tensor;
use customop::{custom_op, library};

#[custom_op(name = "relu")]
fn other_key(x: &Tensor) -> Tensor { *x }

#[custom_op(schema = 3)]
fn no_text(x: &Tensor) -> Tensor { *x }

#[custom_op(schema = "relu(Tensor x) -> (Tensor)")]
fn no_namespace(x: &Tensor) -> Tensor { *x }

#[custom_op(schema = "ns::2f(Tensor x) -> (Tensor)")]
fn no_name(x: &Tensor) -> Tensor { *x }

#[custom_op(schema = "ns::f(Tensor x) -> Tensor")]
fn no_parentheses(x: &Tensor) -> Tensor { *x }

#[custom_op(schema = "ns::f(Tensor) -> (Tensor)")]
fn no_argument_name(x: &Tensor) -> Tensor { *x }

#[custom_op(schema = "ns::f(Tensor x) -> (Tensor)")]
fn more_arguments(x: &Tensor, a: f64) -> Tensor { *x }

#[custom_op(schema = "ns::f(Tensor x, int n) -> (Tensor)")]
fn other_types(x: &Tensor, a: f64) -> Tensor { *x }

#[custom_op(schema = "ns::a_name_that_the_device_cannot_keep(Tensor x) -> (Tensor)")]
fn long(x: &Tensor) -> Tensor { *x }

library!();

library!(fine, fine);

library!(fine + fine);

library!(a, b, c, d, e, f, g, h, i, j, k);

fn main() {}
