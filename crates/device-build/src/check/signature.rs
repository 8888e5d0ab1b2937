//! What a C++ function takes, from its linker name: the schema of an operation when nobody passes one.

use crate::schema::ArgumentType;

/// The tensor and the number of the tensor library: linker name, prefix and type.
const CLASSES: [(&str, ArgumentType); 2] =
    [("N2at6TensorE", ArgumentType::Tensor), ("N3c106ScalarE", ArgumentType::Scalar)];

/// The arguments of the function `name` when `linker` is its linker name, and all are types that a schema has.
pub(super) fn of(linker: &str, name: &str) -> Option<Vec<ArgumentType>> {
    let mut rest = linker.strip_prefix("_Z")?.strip_prefix(name.len().to_string().as_str())?.strip_prefix(name)?;
    if rest == "v" {
        return Some(Vec::new());
    }
    let mut arguments = Vec::new();
    // What `S_`, `S0_` … stand for: namespaces have no kind.
    let mut seen: Vec<Option<ArgumentType>> = Vec::new();
    while !rest.is_empty() {
        let (kind, behind) = argument(rest, &mut seen)?;
        arguments.push(kind);
        rest = behind;
    }
    Some(arguments)
}

fn argument<'a>(text: &'a str, seen: &mut Vec<Option<ArgumentType>>) -> Option<(ArgumentType, &'a str)> {
    for (letter, kind) in [('d', ArgumentType::Float), ('x', ArgumentType::Int), ('l', ArgumentType::Int)] {
        if let Some(rest) = text.strip_prefix(letter) {
            return Some((kind, rest));
        }
    }
    // References and const are entries of the list of their own.
    for prefix in ['R', 'K'] {
        if let Some(inner) = text.strip_prefix(prefix) {
            let (kind, rest) = argument(inner, seen)?;
            seen.push(Some(kind));
            return Some((kind, rest));
        }
    }
    if let Some(reference) = text.strip_prefix('S') {
        let (number, rest) = reference.split_once('_')?;
        let index = if number.is_empty() { 0 } else { usize::from_str_radix(number, 36).ok()?.checked_add(1)? };
        return Some(((*seen.get(index)?)?, rest));
    }
    CLASSES.iter().find_map(|(class, kind)| {
        let rest = text.strip_prefix(class)?;
        seen.extend([None, Some(*kind)]);
        Some((*kind, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::ArgumentType::{Float, Int, Scalar, Tensor};
    use super::*;

    #[test]
    fn arguments_are_read_from_linker_names() {
        for (linker, name, expected) in [
            ("_Z4reluRKN2at6TensorE", "relu", Some(vec![Tensor])),
            ("_Z4axpyRKN2at6TensorES2_dx", "axpy", Some(vec![Tensor, Tensor, Float, Int])),
            ("_Z1fN2at6TensorERKN3c106ScalarERKS0_", "f", Some(vec![Tensor, Scalar, Tensor])),
            ("_Z4nonev", "none", Some(vec![])),
            ("_Z1fi", "f", None),
            ("_Z1fS_", "f", None),
            ("_Z1fRKN2at6TensorES9_", "f", None),
            ("_Z1fRKN2at6TensorES_", "f", None),
            ("_Z1gd", "f", None),
            ("f", "f", None),
        ] {
            assert_eq!(of(linker, name), expected, "{linker}");
        }
    }
}
