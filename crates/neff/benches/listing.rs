//! Time to list a large container.
fn main() {}
