//! The attribute `#[custom_op]` and the macro `library!` of `device/customop-macro`, as their users meet them: what is an
//! operation compiles, everything else is refused with its place, and the message beside the program.

#[test]
fn what_is_no_operation_does_not_compile_and_the_message_names_place_and_remedy() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("tests/custom_op/refused_*.rs");
    programs.pass("tests/custom_op/operations.rs");
}
