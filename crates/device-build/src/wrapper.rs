//! Code that is generated for each library: a wrapper for each operation, the launcher that gives it its stack, and the three
//! functions by which the device learns what there is.

use std::fmt::Write as _;

use crate::schema::{ArgumentType, Schema};

/// The symbol of an operation's launcher, which a kernel table refers to.
pub(crate) fn launcher(schema: &Schema) -> String {
    format!("{}_stack_switch", schema.name)
}

/// The generated file of a library in C++.
pub(crate) fn cxx(schemas: &[Schema]) -> String {
    let mut text = String::from("#include <outboard/wrapper.hpp>\n");
    for schema in schemas {
        let name = &schema.name;
        let _ = write!(text, "\n{};\nextern \"C\" int {name}_wrapper() {{\n  customop_setup(true);\n", schema.cxx());
        for (index, argument) in schema.arguments.iter().enumerate() {
            let (kind, pull) = match argument.kind {
                ArgumentType::Tensor => ("torch::Tensor", "tensor"),
                ArgumentType::Scalar => ("torch::Scalar", "scalar"),
                ArgumentType::Float => ("double", "float"),
                ArgumentType::Int => ("int64_t", "longlong"),
            };
            let _ = writeln!(text, "  {kind} a{index} = customop_next_{pull}();");
        }
        let passed: Vec<_> = (0..schema.arguments.len()).map(|index| format!("a{index}")).collect();
        let _ = write!(
            text,
            "  torch::Tensor result = ::{name}({});\n  customop_return_tensor(result);\n  customop_cleanup();\n  return 0;\n}}\n\
             extern \"C\" int {name}_stack_switch() {{\n  \
             return switch_stack_or_call_wrapper(STACK_SIZE, reinterpret_cast<uint32_t>(&{name}_wrapper));\n}}\n",
            passed.join(", ")
        );
    }
    let _ = write!(text, "\nint get_func_cnt() {{ return {}; }}\n", schemas.len());
    text.push_str("\nconst char* get_func_name(int index) {\n  switch (index) {\n");
    for (index, schema) in schemas.iter().enumerate() {
        let _ = writeln!(text, "    case {index}: return \"{}\";", schema.name);
    }
    text.push_str("    default: return \"error\";\n  }\n}\n\nint (*get_func_ptr(int index))() {\n  switch (index) {\n");
    for (index, schema) in schemas.iter().enumerate() {
        let _ = writeln!(text, "    case {index}: return &{};", launcher(schema));
    }
    text.push_str("    default: return nullptr;\n  }\n}\n");
    text
}

/// The generated root of a library in Rust: `operations` brings the operations into a module of this name. The wrappers are
/// written by the macros of `device/customop-macro`.
pub(crate) fn rust(schemas: &[Schema], operations: &str, stack: u32) -> String {
    let mut text = format!("#![no_std]\n\n{operations}\n");
    for schema in schemas {
        let _ = write!(
            text,
            "\nconst _: () = assert!(operations::{}::OPERATION.agrees({:?}, {:?}), {DISAGREES:?});\n",
            schema.name,
            schema.to_string(),
            schema.types()
        );
    }
    let paths: Vec<_> = schemas.iter().map(|schema| format!("operations::{}", schema.name)).collect();
    let _ = write!(text, "\ncustomop::library!(stack = {stack}; {});\n", paths.join(", "));
    text
}

/// What the compiler says of an operation whose function is not that of its schema.
const DISAGREES: &str = "the function is not what the schema promises";

/// The schema whose operation the sources do not have, or have otherwise, by what the compiler said.
pub(crate) fn disagreeing<'a>(schemas: &'a [Schema], said: &str) -> Option<&'a Schema> {
    schemas.iter().find(|schema| {
        said.contains(&format!("find `{}` in `operations`", schema.name))
            || said.contains(DISAGREES) && said.contains(&format!("operations::{}::OPERATION", schema.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas() -> Vec<Schema> {
        ["ns::f(Tensor x, Scalar s, float a, int n) -> (Tensor)", "ns::g() -> (Tensor)"]
            .map(|text| text.parse().unwrap())
            .into()
    }

    #[test]
    fn a_wrapper_sets_up_pulls_in_order_calls_publishes_and_cleans_up() {
        let text = cxx(&schemas());
        let steps = [
            "customop_setup(true)",
            "a0 = customop_next_tensor()",
            "a1 = customop_next_scalar()",
            "a2 = customop_next_float()",
            "a3 = customop_next_longlong()",
            "f(a0, a1, a2, a3)",
            "customop_return_tensor(result)",
            "customop_cleanup()",
            "switch_stack_or_call_wrapper(STACK_SIZE",
        ];
        let places: Vec<_> = steps.iter().map(|step| text.find(step).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(text.contains("return 2;") && text.contains("case 1: return \"g\";"));
        assert!(text.contains("default: return \"error\";") && text.contains("default: return nullptr;"));
    }

    #[test]
    fn the_rust_root_holds_each_operation_against_its_schema_and_makes_the_library() {
        let text = rust(&schemas(), "#[path = \"/a b/op.rs\"]\nmod operations;", 20_000);
        let schema = "\"ns::f(Tensor x, Scalar s, float a, int n) -> (Tensor)\", \"Tensor, Scalar, float, int\"";
        assert!(text.contains(&format!("operations::f::OPERATION.agrees({schema})")), "{text}");
        assert!(text.contains("operations::g::OPERATION.agrees(\"ns::g() -> (Tensor)\", \"\")"));
        assert!(text.contains("customop::library!(stack = 20000; operations::f, operations::g);"));
    }

    #[test]
    fn what_the_compiler_says_of_a_missing_operation_names_its_schema() {
        let schemas = schemas();
        let missing = "error[E0433]: cannot find `g` in `operations`";
        assert_eq!(disagreeing(&schemas, missing).unwrap().name, "g");
        let other = format!("{DISAGREES}\n operations::f::OPERATION.agrees");
        assert_eq!(disagreeing(&schemas, &other).unwrap().name, "f");
        assert!(disagreeing(&schemas, "error: expected `;`").is_none());
    }
}
