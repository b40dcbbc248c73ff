//! Checkpoints inside a task: writing a partition to a file that stays, reading it back, and the link
//! to a parent that is let go of when its items lie elsewhere.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use firesteel_closure::{Data, Decoder, Encoder, Value, Wire, WireError, wire};
use firesteel_io::{Written, WrittenAt};
use firesteel_shuffle::{Codec, Records, SpillError, open_file, write_file};

use crate::action::Action;
use crate::task::{fail_for_good, fail_with};
use crate::{Pipe, TaskContext};

/// A parent, until it is let go of.
pub struct Link<P>(RwLock<Option<Arc<P>>>);

impl<P> Link<P> {
    /// To `parent`.
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
        out.put(&parent.is_some())?;
        parent.map_or(Ok(()), |parent| parent.encode(out))
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let linked: bool = input.take()?;
        let parent = if linked { Some(Arc::new(P::decode(input)?)) } else { None };
        Ok(Link(RwLock::new(parent)))
    }
}

/// `checkpoint`: the parent's items, or what was written of them once everything is.
pub struct Checkpointed<P> {
    parent: Arc<Link<P>>,
    directory: Value<PathBuf>,
}

impl<P> Checkpointed<P> {
    /// Reads `parent` until it is cut, then the files in `directory`.
    pub fn new(parent: Arc<Link<P>>, directory: PathBuf) -> Self {
        Checkpointed { parent, directory: Value(directory) }
    }
}

wire!([P: Wire] Checkpointed<P> { parent, directory });

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

/// The file of a partition.
fn file_name(partition: u32) -> String {
    format!("part-{partition:05}")
}

fn read<T: Data>(
    directory: &Path,
    partition: u32,
    task: &TaskContext,
) -> impl Iterator<Item = T> + use<T> + 'static {
    let slice = open_file(&directory.join(file_name(partition))).unwrap_or_else(unreadable);
    task.count(|metrics| {
        metrics.input_records += slice.records();
        metrics.input_bytes += slice.bytes();
    });
    Records::new(slice).map(|record| record.unwrap_or_else(unreadable))
}

/// What it was computed from is gone, so trying again cannot help.
#[cold]
fn unreadable<T>(error: firesteel_shuffle::ReadError) -> T {
    fail_for_good(format!(
        "a checkpoint cannot be read: {error}; the RDDs it was made from are forgotten, so build them \
         again"
    ))
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

/// Writes the partitions of a checkpoint.
pub struct WriteCheckpoint {
    directory: Value<PathBuf>,
    codec: Value<Codec>,
}

impl WriteCheckpoint {
    /// Attempts write into `directory`, which exists.
    pub fn new(directory: PathBuf, codec: Codec) -> Self {
        WriteCheckpoint { directory: Value(directory), codec: Value(codec) }
    }
}

wire!([] WriteCheckpoint { directory, codec });

impl<T: Data> Action<T> for WriteCheckpoint {
    type Output = Written;

    fn run(&self, items: impl Iterator<Item = T>, task: &TaskContext) -> Written {
        let partition = task.partition();
        let name = format!("{}.attempt-{}", file_name(partition), task.task());
        let path = self.directory.0.join(name);
        let items = items.inspect(|_| task.check_killed());
        let (records, bytes) =
            write_file(&path, self.codec.0, items).unwrap_or_else(|error| match error {
                SpillError::Wire(error) => fail_for_good(error.to_string()),
                SpillError::Write { source } => {
                    fail_with(format!("could not write {}: {source}", path.display()))
                }
            });
        task.count(|metrics| {
            metrics.output_records += records;
            metrics.output_bytes += bytes;
        });
        Written { name: file_name(partition), bytes, at: WrittenAt::Local(path) }
    }
}
