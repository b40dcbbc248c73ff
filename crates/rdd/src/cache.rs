//! A partition that is computed once per process and kept as it is in memory, if there is room.

use std::sync::Arc;

use firesteel_closure::{Data, Wire, wire};
use firesteel_storage::BlockId;
use firesteel_types::RddId;

use crate::memory::{Account, Hoard};
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

impl<P: Pipe<Item: Data + Clone>> Pipe for Cached<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        let block = BlockId::Rdd(RddId(self.rdd), partition);
        let kept = task.environment().blocks().get::<Vec<P::Item>>(block);
        let items = match kept {
            Some(items) => Items::Kept(items, 0),
            None => keep(block, self.parent.compute(partition, task), task),
        };
        task.interruptible(items)
    }
}

/// Computes a partition and keeps it; if there is no room for it, it passes through.
fn keep<T: Data + Clone, I: Iterator<Item = T>>(
    block: BlockId,
    mut rest: I,
    task: &TaskContext,
) -> Items<T, I> {
    let mut hoard = Hoard::new(task);
    for item in rest.by_ref() {
        if !hoard.push(item) {
            let Hoard { items, account, .. } = hoard;
            return Items::Passing(items.into_iter().chain(rest), account);
        }
    }
    let (bytes, Hoard { items, account, .. }) = (hoard.bytes(), hoard);
    drop(account); // from here on it is storage's
    let (items, blocks) = (Arc::new(items), task.environment().blocks());
    blocks.put_if_fits(block, items.clone(), bytes);
    if task.is_killed() {
        // Nobody may be left who would drop it.
        blocks.remove(block);
    }
    Items::Kept(items, 0)
}

enum Items<T, I: Iterator<Item = T>> {
    Kept(Arc<Vec<T>>, usize),
    Passing(std::iter::Chain<std::vec::IntoIter<T>, I>, #[allow(dead_code)] Account),
}

impl<T: Clone, I: Iterator<Item = T>> Iterator for Items<T, I> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Items::Kept(items, next) => {
                *next += 1;
                items.get(*next - 1).cloned()
            }
            Items::Passing(items, _) => items.next(),
        }
    }

    fn fold<A, F: FnMut(A, T) -> A>(self, init: A, f: F) -> A {
        match self {
            Items::Kept(items, next) => {
                items[next.min(items.len())..].iter().cloned().fold(init, f)
            }
            Items::Passing(items, _account) => items.fold(init, f),
        }
    }
}
