//! softmax along the last dimension: the rows are shared out over the cores.

use customop::prelude::*;
use customop::math::expf;

/// Longest row.
const LONGEST: u32 = 2048;

/// exp(x - max) / sum(exp(x - max)) of each row; rows have at most 2048 elements.
#[custom_op]
pub fn softmax(x: &Tensor) -> Tensor {
    let y = routine::get_dst_tensor();
    let (sizes, rank) = x.sizes();
    let n = sizes[rank - 1];
    if n > LONGEST {
        routine::abort();
    }
    let Some(mut row) = Tcm::<f32>::new(LONGEST as usize) else { routine::abort() };
    let row = &mut row.as_mut()[..n as usize];
    for index in (routine::get_cpu_id()..x.numel() / n).step_by(routine::get_cpu_count() as usize) {
        x.read_into(row, index * n);
        let largest = row.iter().fold(row[0], |largest, value| if *value > largest { *value } else { largest });
        let mut sum = 0.0;
        for value in row.iter_mut() {
            *value = expf(*value - largest);
            sum += *value;
        }
        for value in row.iter_mut() {
            *value /= sum;
        }
        y.write_from(row, index * n);
    }
    y
}
