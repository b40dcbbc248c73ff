//! What a task may use while it moves records: memory by grant, disk without.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use firesteel_storage::{LocalDirs, MemoryManager, Reservation};
use firesteel_types::TaskId;

use crate::Codec;

/// Outputs up to this size stay in memory, within a small part of the budget: nobody can evict them, so they
/// must not starve those who run.
const INLINE_BYTES: u64 = 1 << 20;

/// Memory and temporary files of one process.
#[derive(Clone)]
pub struct Scratch {
    memory: Arc<MemoryManager>,
    dirs: Arc<LocalDirs>,
    codec: Codec,
    cache_codec: Codec,
    inline_bytes: u64,
}

/// Memory and directories of another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScratchSettings {
    budget: u64,
    storage_fraction: f64,
    dirs: Vec<PathBuf>,
    codec: Codec,
    cache_codec: Codec,
}

impl Scratch {
    /// Files go below `dirs`, within the budget of `memory`, packed with `codec`.
    pub fn new(memory: Arc<MemoryManager>, dirs: Arc<LocalDirs>, codec: Codec) -> Self {
        Scratch { memory, dirs, codec, cache_codec: Codec::None, inline_bytes: INLINE_BYTES }
    }

    /// Packs partitions that are cached encoded in memory like this (`spark.rdd.compress`).
    #[must_use]
    pub fn with_cache_codec(mut self, codec: Codec) -> Self {
        self.cache_codec = codec;
        self
    }

    /// With files in one directory and more memory than anybody asks for, for tests.
    #[cfg(test)]
    pub(crate) fn in_directory(directory: &std::path::Path, codec: Codec) -> Self {
        let dirs = LocalDirs::new(vec![directory.to_owned()]);
        Scratch::new(Arc::new(MemoryManager::new(1 << 40, 0.5)), Arc::new(dirs), codec)
    }

    /// What another process needs to know to have its share: one of `sharers`.
    pub fn settings(&self, sharers: u32) -> ScratchSettings {
        ScratchSettings {
            budget: self.memory.budget() / u64::from(sharers.max(1)),
            storage_fraction: self.memory.storage_fraction(),
            dirs: self.dirs.roots().to_vec(),
            codec: self.codec,
            cache_codec: self.cache_codec,
        }
    }

    /// With the settings of another process.
    pub fn with_settings(settings: ScratchSettings) -> Self {
        let memory = MemoryManager::new(settings.budget, settings.storage_fraction);
        let dirs = LocalDirs::new(settings.dirs);
        Scratch::new(Arc::new(memory), Arc::new(dirs), settings.codec)
            .with_cache_codec(settings.cache_codec)
    }

    pub fn memory(&self) -> &Arc<MemoryManager> {
        &self.memory
    }

    /// An account for one holder of memory in a task.
    pub fn reserve(&self, task: TaskId) -> Reservation {
        self.memory.reserve(task)
    }

    /// Removes all temporary files: nothing can be read back afterwards.
    pub fn remove_files(&self) {
        self.dirs.remove();
    }

    /// Where temporary files are.
    pub fn dirs(&self) -> &LocalDirs {
        &self.dirs
    }

    /// How partitions are packed that are cached encoded in memory.
    pub fn cache_codec(&self) -> Codec {
        self.cache_codec
    }

    pub(crate) fn codec(&self) -> Codec {
        self.codec
    }

    /// Reserves storage memory for an output that is small enough to stay there.
    pub(crate) fn pin_inline(&self, bytes: u64) -> Option<PinnedMemory> {
        let fits = bytes <= self.inline_bytes && self.memory.acquire_pinned(bytes);
        fits.then(|| PinnedMemory { memory: self.memory.clone(), bytes })
    }

    /// Puts on the books what is held in any case.
    pub(crate) fn pin_at_any_rate(&self, bytes: u64) -> PinnedMemory {
        self.memory.pin_at_any_rate(bytes);
        PinnedMemory { memory: self.memory.clone(), bytes }
    }
}

/// A reservation of storage memory; released when it is dropped.
pub(crate) struct PinnedMemory {
    memory: Arc<MemoryManager>,
    bytes: u64,
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        self.memory.release_pinned(self.bytes);
    }
}
