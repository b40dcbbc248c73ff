//! Checkpoints inside a task: writing a partition to a file that stays, reading it back, and the link
//! to a parent that is let go of when its items lie elsewhere.

use std::io::{self, BufReader, BufWriter, Read};
use std::path::Path;
use std::sync::{Arc, RwLock};

use firesteel_closure::{Data, Decoder, Encoder, Value, Wire, WireError, wire};
use firesteel_io::{Input, Location, Target, Written};
use firesteel_shuffle::{Codec, FramedReader, FramedWriter, SpillError};
use firesteel_task::{TaskContext, fail_for_good, fail_with};

use crate::Pipe;
use crate::action::Action;

const BUFFER_BYTES: usize = 256 * 1024;

/// A parent, until it is let go of.
pub struct Link<P>(RwLock<Option<Arc<P>>>);

impl<P> Link<P> {
    pub fn new(parent: Arc<P>) -> Arc<Self> {
        Arc::new(Link(RwLock::new(Some(parent))))
    }

    /// The parent, if it is still needed.
    pub fn get(&self) -> Option<Arc<P>> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Takes the parent away.
    pub fn cut(&self) -> Option<Arc<P>> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

impl<P: Wire> Wire for Link<P> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        let parent = self.get();
        parent.is_some().encode(out)?;
        parent.map_or(Ok(()), |parent| parent.encode(out))
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let linked = bool::decode(input)?;
        let parent = if linked { Some(Arc::new(P::decode(input)?)) } else { None };
        Ok(Link(RwLock::new(parent)))
    }
}

wire! {
    /// `checkpoint`: the parent's items, or what was written of them once everything is.
    pub struct Checkpointed[P: Wire] {
        parent: Arc<Link<P>>,
        directory: Value<Location>,
    }
}

impl<P> Checkpointed<P> {
    /// Reads `parent` until it is cut, then the files in `directory`.
    pub fn new(parent: Arc<Link<P>>, directory: Location) -> Self {
        Checkpointed { parent, directory: Value(directory) }
    }
}

impl<P: Pipe<Item: Data>> Pipe for Checkpointed<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        match self.parent.get() {
            Some(parent) => Items::Computed(parent.compute(partition, task)),
            None => Items::Written(task.interruptible(read(&self.directory.0, partition, task))),
        }
    }
}

fn file_name(partition: u32) -> String {
    format!("part-{partition:05}")
}

fn read<T: Data>(
    directory: &Location,
    partition: u32,
    task: &TaskContext,
) -> impl Iterator<Item = T> + use<T> + 'static {
    let file = directory.child(&file_name(partition));
    let input = Input::open_stored(&file).unwrap_or_else(|error| {
        unreadable(&format!("could not open {file}: {error}"));
    });
    let input = Counted { input, task: task.clone() };
    let input = BufReader::with_capacity(BUFFER_BYTES, input);
    let path = file.to_string();
    let records = FramedReader::new(input, Path::new(&path), 0);
    let counter = task.clone();
    records.map(move |record| {
        counter.count(|metrics| metrics.input_records += 1);
        record.unwrap_or_else(|error| unreadable(&error.to_string()))
    })
}

/// What it was computed from is gone, so trying again cannot help.
#[cold]
fn unreadable(reason: &str) -> ! {
    fail_for_good(format!(
        "a checkpoint cannot be read: {reason}; the RDDs it was made from are forgotten, so build them \
         again"
    ))
}

/// Counts what the task reads.
struct Counted {
    input: Input,
    task: TaskContext,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.task.count(|metrics| metrics.input_bytes += read as u64);
        Ok(read)
    }
}

enum Items<A, B> {
    Computed(A),
    Written(B),
}

impl<T, A: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Items<A, B> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Items::Computed(items) => items.next(),
            Items::Written(items) => items.next(),
        }
    }

    fn fold<R, F: FnMut(R, T) -> R>(self, init: R, f: F) -> R {
        match self {
            Items::Computed(items) => items.fold(init, f),
            Items::Written(items) => items.fold(init, f),
        }
    }
}

wire! {
    /// Writes the partitions of a checkpoint.
    pub struct WriteCheckpoint[] {
        target: Value<Target>,
        codec: Value<Codec>,
    }
}

impl WriteCheckpoint {
    /// Attempts write to `target`.
    pub fn new(target: Target, codec: Codec) -> Self {
        WriteCheckpoint { target: Value(target), codec: Value(codec) }
    }

    fn write<T: Data>(
        &self,
        items: impl Iterator<Item = T>,
        task: &TaskContext,
    ) -> Result<(u64, Written), SpillError> {
        let name = file_name(task.partition());
        let out = self.target.0.create(&name, task.task().0, None)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, out);
        let mut writer = FramedWriter::new(out, self.codec.0);
        let mut records = 0;
        for item in items {
            task.check_killed();
            writer.push(&item)?;
            records += 1;
        }
        let out = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        task.check_killed();
        Ok((records, out.finish()?))
    }
}

impl<T: Data> Action<T> for WriteCheckpoint {
    type Output = Written;

    fn run(&self, items: impl Iterator<Item = T>, task: &TaskContext) -> Written {
        let (records, written) = self.write(items, task).unwrap_or_else(|error| match error {
            SpillError::Wire(error) => fail_for_good(error.to_string()),
            SpillError::Write { source } => {
                let name = file_name(task.partition());
                fail_with(format!("could not write {name} of a checkpoint: {source}"))
            }
        });
        task.count(|metrics| {
            metrics.output_records += records;
            metrics.output_bytes += written.bytes;
        });
        written
    }
}
