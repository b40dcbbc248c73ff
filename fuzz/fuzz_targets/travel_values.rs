//! Bytes as a type, and the rest of them as an encoded value of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firesteel_closure::fuzzing::values(bytes));
