//! Gives a buffer an owner of its own making.
use outboard_host::{Buffer, Owner};

enum Both {}
impl Owner for Both {}

fn both(buffer: Buffer<Both>) -> u64 {
    buffer.window().base
}

fn main() {}
