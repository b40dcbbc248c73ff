//! Spark's event log as data: one JSON object a line, both ways.
//!
//! | file | owns |
//! |---|---|
//! | `text` | numbers and texts, read leniently |
//! | `model`, `holders`, `metrics` | the fields of each line |
//! | `decode`, `stages`, `failure` | a line of Spark 1 to 4, or of ours, as [`Event`](firesteel_types::Event)s |
//! | `encode` | our events as lines that Spark reads |
//!
//! What we know and Spark has no field for is in fields of our own, which Spark reads over.

mod decode;
mod encode;
mod failure;
mod holders;
pub(crate) mod metrics;
mod model;
mod stages;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use decode::quick_name;
pub use decode::{Decoder, LineError};
pub use encode::{Encoder, Extent};
pub(crate) use failure::message;

/// Stands for the port of a block manager that nobody reaches: Spark's reader ends at one with port 0.
pub(crate) const NO_PORT: u16 = 1;

/// A port as a log has it.
fn port_of(port: u16) -> text::Int {
    text::Int(port.max(NO_PORT).into())
}
