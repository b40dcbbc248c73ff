//! Which map outputs of a shuffle a process can serve. Asked when one of them could not be read: whatever made
//! that one unreadable, such as a bad disk, may have met others, and they are better found now than one by
//! one, each by a failed attempt of the stage that reads them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use firesteel_shuffle::MapOutput;
use firesteel_storage::{BlockId, MemoryStore};
use firesteel_types::{MapAttempt, ShuffleId};

/// What cannot be read through in this time counts as unreadable: to compute it again is the lesser evil.
const TIME: Duration = Duration::from_secs(20);
/// So long an answer is given again: readers of many partitions fail at the same time.
const FRESH: Duration = Duration::from_secs(2);

/// Holds the last answer, and when it was found.
#[derive(Default)]
pub(crate) struct Survey(Mutex<Option<(ShuffleId, Instant, Vec<MapAttempt>)>>);

impl Survey {
    /// The outputs of a shuffle that are here and can be read. One caller at a time looks.
    pub(crate) fn readable(&self, blocks: &MemoryStore, shuffle: ShuffleId) -> Vec<MapAttempt> {
        let mut last = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((of, at, readable)) = &*last
            && *of == shuffle
            && at.elapsed() < FRESH
        {
            return readable.clone();
        }
        let readable = look(blocks, shuffle, Instant::now() + TIME);
        *last = Some((shuffle, Instant::now(), readable.clone()));
        readable
    }
}

fn look(blocks: &MemoryStore, shuffle: ShuffleId, until: Instant) -> Vec<MapAttempt> {
    let outputs = blocks.map_outputs(shuffle).into_iter();
    let readable = outputs.filter(|(map, task)| {
        let output = blocks.get::<MapOutput>(BlockId::MapOutput(shuffle, *map, *task));
        output.is_some_and(|output| output.is_readable(until))
    });
    readable.map(|(map_partition, task)| MapAttempt { map_partition, task }).collect()
}
