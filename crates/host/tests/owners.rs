//! Using a shared buffer on the wrong side does not compile (promise P13): every program under `tests/owners` is refused, with the
//! message beside it. The right order is the example of [`outboard_host::InputBuffer`].

#[test]
fn p13_a_buffer_on_the_wrong_side_does_not_compile() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("tests/owners/*.rs");
}
