//! What a task executes, and the form of what it gives.

use std::any::Any;

use firesteel_closure::{Data, Decoder, Encoder, WireError, code, from_bytes};

use crate::TaskContext;

/// A value that a task hands to the driver: as it is within one process, encoded between two.
pub enum Payload {
    /// The value itself, for the same process.
    Typed(Box<dyn Any + Send>),
    /// Its wire form, from another process.
    Encoded(Vec<u8>),
}

impl Payload {
    /// The value, which is known to be a `T`.
    pub fn into_value<T: Data>(self) -> Result<T, WireError> {
        match self {
            Payload::Encoded(bytes) => from_bytes(&bytes),
            Payload::Typed(value) => {
                Ok(*value.downcast().expect("a task's output has its action's type"))
            }
        }
    }
}

/// The code of a stage's tasks.
pub trait TaskBody: Send + Sync {
    /// Runs the task. Fails by unwinding; see [`crate::fail`].
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send>;
    /// What an output of [`TaskBody::run`] takes in memory, about, if that may be much.
    fn output_bytes(&self, _output: &(dyn Any + Send)) -> u64 {
        0
    }
    /// Encodes what [`TaskBody::run`] returned.
    fn encode_output(&self, output: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError>;
    /// Writes the name of this code and its values.
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError>;
}

/// Reads what [`TaskBody::encode`] wrote.
pub fn decode_body(input: &mut Decoder<'_>) -> Result<Box<dyn TaskBody>, WireError> {
    code::decode::<Box<dyn TaskBody>>(input)?(input)
}
