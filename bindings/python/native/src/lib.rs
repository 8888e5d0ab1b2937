//! `outboard._native`: sessions with C7x devices for Python.
//!
//! Everything rests on [`outboard_host::client::Client`], as the C library does. What is here turns Python's objects into tensors
//! and back: numpy arrays by `__array_interface__`, everything else by DLPack. The interpreter's lock is released while a device works.
//! How the classes behave is documented in `docs/reference/python.md`; `_native.pyi` has their types.

mod arguments;
mod buffer;
mod core;
mod dlpack;
mod errors;
mod module;
mod session;
mod tensor;

/// The extension module.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::arguments::Resident;
    #[pymodule_export]
    use crate::buffer::InputBuffer;
    #[pymodule_export]
    use crate::module::{Module, TensorSpec};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::tensor::Tensor;
}
