//! Sorting inside one partition, within the task's memory. Stable: equal keys keep the order in which
//! they arrive.
//!
//! What does not fit is sorted in runs that go to disk; the runs are merged while they are read. Each run that is
//! merged holds a block in memory, so a number of runs that is too large is merged into fewer first.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::rc::Rc;

use firesteel_closure::{Data, Wire, wire};
use firesteel_shuffle::{Records, RunWriter, Slice, write_run};
use firesteel_task::{OrFail, TaskContext};

use crate::Pipe;
use crate::key::{KeyOf, directed};
use crate::memory::{Account, Hoard};

/// So many runs are merged at a time.
const MERGED_AT_ONCE: usize = 64;

/// The partition sorted by a key.
pub struct SortBy<P, F, K> {
    parent: P,
    key: F,
    descending: bool,
    types: PhantomData<fn() -> K>,
}

impl<P, F, K> SortBy<P, F, K> {
    /// By `key`, ascending or descending.
    pub fn new(parent: P, key: F, descending: bool) -> Self {
        SortBy { parent, key, descending, types: PhantomData }
    }
}

wire!([P: Wire, F: Wire, K: 'static] SortBy<P, F, K> { parent, key, descending, types });

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
    let mut chunk = Hoard::new(task);
    let mut runs = Vec::new();
    for item in items {
        if !chunk.push(item) {
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
    while runs.len() > MERGED_AT_ONCE {
        // Neighbours, so that equal items keep their order.
        let (mut left, mut merged) = (runs.into_iter(), Vec::new());
        while left.len() > 0 {
            let group = left.by_ref().take(MERGED_AT_ONCE).collect();
            merged.push(merge_to_run(group, &order, task));
        }
        runs = merged;
    }
    let Hoard { items, account, .. } = chunk;
    Sorted::Merged(Merge::new(runs, items, Some(account), order))
}

/// One run out of several.
fn merge_to_run<T: Data, K: Ord + 'static, F: KeyOf<T, K>>(
    runs: Vec<Slice>,
    order: &Rc<Order<F, K>>,
    task: &TaskContext,
) -> Slice {
    let mut merge = Merge::new(runs, Vec::new(), None, order.clone());
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
    _account: Option<Account>,
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
        account: Option<Account>,
        order: Rc<Order<F, K>>,
    ) -> Self {
        let read = |slice| Records::<T>::new(slice).map(OrFail::or_fail);
        let mut runs: Vec<Box<dyn Iterator<Item = T>>> = Vec::with_capacity(slices.len() + 1);
        runs.extend(slices.into_iter().map(|s| Box::new(read(s)) as Box<dyn Iterator<Item = T>>));
        runs.push(Box::new(rest.into_iter()));
        let heap = std::collections::BinaryHeap::with_capacity(runs.len());
        let mut merge = Merge { heap, runs, order, _account: account };
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
