//! Generalised intersection over union of pairs of boxes (x1, y1, x2, y2), shared out over the cores.

use customop::prelude::*;

/// Pairs of a block.
const PAIRS: u32 = 256;

fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

fn larger(a: f32, b: f32) -> f32 {
    if a < b { b } else { a }
}

fn of_boxes(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let width = smaller(a[2], b[2]) - larger(a[0], b[0]);
    let height = smaller(a[3], b[3]) - larger(a[1], b[1]);
    let common = larger(width, 0.0) * larger(height, 0.0);
    let all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
    let hull = (larger(a[2], b[2]) - smaller(a[0], b[0])) * (larger(a[3], b[3]) - smaller(a[1], b[1]));
    common / all - (hull - all) / hull
}

/// Both tensors end in a dimension of 4; the result has all dimensions but that.
#[custom_op]
pub fn giou(boxes: &Tensor, others: &Tensor) -> Tensor {
    let (sizes, rank) = boxes.sizes();
    if (sizes, rank) != others.sizes() || sizes[rank - 1] != 4 {
        routine::abort();
    }
    let result = routine::get_dst_tensor();
    let four = || Tcm::<[f32; 4]>::new(PAIRS as usize);
    let (Some(mut a), Some(mut b), Some(mut g)) = (four(), four(), Tcm::<f32>::new(PAIRS as usize)) else {
        routine::abort()
    };
    let (mut at, end) = share(boxes.numel() / 4);
    while at < end {
        let n = (end - at).min(PAIRS) as usize;
        let (a, b, g) = (&mut a.as_mut()[..n], &mut b.as_mut()[..n], &mut g.as_mut()[..n]);
        // Offsets count elements of the buffer's type: here boxes.
        boxes.read_into(a, at);
        others.read_into(b, at);
        for (g, (a, b)) in g.iter_mut().zip(a.iter().zip(b.iter())) {
            *g = of_boxes(a, b);
        }
        result.write_from(g, at);
        at += n as u32;
    }
    result
}
