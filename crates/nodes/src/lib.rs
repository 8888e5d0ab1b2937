//! A board's device nodes on a machine without a board.
//!
//! Preloaded into a program (`LD_PRELOAD`), this library answers the program's system calls on `/dev/rpmsg*`, `/dev/remoteproc*`,
//! `/dev/dma_heap/*` and their links in sysfs from a simulated device that stands at the socket `OUTBOARD_NODES_DEVICE` names.
//! Everything else goes to the C library untouched; so does everything when the variable is not set.
//!
//! - `hooks` are the C functions that take the place of the C library's;
//! - `calls` decides what a call on a served node does, with the errors of the kernel's drivers;
//! - `session` talks to the standing device and carries its messages;
//! - `tree` is the folder in which nodes and sysfs lie as real files and links, so that every path function works on them;
//! - `faults` lets calls fail on request.
//!
//! What is served, call by call: `docs/reference/nodes.md`.
#![deny(unsafe_op_in_unsafe_fn)]

mod calls;
mod faults;
mod heap;
mod hooks;
mod session;
mod tree;
