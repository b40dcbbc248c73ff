//! Sorting inside one partition, within the task's memory. Stable: equal keys keep the order in which
//! they arrive.
//!
//! What does not fit is sorted in runs that go to disk; the runs are merged while they are read. Each run that is
//! merged holds a block in memory, so a number of runs that is too large is merged into fewer first.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::rc::Rc;

use firesteel_closure::{Call, Data, Wire, wire};
use firesteel_shuffle::{Records, RunWriter, Slice, write_run};
use firesteel_task::{OrFail, TaskContext};

use crate::Pipe;
use crate::memory::{Account, Hoard};

/// So many runs are merged at a time.
const MERGED_AT_ONCE: usize = 64;

/// How items are ordered: by something that is found once per item.
trait Order<T>: 'static {
    type Key: 'static;
    fn key(&self, item: &T) -> Self::Key;
    fn compare(&self, left: (&Self::Key, &T), right: (&Self::Key, &T)) -> Ordering;
    fn sort(&self, items: &mut [T]);
}

/// The partition sorted by a computed key.
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

struct ByComputed<F, K> {
    key: F,
    descending: bool,
    types: PhantomData<fn() -> K>,
}

impl<T, F, K> Order<T> for ByComputed<F, K>
where
    K: Ord + 'static,
    F: for<'a> Call<(&'a T,), K>,
{
    type Key = K;

    fn key(&self, item: &T) -> K {
        self.key.call((item,))
    }

    fn compare(&self, left: (&K, &T), right: (&K, &T)) -> Ordering {
        directed(left.0.cmp(right.0), self.descending)
    }

    fn sort(&self, items: &mut [T]) {
        if self.descending {
            items.sort_by_cached_key(|item| std::cmp::Reverse(self.key(item)));
        } else {
            items.sort_by_cached_key(|item| self.key(item));
        }
    }
}

impl<P, F, K> Pipe for SortBy<P, F, K>
where
    P: Pipe<Item: Data>,
    K: Ord + 'static,
    F: for<'a> Call<(&'a P::Item,), K>,
{
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P, F, K> + 'static {
        let (key, descending) = (self.key.clone(), self.descending);
        let order = ByComputed { key, descending, types: self.types };
        task.interruptible(sort(self.parent.compute(partition, task), order, task))
    }
}

/// Pairs sorted by key.
pub struct SortByKey<P> {
    parent: P,
    descending: bool,
}

impl<P> SortByKey<P> {
    /// Ascending or descending.
    pub fn new(parent: P, descending: bool) -> Self {
        SortByKey { parent, descending }
    }
}

wire!([P: Wire] SortByKey<P> { parent, descending });

struct ByFirst {
    descending: bool,
}

impl<K: Ord, V> Order<(K, V)> for ByFirst {
    type Key = ();

    fn key(&self, _: &(K, V)) {}

    fn compare(&self, left: (&(), &(K, V)), right: (&(), &(K, V))) -> Ordering {
        directed(left.1.0.cmp(&right.1.0), self.descending)
    }

    fn sort(&self, items: &mut [(K, V)]) {
        items.sort_by(|left, right| self.compare((&(), left), (&(), right)));
    }
}

impl<K: Data + Ord, V: Data, P: Pipe<Item = (K, V)>> Pipe for SortByKey<P> {
    type Item = (K, V);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, V)> + use<K, V, P> + 'static {
        let order = ByFirst { descending: self.descending };
        task.interruptible(sort(self.parent.compute(partition, task), order, task))
    }
}

fn directed(ordering: Ordering, descending: bool) -> Ordering {
    if descending { ordering.reverse() } else { ordering }
}

/// Sorts items; puts sorted runs aside whenever memory is short.
fn sort<T: Data, O: Order<T>>(
    items: impl Iterator<Item = T>,
    order: O,
    task: &TaskContext,
) -> Sorted<T, O> {
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
fn merge_to_run<T: Data, O: Order<T>>(
    runs: Vec<Slice>,
    order: &Rc<O>,
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

enum Sorted<T, O: Order<T>> {
    Held { items: std::vec::IntoIter<T>, _account: Account },
    Merged(Merge<T, O>),
}

impl<T: Data, O: Order<T>> Iterator for Sorted<T, O> {
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
struct Merge<T, O: Order<T>> {
    heap: std::collections::BinaryHeap<Head<T, O>>,
    runs: Vec<Box<dyn Iterator<Item = T>>>,
    order: Rc<O>,
    _account: Option<Account>,
}

struct Head<T, O: Order<T>> {
    key: O::Key,
    item: T,
    run: usize,
    order: Rc<O>,
}

impl<T: Data, O: Order<T>> Merge<T, O> {
    /// The items of runs, then `rest`, which is sorted too.
    fn new(slices: Vec<Slice>, rest: Vec<T>, account: Option<Account>, order: Rc<O>) -> Self {
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
            let (key, order) = (self.order.key(&item), self.order.clone());
            self.heap.push(Head { key, item, run, order });
        }
    }

    fn next(&mut self) -> Option<T> {
        let Head { item, run, .. } = self.heap.pop()?;
        self.refill(run);
        Some(item)
    }
}

/// A binary heap gives its largest first: the order is turned round.
impl<T, O: Order<T>> Ord for Head<T, O> {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.order.compare((&other.key, &other.item), (&self.key, &self.item));
        order.then(other.run.cmp(&self.run))
    }
}

impl<T, O: Order<T>> PartialOrd for Head<T, O> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T, O: Order<T>> PartialEq for Head<T, O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T, O: Order<T>> Eq for Head<T, O> {}
