//! Shippable functions: how code travels from the driver to an executor on stable Rust.
//!
//! Three facts carry the design:
//!
//! 1. A closure that captures nothing is zero-sized: its type *is* the closure. [`Pure`] holds such a
//!    closure and writes nothing on the wire; the reader, which knows the type, has it back.
//! 2. Captured values are passed in the open: [`Shared`] pairs an environment (a serde value) with a
//!    closure that captures nothing and takes the environment as its first argument.
//! 3. The type itself travels as the name of a monomorphised function: its offset from an anchor
//!    function in the same executable ([`code`]). Both ends must run the same executable, which is
//!    what a [`SameExecutable`] stands for.
//!
//! A closure that does capture is refused when the program is compiled, not when it runs.
//!
//! Architecture Invariant: every `unsafe` of the workspace lives in this crate, with its argument
//! beside it. Nothing here knows RDDs, tasks, sockets or threads.

mod call;
pub mod code;
mod executable;
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod hook;
mod value;
#[warn(missing_docs)] // users read it: `Data`
mod wire;

pub use call::{Call, Closure, Pure, Shared};
pub use executable::{ExecutableHash, SameExecutable, open_current};
pub use value::{
    Appender, Taker, ValueError, append_items, check, encoded_len, from_bytes, heap_bytes,
    is_checking, to_bytes, to_readable_bytes,
};
pub use wire::{Data, Decoder, Detached, Encoder, Value, Wire, WireError};
