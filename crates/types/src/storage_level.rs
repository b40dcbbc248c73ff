//! Where and how the partitions of an RDD are cached: Spark's storage levels, as data.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Where and how the partitions of an RDD are cached. Use the named ones.
///
/// Encoded by name it has the fields and names of Spark's event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StorageLevel {
    /// On disk: at once, or when memory runs short.
    #[serde(rename = "Use Disk")]
    pub use_disk: bool,
    /// In memory, as far as storage memory allows.
    #[serde(rename = "Use Memory")]
    pub use_memory: bool,
    /// Outside of a managed heap. Nothing here is on one, so it changes nothing.
    #[serde(rename = "Use Off Heap")]
    pub use_off_heap: bool,
    /// As values in memory rather than as their encoded bytes.
    #[serde(rename = "Deserialized")]
    pub deserialized: bool,
    /// On how many executors.
    #[serde(rename = "Replication")]
    pub replication: u32,
}

/// The storage level of an RDD, which its driver may change at any time.
#[derive(Debug, Default)]
pub struct SharedStorageLevel(AtomicU64);

impl SharedStorageLevel {
    pub fn new(level: StorageLevel) -> Self {
        let shared = SharedStorageLevel::default();
        shared.set(level);
        shared
    }

    pub fn get(&self) -> StorageLevel {
        let bits = self.0.load(Ordering::Acquire);
        let is_set = |bit: u32| bits >> (32 + bit) & 1 == 1;
        StorageLevel {
            use_disk: is_set(0),
            use_memory: is_set(1),
            use_off_heap: is_set(2),
            deserialized: is_set(3),
            // No level has none: of one that was never set, one.
            replication: (bits as u32).max(1),
        }
    }

    pub fn set(&self, level: StorageLevel) {
        let flags = [level.use_disk, level.use_memory, level.use_off_heap, level.deserialized];
        let flags = (0u32..).zip(flags).fold(0, |bits, (bit, flag)| bits | u64::from(flag) << bit);
        self.0.store(flags << 32 | u64::from(level.replication), Ordering::Release);
    }
}

const fn level(use_disk: bool, use_memory: bool, deserialized: bool) -> StorageLevel {
    StorageLevel { use_disk, use_memory, use_off_heap: false, deserialized, replication: 1 }
}

impl StorageLevel {
    /// Not cached.
    pub const NONE: StorageLevel = level(false, false, false);
    /// On the local disk.
    pub const DISK_ONLY: StorageLevel = level(true, false, false);
    /// On the disks of two executors.
    pub const DISK_ONLY_2: StorageLevel = Self::DISK_ONLY.replicated(2);
    /// On the disks of three executors.
    pub const DISK_ONLY_3: StorageLevel = Self::DISK_ONLY.replicated(3);
    /// As values in memory; what does not fit is computed again.
    pub const MEMORY_ONLY: StorageLevel = level(false, true, true);
    /// Like `MEMORY_ONLY`, on two executors.
    pub const MEMORY_ONLY_2: StorageLevel = Self::MEMORY_ONLY.replicated(2);
    /// Encoded in memory: smaller, slower to read; what does not fit is computed again.
    pub const MEMORY_ONLY_SER: StorageLevel = level(false, true, false);
    /// Like `MEMORY_ONLY_SER`, on two executors.
    pub const MEMORY_ONLY_SER_2: StorageLevel = Self::MEMORY_ONLY_SER.replicated(2);
    /// As values in memory; what does not fit goes to disk.
    pub const MEMORY_AND_DISK: StorageLevel = level(true, true, true);
    /// Like `MEMORY_AND_DISK`, on two executors.
    pub const MEMORY_AND_DISK_2: StorageLevel = Self::MEMORY_AND_DISK.replicated(2);
    /// Encoded in memory; what does not fit goes to disk.
    pub const MEMORY_AND_DISK_SER: StorageLevel = level(true, true, false);
    /// Like `MEMORY_AND_DISK_SER`, on two executors.
    pub const MEMORY_AND_DISK_SER_2: StorageLevel = Self::MEMORY_AND_DISK_SER.replicated(2);
    /// Spark's level outside of the Java heap: `MEMORY_AND_DISK_SER`, as there is no such heap.
    pub const OFF_HEAP: StorageLevel =
        StorageLevel { use_off_heap: true, ..Self::MEMORY_AND_DISK_SER };

    const NAMES: [(&'static str, StorageLevel); 13] = [
        ("NONE", Self::NONE),
        ("DISK_ONLY", Self::DISK_ONLY),
        ("DISK_ONLY_2", Self::DISK_ONLY_2),
        ("DISK_ONLY_3", Self::DISK_ONLY_3),
        ("MEMORY_ONLY", Self::MEMORY_ONLY),
        ("MEMORY_ONLY_2", Self::MEMORY_ONLY_2),
        ("MEMORY_ONLY_SER", Self::MEMORY_ONLY_SER),
        ("MEMORY_ONLY_SER_2", Self::MEMORY_ONLY_SER_2),
        ("MEMORY_AND_DISK", Self::MEMORY_AND_DISK),
        ("MEMORY_AND_DISK_2", Self::MEMORY_AND_DISK_2),
        ("MEMORY_AND_DISK_SER", Self::MEMORY_AND_DISK_SER),
        ("MEMORY_AND_DISK_SER_2", Self::MEMORY_AND_DISK_SER_2),
        ("OFF_HEAP", Self::OFF_HEAP),
    ];

    /// The same on so many executors. An application of one process has one copy, and keeps the
    /// number.
    #[must_use]
    pub const fn replicated(mut self, executors: u32) -> Self {
        self.replication = executors;
        self
    }

    /// Whether anything is kept at all.
    pub fn is_valid(self) -> bool {
        (self.use_disk || self.use_memory) && self.replication > 0
    }

    /// In words, as Spark's UI has it: `Disk Memory Deserialized 1x Replicated`.
    pub fn description(self) -> String {
        let memory = if self.use_off_heap { "Memory (off heap) " } else { "Memory " };
        format!(
            "{}{}{}{}x Replicated",
            if self.use_disk { "Disk " } else { "" },
            if self.use_memory { memory } else { "" },
            if self.deserialized { "Deserialized " } else { "Serialized " },
            self.replication
        )
    }
}

/// As Spark prints it: `StorageLevel(disk, memory, deserialized, 1 replicas)`.
impl fmt::Display for StorageLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.use_disk, "disk, "),
            (self.use_memory, "memory, "),
            (self.use_off_heap, "offheap, "),
            (self.deserialized, "deserialized, "),
        ];
        f.write_str("StorageLevel(")?;
        words.iter().filter(|(is, _)| *is).try_for_each(|(_, word)| f.write_str(word))?;
        write!(f, "{} replicas)", self.replication)
    }
}

/// A name that is no storage level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no storage level; there are {}", names())]
pub struct UnknownLevel {
    name: String,
}

fn names() -> String {
    StorageLevel::NAMES.map(|(name, _)| name).join(", ")
}

/// By its name, e.g. `MEMORY_AND_DISK`, in any case.
impl FromStr for StorageLevel {
    type Err = UnknownLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        let found = Self::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, level)| *level).ok_or_else(|| UnknownLevel { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_found_by_name_and_shown_as_spark_shows_them() {
        for (name, level) in StorageLevel::NAMES {
            assert_eq!(name.to_lowercase().parse(), Ok(level));
            assert_eq!(level.is_valid(), name != "NONE");
        }
        let error = "MEMORY".parse::<StorageLevel>().unwrap_err().to_string();
        assert!(error.contains("\"MEMORY\"") && error.contains("MEMORY_ONLY_SER_2"), "{error}");
        let shown = |level: StorageLevel| (level.to_string(), level.description());
        let table = [
            (
                StorageLevel::MEMORY_AND_DISK_2,
                "StorageLevel(disk, memory, deserialized, 2 replicas)",
                "Disk Memory Deserialized 2x Replicated",
            ),
            (
                StorageLevel::OFF_HEAP,
                "StorageLevel(disk, memory, offheap, 1 replicas)",
                "Disk Memory (off heap) Serialized 1x Replicated",
            ),
            (StorageLevel::NONE, "StorageLevel(1 replicas)", "Serialized 1x Replicated"),
        ];
        for (level, text, description) in table {
            assert_eq!(shown(level), (text.to_owned(), description.to_owned()));
        }
    }
}
