//! Bytes of a frame as headers, failures and requests for streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firesteel_rpc::fuzzing::messages(bytes));
