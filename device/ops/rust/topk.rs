//! The k largest elements over eight cores. Cores cannot wait for each other, so there are two operations: each core finds the
//! largest of its share, then one merges what they found.

use customop::prelude::*;

/// Most elements that can be asked for.
const MOST: usize = 128;
/// Elements of a block.
const BLOCK: u32 = 1024;

/// Values with where they are, the largest first; of equal ones, the first.
struct Best<'a> {
    values: &'a mut [f32],
    places: &'a mut [f32],
    count: usize,
}

impl Best<'_> {
    fn offer(&mut self, value: f32, place: f32) {
        let k = self.values.len();
        if self.count == k && self.values[k - 1] >= value {
            return;
        }
        if self.count < k {
            self.count += 1;
        }
        let mut at = self.count - 1;
        while at > 0 && value > self.values[at - 1] {
            self.values[at] = self.values[at - 1];
            self.places[at] = self.places[at - 1];
            at -= 1;
        }
        self.values[at] = value;
        self.places[at] = place;
    }
}

fn checked(k: i64) -> usize {
    if !(1..=MOST as i64).contains(&k) {
        routine::abort();
    }
    k as usize
}

/// Row `core` of the result: k values and k places of this core's share; places are floats, and -1 where there is no element.
#[custom_op]
pub fn topk_parts(x: &Tensor, k: i64) -> Tensor {
    let k = checked(k);
    if x.numel() >= 1 << 24 {
        routine::abort();
    }
    let parts = routine::get_dst_tensor();
    let (Some(mut block), Some(mut row)) = (Tcm::<f32>::new(BLOCK as usize), Tcm::<f32>::new(2 * MOST)) else {
        routine::abort()
    };
    let row = &mut row.as_mut()[..2 * k];
    row.fill(0.0);
    row[k..].fill(-1.0);
    let (values, places) = row.split_at_mut(k);
    let mut best = Best { values, places, count: 0 };
    let (mut at, end) = share(x.numel());
    while at < end {
        let values = &mut block.as_mut()[..(end - at).min(BLOCK) as usize];
        x.read_into(values, at);
        for (index, value) in values.iter().enumerate() {
            best.offer(*value, (at + index as u32) as f32);
        }
        at += values.len() as u32;
    }
    parts.write_from(row, routine::get_cpu_id() * 2 * k as u32);
    parts
}

/// The k best of the parts: values, then places. Core 0 does it all and writes it.
#[custom_op]
pub fn topk_merge(parts: &Tensor, k: i64) -> Tensor {
    let k = checked(k);
    let result = routine::get_dst_tensor();
    if routine::get_cpu_id() != 0 {
        return result;
    }
    let two = || Tcm::<f32>::new(2 * MOST);
    let (Some(mut row), Some(mut found)) = (two(), two()) else { routine::abort() };
    let (row, found) = (&mut row.as_mut()[..2 * k], &mut found.as_mut()[..2 * k]);
    let (values, places) = found.split_at_mut(k);
    let mut best = Best { values, places, count: 0 };
    for core in 0..parts.numel() / (2 * k as u32) {
        parts.read_into(row, core * 2 * k as u32);
        let (values, places) = row.split_at(k);
        for (value, place) in values.iter().zip(places).filter(|(_, place)| **place >= 0.0) {
            best.offer(*value, *place);
        }
    }
    if best.count < k {
        routine::abort();
    }
    result.write_from(found, 0);
    result
}
