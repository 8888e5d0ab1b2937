//! Reads the attribute and the head of the function, and writes the row.

use proc_macro::{Delimiter, Span, TokenStream, TokenTree};

/// Why there is no row; `compile_error!` says it at the place.
pub(crate) struct Problem {
    text: String,
    place: Span,
}

impl Problem {
    fn new(text: impl Into<String>, place: Span) -> Self {
        Self { text: text.into(), place }
    }

    /// `compile_error!("…");`
    pub(crate) fn tokens(&self) -> TokenStream {
        let tokens: TokenStream = format!("::core::compile_error!({:?});", self.text).parse().unwrap_or_default();
        let placed = |mut token: TokenTree| {
            token.set_span(self.place);
            token
        };
        tokens.into_iter().map(placed).collect()
    }
}

/// The row of a function.
pub(crate) fn expand(attribute: Vec<TokenTree>, item: Vec<TokenTree>) -> Result<TokenStream, Problem> {
    let (opcode, spec) = numbers(&attribute)?;
    let (name, kind) = function(&item)?;
    let row = format!(
        "const _: () = {{
            #[repr(C)]
            struct Row {{ zero: [u8; 2], spec: u8, opcode: u8, function: {kind} }}
            #[used]
            #[unsafe(link_section = \"kernel_info_table\")]
            static ROW: Row = Row {{ zero: [0; 2], spec: {spec}, opcode: {opcode}, function: {name} }};
        }};"
    );
    row.parse()
        .map_err(|_| Problem::new("the head of this function is not understood; write it plainly", Span::call_site()))
}

/// Opcode and extended opcode.
fn numbers(attribute: &[TokenTree]) -> Result<(u8, u8), Problem> {
    let (mut opcode, mut spec) = (None, None);
    for part in attribute.split(|token| is(token, ",")).filter(|part| !part.is_empty()) {
        let place = part.first().map_or_else(Span::call_site, TokenTree::span);
        let [key, equals, value] = part else {
            return Err(Problem::new("write it as #[kernel(opcode = 0xf0, spec = 2)]", place));
        };
        let slot = match key.to_string().as_str() {
            "opcode" if is(equals, "=") => &mut opcode,
            "spec" if is(equals, "=") => &mut spec,
            _ => {
                return Err(Problem::new(
                    "the keys are `opcode` and `spec`: #[kernel(opcode = 0xf0, spec = 2)]",
                    place,
                ));
            }
        };
        let number = number(&value.to_string());
        let number = number.ok_or_else(|| Problem::new("expected a number from 0 to 255", value.span()))?;
        if slot.replace(number).is_some() {
            return Err(Problem::new(format!("`{key}` is given twice"), place));
        }
    }
    let opcode =
        opcode.ok_or_else(|| Problem::new("`opcode` is missing: #[kernel(opcode = 0x7e)]", Span::call_site()))?;
    match spec.unwrap_or(0) {
        spec if spec != 0 && opcode != 0xf0 => {
            Err(Problem::new("only opcode 0xf0 has extended opcodes: leave `spec` out", Span::call_site()))
        }
        spec => Ok((opcode, spec)),
    }
}

fn number(text: &str) -> Option<u8> {
    let text = text.replace('_', "");
    let text = text.strip_suffix("u8").unwrap_or(&text);
    match (text.strip_prefix("0x"), text.strip_prefix("0b"), text.strip_prefix("0o")) {
        (Some(digits), ..) => u8::from_str_radix(digits, 16).ok(),
        (_, Some(digits), _) => u8::from_str_radix(digits, 2).ok(),
        (_, _, Some(digits)) => u8::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

fn is(token: &TokenTree, text: &str) -> bool {
    token.to_string() == text
}

/// The name of the function and the type of a pointer to it.
fn function(item: &[TokenTree]) -> Result<(String, String), Problem> {
    let not = |token: Option<&TokenTree>| {
        let place = token.map_or_else(Span::call_site, TokenTree::span);
        Problem::new("#[kernel] stands before a function: extern \"C\" fn name(…) { … }", place)
    };
    let keyword = item.iter().position(|token| is(token, "fn")).ok_or_else(|| not(item.first()))?;
    let (head, rest) = item.split_at(keyword);
    let [_, name, arguments, rest @ ..] = rest else { return Err(not(item.first())) };
    if is(arguments, "<") {
        return Err(Problem::new("a kernel has no generics: the device calls one function", arguments.span()));
    }
    if let Some(token) = head.iter().find(|token| is(token, "async") || is(token, "const")) {
        return Err(Problem::new("a kernel is neither async nor const", token.span()));
    }
    let outer = head
        .iter()
        .position(|token| is(token, "extern"))
        .filter(|at| head.get(at + 1).is_some_and(|abi| is(abi, "\"C\"") || is(abi, "\"C-unwind\"")));
    let Some(at) = outer else {
        return Err(Problem::new("a kernel is called with the ABI of C: write extern \"C\" fn", name.span()));
    };
    let qualifiers = head.get(at..).unwrap_or_default();
    let safety = if head.iter().any(|token| is(token, "unsafe")) { "unsafe " } else { "" };
    let body = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    let result = rest.iter().take_while(|token| !body(token) && !is(token, "where"));
    let text = |tokens: &mut dyn Iterator<Item = &TokenTree>| tokens.cloned().collect::<TokenStream>().to_string();
    let kind = format!("{safety}{} fn {} {}", text(&mut qualifiers.iter()), arguments, text(&mut result.into_iter()));
    Ok((name.to_string(), kind))
}
