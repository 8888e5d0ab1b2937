//! Times of the image tools.
fn main() {}
