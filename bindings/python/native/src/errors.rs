//! Errors of the host as exceptions of `outboard.errors`.

use outboard_host::ErrorClass;
use outboard_host::client::ClientError;
use pyo3::prelude::*;

/// The exception for an error. `text` is what the module had printed.
pub(crate) fn raised(py: Python<'_>, error: &ClientError, text: &str) -> PyErr {
    let behind = error.session();
    let class = match behind.map_or(ErrorClass::Request, outboard_host::Error::class) {
        ErrorClass::Request => "request",
        ErrorClass::Device => "device",
        ErrorClass::File => "file",
        ErrorClass::Deadline => "deadline",
    };
    let code = behind.map(outboard_host::Error::code);
    let make = || {
        let arguments = (error.kind(), class, error.to_string(), code, error.number(), error.help(), text);
        py.import("outboard.errors")?.call_method1("from_native", arguments)
    };
    make().map_or_else(|broken| broken, PyErr::from_value)
}
