//! relu three ways: element by element, in blocks of data memory, in blocks on all cores. Built by `outboard op build`.

use customop::prelude::*;

/// Elements of a block.
const BLOCK: u32 = 1024;

/// Elements `first` to `first + count`, through data memory.
fn blocks(x: &Tensor, y: &Tensor, first: u32, count: u32) {
    let Some(mut block) = Tcm::<f32>::new(BLOCK as usize) else { routine::abort() };
    let mut done = 0;
    while done < count {
        let values = &mut block.as_mut()[..(count - done).min(BLOCK) as usize];
        x.read_into(values, first + done);
        for value in values.iter_mut().filter(|value| **value < 0.0) {
            *value = 0.0;
        }
        y.write_from(values, first + done);
        done += values.len() as u32;
    }
}

/// Element by element, each access through a window.
#[custom_op]
pub fn relu(x: &Tensor) -> Tensor {
    let (sizes, rank) = x.sizes();
    let y = Tensor::empty(&sizes[..rank], ScalarType::Float);
    for index in 0..x.numel() {
        let value: f32 = x.get(index);
        y.set(index, if value < 0.0 { 0.0 } else { value });
    }
    y
}

/// On one core; the result is the operation's own, and is copied when it ends.
#[custom_op]
pub fn relu_tcm(x: &Tensor) -> Tensor {
    let (sizes, rank) = x.sizes();
    let y = Tensor::empty(&sizes[..rank], ScalarType::Float);
    blocks(x, &y, 0, x.numel());
    y
}

/// On all cores: each has its share of the elements, the last one what is left over.
#[custom_op]
pub fn relu_multicore(x: &Tensor) -> Tensor {
    let y = routine::get_dst_tensor();
    let (core, cores) = (routine::get_cpu_id(), routine::get_cpu_count());
    let share = x.numel() / cores;
    let first = share * core;
    blocks(x, &y, first, if core + 1 == cores { x.numel() - first } else { share });
    y
}
