//! Bytes in place of each message of a handshake: nobody gets in.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firesteel_rpc::fuzzing::handshake(bytes));
