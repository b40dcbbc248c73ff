//! Aggregation by key inside one partition: combine values, merge combiners, group.

use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use firesteel_closure::{Data, Wire, wire};

use firesteel_shuffle::{Buckets, MapOutput};
use firesteel_storage::{LastResort, Resort};
use firesteel_task::{OrFail, TaskContext, fail_for_good, fail_with};

use crate::growth::Growth;
use crate::memory::{Account, FREE_BYTES};
use crate::table::{KeyMap, Table, TablePairs, mixed_hash};
use crate::wide::SliceRecords;
use crate::{Partition, Pipe};

mod fold;

pub use fold::{AggregateWith, Combine, CombineWith, ReduceWith};
pub(crate) use fold::{Combiners, Fold, Grouping, Values};

/// The pairs of a fold: out of memory, or one part after the other from disk.
pub(crate) enum Pairs<K, C> {
    Held { pairs: TablePairs<K, C>, _account: Account },
    Spilled(Partition<(K, C)>),
}

impl<K, C> Iterator for Pairs<K, C> {
    type Item = (K, C);

    #[inline]
    fn next(&mut self) -> Option<(K, C)> {
        match self {
            Pairs::Held { pairs, .. } => pairs.next(),
            Pairs::Spilled(pairs) => pairs.next(),
        }
    }
}

/// What does not fit is hash-partitioned so many ways, each partition folded by itself.
pub(crate) const PARTS: u32 = 16;
/// 16 parts of 16 parts ...: if this is not enough, one key alone is too much for the task's share, and there
/// is one thing left to do: to wait for more than that.
const DEEPEST: u32 = 6;
/// Between two looks at the kill switch, while memory is waited for.
const POLL: Duration = Duration::from_millis(50);

/// The combiners of all keys: in one table, or in hash partitions if they do not fit into memory.
pub(crate) enum Filled<K, C> {
    Held(KeyMap<K, C>, Account),
    Parts(MapOutput),
}

/// Folds the inputs of each key; when memory is short, combiners spill to disk, hash-partitioned.
pub(crate) fn fill<K, I, C, F>(
    items: impl Iterator<Item = (K, I)>,
    fold: &F,
    operation: &'static str,
    depth: u32,
    task: &TaskContext,
) -> Filled<K, C>
where
    K: Data + Hash + Eq,
    C: Data,
    F: Fold<I, C>,
{
    // One loop over the items, whatever becomes of them: each is compiled for the whole pipeline before it.
    let mut filling = Filling::new(fold.clone(), operation, depth, task);
    items.for_each(|(key, input)| {
        if !filling.table.push(key, input) {
            filling.make_room();
        }
    });
    filling.finish()
}

/// A table, and what is done when it has outgrown its memory.
struct Filling<'a, K, I, C, F> {
    table: Table<K, I, C, F>,
    overflow: Overflow,
    operation: &'static str,
    depth: u32,
    task: &'a TaskContext,
}

enum Overflow {
    /// Combiners are spilled, hash-partitioned; `None`: nothing was yet.
    Spill(Option<Box<Buckets>>),
    /// Nothing can be spilled: the table waits until others have given back enough. It holds nothing while it waits
    /// for its turn, and its inputs come from what was spilled before, so that nobody else has to go on for it to end.
    Wait(LastResort),
}

impl<'a, K, I, C, F> Filling<'a, K, I, C, F>
where
    K: Data + Hash + Eq,
    C: Data,
    F: Fold<I, C>,
{
    fn new(fold: F, operation: &'static str, depth: u32, task: &'a TaskContext) -> Self {
        let overflow = match depth > DEEPEST {
            true => Overflow::Wait(last_resort(task)),
            false => Overflow::Spill(None),
        };
        Filling { table: Table::new(fold, task), overflow, operation, depth, task }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        match self.overflow {
            Overflow::Spill(_) => self.spill(),
            Overflow::Wait(_) => self.wait(),
        }
    }

    fn spill(&mut self) {
        let (task, depth) = (self.task, self.depth);
        let Overflow::Spill(parts) = &mut self.overflow else { return };
        let parts = parts.get_or_insert_with(|| Box::new(task.buckets(PARTS)));
        task.check_killed();
        if self.table.is_one_key_beyond(task.scratch().memory().budget()) {
            refuse_key(self.operation, task);
        }
        for (key, combiner) in self.table.empty() {
            let part = part_of_key(&key, depth);
            F::Growth::in_pieces(combiner, &mut |piece| {
                parts.push_as::<(K, C), _>(part, &(&key, piece)).or_fail();
            });
        }
    }

    fn wait(&mut self) {
        let Overflow::Wait(right) = &mut self.overflow else { return };
        loop {
            let asked = self.table.asked();
            wait_for_memory(self.table.account(), asked, right, self.operation, self.task);
            if self.table.fold_batch() {
                return;
            }
            if self.table.asked() == asked {
                // It is not for want of memory.
                refuse_key(self.operation, self.task);
            }
        }
    }

    fn finish(mut self) -> Filled<K, C> {
        while !matches!(self.overflow, Overflow::Spill(Some(_))) {
            if self.table.settle() {
                let (map, account) = self.table.into_map();
                return Filled::Held(map, account);
            }
            self.make_room();
        }
        while !self.table.is_empty() {
            self.spill();
        }
        drop(self.table);
        match self.overflow {
            Overflow::Spill(Some(parts)) => Filled::Parts(parts.finish().or_fail()),
            _ => unreachable!("something was spilled"),
        }
    }
}

/// The right to wait for more than a task's share.
fn last_resort(task: &TaskContext) -> LastResort {
    loop {
        task.check_killed();
        if let Some(right) = LastResort::take(task.scratch().memory(), task.task(), POLL) {
            return right;
        }
    }
}

/// Waits until so many bytes in all are granted, or fails.
fn wait_for_memory(
    account: &mut Account,
    asked: u64,
    right: &mut LastResort,
    operation: &'static str,
    task: &TaskContext,
) {
    if asked > task.scratch().memory().budget().max(FREE_BYTES) {
        refuse_key(operation, task);
    }
    loop {
        task.check_killed();
        match account.resort(right, asked, POLL) {
            Resort::Granted => return,
            Resort::NotYet => {}
            Resort::Refused => short_of_memory(operation, asked, task),
        }
    }
}

/// Folds the inputs of each key. Spilled hash partitions are folded one by one.
pub(crate) fn fold_by_key<K, I, C, F>(
    items: impl Iterator<Item = (K, I)>,
    fold: F,
    operation: &'static str,
    depth: u32,
    task: &TaskContext,
) -> Pairs<K, C>
where
    K: Data + Hash + Eq,
    I: 'static,
    C: Data,
    F: Fold<I, C>,
{
    let parts = match fill(items, &fold, operation, depth, task) {
        Filled::Held(map, _account) => return Pairs::Held { pairs: map.into_pairs(), _account },
        Filled::Parts(parts) => parts,
    };
    let (fold, task) = (fold.again(), task.clone());
    let folding =
        FoldParts { parts, next: 0, pairs: None, fold, operation, depth: depth + 1, task };
    Pairs::Spilled(Partition::new(folding))
}

/// Spilled hash partitions, folded one after the other.
struct FoldParts<K, C, F> {
    parts: MapOutput,
    next: u32,
    pairs: Option<Pairs<K, C>>,
    fold: F,
    operation: &'static str,
    depth: u32,
    task: TaskContext,
}

impl<K, C, F> Iterator for FoldParts<K, C, F>
where
    K: Data + Hash + Eq,
    C: Data,
    F: Fold<C, C, Again = F>,
{
    type Item = (K, C);

    fn next(&mut self) -> Option<(K, C)> {
        loop {
            if let Some(pair) = self.pairs.as_mut().and_then(Iterator::next) {
                return Some(pair);
            }
            // What the last one holds is given back before the next one asks for memory.
            self.pairs = None;
            if self.next == PARTS {
                return None;
            }
            let records = records(&self.parts, self.next, &self.task);
            self.next += 1;
            let fold = self.fold.clone();
            self.pairs = Some(fold_by_key(records, fold, self.operation, self.depth, &self.task));
        }
    }
}

/// The records of one part.
pub(crate) fn records<T: Data>(
    parts: &MapOutput,
    part: u32,
    task: &TaskContext,
) -> SliceRecords<T> {
    SliceRecords::of(parts.slice(part).expect("all parts are there"), task)
}

/// The part of a key at a depth: another hash at each, or nothing would ever be divided.
pub(crate) fn part_of_key<K: Hash>(key: &K, depth: u32) -> u32 {
    (mixed_hash(key, depth) >> 60) as u32 % PARTS
}

/// Ends the job: the values of one key are more than memory holds.
#[cold]
fn refuse_key(operation: &'static str, task: &TaskContext) -> ! {
    let budget = task.scratch().memory().budget() >> 20;
    fail_for_good(format!(
        "{operation}: what belongs to one key does not fit into the {budget} MiB that tasks share; \
         raise spark.driver.memory (spark.executor.memory on a cluster), or fold the values with \
         reduce_by_key or aggregate_by_key instead of collecting them"
    ))
}

/// Ends the task: it would fit, but cached partitions, or tasks that wait for each other, hold the memory now.
#[cold]
fn short_of_memory(operation: &'static str, asked: u64, task: &TaskContext) -> ! {
    let memory = task.scratch().memory();
    let (storage, execution) = memory.used();
    fail_with(format!(
        "{operation}: what belongs to one key needs {} MiB of the {} MiB that tasks share; now {} MiB are \
         taken by blocks and {} MiB by tasks: unpersist what is not needed, lower \
         spark.memory.storageFraction, or raise spark.driver.memory (spark.executor.memory on a cluster)",
        asked >> 20,
        memory.budget() >> 20,
        storage >> 20,
        execution >> 20,
    ))
}

wire! {
    /// Combines the values of each key in a partition that holds all of them.
    pub struct CombineValues[P: Wire, M: Wire, C: 'static] {
        parent: P,
        combine: M;
        out: PhantomData<fn() -> C>,
    }

    /// `combine` over `parent`'s pairs.
    pub fn new;
}

impl<K, V, C, P, M> Pipe for CombineValues<P, M, C>
where
    K: Data + Hash + Eq,
    V: 'static,
    C: Data,
    P: Pipe<Item = (K, V)>,
    M: Combine<V, C>,
{
    type Item = (K, C);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, C)> + use<K, V, C, P, M> + 'static {
        let fold = Values(self.combine.clone());
        let pairs = self.parent.compute(partition, task);
        task.interruptible(fold_by_key(pairs, fold, "combine_by_key", 0, task))
    }
}

wire! {
    /// Merges the combiners of each key, as map tasks sent them.
    pub struct MergeCombiners[P: Wire, M: Wire, V: 'static] {
        parent: P,
        combine: M;
        value: PhantomData<fn() -> V>,
    }

    /// `combine` over `parent`'s combiners.
    pub fn new;
}

impl<K, V, C, P, M> Pipe for MergeCombiners<P, M, V>
where
    K: Data + Hash + Eq,
    V: 'static,
    C: Data,
    P: Pipe<Item = (K, C)>,
    M: Combine<V, C>,
{
    type Item = (K, C);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, C)> + use<K, V, C, P, M> + 'static {
        let fold = Combiners(Values(self.combine.clone()), PhantomData::<fn() -> V>);
        let pairs = self.parent.compute(partition, task);
        task.interruptible(fold_by_key(pairs, fold, "combine_by_key", 0, task))
    }
}

wire! {
    /// `group_by_key` in a partition that holds all values of its keys.
    pub struct Group[P: Wire] {
        parent: P,
    }

    pub fn new;
}

impl<K: Data + Hash + Eq, V: Data, P: Pipe<Item = (K, V)>> Pipe for Group<P> {
    type Item = (K, Vec<V>);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, Vec<V>)> + use<K, V, P> + 'static {
        let pairs = self.parent.compute(partition, task);
        task.interruptible(fold_by_key(pairs, Grouping, "group_by_key", 0, task))
    }
}

#[cfg(test)]
mod tests;
