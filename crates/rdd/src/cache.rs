//! A partition that is computed once per process and kept as it is in memory.

use std::sync::Arc;

use firesteel_closure::{Wire, wire};
use firesteel_storage::BlockId;
use firesteel_types::RddId;

use crate::{Pipe, TaskContext};

/// `cache`
pub struct Cached<P> {
    parent: P,
    rdd: u32,
}

impl<P> Cached<P> {
    /// Keeps `parent`'s partitions under `rdd`'s name.
    pub fn new(parent: P, rdd: RddId) -> Self {
        Cached { parent, rdd: rdd.0 }
    }
}

wire!([P: Wire] Cached<P> { parent, rdd });

impl<P: Pipe<Item: Clone + Send + Sync>> Pipe for Cached<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        let block = BlockId::Rdd(RddId(self.rdd), partition);
        let blocks = task.environment().blocks();
        let kept = blocks.get::<Vec<P::Item>>(block).unwrap_or_else(|| {
            let items: Arc<Vec<_>> = Arc::new(self.parent.compute(partition, task).collect());
            blocks.put(block, items.clone());
            if task.is_killed() {
                // Nobody may be left who would drop it.
                blocks.remove(block);
            }
            items
        });
        task.check_killed();
        (0..kept.len()).map(move |i| kept[i].clone())
    }
}
