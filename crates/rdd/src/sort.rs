//! Sorting inside one partition, within the task's memory. Stable: equal keys keep the order in which
//! they arrive.
//!
//! What does not fit is sorted in runs that go to disk; the runs are merged while they are read. Each run that is
//! merged holds a block and an item in memory, so no more are merged at a time than memory is granted for: a larger
//! number is merged into fewer first.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::rc::Rc;

use firesteel_closure::{Data, Wire, wire};
use firesteel_shuffle::{Records, RunWriter, Slice, write_run};
use firesteel_task::{OrFail, TaskContext};

use crate::Pipe;
use crate::key::{KeyOf, directed};
use crate::memory::{Account, Hoard};

/// So many runs are merged at a time, at most.
const MERGED_AT_ONCE: usize = 64;
/// What a run holds of its file, at least.
const BLOCK_BYTES: usize = 64 << 10;

wire! {
    /// The partition sorted by a key.
    pub struct SortBy[P: Wire, F: Wire, K: 'static] {
        parent: P,
        key: F,
        descending: bool;
        types: PhantomData<fn() -> K>,
    }

    /// By `key`, ascending or descending.
    pub fn new;
}

impl<P, F, K> Pipe for SortBy<P, F, K>
where
    P: Pipe<Item: Data>,
    K: Ord + 'static,
    F: KeyOf<P::Item, K>,
{
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P, F, K> + 'static {
        let (key, descending) = (self.key.clone(), self.descending);
        let order = Order { key, descending, types: self.types };
        task.interruptible(sort(self.parent.compute(partition, task), order, task))
    }
}

/// How items are ordered.
struct Order<F, K> {
    key: F,
    descending: bool,
    types: PhantomData<fn() -> K>,
}

impl<F, K: Ord> Order<F, K> {
    fn sort<T>(&self, items: &mut [T])
    where
        F: KeyOf<T, K>,
    {
        self.key.sort(items, self.descending);
    }
}

/// Sorts items; spills sorted runs whenever memory is short.
fn sort<T: Data, K: Ord + 'static, F: KeyOf<T, K>>(
    items: impl Iterator<Item = T>,
    order: Order<F, K>,
    task: &TaskContext,
) -> Sorted<T, F, K> {
    let mut chunk = Hoard::beside::<F::Computed>(F::SORTING, task);
    let mut runs = Vec::new();
    for item in items {
        if !chunk.push_beside(item, |item| order.key.computed_heap(item)) {
            task.check_killed();
            order.sort(&mut chunk.items);
            runs.push(write_run(task.scratch(), chunk.items.iter()).or_fail());
            chunk.clear();
        }
    }
    task.check_killed();
    order.sort(&mut chunk.items);
    if runs.is_empty() {
        return Sorted::Held { items: chunk.items.into_iter(), _account: chunk.account };
    }
    let order = Rc::new(order);
    let (mut account, each) =
        (Account::new(task), BLOCK_BYTES.max(chunk.largest()) + chunk.largest());
    let mut at_once = granted(&mut account, runs.len(), each);
    if at_once < runs.len().min(MERGED_AT_ONCE) {
        // What is still held takes the memory that merging needs.
        runs.push(write_run(task.scratch(), chunk.items.iter()).or_fail());
        chunk.clear();
        at_once = granted(&mut account, runs.len(), each);
    }
    while runs.len() > at_once {
        // Neighbours, so that equal items keep their order.
        let (mut left, mut merged) = (runs.into_iter(), Vec::new());
        while left.len() > 0 {
            let group = left.by_ref().take(at_once).collect();
            merged.push(merge_to_run(group, &order, task));
        }
        runs = merged;
    }
    let Hoard { items, account: held, .. } = chunk;
    Sorted::Merged(Merge::new(runs, items, vec![held, account], order))
}

/// How many of so many runs may be merged at once, if each takes `each` bytes. Two are, at any rate.
fn granted(account: &mut Account, runs: usize, each: usize) -> usize {
    let most = runs.clamp(2, MERGED_AT_ONCE);
    let fewer = std::iter::successors(Some(most), |runs| Some(runs / 2));
    let mut fewer = fewer.take_while(|runs| *runs > 2);
    fewer.find(|runs| account.allows((runs * each) as u64)).unwrap_or(2)
}

/// One run out of several.
fn merge_to_run<T: Data, K: Ord + 'static, F: KeyOf<T, K>>(
    runs: Vec<Slice>,
    order: &Rc<Order<F, K>>,
    task: &TaskContext,
) -> Slice {
    let mut merge = Merge::new(runs, Vec::new(), Vec::new(), order.clone());
    let mut writer = RunWriter::create(task.scratch(), "run").or_fail();
    while let Some(item) = merge.next() {
        writer.push(&item).or_fail();
    }
    task.check_killed();
    writer.finish().or_fail()
}

enum Sorted<T, F: KeyOf<T, K>, K: Ord> {
    Held { items: std::vec::IntoIter<T>, _account: Account },
    Merged(Merge<T, F, K>),
}

impl<T: Data, F: KeyOf<T, K>, K: Ord> Iterator for Sorted<T, F, K> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Sorted::Held { items, .. } => items.next(),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

/// The runs' next items in a heap, smallest first; of equal ones, that of the earliest run.
struct Merge<T, F: KeyOf<T, K>, K: Ord> {
    heap: std::collections::BinaryHeap<Head<T, F, K>>,
    runs: Vec<Box<dyn Iterator<Item = T>>>,
    order: Rc<Order<F, K>>,
    _accounts: Vec<Account>,
}

struct Head<T, F: KeyOf<T, K>, K: Ord> {
    computed: F::Computed,
    item: T,
    run: usize,
    order: Rc<Order<F, K>>,
}

impl<T: Data, F: KeyOf<T, K>, K: Ord> Merge<T, F, K> {
    /// The items of runs, then `rest`, which is sorted too.
    fn new(
        slices: Vec<Slice>,
        rest: Vec<T>,
        accounts: Vec<Account>,
        order: Rc<Order<F, K>>,
    ) -> Self {
        let read = |slice| Records::<T>::new(slice).map(OrFail::or_fail);
        let mut runs: Vec<Box<dyn Iterator<Item = T>>> = Vec::with_capacity(slices.len() + 1);
        runs.extend(slices.into_iter().map(|s| Box::new(read(s)) as Box<dyn Iterator<Item = T>>));
        runs.push(Box::new(rest.into_iter()));
        let heap = std::collections::BinaryHeap::with_capacity(runs.len());
        let mut merge = Merge { heap, runs, order, _accounts: accounts };
        (0..merge.runs.len()).for_each(|run| merge.refill(run));
        merge
    }

    fn refill(&mut self, run: usize) {
        if let Some(item) = self.runs[run].next() {
            let (computed, order) = (self.order.key.compute(&item), self.order.clone());
            self.heap.push(Head { computed, item, run, order });
        }
    }

    fn next(&mut self) -> Option<T> {
        let Head { item, run, .. } = self.heap.pop()?;
        self.refill(run);
        Some(item)
    }
}

impl<T, F: KeyOf<T, K>, K: Ord> Head<T, F, K> {
    fn key(&self) -> &K {
        self.order.key.key(&self.computed, &self.item)
    }
}

/// A binary heap gives its largest first: the order is turned round.
impl<T, F: KeyOf<T, K>, K: Ord> Ord for Head<T, F, K> {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = directed(other.key().cmp(self.key()), self.order.descending);
        order.then(other.run.cmp(&self.run))
    }
}

impl<T, F: KeyOf<T, K>, K: Ord> PartialOrd for Head<T, F, K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T, F: KeyOf<T, K>, K: Ord> PartialEq for Head<T, F, K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T, F: KeyOf<T, K>, K: Ord> Eq for Head<T, F, K> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ComputedKey, WholeItem};
    use crate::testing::TestTask;
    use firesteel_closure::Pure;

    const MIB: u64 = 1 << 20;

    fn order<F, K>(key: F) -> Order<F, K> {
        Order { key, descending: false, types: PhantomData }
    }

    fn wide(n: u64) -> String {
        let number = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{number:0>20}{}", "x".repeat(MIB as usize))
    }

    #[test]
    fn runs_of_wide_items_are_merged_within_the_budget() {
        let test = TestTask::new(16 * MIB);
        let mut sorted = sort((0..60).map(wide), order(WholeItem), &test.task);
        let Sorted::Merged(merge) = &sorted else { panic!("60 MiB fit into 16") };
        // A block and an item of each.
        assert!(merge.runs.len() as u64 * 2 * MIB <= 16 * MIB, "{} runs", merge.runs.len());
        assert!(test.memory().used().1 >= merge.heap.len() as u64 * 2 * MIB);
        let items: Vec<u64> = sorted.by_ref().map(|item| item[..20].parse().unwrap()).collect();
        assert!(items.is_sorted() && items.len() == 60);
        drop(sorted);
        assert_eq!(test.memory().used().1, 0);
    }

    #[test]
    fn small_items_are_merged_many_runs_at_a_time() {
        let test = TestTask::new(16 * MIB);
        let mixed = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sorted = sort((0..8_000_000).map(mixed), order(WholeItem), &test.task);
        assert!(matches!(&sorted, Sorted::Merged(merge) if merge.runs.len() > 4));
        let mut last = 0;
        let count = sorted.inspect(|n| assert!(std::mem::replace(&mut last, *n) <= *n)).count();
        assert_eq!(count, 8_000_000);
    }

    /// How many items are taken before memory is refused.
    fn pushed<F: KeyOf<u64, String>>(
        key: &F,
        mut items: impl Iterator<Item = u64>,
        task: &TaskContext,
    ) -> Option<usize> {
        let mut chunk = Hoard::beside::<F::Computed>(F::SORTING, task);
        items.position(|n| !chunk.push_beside(n, |n| key.computed_heap(n)))
    }

    #[test]
    fn keys_that_are_computed_are_on_the_books() {
        let test = TestTask::new(64 * MIB);
        let key = ComputedKey::new(Pure::new(|n: &u64| format!("{n:0>1000}")));
        let pushed = pushed(&key, 0..1_000_000, &test.task);
        // A thousand bytes and more for each, of which the item has eight.
        assert!((40_000..=65_000).contains(&pushed.unwrap()), "{pushed:?}");
    }
}
