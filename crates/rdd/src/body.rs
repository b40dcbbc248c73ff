//! What a task executes: a pipeline with an action at its end, or with a shuffle writer.

use std::any::Any;

use firesteel_closure::{
    Data, Decoder, Encoder, Wire, WireError, code, from_bytes, to_bytes, wire,
};
use firesteel_types::ShuffleId;

use crate::action::Action;
use crate::task::OrFail;
use crate::wide::Writer;
use crate::{Pipe, TaskContext};

/// A value that a task hands to the driver: as it is within one process, encoded between two.
pub enum Payload {
    /// As it is.
    Typed(Box<dyn Any + Send>),
    /// Encoded.
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
    /// Encodes what [`TaskBody::run`] returned.
    fn encode_output(&self, output: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError>;
    /// Writes the name of this code and its values.
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError>;
}

/// Reads what [`TaskBody::encode`] wrote.
pub fn decode_body(input: &mut Decoder<'_>) -> Result<Box<dyn TaskBody>, WireError> {
    code::decode::<Box<dyn TaskBody>>(input)?(input)
}

/// A pipeline with an action at its end.
pub struct ResultBody<P, A> {
    pipe: P,
    action: A,
}

impl<P, A> ResultBody<P, A> {
    /// Feeds `pipe`'s items to `action`.
    pub fn new(pipe: P, action: A) -> Self {
        ResultBody { pipe, action }
    }
}

wire!([P: Wire, A: Wire] ResultBody<P, A> { pipe, action });

fn rebuild_result<P: Pipe, A: Action<P::Item>>(
    input: &mut Decoder<'_>,
) -> Result<Box<dyn TaskBody>, WireError> {
    Ok(Box::new(ResultBody::<P, A>::decode(input)?))
}

impl<P: Pipe, A: Action<P::Item>> TaskBody for ResultBody<P, A> {
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send> {
        let output = self.action.run(self.pipe.compute(task.partition(), task), task);
        self.action.check(&output).or_fail();
        task.check_updates();
        Box::new(output)
    }

    fn encode_output(&self, output: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError> {
        to_bytes(output.downcast_ref::<A::Output>().expect("the output of this very action"))
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild_result::<P, A>, out)?;
        Wire::encode(self, out)
    }
}

/// A pipeline with a shuffle writer at its end.
pub struct ShuffleMapBody<P, W> {
    pipe: P,
    writer: W,
    shuffle: u32,
    readers: u32,
    checksummed: bool,
}

impl<P, W> ShuffleMapBody<P, W> {
    /// Writes `pipe`'s items to `shuffle`, which has `readers` partitions; with a checksum of its records
    /// if they may differ when the task runs again.
    pub fn new(pipe: P, writer: W, shuffle: ShuffleId, readers: u32, checksummed: bool) -> Self {
        ShuffleMapBody { pipe, writer, shuffle: shuffle.0, readers, checksummed }
    }
}

wire!([P: Wire, W: Wire] ShuffleMapBody<P, W> { pipe, writer, shuffle, readers, checksummed });

fn rebuild_shuffle_map<P: Pipe, W: Writer<P::Item>>(
    input: &mut Decoder<'_>,
) -> Result<Box<dyn TaskBody>, WireError> {
    Ok(Box::new(ShuffleMapBody::<P, W>::decode(input)?))
}

impl<P: Pipe, W: Writer<P::Item>> TaskBody for ShuffleMapBody<P, W> {
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send> {
        let mut buckets = task.buckets(self.readers);
        if self.checksummed {
            buckets.compute_checksum();
        }
        let partition = task.partition();
        self.writer.write(self.pipe.compute(partition, task), partition, task, &mut buckets);
        let checksum = buckets.checksum();
        let output = buckets.finish().or_fail();
        task.count(|metrics| {
            metrics.shuffle_write_checksum = checksum;
            metrics.shuffle_write_records += output.records();
            metrics.shuffle_write_bytes += output.bytes();
        });
        // Another attempt may have been quicker: nobody will read this one.
        task.check_killed();
        let (environment, shuffle) = (task.environment(), ShuffleId(self.shuffle));
        environment.put_map_output(shuffle, partition, task.task(), output).or_fail();
        task.check_updates();
        Box::new(())
    }

    fn encode_output(&self, _: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError> {
        Ok(Vec::new())
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild_shuffle_map::<P, W>, out)?;
        Wire::encode(self, out)
    }
}
