//! The attribute: a module beside the function that describes and runs it.

use std::fmt::Write as _;

use proc_macro::{Span, TokenStream, TokenTree};

use crate::problem::Problem;
use crate::{schema, signature};

/// The module of an operation.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Problem> {
    let item: Vec<TokenTree> = item.into_iter().collect();
    let signature = signature::read(&item)?;
    let declared = schema::declared(attribute, &signature)?;
    let types: Vec<_> = signature.arguments.iter().map(|argument| argument.kind.schema()).collect();
    let mut pulls = String::new();
    let mut passed = String::new();
    for (index, argument) in signature.arguments.iter().enumerate() {
        let _ = write!(pulls, "let a{index} = ::customop::argument::{}();", argument.kind.pull());
        let _ = write!(passed, "{}a{index},", if argument.kind.by_reference() { "&" } else { "" });
    }
    // Only the device has arguments to pull; on a host the function can be called by tests as it is.
    let text = format!(
        "#[doc(hidden)]
        #[allow(non_snake_case, unreachable_pub, dead_code, reason = \"named after the operation\")]
        pub mod {name} {{
            pub const OPERATION: ::customop::Operation =
                ::customop::Operation {{ name: {name:?}, types: {types:?}, schema: {schema:?} }};
            #[cfg(target_arch = \"xtensa\")]
            pub fn run() {{
                ::customop::argument::begin();
                {pulls}
                let result: ::customop::abi::Tensor = super::{function}({passed});
                ::customop::argument::end(&result);
            }}
        }}",
        name = declared.name,
        types = types.join(", "),
        schema = declared.schema.as_deref().unwrap_or(""),
        function = signature.name,
    );
    let generated: TokenStream = text
        .parse()
        .map_err(|_| Problem::new("the head of this function is not understood; write it plainly", signature.place))?;
    // Errors about the module are errors about the function.
    Ok(generated.into_iter().map(|token| placed(token, signature.place)).collect())
}

/// A token whose names are looked up where the attribute stands, and whose errors show `place`.
fn placed(mut token: TokenTree, place: Span) -> TokenTree {
    if let TokenTree::Group(group) = &token {
        let inside = group.stream().into_iter().map(|token| placed(token, place)).collect();
        token = TokenTree::Group(proc_macro::Group::new(group.delimiter(), inside));
    }
    token.set_span(Span::call_site().located_at(place));
    token
}
