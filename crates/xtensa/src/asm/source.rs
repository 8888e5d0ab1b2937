//! Source text to statements: comments, separators, labels.

use super::Diagnostic;

/// One statement and its line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Label { line: usize, name: String },
    Assignment { line: usize, name: String, value: String },
    Directive { line: usize, name: String, arguments: String },
    Instruction { line: usize, text: String },
}

impl Statement {
    pub fn line(&self) -> usize {
        match self {
            Self::Label { line, .. }
            | Self::Assignment { line, .. }
            | Self::Directive { line, .. }
            | Self::Instruction { line, .. } => *line,
        }
    }
}

/// Splits a source file into statements.
pub(super) fn parse(source: &str) -> Result<Vec<Statement>, Diagnostic> {
    let mut statements = Vec::new();
    let mut in_comment = None;
    for (index, raw) in source.lines().enumerate() {
        let line = index + 1;
        for piece in strip(raw, line, &mut in_comment)? {
            statement(piece.trim(), line, &mut statements);
        }
    }
    match in_comment {
        Some(line) => Err(Diagnostic { line, message: "the comment that begins here does not end".to_owned() }),
        None => Ok(statements),
    }
}

/// A line without comments, split at semicolons. Text in quotes is left alone.
fn strip(raw: &str, line: usize, in_comment: &mut Option<usize>) -> Result<Vec<String>, Diagnostic> {
    let directives = ["#include", "#define", "#if", "#else", "#endif", "#undef"];
    if in_comment.is_none() && directives.iter().any(|name| raw.trim_start().starts_with(name)) {
        let message = "preprocessor lines are not understood: run the file through a C preprocessor first".to_owned();
        return Err(Diagnostic { line, message });
    }
    let mut pieces = vec![String::new()];
    let mut quoted = false;
    let mut characters = raw.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        if in_comment.is_some() {
            if character == '*' && next == Some('/') {
                characters.next();
                *in_comment = None;
            }
            continue;
        }
        let last = pieces.len() - 1;
        match (character, next) {
            ('\\', Some(escaped)) if quoted => {
                pieces[last].extend(['\\', escaped]);
                characters.next();
            }
            ('"', _) => {
                quoted = !quoted;
                pieces[last].push('"');
            }
            ('\'', Some(literal)) if !quoted => {
                // A character constant may be any of the separators.
                pieces[last].extend(['\'', literal]);
                characters.next();
                if literal == '\\' {
                    pieces[last].extend(characters.next());
                }
                if characters.peek() == Some(&'\'') {
                    pieces[last].extend(characters.next());
                }
            }
            _ if quoted => pieces[last].push(character),
            ('/', Some('*')) => {
                characters.next();
                *in_comment = Some(line);
                pieces[last].push(' ');
            }
            ('#', _) | ('/', Some('/')) => break,
            (';', _) => pieces.push(String::new()),
            _ => pieces[last].push(character),
        }
    }
    Ok(pieces)
}

fn statement(mut text: &str, line: usize, statements: &mut Vec<Statement>) {
    while let Some((name, rest)) = label(text) {
        statements.push(Statement::Label { line, name: name.to_owned() });
        text = rest.trim_start();
    }
    if text.is_empty() {
        return;
    }
    if let Some((name, value)) = text.split_once('=')
        && is_name(name.trim())
        && !value.starts_with('=')
    {
        statements.push(Statement::Assignment { line, name: name.trim().to_owned(), value: value.trim().to_owned() });
        return;
    }
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    statements.push(if first.starts_with('.') {
        Statement::Directive { line, name: first.to_ascii_lowercase(), arguments: rest.trim().to_owned() }
    } else {
        Statement::Instruction { line, text: text.to_owned() }
    });
}

/// A label at the start of the text, and what follows it.
fn label(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(':')?;
    let name = name.trim_end();
    let numeric = !name.is_empty() && name.len() < 9 && name.bytes().all(|byte| byte.is_ascii_digit());
    (is_name(name) || numeric).then_some((name, rest))
}

/// Letters, digits, `_`, `.` and `$`, not beginning with a digit.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b'$');
    bytes.next().is_some_and(starts) && bytes.all(|byte| starts(byte) || byte.is_ascii_digit())
}
