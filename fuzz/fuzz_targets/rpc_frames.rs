//! Bytes of a peer, cut anywhere, as frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| firesteel_rpc::fuzzing::frames(bytes));
