//! Small questions to tokens.

use proc_macro::{Delimiter, Group, TokenTree};

/// Whether a token is this word or mark.
pub(crate) fn is(token: &TokenTree, text: &str) -> bool {
    match token {
        TokenTree::Ident(word) => word.to_string() == text,
        TokenTree::Punct(mark) => text.len() == 1 && text.starts_with(mark.as_char()),
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    }
}

/// The group that a token is, if it has these delimiters.
pub(crate) fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// What is between commas; a comma at the end adds nothing.
pub(crate) fn list(tokens: &[TokenTree]) -> Vec<&[TokenTree]> {
    let mut parts: Vec<&[TokenTree]> = tokens.split(|token| is(token, ",")).collect();
    if parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    parts
}

/// The text of a plain string literal; escapes are refused, because nothing here needs them.
pub(crate) fn string(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    let text = literal.to_string();
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.contains('\\')).then(|| inside.to_owned())
}
