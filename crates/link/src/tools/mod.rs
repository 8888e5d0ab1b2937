//! What the command line shows of a module: prelink, inspect, check, budgets. Nothing here is needed to load one.

pub mod prelink;
