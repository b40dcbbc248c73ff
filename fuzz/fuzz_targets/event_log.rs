//! Bytes as an event log, compressed or not, and every question about what is in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firesteel_monitor::fuzzing::log(bytes));
