//! What the fuzz targets run, as plain functions: any bytes, no panic, and what must not happen does not.

pub use crate::master::fuzz_rest as rest;
