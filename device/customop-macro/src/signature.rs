//! The head of a function: its name, what it takes, and that it returns a tensor.

use proc_macro::{Delimiter, Span, TokenTree};

use crate::problem::Problem;
use crate::tokens::{group, is, list};

/// A name is shorter than this, because the device keeps 32 bytes of it.
pub(crate) const NAME_LIMIT: usize = 32;
/// Arguments besides the result: a dispatch has ten records.
pub(crate) const MAX_ARGUMENTS: usize = 9;

/// What an argument is, and how the function takes it.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Tensor,
    Scalar { by_reference: bool },
    F64,
    F32,
    I64,
    I32,
}

impl Kind {
    /// The type in a schema.
    pub(crate) const fn schema(self) -> &'static str {
        match self {
            Self::Tensor => "Tensor",
            Self::Scalar { .. } => "Scalar",
            Self::F64 | Self::F32 => "float",
            Self::I64 | Self::I32 => "int",
        }
    }

    /// The function of `customop::argument` that pulls it.
    pub(crate) const fn pull(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Scalar { .. } => "scalar",
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::I64 => "i64",
            Self::I32 => "i32",
        }
    }

    /// Whether the function takes a reference.
    pub(crate) const fn by_reference(self) -> bool {
        matches!(self, Self::Tensor | Self::Scalar { by_reference: true })
    }
}

/// An argument.
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Where its type is.
    pub(crate) place: Span,
}

/// The head of a function.
pub(crate) struct Signature {
    pub(crate) name: String,
    pub(crate) place: Span,
    pub(crate) arguments: Vec<Argument>,
}

/// Reads the head of a function.
pub(crate) fn read(item: &[TokenTree]) -> Result<Signature, Problem> {
    let not = || {
        Problem::new(
            "#[custom_op] stands before a function: fn name(x: &Tensor) -> Tensor { … }",
            item.first().map_or_else(Span::call_site, TokenTree::span),
        )
    };
    let keyword = item.iter().position(|token| is(token, "fn")).ok_or_else(not)?;
    let (head, rest) = item.split_at(keyword);
    for (word, why) in [
        ("async", "an operation is not async: a core runs it to its end"),
        ("const", "an operation is not const: it runs on the device"),
        ("unsafe", "an operation is a safe function: the generated wrapper calls it without a promise"),
        ("extern", "an operation is a plain Rust function: the wrapper with the ABI of C is generated"),
    ] {
        if let Some(token) = head.iter().find(|token| is(token, word)) {
            return Err(Problem::new(why, token.span()));
        }
    }
    let [_, TokenTree::Ident(name), rest @ ..] = rest else { return Err(not()) };
    let (text, place) = (name.to_string(), name.span());
    if text.starts_with("r#") || !text.is_ascii() {
        return Err(Problem::new("the name of an operation is ASCII letters, digits and `_`, and no keyword", place));
    }
    if text.len() >= NAME_LIMIT {
        let problem = format!("{} characters; the device keeps names of up to {}", text.len(), NAME_LIMIT - 1);
        return Err(Problem::new(problem, place));
    }
    if let Some(generic) = rest.first().filter(|token| is(token, "<")) {
        return Err(Problem::new("an operation has no generics: the device calls one function", generic.span()));
    }
    let inside = group(rest.first(), Delimiter::Parenthesis).ok_or_else(not)?;
    let tokens: Vec<TokenTree> = inside.stream().into_iter().collect();
    let arguments =
        list(&tokens).into_iter().map(|part| argument(part, inside.span())).collect::<Result<Vec<_>, _>>()?;
    if let Some(extra) = arguments.get(MAX_ARGUMENTS) {
        let problem = format!("{} arguments; besides the result, {MAX_ARGUMENTS} fit", arguments.len());
        return Err(Problem::new(problem, extra.place));
    }
    result(rest.get(1..).unwrap_or_default(), inside.span_close())?;
    Ok(Signature { name: text, place, arguments })
}

/// `name: type`.
fn argument(part: &[TokenTree], other: Span) -> Result<Argument, Problem> {
    let wrong = |text: &str| Problem::over(text, part, other);
    if part.iter().any(|token| is(token, "self")) {
        return Err(wrong("an operation is a free function: it has no `self`"));
    }
    if part.first().is_some_and(|token| is(token, "#")) {
        return Err(wrong("arguments of an operation have no attributes: the schema has every one of them"));
    }
    let pattern = "an argument is a name and a type, such as `x: &Tensor`: its name is that in the schema";
    let Some(colon) = part.iter().position(|token| is(token, ":")) else { return Err(wrong(pattern)) };
    let (name, kind) = part.split_at(colon);
    let name = match name {
        [TokenTree::Ident(name)] if name.to_string() != "_" => name,
        [keyword, TokenTree::Ident(name)] if is(keyword, "mut") => name,
        _ => return Err(Problem::over(pattern, name, other)),
    };
    let name = name.to_string();
    if name.starts_with("r#") || !name.is_ascii() {
        return Err(wrong("the name of an argument is ASCII letters, digits and `_`, and no keyword"));
    }
    let kind = kind.get(1..).unwrap_or_default();
    let place = kind.first().map_or(other, TokenTree::span);
    Ok(Argument { name, kind: kind_of(kind, other)?, place })
}

/// The kind that a type stands for, by its last name.
fn kind_of(tokens: &[TokenTree], other: Span) -> Result<Kind, Problem> {
    let wrong = |text: &str| Problem::over(text, tokens, other);
    let unknown = "an operation takes &Tensor, &Scalar, f64, f32, i64 and i32: schemas have no other types";
    let (by_reference, path) = match tokens {
        [mark, path @ ..] if is(mark, "&") => (true, path),
        path => (false, path),
    };
    if by_reference && path.first().is_some_and(|token| is(token, "mut")) {
        return Err(wrong("elements are written through a shared reference, too: write `&Tensor`"));
    }
    if by_reference && path.first().is_some_and(|token| is(token, "'")) {
        return Err(wrong("arguments live as long as the call: leave the lifetime out"));
    }
    let plain = path.iter().all(|token| matches!(token, TokenTree::Ident(_)) || is(token, ":"));
    let last = path.last().map(ToString::to_string).filter(|_| plain).ok_or_else(|| wrong(unknown))?;
    match (last.as_str(), by_reference) {
        ("Tensor", true) => Ok(Kind::Tensor),
        ("Tensor", false) => Err(wrong("a tensor is taken by reference: write `&Tensor`")),
        ("Scalar", by_reference) => Ok(Kind::Scalar { by_reference }),
        ("f64", false) => Ok(Kind::F64),
        ("f32", false) => Ok(Kind::F32),
        ("i64", false) => Ok(Kind::I64),
        ("i32", false) => Ok(Kind::I32),
        ("f64" | "f32" | "i64" | "i32", true) => Err(wrong("numbers are taken by value: leave the `&` out")),
        _ => Err(wrong(unknown)),
    }
}

/// `-> Tensor`, then the body.
fn result(tokens: &[TokenTree], other: Span) -> Result<(), Problem> {
    let head = tokens.iter().position(|token| group(Some(token), Delimiter::Brace).is_some() || is(token, "where"));
    let end = head.unwrap_or(tokens.len());
    let (kind, rest) = tokens.split_at(end);
    if let Some(token) = rest.first().filter(|token| is(token, "where")) {
        return Err(Problem::new("an operation has no generics: the device calls one function", token.span()));
    }
    let one = "an operation returns exactly one tensor: write `-> Tensor`";
    let path = match kind {
        [dash, arrow, path @ ..] if is(dash, "-") && is(arrow, ">") => path,
        _ => return Err(Problem::over(one, kind, other)),
    };
    let plain = path.iter().all(|token| matches!(token, TokenTree::Ident(_)) || is(token, ":"));
    if !plain || path.last().is_none_or(|token| !is(token, "Tensor")) {
        return Err(Problem::over(one, path, other));
    }
    Ok(())
}
