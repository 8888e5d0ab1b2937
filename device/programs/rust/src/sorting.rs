//! A quicksort of one's own, and the sorts of the library.

use crate::{Numbers, line};
use alloc::vec::Vec;

fn quicksort(values: &mut [i32]) {
    if values.len() < 2 {
        return;
    }
    let (mut low, mut high) = (0, values.len() - 1);
    let pivot = values[high / 2];
    loop {
        while values[low] < pivot {
            low += 1;
        }
        while values[high] > pivot {
            high -= 1;
        }
        if low >= high {
            break;
        }
        values.swap(low, high);
        low += 1;
        high -= 1;
    }
    let (left, right) = values.split_at_mut(high + 1);
    quicksort(left);
    quicksort(right);
}

fn hash(values: &[i32]) -> u32 {
    values.iter().fold(0x811c_9dc5, |hash: u32, value| (hash ^ *value as u32).wrapping_mul(0x0100_0193))
}

pub fn run() {
    let mut numbers = Numbers(0x1234_5678);
    for count in [0, 1, 2, 3, 10, 100, 1000] {
        let values: Vec<i32> = (0..count).map(|_| numbers.next() as i32 >> (count % 20)).collect();
        let mut own = values.clone();
        quicksort(&mut own);
        let mut stable = values.clone();
        stable.sort_by_key(|value| core::cmp::Reverse(*value & 0xff));
        let mut unstable = values;
        unstable.sort_unstable();
        line(format_args!("sort {count} {:#x} {:#x} {}", hash(&own), hash(&stable), own == unstable));
        let middle = own.get(count / 2).copied().unwrap_or(0);
        line(format_args!("search {:?}", unstable.binary_search(&middle).is_ok() == (count > 0)));
    }
}
