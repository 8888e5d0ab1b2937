//! Allocation, trait objects, strings, maps: the library beyond core.

use crate::line;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

trait Shape {
    fn area(&self) -> u32;
    fn name(&self) -> String;
}

struct Square(u32);
struct Strip {
    width: u32,
    height: u32,
}

impl Shape for Square {
    fn area(&self) -> u32 {
        self.0 * self.0
    }

    fn name(&self) -> String {
        format!("square of {}", self.0)
    }
}

impl Shape for Strip {
    fn area(&self) -> u32 {
        self.width * self.height
    }

    fn name(&self) -> String {
        format!("{:>4} x {:<4}|", self.width, self.height)
    }
}

pub fn run() {
    let shapes: Vec<Box<dyn Shape>> = (1..6)
        .map(|n| -> Box<dyn Shape> {
            if n % 2 == 0 { Box::new(Square(n)) } else { Box::new(Strip { width: n, height: 10 * n }) }
        })
        .collect();
    for shape in &shapes {
        line(format_args!("{} {}", shape.name(), shape.area()));
    }
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    for word in "the cat and the dog and the bird".split(' ') {
        *words.entry(word.into()).or_default() += 1;
    }
    line(format_args!("{words:?}"));
    let reversed: String = "grün wie Gras".chars().rev().collect();
    line(format_args!("{reversed} {}", reversed.to_uppercase()));
    let matrix = vec![vec![1, 2, 3], vec![4, 5, 6]];
    let transposed: Vec<Vec<i32>> = (0..3).map(|column| matrix.iter().map(|row| row[column]).collect()).collect();
    line(format_args!("{transposed:?}"));
    let adders: Vec<Box<dyn Fn(u32) -> u32>> =
        (0..4).map(|n| -> Box<dyn Fn(u32) -> u32> { Box::new(move |value| value * 10 + n) }).collect();
    line(format_args!("{}", adders.iter().fold(0, |value, adder| adder(value))));
}
