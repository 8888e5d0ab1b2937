//! The static linker, over objects that the assembler makes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod literals;
mod operands;
mod refusals;
mod rules;
mod support;
