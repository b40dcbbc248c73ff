//! Aggregation by key inside one partition: combine values, merge combiners, group.

use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use firesteel_closure::{Call, Data, Decoder, Encoder, Value, Wire, WireError, wire};

use firesteel_shuffle::{MapOutput, Records};
use firesteel_storage::{LastResort, Resort};
use firesteel_task::{OrFail, TaskContext, fail_for_good, fail_with};

use crate::Pipe;
use crate::growth::{Groups, Growth, More, Steady};
use crate::memory::{Account, FREE_BYTES, Meter};
use crate::table::{KeyMap, Table, TablePairs, mixed_hash};

/// How values of one key become a combiner.
pub trait Combine<V, C>: Wire + Clone {
    /// The first value of a key.
    fn create(&self, value: V) -> C;
    /// One more value of a key that has a combiner.
    fn merge_value(&self, combiner: C, value: V) -> C;
    /// Two combiners of one key.
    fn merge_combiners(&self, left: C, right: C) -> C;
}

wire! {
    /// Three functions (`combine_by_key`).
    #[derive(Clone)]
    pub struct CombineWith[A: Wire, B: Wire, D: Wire] {
        create: A,
        merge_value: B,
        merge_combiners: D,
    }

    /// The three functions of [`Combine`], in its order.
    pub fn new;
}

impl<V, C, A, B, D> Combine<V, C> for CombineWith<A, B, D>
where
    A: Call<(V,), C>,
    B: Call<(C, V), C>,
    D: Call<(C, C), C>,
{
    #[inline(always)]
    fn create(&self, value: V) -> C {
        self.create.call((value,))
    }

    #[inline(always)]
    fn merge_value(&self, combiner: C, value: V) -> C {
        self.merge_value.call((combiner, value))
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.merge_combiners.call((left, right))
    }
}

/// One function of two values (`reduce_by_key`).
#[derive(Clone)]
pub struct ReduceWith<F>(pub F);

impl<F: Wire> Wire for ReduceWith<F> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        self.0.encode(out)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        F::decode(input).map(ReduceWith)
    }
}

impl<V, F: Call<(V, V), V>> Combine<V, V> for ReduceWith<F> {
    #[inline(always)]
    fn create(&self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge_value(&self, combiner: V, value: V) -> V {
        self.0.call((combiner, value))
    }

    #[inline(always)]
    fn merge_combiners(&self, left: V, right: V) -> V {
        self.0.call((left, right))
    }
}

wire! {
    /// A zero and two functions (`aggregate_by_key`, `fold_by_key`).
    #[derive(Clone)]
    pub struct AggregateWith[Z: Data, B: Wire, D: Wire] {
        zero: Value<Z>,
        merge_value: B,
        merge_combiners: D,
    }
}

impl<Z, B, D> AggregateWith<Z, B, D> {
    /// From its zero and functions.
    pub fn new(zero: Z, merge_value: B, merge_combiners: D) -> Self {
        AggregateWith { zero: Value(zero), merge_value, merge_combiners }
    }
}

impl<V, C, B, D> Combine<V, C> for AggregateWith<C, B, D>
where
    C: Data + Clone,
    B: Call<(C, V), C>,
    D: Call<(C, C), C>,
{
    #[inline(always)]
    fn create(&self, value: V) -> C {
        self.merge_value.call((self.zero.0.clone(), value))
    }

    #[inline(always)]
    fn merge_value(&self, combiner: C, value: V) -> C {
        self.merge_value.call((combiner, value))
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.merge_combiners.call((left, right))
    }
}

/// How inputs of one key become a combiner, and how combiners of one key become one.
pub(crate) trait Fold<I, C>: Clone + 'static {
    /// How spilled combiners are folded when they come back.
    type Again: Fold<C, C, Again = Self::Again>;
    fn again(&self) -> Self::Again;
    fn create(&self, input: I) -> C;
    fn merge(&self, combiner: C, input: I) -> C;
    fn merge_combiners(&self, left: C, right: C) -> C;
    /// What combiners do as inputs come. Those below are for combiners that grow.
    type Growth: Growth<C>;
    /// What the values in an input own on the heap, about.
    fn weigh(&self, _input: &I, _meter: &mut Meter) -> f64 {
        0.0
    }
    /// Bytes of memory for the values in an input themselves.
    fn slots(&self, _input: &I) -> u64 {
        size_of::<I>() as u64
    }
    /// How many values an input has.
    fn values(&self, _input: &I) -> More {
        More(0, 0)
    }
}

/// Values into combiners.
#[derive(Clone)]
pub(crate) struct Values<M>(pub(crate) M);

impl<V: 'static, C: Data, M: Combine<V, C>> Fold<V, C> for Values<M> {
    type Again = Combiners<Values<M>, V>;
    type Growth = Steady;

    fn again(&self) -> Self::Again {
        Combiners(self.clone(), PhantomData)
    }

    #[inline(always)]
    fn create(&self, value: V) -> C {
        self.0.create(value)
    }

    #[inline(always)]
    fn merge(&self, combiner: C, value: V) -> C {
        self.0.merge_value(combiner, value)
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.0.merge_combiners(left, right)
    }
}

/// Combiners into combiners.
pub(crate) struct Combiners<F, I>(pub(crate) F, pub(crate) PhantomData<fn() -> I>);

impl<F: Clone, I> Clone for Combiners<F, I> {
    fn clone(&self) -> Self {
        Combiners(self.0.clone(), PhantomData)
    }
}

impl<I: 'static, C: Data, F: Fold<I, C>> Fold<C, C> for Combiners<F, I> {
    type Again = Self;
    type Growth = F::Growth;

    fn again(&self) -> Self {
        self.clone()
    }

    #[inline]
    fn weigh(&self, combiner: &C, meter: &mut Meter) -> f64 {
        F::Growth::weigh(combiner, meter)
    }

    #[inline]
    fn slots(&self, combiner: &C) -> u64 {
        F::Growth::slots(combiner)
    }

    #[inline]
    fn values(&self, combiner: &C) -> More {
        F::Growth::len(combiner)
    }

    #[inline(always)]
    fn create(&self, combiner: C) -> C {
        combiner
    }

    #[inline(always)]
    fn merge(&self, left: C, right: C) -> C {
        self.0.merge_combiners(left, right)
    }

    #[inline(always)]
    fn merge_combiners(&self, left: C, right: C) -> C {
        self.0.merge_combiners(left, right)
    }
}

/// Values into groups.
#[derive(Clone)]
pub(crate) struct Grouping;

impl<V: Data> Fold<V, Vec<V>> for Grouping {
    type Again = Combiners<Grouping, V>;
    type Growth = Groups;

    fn again(&self) -> Self::Again {
        Combiners(Grouping, PhantomData)
    }

    #[inline]
    fn weigh(&self, value: &V, meter: &mut Meter) -> f64 {
        meter.see(value)
    }

    #[inline(always)]
    fn values(&self, _: &V) -> More {
        More(1, 0)
    }

    #[inline(always)]
    fn create(&self, value: V) -> Vec<V> {
        vec![value]
    }

    #[inline(always)]
    fn merge(&self, mut group: Vec<V>, value: V) -> Vec<V> {
        group.push(value);
        group
    }

    fn merge_combiners(&self, mut left: Vec<V>, mut right: Vec<V>) -> Vec<V> {
        left.append(&mut right);
        left
    }
}

/// The pairs of a fold: out of memory, or one part after the other from disk.
pub(crate) enum Pairs<K, C> {
    Held { pairs: TablePairs<K, C>, _account: Account },
    Spilled(Box<dyn Iterator<Item = (K, C)>>),
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

/// The combiners of all keys: in one table, or in parts by hash if they do not fit into memory.
pub(crate) enum Filled<K, C> {
    Held(KeyMap<K, C>, Account),
    Parts(MapOutput),
}

/// Folds the inputs of each key; when memory is short, combiners spill to disk, hash-partitioned.
pub(crate) fn fill<K, I, C, F>(
    mut items: impl Iterator<Item = (K, I)>,
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
    if depth > DEEPEST {
        return fill_at_any_rate(items, fold, operation, task);
    }
    let mut table = Table::new(fold.clone(), task);
    if items.all(|(key, input)| table.push(key, input)) && table.settle() {
        let (map, account) = table.into_map();
        return Filled::Held(map, account);
    }
    let mut parts = task.buckets(PARTS);
    let mut put_aside = |table: &mut Table<K, I, C, F>| {
        task.check_killed();
        if table.is_one_key_beyond(task.scratch().memory().budget()) {
            refuse_key(operation, task);
        }
        for (key, combiner) in table.empty() {
            let part = part_of_key(&key, depth);
            F::Growth::in_pieces(combiner, &mut |piece| {
                parts.push_as::<(K, C), _>(part, &(&key, piece)).or_fail();
            });
        }
    };
    put_aside(&mut table);
    items.for_each(|(key, input)| {
        if !table.push(key, input) {
            put_aside(&mut table);
        }
    });
    while !table.is_empty() {
        put_aside(&mut table);
    }
    drop(table);
    Filled::Parts(parts.finish().or_fail())
}

/// Folds the inputs of each key into one table, which cannot be spilled: where it is refused memory, it waits
/// until others have given back enough. It holds nothing while it waits for its turn, and its inputs come from
/// what was spilled before, so that nobody else has to go on for it to end.
fn fill_at_any_rate<K, I, C, F>(
    items: impl Iterator<Item = (K, I)>,
    fold: &F,
    operation: &'static str,
    task: &TaskContext,
) -> Filled<K, C>
where
    K: Data + Hash + Eq,
    C: Data,
    F: Fold<I, C>,
{
    let mut right = loop {
        task.check_killed();
        if let Some(right) = LastResort::take(task.scratch().memory(), task.task(), POLL) {
            break right;
        }
    };
    let mut table = Table::new(fold.clone(), task);
    let mut make_room = |table: &mut Table<K, I, C, F>| loop {
        let asked = table.asked();
        wait_for_memory(table.account(), asked, &mut right, operation, task);
        if table.fold_batch() {
            return;
        }
        if table.asked() == asked {
            // It is not for want of memory.
            refuse_key(operation, task);
        }
    };
    for (key, input) in items {
        if !table.push(key, input) {
            make_room(&mut table);
        }
    }
    while !table.settle() {
        make_room(&mut table);
    }
    let (map, account) = table.into_map();
    Filled::Held(map, account)
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
    Pairs::Spilled(Box::new((0..PARTS).flat_map(move |part| {
        fold_by_key(records(&parts, part), fold.clone(), operation, depth + 1, &task)
    })))
}

/// The records of one part.
pub(crate) fn records<T: Data>(
    parts: &MapOutput,
    part: u32,
) -> impl Iterator<Item = T> + use<T> + 'static {
    Records::new(parts.slice(part).expect("all parts are there")).map(OrFail::or_fail)
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

    /// Groups `parent`'s pairs.
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
