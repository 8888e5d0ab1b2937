//! Expressions: numbers, symbols, `.`, and the C operators.

/// The value of an expression: a symbol (by index) plus a number, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub symbol: Option<usize>,
    pub addend: i64,
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    Number(i64),
    Symbol(String),
    Unary(char, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
}

/// Deepest nesting of parentheses and signs.
const MAX_DEPTH: u32 = 64;
/// The current place.
const DOT: &str = ".";
/// Operators by precedence, the loosest first.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

/// The name under which the `count`-th definition of a numeric label is kept.
pub(super) fn numeric_name(number: u32, count: u32) -> String {
    format!("\u{1}{number}:{count}")
}

/// Is it the name of a numeric label?
pub(super) fn is_numeric_name(name: &str) -> bool {
    name.starts_with('\u{1}') && !name.starts_with("\u{1}dot")
}

/// Is the name the assembler's own, or a local one that no object shows?
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('\u{1}') || name.starts_with(".L")
}

/// Splits `hi(…)` and `lo(…)` into `hi:` or `lo:` (empty for others) and the text inside. Already
/// split text is accepted too.
pub(super) fn half_of(text: &str) -> (&'static str, &str) {
    for (name, mark) in [("hi", "hi:"), ("lo", "lo:")] {
        if let Some(inner) = text.strip_prefix(mark) {
            return (mark, inner);
        }
        let call = text.strip_prefix('%').unwrap_or(text).strip_prefix(name).map(str::trim_start);
        if let Some(inner) = call.and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')')) {
            return (mark, inner);
        }
    }
    ("", text)
}

impl Expression {
    /// Parses text. `numeric` gives the name behind `1b` (not forward) or `1f`.
    pub fn parse(text: &str, numeric: impl Fn(u32, bool) -> String) -> Result<Self, String> {
        let mut parser = Parser { rest: text.trim(), depth: 0, numeric: &numeric };
        let expression = parser.level(0)?;
        if parser.rest.trim().is_empty() {
            Ok(expression)
        } else {
            Err(format!("`{}` is left over in the expression `{text}`", parser.rest.trim()))
        }
    }

    /// The expression as text that parses to itself.
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) => format!("({number})"),
            Self::Symbol(name) => name.clone(),
            Self::Unary(operator, inner) => format!("({operator}{})", inner.text()),
            Self::Binary(operator, left, right) => format!("({}{operator}{})", left.text(), right.text()),
        }
    }

    pub fn uses_dot(&self) -> bool {
        self.symbols().iter().any(|name| name == DOT)
    }

    /// The same with another symbol for the current place.
    pub fn with_dot(&self, name: &str) -> Self {
        match self {
            Self::Symbol(symbol) if symbol == DOT => Self::Symbol(name.to_owned()),
            Self::Unary(operator, inner) => Self::Unary(*operator, Box::new(inner.with_dot(name))),
            Self::Binary(operator, left, right) => {
                Self::Binary(operator, Box::new(left.with_dot(name)), Box::new(right.with_dot(name)))
            }
            other => other.clone(),
        }
    }

    /// The symbols it names.
    pub fn symbols(&self) -> Vec<String> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Symbol(name) => vec![name.clone()],
            Self::Unary(_, inner) => inner.symbols(),
            Self::Binary(_, left, right) => {
                let mut names = left.symbols();
                names.extend(right.symbols());
                names
            }
        }
    }

    /// Evaluates. `lookup` gives a symbol's value, `distance` the difference of two symbols in
    /// the same section.
    pub fn evaluate(
        &self,
        lookup: &dyn Fn(&str) -> Value,
        distance: &dyn Fn(usize, usize) -> Option<i64>,
    ) -> Result<Value, String> {
        let number = |addend| Value { symbol: None, addend };
        match self {
            Self::Number(value) => Ok(number(*value)),
            Self::Symbol(name) => Ok(lookup(name)),
            Self::Unary(operator, inner) => match inner.evaluate(lookup, distance)? {
                Value { symbol: None, addend } => Ok(number(match operator {
                    '-' => addend.wrapping_neg(),
                    '~' => !addend,
                    _ => addend,
                })),
                _ => Err(format!("`{operator}` needs a number, not an address")),
            },
            Self::Binary(operator, left, right) => {
                let (a, b) = (left.evaluate(lookup, distance)?, right.evaluate(lookup, distance)?);
                combine(operator, a, b, distance)
            }
        }
    }
}

fn combine(
    operator: &str,
    a: Value,
    b: Value,
    distance: &dyn Fn(usize, usize) -> Option<i64>,
) -> Result<Value, String> {
    let sum = a.addend.wrapping_add(b.addend);
    let difference = a.addend.wrapping_sub(b.addend);
    match (operator, a.symbol, b.symbol) {
        ("+", symbol, None) | ("+", None, symbol) => Ok(Value { symbol, addend: sum }),
        ("-", symbol, None) => Ok(Value { symbol, addend: difference }),
        ("-", Some(first), Some(second)) => match distance(first, second) {
            Some(apart) => Ok(Value { symbol: None, addend: apart.wrapping_add(difference) }),
            None => Err("the difference of two addresses needs both in one section of this file".to_owned()),
        },
        (_, None, None) => {
            let addend = number_operation(operator, a.addend, b.addend)?;
            Ok(Value { symbol: None, addend })
        }
        _ => Err(format!("`{operator}` needs numbers, not addresses")),
    }
}

fn number_operation(operator: &str, a: i64, b: i64) -> Result<i64, String> {
    let shift = u32::try_from(b).ok().filter(|&amount| amount < 64);
    let shifted = || shift.ok_or_else(|| format!("a shift by {b} is not possible"));
    Ok(match operator {
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b).ok_or("division by zero in an expression")?,
        "%" => a.checked_rem(b).ok_or("division by zero in an expression")?,
        "<<" => a.wrapping_shl(shifted()?),
        ">>" => a.wrapping_shr(shifted()?),
        "&" => a & b,
        "^" => a ^ b,
        _ => a | b,
    })
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
    numeric: &'a dyn Fn(u32, bool) -> String,
}

impl Parser<'_> {
    fn level(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.primary() };
        let mut left = self.level(level + 1)?;
        loop {
            self.rest = self.rest.trim_start();
            let Some(operator) = operators.iter().find(|operator| self.rest.starts_with(**operator)) else {
                return Ok(left);
            };
            self.rest = &self.rest[operator.len()..];
            let right = self.level(level + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn primary(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let outcome = self.nested_primary();
        self.depth -= 1;
        outcome
    }

    fn nested_primary(&mut self) -> Result<Expression, String> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else {
            return Err("an expression ends where a number or a symbol should stand".to_owned());
        };
        match first {
            '(' => {
                self.rest = &self.rest[1..];
                let inner = self.level(0)?;
                self.rest = self.rest.trim_start();
                self.rest = self.rest.strip_prefix(')').ok_or("a closing parenthesis is missing")?;
                Ok(inner)
            }
            '-' | '+' | '~' => {
                self.rest = &self.rest[1..];
                let inner = self.primary()?;
                Ok(Expression::Unary(first, Box::new(inner)))
            }
            '\'' => self.character(),
            _ => self.word(),
        }
    }

    fn character(&mut self) -> Result<Expression, String> {
        let mut characters = self.rest[1..].chars();
        let missing = "a character constant is empty";
        let value = match characters.next().ok_or(missing)? {
            '\\' => super::directive::escape(characters.next().ok_or(missing)?)?,
            plain => u8::try_from(plain).map_err(|_| format!("`{plain}` is not a single byte"))?,
        };
        let rest = characters.as_str();
        self.rest = rest.strip_prefix('\'').unwrap_or(rest);
        Ok(Expression::Number(value.into()))
    }

    fn word(&mut self) -> Result<Expression, String> {
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | ':' | '\u{1}');
        let end = self.rest.find(|c: char| !part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.is_empty() {
            return Err(format!("`{rest}` is not a number or a symbol"));
        }
        if word == DOT || super::source::is_name(word) || word.starts_with('\u{1}') {
            return Ok(Expression::Symbol(word.to_owned()));
        }
        let digits = &word[..word.len() - 1];
        if word.ends_with(['b', 'f'])
            && let Ok(number) = digits.parse()
        {
            return Ok(Expression::Symbol((self.numeric)(number, word.ends_with('f'))));
        }
        crate::encode::parse_number(word)
            .map(Expression::Number)
            .ok_or_else(|| format!("`{word}` is not a number or a symbol"))
    }
}
