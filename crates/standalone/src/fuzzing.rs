//! What the fuzz targets run, as plain functions: any bytes, no panic, and what must not happen does not.

/// Bytes as a submission over HTTP, and as the path of a request.
pub fn rest(bytes: &[u8]) {
    crate::master::fuzz_rest(bytes);
}
