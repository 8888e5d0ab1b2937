//! Floats as 8-bit integers and back.

use customop::prelude::*;
use customop::math::rintf;

/// Elements of a block.
const BLOCK: u32 = 1024;

/// round(x / scale) + zero, ties to even, between -128 and 127; the result is int8.
#[custom_op]
pub fn quantise(x: &Tensor, scale: f64, zero: i64) -> Tensor {
    let q = routine::get_dst_tensor();
    if scale <= 0.0 || q.scalar_type() != ScalarType::Char as u32 {
        routine::abort();
    }
    let (Some(mut floats), Some(mut bytes)) = (Tcm::<f32>::new(BLOCK as usize), Tcm::<i8>::new(BLOCK as usize)) else {
        routine::abort()
    };
    let (scale, zero) = (scale as f32, zero as f32);
    // Whole blocks are shared out, so that no two cores write into one word.
    for block in (routine::get_cpu_id()..x.numel().div_ceil(BLOCK)).step_by(routine::get_cpu_count() as usize) {
        let first = block * BLOCK;
        let n = (x.numel() - first).min(BLOCK) as usize;
        let (floats, bytes) = (&mut floats.as_mut()[..n], &mut bytes.as_mut()[..n]);
        x.read_into(floats, first);
        for (byte, float) in bytes.iter_mut().zip(floats.iter()) {
            *byte = (rintf(*float / scale) + zero) as i8;
        }
        q.write_from(bytes, first);
    }
    q
}

/// (q - zero) * scale.
#[custom_op]
pub fn dequantise(q: &Tensor, scale: f64, zero: i64) -> Tensor {
    let (sizes, rank) = q.sizes();
    let x = Tensor::empty(&sizes[..rank], ScalarType::Float);
    let (Some(mut bytes), Some(mut floats)) = (Tcm::<i8>::new(BLOCK as usize), Tcm::<f32>::new(BLOCK as usize)) else {
        routine::abort()
    };
    let (scale, zero) = (scale as f32, zero as i32);
    for first in (0..q.numel()).step_by(BLOCK as usize) {
        let n = (q.numel() - first).min(BLOCK) as usize;
        let (floats, bytes) = (&mut floats.as_mut()[..n], &mut bytes.as_mut()[..n]);
        q.read_into(bytes, first);
        for (float, byte) in floats.iter_mut().zip(bytes.iter()) {
            *float = (i32::from(*byte) - zero) as f32 * scale;
        }
        x.write_from(floats, first);
    }
    x
}
