//! What a program hears from the compiler when a closure or a record could not travel to an executor.

#[test]
fn what_cannot_travel_is_refused_when_the_program_is_compiled() {
    let cases = trybuild::TestCases::new();
    // Captures are refused when code is generated: only a case that passes makes trybuild do that.
    cases.pass("tests/ui/accepted.rs");
    cases.compile_fail("tests/ui/refused_*.rs");
}
