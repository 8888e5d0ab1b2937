//! Every kind of argument; names and schemas that are derived and given. On a host, operations are functions as any.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]

use customop::abi::{Scalar, Tensor};
use customop::custom_op;

/// Documentation and other attributes stay.
#[custom_op]
#[allow(clippy::too_many_arguments, reason = "an operation may have nine")]
pub fn every(x: &Tensor, s: &customop::abi::Scalar, t: Scalar, mut a: f64, b: f32, n: i64, m: i32, _unused: i64) -> Tensor {
    a += f64::from(b) + s.to_f64() + t.to_f64() + n as f64 + f64::from(m);
    assert!(a > 0.0);
    *x
}

#[custom_op(schema = "my_ops::renamed(Tensor first, float second) -> (Tensor)")]
fn given(x: &Tensor, _factor: f32) -> customop::abi::Tensor {
    *x
}

mod kernels {
    use customop::prelude::*;

    #[custom_op]
    pub(crate) fn nothing() -> Tensor {
        Tensor::default()
    }
}

customop::library!(stack = 8192; every, renamed, kernels::nothing,);

fn main() {
    let types = "Tensor, Scalar, Scalar, float, float, int, int, int";
    assert_eq!((every::OPERATION.name, every::OPERATION.types, every::OPERATION.schema), ("every", types, ""));
    let schema = "my_ops::renamed(Tensor first, float second) -> (Tensor)";
    assert_eq!((renamed::OPERATION.name, renamed::OPERATION.schema), ("renamed", schema));
    assert!(renamed::OPERATION.agrees(schema, "Tensor, float"));
    assert!(kernels::nothing::OPERATION.agrees("any::nothing() -> (Tensor)", ""));
    let one = Scalar { tag: 1, bits: 1, ..Scalar::default() };
    let x = Tensor::default();
    assert_eq!(every(&x, &one, one, 1.0, 2.0, 3, 4, 5).impl_, 0);
    assert_eq!((given(&x, 1.0).impl_, kernels::nothing().impl_), (0, 0));
}
