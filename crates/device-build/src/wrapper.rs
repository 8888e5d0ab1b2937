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

/// The generated root of a library in Rust; `source` is the file with the operations.
pub(crate) fn rust(schemas: &[Schema], source: &str, stack: u32) -> String {
    let mut text = format!(
        "#![no_std]\n\nuse customop::kernel::{{address_of, launch, routine}};\n\n#[path = {source:?}]\nmod operations;\n\n\
         #[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {{\n    customop::kernel::panicked()\n}}\n"
    );
    for schema in schemas {
        let name = &schema.name;
        let _ = write!(text, "\nextern \"C\" fn {name}_wrapper() -> i32 {{\n    routine::customop_setup(true);\n");
        for (index, argument) in schema.arguments.iter().enumerate() {
            let pull = match argument.kind {
                ArgumentType::Tensor => "routine::customop_next_tensor()",
                ArgumentType::Scalar => "routine::customop_next_scalar()",
                ArgumentType::Float => "f64::from(routine::customop_next_float())",
                ArgumentType::Int => "routine::customop_next_longlong()",
            };
            let _ = writeln!(text, "    let a{index} = {pull};");
        }
        let passed = schema.arguments.iter().enumerate().map(|(index, argument)| match argument.kind {
            ArgumentType::Tensor | ArgumentType::Scalar => format!("&a{index}"),
            ArgumentType::Float | ArgumentType::Int => format!("a{index}"),
        });
        let _ = write!(
            text,
            "    let result = operations::{name}({});\n    routine::customop_return_tensor(&result);\n    \
             routine::customop_cleanup();\n    0\n}}\n\n#[unsafe(no_mangle)]\nextern \"C\" fn {name}_stack_switch() -> i32 {{\n    \
             launch({name}_wrapper, {stack})\n}}\n",
            passed.collect::<Vec<_>>().join(", ")
        );
    }
    let _ = write!(
        text,
        "\n#[unsafe(export_name = \"_Z12get_func_cntv\")]\nextern \"C\" fn get_func_cnt() -> i32 {{\n    {}\n}}\n\n\
         #[unsafe(export_name = \"_Z13get_func_namei\")]\nextern \"C\" fn get_func_name(index: i32) -> *const u8 {{\n    \
         let name = match index {{\n",
        schemas.len()
    );
    for (index, schema) in schemas.iter().enumerate() {
        let _ = writeln!(text, "        {index} => c\"{}\",", schema.name);
    }
    text.push_str(
        "        _ => c\"error\",\n    };\n    name.as_ptr().cast()\n}\n\n\
         #[unsafe(export_name = \"_Z12get_func_ptri\")]\nextern \"C\" fn get_func_ptr(index: i32) -> u32 {\n    match index {\n",
    );
    for (index, schema) in schemas.iter().enumerate() {
        let _ = writeln!(text, "        {index} => address_of({}),", launcher(schema));
    }
    text.push_str("        _ => 0,\n    }\n}\n");
    text
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
    fn the_rust_root_passes_tensors_by_reference_and_numbers_by_value() {
        let text = rust(&schemas(), "/a b/op.rs", 20_000);
        assert!(text.contains("operations::f(&a0, &a1, a2, a3)") && text.contains("#[path = \"/a b/op.rs\"]"));
        assert!(text.contains("launch(f_wrapper, 20000)") && text.contains("1 => address_of(g_stack_switch)"));
    }
}
