//! Adapters that change how partitions correspond: union, coalesce, cartesian, zip, indices.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use firesteel_closure::{Call, Data, Decoder, Encoder, Value, Wire, WireError, wire};
use firesteel_shuffle::{Records, RunWriter, Slice};
use firesteel_task::{OrFail, TaskContext, fail_for_good};

use crate::memory::{Account, Hoard};
use crate::{Boxed, Partition, Pipe};

wire! {
    /// `union`: the partitions of several, one after the other.
    pub struct Union[T: 'static] {
        parents: Vec<Boxed<T>>,
        /// First partition of each parent, ascending.
        starts: Value<Vec<u32>>,
    }
}

impl<T: 'static> Union<T> {
    /// Parents with their numbers of partitions.
    pub fn new(parents: Vec<(Boxed<T>, u32)>) -> Self {
        let mut next = 0;
        let mut starts = Vec::with_capacity(parents.len());
        for (_, partitions) in &parents {
            starts.push(next);
            next += partitions;
        }
        let parents = parents.into_iter().map(|(parent, _)| parent).collect();
        Union { parents, starts: Value(starts) }
    }
}

impl<T: 'static> Pipe for Union<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        // The last parent that starts at or before the partition; parents without partitions start
        // where their successor does and are passed over.
        let parent = self.starts.0.partition_point(|start| *start <= partition) - 1;
        self.parents[parent].compute(partition - self.starts.0[parent], task)
    }
}

wire! {
    /// `coalesce` without a shuffle: several parent partitions in one.
    pub struct Coalesce[P: Wire] {
        parent: Arc<P>,
        groups: Value<Arc<[Vec<u32>]>>,
    }
}

impl<P> Coalesce<P> {
    /// Partition `i` reads the parents listed in `groups[i]`.
    pub fn new(parent: Arc<P>, groups: Arc<[Vec<u32>]>) -> Self {
        Coalesce { parent, groups: Value(groups) }
    }
}

impl<P: Pipe> Pipe for Coalesce<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        let group = self.groups.0[partition as usize].clone();
        let (parent, task) = (self.parent.clone(), task.clone());
        group.into_iter().flat_map(move |source| parent.compute(source, &task))
    }
}

wire! {
    /// `cartesian`: partition `i * right + j` pairs left `i` with right `j`.
    pub struct Cartesian[P: Wire, Q: Wire] {
        left: P,
        right: Q,
        right_partitions: u32,
    }

    /// All pairs; `right_partitions` is at least one.
    pub fn new;
}

impl<P: Pipe<Item: Clone>, Q: Pipe<Item: Data + Clone>> Pipe for Cartesian<P, Q> {
    type Item = (P::Item, Q::Item);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<P, Q> + 'static {
        let right = self.right.compute(partition % self.right_partitions, task);
        let right = Again::new(right, task);
        let left = self.left.compute(partition / self.right_partitions, task);
        let pairs = left.flat_map(move |a| right.items().map(move |b| (a.clone(), b)));
        task.interruptible(pairs)
    }
}

/// Items that are read again and again: out of the task's memory, or from disk if they do not fit.
enum Again<T> {
    Held(Rc<(Vec<T>, Account)>),
    Spilled(Slice),
}

impl<T: Data + Clone> Again<T> {
    fn new(mut items: impl Iterator<Item = T> + 'static, task: &TaskContext) -> Self {
        let mut held = Hoard::new(task);
        if items.all(|item| held.push(item)) {
            let Hoard { items, account, .. } = held;
            return Again::Held(Rc::new((items, account)));
        }
        let mut writer = RunWriter::create(task.scratch(), "cartesian").or_fail();
        held.items.iter().for_each(|item| writer.push(item).or_fail());
        drop(held);
        task.interruptible(items).for_each(|item| writer.push(&item).or_fail());
        Again::Spilled(writer.finish().or_fail())
    }

    /// All of them, once more.
    fn items(&self) -> Pass<T> {
        match self {
            Again::Held(held) => Pass::Held(held.clone(), 0),
            Again::Spilled(slice) => Pass::Spilled(Records::new(slice.clone())),
        }
    }
}

enum Pass<T> {
    Held(Rc<(Vec<T>, Account)>, usize),
    Spilled(Records<T>),
}

impl<T: Data + Clone> Iterator for Pass<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Pass::Held(held, next) => {
                *next += 1;
                held.0.get(*next - 1).cloned()
            }
            Pass::Spilled(records) => records.next().map(OrFail::or_fail),
        }
    }
}

wire! {
    /// `zip`: partitions must hold equally many items.
    pub struct Zip[P: Wire, Q: Wire] {
        left: P,
        right: Q,
    }

    /// Pairs items by position.
    pub fn new;
}

impl<P: Pipe, Q: Pipe> Pipe for Zip<P, Q> {
    type Item = (P::Item, Q::Item);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<P, Q> + 'static {
        let mut left = self.left.compute(partition, task);
        let mut right = self.right.compute(partition, task);
        std::iter::from_fn(move || match (left.next(), right.next()) {
            (Some(a), Some(b)) => Some((a, b)),
            (None, None) => None,
            (a, _) => fail_for_good(format!(
                "zip needs equally many items in each partition, but in partition {partition} the \
                 {} side has more; use zip_with_index and join where counts differ",
                if a.is_some() { "left" } else { "right" }
            )),
        })
    }
}

wire! {
    /// `zip_partitions`
    pub struct ZipPartitions[P: Wire, Q: Wire, F: Wire, I: 'static] {
        left: P,
        right: Q,
        f: F;
        out: PhantomData<fn() -> I>,
    }

    /// Calls `f` with both sides' partitions of one index.
    pub fn new;
}

impl<P, Q, F, I> Pipe for ZipPartitions<P, Q, F, I>
where
    P: Pipe,
    Q: Pipe,
    I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
    F: Call<(Partition<P::Item>, Partition<Q::Item>), I>,
{
    type Item = I::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = I::Item> + use<P, Q, F, I> + 'static {
        let left = Partition::new(self.left.compute(partition, task));
        let right = Partition::new(self.right.compute(partition, task));
        self.f.call((left, right)).into_iter()
    }
}

/// Numbers that a job of its own finds before the first task needs them.
#[derive(Clone, Default)]
pub struct Deferred<T>(Arc<OnceLock<T>>);

impl<T> Deferred<T> {
    /// Whether they are known.
    pub fn is_ready(&self) -> bool {
        self.0.get().is_some()
    }

    /// Makes them known; the first call counts.
    pub fn set(&self, value: T) {
        let _ = self.0.set(value);
    }

    fn get(&self) -> &T {
        self.0.get().expect("the driver runs deferred work before it submits the job")
    }
}

impl<T: Data> Wire for Deferred<T> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.put(self.get())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let deferred = Deferred(Arc::default());
        deferred.set(input.take()?);
        Ok(deferred)
    }
}

wire! {
    /// `zip_with_index`
    pub struct ZipWithIndex[P: Wire] {
        parent: P,
        starts: Deferred<Vec<u64>>,
    }

    /// Numbers items through all partitions; `starts` holds each partition's first number.
    pub fn new;
}

impl<P: Pipe> Pipe for ZipWithIndex<P> {
    type Item = (P::Item, u64);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<P> + 'static {
        let start = self.starts.get()[partition as usize];
        self.parent.compute(partition, task).zip(start..)
    }
}

wire! {
    /// `zip_with_unique_id`: item `i` of partition `p` of `n` gets `i * n + p`, without a job.
    pub struct ZipWithUniqueId[P: Wire] {
        parent: P,
        partitions: u32,
    }

    /// `partitions` is how many `parent` has.
    pub fn new;
}

impl<P: Pipe> Pipe for ZipWithUniqueId<P> {
    type Item = (P::Item, u64);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<P> + 'static {
        let ids = (u64::from(partition)..).step_by(self.partitions.max(1) as usize);
        self.parent.compute(partition, task).zip(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestTask;

    #[test]
    fn items_to_be_read_again_are_held_while_they_fit_and_come_from_disk_if_not() {
        let test = TestTask::new(4 << 20);
        let texts = |count: u64| (0..count).map(|n| format!("{n:0>1000}"));
        for (count, fits) in [(2000, true), (20_000, false)] {
            let again = Again::new(texts(count), &test.task);
            assert_eq!(matches!(again, Again::Held(_)), fits);
            assert!((0..2).all(|_| again.items().eq(texts(count))));
            assert_eq!(test.memory().used().1 > 0, fits, "only what is held is on the books");
        }
    }
}
