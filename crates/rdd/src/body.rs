//! Task bodies: a pipeline with an action at its end, or with a shuffle writer.

use std::any::Any;

use firesteel_closure::{Decoder, Encoder, Wire, WireError, code, heap_bytes, to_bytes, wire};
use firesteel_shuffle::Compared;
use firesteel_task::{OrFail, TaskBody, TaskContext};
use firesteel_types::ShuffleId;

use crate::Pipe;
use crate::action::Action;
use crate::wide::Writer;

wire! {
    /// A pipeline with an action at its end.
    pub struct ResultBody[P: Wire, A: Wire] {
        pipe: P,
        action: A,
    }

    /// Feeds `pipe`'s items to `action`.
    pub fn new;
}

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

    fn output_bytes(&self, output: &(dyn Any + Send)) -> u64 {
        let output = output.downcast_ref::<A::Output>();
        output.map_or(0, |output| (size_of::<A::Output>() + heap_bytes(output)) as u64)
    }

    fn encode_output(&self, output: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError> {
        to_bytes(output.downcast_ref::<A::Output>().expect("the output of this very action"))
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild_result::<P, A>, out)?;
        Wire::encode(self, out)
    }
}

wire! {
    /// A pipeline with a shuffle writer at its end.
    pub struct ShuffleMapBody[P: Wire, W: Wire] {
        pipe: P,
        writer: W,
        shuffle: u32,
        readers: u32,
        compared: Compared,
    }
}

impl<P, W> ShuffleMapBody<P, W> {
    /// Writes `pipe`'s items to `shuffle`, which has `readers` partitions; with a checksum of what may differ when
    /// the task runs again.
    pub fn new(pipe: P, writer: W, shuffle: ShuffleId, readers: u32, compared: Compared) -> Self {
        ShuffleMapBody { pipe, writer, shuffle: shuffle.0, readers, compared }
    }
}

fn rebuild_shuffle_map<P: Pipe, W: Writer<P::Item>>(
    input: &mut Decoder<'_>,
) -> Result<Box<dyn TaskBody>, WireError> {
    Ok(Box::new(ShuffleMapBody::<P, W>::decode(input)?))
}

impl<P: Pipe, W: Writer<P::Item>> TaskBody for ShuffleMapBody<P, W> {
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send> {
        let mut buckets = task.buckets(self.readers);
        buckets.compute_checksum(self.compared);
        let partition = task.partition();
        self.writer.write(self.pipe.compute(partition, task), partition, task, &mut buckets);
        task.put_map_output(ShuffleId(self.shuffle), buckets);
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
