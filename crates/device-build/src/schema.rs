//! Schemas: `ns::fn(Tensor x, float a) -> (Tensor)`, as the vendor's tools read them.

use std::fmt;
use std::str::FromStr;

/// A function's name is shorter than this.
pub(crate) const NAME_LIMIT: usize = 32;
/// Arguments besides the result: a dispatch has ten records, and the result takes one.
pub(crate) const MAX_ARGUMENTS: usize = 9;
/// Functions of a library.
pub(crate) const MAX_FUNCTIONS: usize = 10;

/// The kind of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentType {
    /// `Tensor`: any shape of one to eight dimensions, any element type of the device.
    Tensor,
    /// `Scalar`: an integer or a fraction.
    Scalar,
    /// `float`: a fraction; C++ sees a `double`.
    Float,
    /// `int`: 64 bits; C++ sees an `int64_t`.
    Int,
}

impl ArgumentType {
    const ALL: [(&'static str, Self); 4] =
        [("Tensor", Self::Tensor), ("Scalar", Self::Scalar), ("float", Self::Float), ("int", Self::Int)];

    /// How a schema spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "Tensor",
            Self::Scalar => "Scalar",
            Self::Float => "float",
            Self::Int => "int",
        }
    }

    /// How C++ receives it.
    #[must_use]
    pub const fn cxx(self) -> &'static str {
        match self {
            Self::Tensor => "const torch::Tensor&",
            Self::Scalar => "const torch::Scalar&",
            Self::Float => "double",
            Self::Int => "int64_t",
        }
    }

    /// How Rust receives it.
    #[must_use]
    pub const fn rust(self) -> &'static str {
        match self {
            Self::Tensor => "&Tensor",
            Self::Scalar => "&Scalar",
            Self::Float => "f64",
            Self::Int => "i64",
        }
    }
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its kind.
    pub kind: ArgumentType,
    /// Its name.
    pub name: String,
}

/// The interface of one operation.
///
/// ```
/// use outboard_device_build::{ArgumentType, Schema};
///
/// let schema: Schema = "my_ops::scale(Tensor x, float factor) -> (Tensor)".parse()?;
/// assert_eq!((schema.namespace.as_str(), schema.name.as_str()), ("my_ops", "scale"));
/// assert_eq!(schema.arguments[1].kind, ArgumentType::Float);
/// assert_eq!(schema.cxx(), "torch::Tensor scale(const torch::Tensor& x, double factor)");
/// # Ok::<(), outboard_device_build::SchemaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// What is before `::`.
    pub namespace: String,
    /// The function.
    pub name: String,
    /// What it takes, in order.
    pub arguments: Vec<Argument>,
}

/// Why a text is no schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema `{schema}`, at `{at}`: {problem}")]
pub struct SchemaError {
    /// The text.
    pub schema: String,
    /// The part that is wrong.
    pub at: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl SchemaError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        "OB0731"
    }
}

impl Schema {
    /// The declaration in C++.
    #[must_use]
    pub fn cxx(&self) -> String {
        let arguments: Vec<_> =
            self.arguments.iter().map(|argument| format!("{} {}", argument.kind.cxx(), argument.name)).collect();
        format!("torch::Tensor {}({})", self.name, arguments.join(", "))
    }

    /// The types of the arguments: `Tensor, float`.
    #[must_use]
    pub fn types(&self) -> String {
        let kind = |argument: &Argument| {
            ArgumentType::ALL.iter().find(|(_, kind)| *kind == argument.kind).map_or("", |(name, _)| name)
        };
        self.arguments.iter().map(kind).collect::<Vec<_>>().join(", ")
    }

    /// The declaration in Rust.
    #[must_use]
    pub fn rust(&self) -> String {
        let arguments: Vec<_> =
            self.arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.kind.rust())).collect();
        format!("#[custom_op] fn {}({}) -> Tensor", self.name, arguments.join(", "))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}(", self.namespace, self.name)?;
        for (index, argument) in self.arguments.iter().enumerate() {
            let known = ArgumentType::ALL.iter().find(|(_, kind)| *kind == argument.kind);
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{} {}", known.map_or("", |(name, _)| name), argument.name)?;
        }
        f.write_str(") -> (Tensor)")
    }
}

fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_');
    first && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

impl FromStr for Schema {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let wrong = |at: &str, problem: &str| SchemaError {
            schema: text.to_owned(),
            at: at.to_owned(),
            problem: problem.to_owned(),
        };
        let form = "write it as `ns::fn(Tensor x, float a) -> (Tensor)`";
        let (front, result) = text.trim().split_once(" -> ").ok_or_else(|| wrong(text, form))?;
        let (path, rest) = front.split_once('(').ok_or_else(|| wrong(front, form))?;
        let inside = rest.strip_suffix(')').ok_or_else(|| wrong(rest, "the list of arguments ends with `)`"))?;
        let (namespace, name) = path.split_once("::").ok_or_else(|| {
            wrong(path, "the function has no namespace: write `ns::fn`, where `ns` is the library's name in the model")
        })?;
        for part in [namespace, name] {
            if !is_identifier(part) {
                return Err(wrong(part, "a name is letters, digits and `_`, and does not begin with a digit"));
            }
        }
        if name.len() >= NAME_LIMIT {
            let problem = format!("{} characters; the device keeps names of up to {}", name.len(), NAME_LIMIT - 1);
            return Err(wrong(name, &problem));
        }
        let result = result.trim();
        let one = result.strip_prefix('(').and_then(|inside| inside.strip_suffix(')')).unwrap_or("");
        let mut words = one.split(' ');
        if words.next() != Some("Tensor")
            || words.next().is_some_and(|name| !is_identifier(name))
            || words.next().is_some()
        {
            return Err(wrong(result, "an operation returns exactly one tensor: `-> (Tensor)`"));
        }
        let mut arguments: Vec<Argument> = Vec::new();
        for part in inside.split(", ").filter(|_| !inside.is_empty()) {
            let words: Vec<&str> = part.split(' ').collect();
            let [kind, name] = words[..] else {
                return Err(wrong(
                    part,
                    "an argument is a type, one space and a name; arguments are separated by `, `",
                ));
            };
            let Some((_, kind)) = ArgumentType::ALL.iter().find(|(known, _)| *known == kind) else {
                return Err(wrong(
                    kind,
                    "there is no such type; there are Tensor, Scalar, float (a double) and int (64 bits)",
                ));
            };
            if !is_identifier(name) {
                return Err(wrong(name, "a name is letters, digits and `_`, and does not begin with a digit"));
            }
            if arguments.iter().any(|other| other.name == name) {
                return Err(wrong(name, "two arguments have this name"));
            }
            arguments.push(Argument { kind: *kind, name: name.to_owned() });
        }
        if arguments.len() > MAX_ARGUMENTS {
            let problem = format!("{} arguments; besides the result, {MAX_ARGUMENTS} fit", arguments.len());
            return Err(wrong(inside, &problem));
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (String, String) {
        let error = text.parse::<Schema>().unwrap_err();
        (error.at, error.problem)
    }

    #[test]
    fn a_schema_prints_as_it_was_read() {
        for text in [
            "ns::f(Tensor x) -> (Tensor)",
            "a_b::g2(Tensor x, Scalar s, float f, int i) -> (Tensor)",
            "ns::nothing() -> (Tensor)",
        ] {
            assert_eq!(text.parse::<Schema>().unwrap().to_string(), text);
        }
        let named: Schema = "ns::f(Tensor x) -> (Tensor y)".parse().unwrap();
        assert_eq!(named.rust(), "#[custom_op] fn f(x: &Tensor) -> Tensor");
    }

    #[test]
    fn each_rule_names_the_part_that_breaks_it() {
        for (text, at, words) in [
            ("ns::f(Tensor x)", "ns::f(Tensor x)", "write it as"),
            ("ns::f Tensor x -> (Tensor)", "ns::f Tensor x", "write it as"),
            ("ns::f(Tensor x -> (Tensor)", "Tensor x", "ends with `)`"),
            ("f(Tensor x) -> (Tensor)", "f", "no namespace"),
            ("ns::2f(Tensor x) -> (Tensor)", "2f", "letters, digits"),
            ("ns::a::f(Tensor x) -> (Tensor)", "a::f", "letters, digits"),
            ("ns::f(Tensor x,Tensor y) -> (Tensor)", "Tensor x,Tensor y", "separated by"),
            ("ns::f(Tensor  x) -> (Tensor)", "Tensor  x", "one space"),
            ("ns::f(Tensor) -> (Tensor)", "Tensor", "a name"),
            ("ns::f(double x) -> (Tensor)", "double", "no such type"),
            ("ns::f(Tensor[] x) -> (Tensor)", "Tensor[]", "no such type"),
            ("ns::f(Tensor 1) -> (Tensor)", "1", "letters, digits"),
            ("ns::f(Tensor x, int x) -> (Tensor)", "x", "two arguments"),
            ("ns::f(Tensor x) -> Tensor", "Tensor", "exactly one tensor"),
            ("ns::f(Tensor x) -> ()", "()", "exactly one tensor"),
            ("ns::f(Tensor x) -> (Tensor, Tensor)", "(Tensor, Tensor)", "exactly one tensor"),
        ] {
            let (place, problem) = problem(text);
            assert!(place == at && problem.contains(words), "{text}: at `{place}`: {problem}");
        }
    }

    #[test]
    fn names_of_31_characters_and_nine_arguments_are_the_limits() {
        let named = |length| format!("ns::{}(Tensor x) -> (Tensor)", "n".repeat(length));
        assert!(named(31).parse::<Schema>().is_ok());
        assert!(problem(&named(32)).1.contains("32 characters"));
        let taking = |count| {
            let list: Vec<_> = (0..count).map(|index| format!("int a{index}")).collect();
            format!("ns::f({}) -> (Tensor)", list.join(", "))
        };
        assert!(taking(9).parse::<Schema>().is_ok());
        assert!(problem(&taking(10)).1.contains("10 arguments"));
    }
}
