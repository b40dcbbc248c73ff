//! Bytes as a submission to the master's REST port, and as the path of a request.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firesteel_standalone::fuzzing::rest(bytes));
