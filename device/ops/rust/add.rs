//! x + y, and a·x + n·y, with both operands in data memory block by block.

use customop::prelude::*;

/// Elements of a block.
const BLOCK: u32 = 1024;

fn zip(x: &Tensor, y: &Tensor, f: impl Fn(f32, f32) -> f32) -> Tensor {
    if x.sizes() != y.sizes() {
        routine::abort();
    }
    let (sizes, rank) = x.sizes();
    let z = Tensor::empty(&sizes[..rank], ScalarType::Float);
    let (Some(mut left), Some(mut right)) = (Tcm::<f32>::new(BLOCK as usize), Tcm::<f32>::new(BLOCK as usize)) else {
        routine::abort()
    };
    let mut at = 0;
    while at < x.numel() {
        let n = (x.numel() - at).min(BLOCK) as usize;
        let (left, right) = (&mut left.as_mut()[..n], &mut right.as_mut()[..n]);
        x.read_into(left, at);
        y.read_into(right, at);
        for (left, right) in left.iter_mut().zip(right.iter()) {
            *left = f(*left, *right);
        }
        z.write_from(left, at);
        at += n as u32;
    }
    z
}

/// x + y.
#[custom_op]
pub fn add(x: &Tensor, y: &Tensor) -> Tensor {
    zip(x, y, |x, y| x + y)
}

/// a·x + n·y.
#[custom_op]
pub fn axpy(x: &Tensor, y: &Tensor, a: f64, n: i64) -> Tensor {
    let (a, n) = (a as f32, n as f32);
    zip(x, y, |x, y| a * x + n * y)
}
