//! [`macro@custom_op`] and [`library!`]: what stands between a Rust function and the device's runtime is written for it.
//!
//! Both are re-exported by the crate `customop`, whose names the generated code uses. No other crate is needed, so that an
//! operation is built without a network.
#![forbid(unsafe_code)]

mod library;
mod operation;
mod problem;
mod schema;
mod signature;
mod tokens;

use proc_macro::TokenStream;

/// Makes a function a custom operation.
///
/// ```ignore
/// use customop::prelude::*;
///
/// #[custom_op]
/// fn scale(x: &Tensor, factor: f64) -> Tensor { … }
/// ```
///
/// The function stays what it is. Beside it there is a module of the same name with `OPERATION` (name and schema) and `run`,
/// which sets up, pulls the arguments in the order of the schema, calls the function, publishes its result and cleans up.
///
/// | parameter | in the schema |
/// | --- | --- |
/// | `&Tensor` | `Tensor` |
/// | `&Scalar`, `Scalar` | `Scalar` |
/// | `f64`, `f32` | `float` |
/// | `i64`, `i32` | `int`; a value outside of `i32` ends the operation |
///
/// `#[custom_op(schema = "my_ops::scale(Tensor x, float factor) -> (Tensor)")]` says the schema instead of deriving it: its
/// types must be those of the function, and its name is that of the operation. What is not such a function does not compile,
/// with the place.
#[proc_macro_attribute]
pub fn custom_op(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match operation::expand(attribute, item.clone()) {
        Ok(generated) => item.into_iter().chain(generated).collect(),
        Err(problem) => item.into_iter().chain(problem.tokens()).collect(),
    }
}

/// Makes a library of operations that have the attribute [`macro@custom_op`].
///
/// ```ignore
/// customop::library!(stack = 20_000; scale, kernels::relu);
/// ```
///
/// For each operation there is `NAME_wrapper`, which runs it, and `NAME_stack_switch`, which gives it its stack
/// (`customop::kernel::STACK_SIZE` bytes without `stack`); for the library, the three functions by which the device learns
/// what there is, and a handler that ends a panicking operation like a failed assertion. `outboard op build` writes this line
/// itself; it is for libraries that are linked by hand.
#[proc_macro]
pub fn library(input: TokenStream) -> TokenStream {
    library::expand(input).unwrap_or_else(|problem| problem.tokens())
}
