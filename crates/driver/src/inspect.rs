//! A look behind the engine's back, for tests: which blocks the driver's process holds, and losing
//! one of them as a broken disk or a lost executor would.
use firesteel_status::AppStatus;
use firesteel_task::Environment;

use crate::Context;

impl Context {
    /// The names of the blocks in this process, e.g. `shuffle_0_1`.
    #[doc(hidden)]
    pub fn blocks(&self) -> Vec<String> {
        let blocks = self.0.engine.environment().blocks();
        blocks.ids().iter().map(ToString::to_string).collect()
    }

    /// Bytes on the books of memory now: of storage, of running tasks.
    #[doc(hidden)]
    pub fn memory_used(&self) -> (u64, u64) {
        self.0.engine.environment().scratch().memory().used()
    }

    /// Bytes of broadcast values that the driver itself sent to executors of a cluster.
    #[doc(hidden)]
    pub fn served_broadcast_bytes(&self) -> u64 {
        self.0.engine.served_broadcast_bytes()
    }

    /// Bytes of parallelized collections that executors of a cluster fetched from the driver.
    #[doc(hidden)]
    pub fn served_item_bytes(&self) -> u64 {
        self.0.engine.served_item_bytes()
    }

    /// Bytes of all messages that launched tasks on executors of a cluster.
    #[doc(hidden)]
    pub fn sent_task_bytes(&self) -> u64 {
        self.0.engine.sent_task_bytes()
    }

    /// Bytes of results that the driver fetched from executors of a cluster.
    #[doc(hidden)]
    pub fn fetched_result_bytes(&self) -> u64 {
        self.0.engine.fetched_result_bytes()
    }

    /// The most bytes of tasks' reports that the driver has queued at once.
    #[doc(hidden)]
    pub fn most_queued_bytes(&self) -> u64 {
        self.0.engine.most_queued_bytes()
    }

    /// Drops a block without telling the schedulers; whether it was there.
    #[doc(hidden)]
    pub fn lose_block(&self, name: &str) -> bool {
        let blocks = self.0.engine.environment().blocks();
        let found = blocks.ids().into_iter().find(|id| id.to_string() == name);
        found.is_some_and(|id| blocks.remove(id))
    }

    /// Gives the application's status, after all listeners have heard what it is made of; also when the context is
    /// gone.
    #[doc(hidden)]
    pub fn status_reader(&self) -> impl Fn() -> AppStatus + Send + Sync + use<> {
        let engine = self.0.engine.clone();
        move || {
            engine.wait_for_listeners();
            engine.with_status(Clone::clone)
        }
    }
}
