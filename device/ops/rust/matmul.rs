//! The product of two matrices: every core computes every eighth row, one row of each matrix in data memory at a time.

use customop::prelude::*;

/// Columns of the result, and of the left matrix, that fit into data memory at a time.
const COLUMNS: u32 = 1024;

/// x has m rows of k elements, y k rows of n; k is at most 1024.
#[custom_op]
pub fn matmul(x: &Tensor, y: &Tensor) -> Tensor {
    let (([m, k, ..], 2), ([rows, n, ..], 2)) = (x.sizes(), y.sizes()) else { routine::abort() };
    if k != rows || k > COLUMNS {
        routine::abort();
    }
    let z = routine::get_dst_tensor();
    let row = || Tcm::<f32>::new(COLUMNS as usize);
    let (Some(mut a), Some(mut b), Some(mut c)) = (row(), row(), row()) else { routine::abort() };
    for row in (routine::get_cpu_id()..m).step_by(routine::get_cpu_count() as usize) {
        let a = &mut a.as_mut()[..k as usize];
        x.read_into(a, row * k);
        for first in (0..n).step_by(COLUMNS as usize) {
            let columns = (n - first).min(COLUMNS) as usize;
            let (b, c) = (&mut b.as_mut()[..columns], &mut c.as_mut()[..columns]);
            c.fill(0.0);
            for (i, a) in a.iter().enumerate() {
                y.read_into(b, i as u32 * n + first);
                for (c, b) in c.iter_mut().zip(b.iter()) {
                    *c += a * b;
                }
            }
            z.write_from(c, row * n + first);
        }
    }
    z
}
