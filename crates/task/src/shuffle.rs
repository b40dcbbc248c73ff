//! The two sides of a shuffle as task bodies use them, whatever their records are.

use firesteel_shuffle::{Buckets, ReadError, Slice};
use firesteel_types::ShuffleId;

use crate::{MapOutputs, OrFail, TaskContext, fail, fail_for_good, fail_with};

impl TaskContext {
    /// Keeps what a map task has written as the output of its partition.
    pub fn put_map_output(&self, shuffle: ShuffleId, buckets: Buckets) {
        let checksum = buckets.checksum();
        let output = buckets.finish().or_fail();
        self.count(|metrics| {
            metrics.shuffle_write_checksum = checksum;
            metrics.shuffle_write_records += output.records();
            metrics.shuffle_write_bytes += output.bytes();
        });
        // Another attempt may have been quicker: nobody will read this one.
        self.check_killed();
        let (environment, partition) = (self.environment(), self.partition());
        environment.put_map_output(shuffle, partition, self.task(), output).or_fail();
    }
}

/// One reader's parts of all map outputs of a shuffle, each with its map partition, in order. Fetching starts when
/// the first is asked for.
pub struct ShuffleReader {
    task: TaskContext,
    shuffle: ShuffleId,
    maps: u32,
    reduce: u32,
    next: u32,
    prefetched: Option<Option<MapOutputs>>,
}

impl ShuffleReader {
    /// Reads for partition `reduce`; the shuffle has `maps` map partitions.
    pub fn new(task: &TaskContext, shuffle: ShuffleId, maps: u32, reduce: u32) -> Self {
        let task = task.clone();
        ShuffleReader { task, shuffle, maps, reduce, next: 0, prefetched: None }
    }
}

impl Iterator for ShuffleReader {
    type Item = (u32, Slice);

    fn next(&mut self) -> Option<(u32, Slice)> {
        let (shuffle, map, reduce) = (self.shuffle, self.next, self.reduce);
        if map == self.maps {
            return None;
        }
        self.next += 1;
        self.task.check_killed();
        let environment = self.task.environment();
        let prefetch = || environment.read_ahead(shuffle, self.maps, reduce);
        let slice = match self.prefetched.get_or_insert_with(prefetch) {
            Some(outputs) => outputs.next().expect("one for each map partition"),
            None => environment.fetch_map_output(shuffle, map, reduce),
        };
        let slice = slice.or_fail();
        self.task.count(|metrics| {
            metrics.shuffle_read_records += slice.records();
            metrics.shuffle_read_bytes += slice.bytes();
        });
        Some((map, slice))
    }
}

/// Ends the running task: a map output is there but cannot be read. That is as good as lost, and its map task runs
/// again. What comes from elsewhere was checked when it came: only what lies here can be broken.
#[cold]
pub fn fail_unreadable(
    task: &TaskContext,
    shuffle: ShuffleId,
    map: u32,
    reduce: u32,
    error: ReadError,
) -> ! {
    match error {
        ReadError::Wire(error) => fail_for_good(error.to_string()),
        // The output is there: this task may find a handle for it next time.
        error @ ReadError::TooManyFiles { .. } => fail_with(error.to_string()),
        other => fail(task.environment().unreadable(shuffle, map, reduce, other.to_string())),
    }
}
