//! What an operation written in Rust says about itself.

/// The description that `#[custom_op]` derives; `outboard op build` holds it against the schema that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name that the device finds it by.
    pub name: &'static str,
    /// The types of its arguments as in a schema: `Tensor, float`.
    pub types: &'static str,
    /// The whole schema when the attribute gives one, else empty.
    pub schema: &'static str,
}

impl Operation {
    /// Whether this is the operation of a schema, given whole and by its types.
    #[must_use]
    pub const fn agrees(&self, schema: &str, types: &str) -> bool {
        same(self.types, types) && (self.schema.is_empty() || same(self.schema, schema))
    }
}

/// Equality that the compiler can evaluate.
const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_agrees_by_its_types_and_when_it_was_given_as_a_whole() {
        let derived = Operation { name: "f", types: "Tensor, float", schema: "" };
        assert!(derived.agrees("ns::f(Tensor x, float a) -> (Tensor)", "Tensor, float"));
        assert!(!derived.agrees("ns::f(Tensor x, int a) -> (Tensor)", "Tensor, int"));
        let given = Operation { schema: "ns::f(Tensor x, float a) -> (Tensor)", ..derived };
        assert!(given.agrees("ns::f(Tensor x, float a) -> (Tensor)", "Tensor, float"));
        assert!(!given.agrees("other::f(Tensor x, float a) -> (Tensor)", "Tensor, float"));
    }
}
