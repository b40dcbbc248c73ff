//! The two sides of a shuffle as task bodies use them, whatever their records are.

use std::time::{Duration, Instant};

use firesteel_shuffle::{Buckets, ReadError, Slice};
use firesteel_types::{MapOutputSizes, MapStatus, ShuffleId};

use crate::{FetchedSlice, MapOutputs, OrFail, TaskContext, fail, fail_for_good, fail_with};

impl TaskContext {
    /// Keeps what a map task has written as the output of its partition.
    pub fn put_map_output(&self, shuffle: ShuffleId, mut buckets: Buckets) {
        let (checksum, begun) = (buckets.checksum(), Instant::now());
        let output = buckets.finish().or_fail();
        self.count(|metrics| {
            metrics.shuffle_write_records += output.records();
            metrics.shuffle_write_bytes += output.bytes();
            metrics.shuffle_write_time_ns += begun.elapsed().as_nanos() as u64;
        });
        // Another attempt may have been quicker: nobody will read this one.
        self.check_killed();
        let (environment, partition) = (self.environment(), self.partition());
        let sizes = MapOutputSizes::new(&output.sizes());
        environment.put_map_output(shuffle, partition, self.task(), output).or_fail();
        self.note_written(MapStatus { checksum, sizes });
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
        let prefetch = || environment.prefetch(shuffle, self.maps, reduce);
        let begun = Instant::now();
        let fetched = match self.prefetched.get_or_insert_with(prefetch) {
            Some(outputs) => outputs.next().expect("one for each map partition"),
            None => {
                let slice = environment.fetch_map_output(shuffle, map, reduce);
                let requests = Duration::ZERO;
                slice.map(|slice| FetchedSlice { slice, is_remote: false, requests })
            }
        };
        let FetchedSlice { slice, is_remote, requests } = fetched.or_fail();
        self.task.count(|metrics| {
            metrics.shuffle_read_records += slice.records();
            metrics.shuffle_remote_requests_us += requests.as_micros() as u64;
            if !is_remote {
                metrics.shuffle_local_blocks += 1;
                metrics.shuffle_local_bytes += slice.bytes();
                return;
            }
            metrics.shuffle_fetch_wait_us += begun.elapsed().as_micros() as u64;
            metrics.shuffle_remote_blocks += 1;
            metrics.shuffle_remote_bytes += slice.bytes();
            metrics.shuffle_remote_bytes_to_disk +=
                if slice.is_on_disk() { slice.bytes() } else { 0 };
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
