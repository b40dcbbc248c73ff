//! Bytes as a type with serde's attributes and three values of it: equal or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    firesteel_closure::fuzzing::types(bytes);
});
