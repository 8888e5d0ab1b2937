//! x + y through streams, and a·x + n·y with both operands in data memory block by block.

use customop::prelude::*;

/// Elements of a block.
const BLOCK: u32 = 1024;

/// A tensor of floats like both.
fn like(x: &Tensor, y: &Tensor) -> Tensor {
    assert!(x.sizes() == y.sizes());
    let (sizes, rank) = x.sizes();
    Tensor::empty(&sizes[..rank], ScalarType::Float)
}

/// x + y: two readers and a writer, each with a buffer of 4 KiB in data memory.
#[custom_op]
pub fn add(x: &Tensor, y: &Tensor) -> Tensor {
    let z = like(x, y);
    let (mut left, mut right) = (ReadStream::<f32>::new(x), ReadStream::<f32>::new(y));
    let mut sum = WriteStream::<f32>::new(&z);
    for _ in 0..x.numel() {
        sum.write(left.read() + right.read());
    }
    drop(sum);
    z
}

/// a·x + n·y.
#[custom_op]
pub fn axpy(x: &Tensor, y: &Tensor, a: f64, n: i64) -> Tensor {
    let z = like(x, y);
    let (a, n) = (a as f32, n as f32);
    let (Some(mut left), Some(mut right)) = (Tcm::<f32>::new(BLOCK as usize), Tcm::<f32>::new(BLOCK as usize)) else {
        fail("no data memory for two blocks")
    };
    let mut at = 0;
    while at < x.numel() {
        let block = (x.numel() - at).min(BLOCK) as usize;
        let (left, right) = (&mut left.as_mut()[..block], &mut right.as_mut()[..block]);
        x.read_into(left, at);
        y.read_into(right, at);
        for (left, right) in left.iter_mut().zip(right.iter()) {
            *left = a * *left + n * *right;
        }
        z.write_from(left, at);
        at += block as u32;
    }
    z
}
