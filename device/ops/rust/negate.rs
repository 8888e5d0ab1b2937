//! The negative of each element: floats on one core, 32-bit integers on all of them.

use customop::prelude::*;

/// Elements of a block.
const BLOCK: u32 = 512;

/// Applies a function to elements `first` to `end`, in blocks of data memory.
fn map<T: Copy>(x: &Tensor, y: &Tensor, (first, end): (u32, u32), f: impl Fn(T) -> T) {
    let Some(mut block) = Tcm::<T>::new(BLOCK as usize) else { routine::abort() };
    let mut at = first;
    while at < end {
        let values = &mut block.as_mut()[..(end - at).min(BLOCK) as usize];
        x.read_into(values, at);
        for value in values.iter_mut() {
            *value = f(*value);
        }
        y.write_from(values, at);
        at += values.len() as u32;
    }
}

/// Floats of any shape.
#[custom_op]
pub fn negate(x: &Tensor) -> Tensor {
    let (sizes, rank) = x.sizes();
    let y = Tensor::empty(&sizes[..rank], ScalarType::Float);
    map(x, &y, (0, x.numel()), |value: f32| -value);
    y
}

/// 32-bit integers of any shape on all cores; the smallest one stays what it is.
#[custom_op]
pub fn negate_int(x: &Tensor) -> Tensor {
    let y = routine::get_dst_tensor();
    map(x, &y, share(x.numel()), i32::wrapping_neg);
    y
}
