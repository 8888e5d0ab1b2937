//! What is wrong with the code that a macro was given, and where.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// An error at a place.
pub(crate) struct Problem {
    text: String,
    first: Span,
    last: Span,
}

impl Problem {
    /// At one place.
    pub(crate) fn new(text: impl Into<String>, place: Span) -> Self {
        Self { text: text.into(), first: place, last: place }
    }

    /// From the first token to the last; `other` when there are none.
    pub(crate) fn over(text: impl Into<String>, tokens: &[TokenTree], other: Span) -> Self {
        let first = tokens.first().map_or(other, TokenTree::span);
        Self { text: text.into(), first, last: tokens.last().map_or(first, TokenTree::span) }
    }

    /// `::core::compile_error! { "…" }`: the compiler marks what is between its first and its last token.
    pub(crate) fn tokens(&self) -> TokenStream {
        let mut literal = Literal::string(&self.text);
        literal.set_span(self.last);
        let mut group = Group::new(Delimiter::Brace, TokenTree::Literal(literal).into());
        group.set_span(self.last);
        let punct = |mark, spacing| {
            let mut punct = Punct::new(mark, spacing);
            punct.set_span(self.first);
            TokenTree::Punct(punct)
        };
        let word = |text| TokenTree::Ident(Ident::new(text, self.first));
        let (joint, alone) = (Spacing::Joint, Spacing::Alone);
        let path = [punct(':', joint), punct(':', alone), word("core"), punct(':', joint), punct(':', alone)];
        path.into_iter().chain([word("compile_error"), punct('!', alone), TokenTree::Group(group)]).collect()
    }
}
