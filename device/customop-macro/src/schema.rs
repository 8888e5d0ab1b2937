//! A schema that an attribute gives: its name and types, held against the function.

use proc_macro::{Span, TokenStream, TokenTree};

use crate::problem::Problem;
use crate::signature::{NAME_LIMIT, Signature};
use crate::tokens::{is, string};

/// What an operation is called, and its schema if the attribute gives one.
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) schema: Option<String>,
}

/// Reads the attribute; without a schema, the function's name is the operation's.
pub(crate) fn declared(attribute: TokenStream, signature: &Signature) -> Result<Declared, Problem> {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    let (text, place) = match &tokens[..] {
        [] => return Ok(Declared { name: signature.name.clone(), schema: None }),
        [key, equals, value] if is(key, "schema") && is(equals, "=") => (string(value), value.span()),
        [key, equals, value, comma] if is(key, "schema") && is(equals, "=") && is(comma, ",") => {
            (string(value), value.span())
        }
        _ => (None, Span::call_site()),
    };
    let form = "write #[custom_op] or #[custom_op(schema = \"ns::fn(Tensor x, float a) -> (Tensor)\")]";
    let text = text.ok_or_else(|| Problem::over(form, &tokens, place))?;
    let name = name(&text, signature).map_err(|problem| Problem::new(problem, place))?;
    Ok(Declared { name, schema: Some(text) })
}

/// The name in a schema, if its types are those of the function.
fn name(text: &str, signature: &Signature) -> Result<String, String> {
    let form = || "a schema has the form ns::fn(Tensor x, float a) -> (Tensor)".to_owned();
    let (path, rest) = text.split_once('(').ok_or_else(form)?;
    let (namespace, name) = path.split_once("::").ok_or_else(form)?;
    let arguments = rest.strip_suffix(") -> (Tensor)").ok_or_else(form)?;
    for part in [namespace, name] {
        if !is_identifier(part) {
            return Err(format!("`{part}`: a name is letters, digits and `_`, and does not begin with a digit"));
        }
    }
    if name.len() >= NAME_LIMIT {
        return Err(format!("`{name}`: {} characters; the device keeps names of up to {}", name.len(), NAME_LIMIT - 1));
    }
    let parts: Vec<&str> = arguments.split(", ").filter(|_| !arguments.is_empty()).collect();
    if parts.len() != signature.arguments.len() {
        let has = signature.arguments.len();
        return Err(format!("the schema has {} arguments, the function has {has}", parts.len()));
    }
    for (part, argument) in parts.iter().zip(&signature.arguments) {
        let (kind, written) = part.split_once(' ').ok_or_else(|| format!("`{part}`: write a type and a name"))?;
        if !is_identifier(written) {
            return Err(format!("`{written}`: a name is letters, digits and `_`, and does not begin with a digit"));
        }
        let expected = argument.kind.schema();
        if kind != expected {
            return Err(format!("`{part}`: the function takes `{}`, which is `{expected}` in a schema", argument.name));
        }
    }
    Ok(name.to_owned())
}

fn is_identifier(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && text.starts_with(|c: char| !c.is_ascii_digit())
}
