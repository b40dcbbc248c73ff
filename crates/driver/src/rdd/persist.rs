//! Keeping partitions: `persist`, `cache`, `unpersist`.

use std::sync::Arc;

use firesteel_closure::Data;
use firesteel_rdd::Pipe;
use firesteel_rdd::cache::{Cached, SharedLevel};
use firesteel_rdd::checkpoint::Link;
use firesteel_types::{CallSite, RddInfo, StorageLevel};

use super::graph::extras;
use crate::{Error, Rdd};

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// Caches the partitions as values in memory once they are computed, as far as there is room:
    /// [`Rdd::persist`] with [`StorageLevel::MEMORY_ONLY`].
    #[track_caller]
    pub fn cache(&self) -> Rdd<T>
    where
        T: Data + Clone,
    {
        self.persist_at(CallSite::here("cache"), StorageLevel::MEMORY_ONLY)
    }

    /// An RDD of the same items that caches its partitions where `level` says once they are computed,
    /// until [`Rdd::unpersist`] or until nobody holds it, or one made of it, any more. What is not cached
    /// for want of room is computed again when needed.
    ///
    /// Of an RDD that caches its partitions already, the level cannot be changed before
    /// [`Rdd::unpersist`]: actions return an error then.
    #[track_caller]
    pub fn persist(&self, level: StorageLevel) -> Rdd<T>
    where
        T: Data + Clone,
    {
        self.persist_at(CallSite::here("persist"), level)
    }

    pub(super) fn persist_at(&self, site: CallSite, level: StorageLevel) -> Rdd<T>
    where
        T: Data + Clone,
    {
        let Some(shared) = self.shared_level() else {
            return if level.is_valid() { self.cached(site, level) } else { self.boxed() };
        };
        let assign = |before: StorageLevel| (!before.is_valid()).then_some(level);
        let before = shared.update(assign);
        if before.is_valid() && before != level {
            let reason = format!(
                "the storage level of an RDD cannot be changed after it was assigned: it is {before}; \
                 call unpersist() first"
            );
            let node = self.derive("MapPartitionsRDD", site).defect(Error::invalid(&site, reason));
            return node.into_boxed(self.pipe.clone());
        }
        self.info.storage_level.set(level);
        if level.is_valid() {
            self.context.0.engine.persist_again(self.info.id);
        }
        self.boxed()
    }

    fn cached(&self, site: CallSite, level: StorageLevel) -> Rdd<T>
    where
        T: Data + Clone,
    {
        let level = SharedLevel::new(level);
        let node = self.derive("CachedRDD", site).partitioned_as(self).persisted(&level);
        let id = node.id;
        node.into_boxed(Cached::new(Link::new(self.pipe.clone()), id, level))
    }

    /// Drops the partitions that [`Rdd::persist`] caches, and caches none from now on, until it is
    /// called again.
    pub fn unpersist(&self) {
        let Some(level) = self.shared_level() else { return };
        level.update(|_| Some(StorageLevel::NONE));
        self.info.storage_level.set(StorageLevel::NONE);
        self.context.0.engine.unpersist(self.info.id);
        // Another thread may have persisted it meanwhile.
        if level.get().is_valid() {
            self.context.0.engine.persist_again(self.info.id);
        }
    }

    /// Where and how this RDD caches its partitions.
    pub fn storage_level(&self) -> StorageLevel {
        storage_level(&self.info)
    }

    fn shared_level(&self) -> Option<&Arc<SharedLevel>> {
        extras(&self.info)?.level.as_ref()
    }
}

pub(super) fn storage_level(info: &RddInfo) -> StorageLevel {
    let level = extras(info).and_then(|extras| extras.level.as_ref());
    level.map_or(StorageLevel::NONE, |level| level.get())
}
