//! What the command line shows of a module: prelink, inspect, check, budgets. Nothing here is needed to load one.

pub mod budget;
pub mod check;
pub mod export_sets;
pub mod inspect;
pub mod kernel_file;
pub mod layout_file;
pub mod prelink;
pub mod resource_table;
pub mod target;
