//! What an action does with the items of one partition.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hash::Hash;
use std::marker::PhantomData;

use firesteel_closure::{Call, Data, Value, Wire, WireError, check, wire};
use firesteel_task::TaskContext;

use crate::Partition;
use crate::key::KeyOf;
use crate::sample::reservoir;
use crate::sketch::HyperLogLog;
use crate::stats::{Number, Stats, Summable};

/// What a result task computes from the items of its partition.
pub trait Action<T>: Wire {
    /// What the driver gets.
    type Output: Data;

    fn run(&self, items: impl Iterator<Item = T> + 'static, task: &TaskContext) -> Self::Output;

    /// Whether the output could be sent, also where it is not: a program that runs on threads runs on a cluster.
    fn check(&self, output: &Self::Output) -> Result<(), WireError> {
        check(output)
    }
}

/// Of many items, some stand for all: first, middle and last.
fn check_items<T: Data>(items: &[T]) -> Result<(), WireError> {
    let places = [0, items.len() / 2, items.len().saturating_sub(1)];
    places.iter().filter_map(|place| items.get(*place)).try_for_each(check)
}

macro_rules! unit_action {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name;

        impl Wire for $name {
            fn encode(
                &self,
                _: &mut firesteel_closure::Encoder,
            ) -> Result<(), firesteel_closure::WireError> {
                Ok(())
            }

            fn decode(
                _: &mut firesteel_closure::Decoder<'_>,
            ) -> Result<Self, firesteel_closure::WireError> {
                Ok($name)
            }
        }
    };
}

unit_action!(
    /// All items.
    Collect
);
unit_action!(
    /// Their number.
    Count
);
unit_action!(
    /// Their sum.
    Sum
);
unit_action!(
    /// Count, mean, variance, extremes.
    Statistics
);

impl<T: Data> Action<T> for Collect {
    type Output = Vec<T>;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> Vec<T> {
        items.collect()
    }

    fn check(&self, output: &Vec<T>) -> Result<(), WireError> {
        check_items(output)
    }
}

impl<T> Action<T> for Count {
    type Output = u64;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> u64 {
        items.fold(0, |count, _| count + 1)
    }
}

impl<T: Summable> Action<T> for Sum {
    type Output = T::Partial;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> T::Partial {
        items.fold(T::ZERO, T::add)
    }
}

impl<T: Number> Action<T> for Statistics {
    type Output = Stats;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> Stats {
        let mut stats = Stats::default();
        items.for_each(|item| stats.add(item.to_f64()));
        stats
    }
}

wire! {
    /// The first `limit` items.
    pub struct Take[] {
        pub limit: u64,
    }
}

impl<T: Data> Action<T> for Take {
    type Output = Vec<T>;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> Vec<T> {
        items.take(self.limit as usize).collect()
    }

    fn check(&self, output: &Vec<T>) -> Result<(), WireError> {
        check_items(output)
    }
}

wire! {
    /// The `limit` smallest items in a given order, sorted.
    pub struct TakeOrdered[F: Wire, K: 'static] {
        limit: u64,
        key: F;
        types: PhantomData<fn() -> K>,
    }

    /// The smallest by `key`.
    pub fn new;
}

impl<T, K, F> Action<T> for TakeOrdered<F, K>
where
    T: Data,
    K: Ord + 'static,
    F: for<'a> Call<(&'a T,), K>,
{
    type Output = Vec<T>;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> Vec<T> {
        smallest(items, self.limit as usize, |item| self.key.call((item,)))
    }

    fn check(&self, output: &Vec<T>) -> Result<(), WireError> {
        check_items(output)
    }
}

/// The `limit` smallest items by key, ascending; of equal keys those that came first.
pub fn smallest<T, K: Ord>(
    items: impl Iterator<Item = T>,
    limit: usize,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    if limit == 0 {
        return Vec::new();
    }
    let mut heap: BinaryHeap<Ranked<K, T>> = BinaryHeap::new();
    for (position, item) in items.enumerate() {
        let ranked = Ranked { key: key(&item), position, item };
        if heap.len() < limit {
            heap.push(ranked);
        } else if let Some(mut largest) = heap.peek_mut()
            && ranked < *largest
        {
            *largest = ranked;
        }
    }
    heap.into_sorted_vec().into_iter().map(|ranked| ranked.item).collect()
}

struct Ranked<K, T> {
    key: K,
    position: usize,
    item: T,
}

impl<K: Ord, T> Ord for Ranked<K, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.position.cmp(&other.position))
    }
}

impl<K: Ord, T> PartialOrd for Ranked<K, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, T> PartialEq for Ranked<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K: Ord, T> Eq for Ranked<K, T> {}

wire! {
    /// Items folded into one by a function of two.
    pub struct Reduce[F: Wire] {
        f: F,
    }

    pub fn new;
}

impl<T: Data, F: Call<(T, T), T>> Action<T> for Reduce<F> {
    type Output = Option<T>;

    #[inline]
    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> Option<T> {
        let f = self.f.clone();
        items.reduce(move |a, b| f.call((a, b)))
    }
}

wire! {
    /// Items folded into a value that starts at `zero`.
    pub struct Aggregate[U: Data, F: Wire] {
        zero: Value<U>,
        f: F,
    }
}

impl<U, F> Aggregate<U, F> {
    /// By `f`, from `zero`.
    pub fn new(zero: U, f: F) -> Self {
        Aggregate { zero: Value(zero), f }
    }
}

impl<T, U: Data + Clone, F: Call<(U, T), U>> Action<T> for Aggregate<U, F> {
    type Output = U;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> U {
        let f = self.f.clone();
        items.fold(self.zero.0.clone(), move |state, item| f.call((state, item)))
    }
}

wire! {
    /// A function called for each item.
    pub struct ForEach[F: Wire] {
        f: F,
    }

    pub fn new;
}

impl<T, F: Call<(T,), ()>> Action<T> for ForEach<F> {
    type Output = ();

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) {
        items.for_each(|item| self.f.call((item,)));
    }
}

wire! {
    /// A function of the whole partition.
    pub struct OfPartition[F: Wire, U: 'static] {
        f: F;
        out: PhantomData<fn() -> U>,
    }

    pub fn new;
}

impl<T: 'static, U: Data, F: Call<(Partition<T>,), U>> Action<T> for OfPartition<F, U> {
    type Output = U;

    fn run(&self, items: impl Iterator<Item = T> + 'static, _: &TaskContext) -> U {
        self.f.call((Partition::new(items),))
    }
}

wire! {
    /// A uniform sample of at most `size` keys, and the number of items.
    pub struct SampleKeys[F: Wire, K: 'static] {
        size: u64,
        seed: u64,
        key: F;
        types: PhantomData<fn() -> K>,
    }

    /// Samples keys of items.
    pub fn new;
}

impl<T, K: Data + Ord + Clone, F: KeyOf<T, K>> Action<T> for SampleKeys<F, K> {
    type Output = (Vec<K>, u64);

    fn run(&self, items: impl Iterator<Item = T>, task: &TaskContext) -> (Vec<K>, u64) {
        let (size, seed) = (self.size as usize, self.seed ^ u64::from(task.partition()));
        reservoir(items, size, seed, |item| self.key.with(&item, K::clone))
    }
}

wire! {
    /// How many items fall between each two neighbouring bounds; the last interval is closed.
    pub struct Histogram[] {
        /// Ascending bounds, at least two.
        pub bounds: Value<Vec<f64>>,
    }
}

impl<T: Number> Action<T> for Histogram {
    type Output = Vec<u64>;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> Vec<u64> {
        let bounds = &self.bounds.0;
        let last = bounds.len() - 1;
        let mut counts = vec![0; last];
        items.map(Number::to_f64).for_each(|x| {
            if x >= bounds[0] && x <= bounds[last] {
                let after = bounds.partition_point(|bound| *bound <= x);
                counts[(after - 1).min(last - 1)] += 1;
            }
        });
        counts
    }
}

wire! {
    /// A sketch of how many different items there are.
    pub struct CountDistinct[] {
        /// Bits of the register index.
        pub precision: u8,
    }
}

impl<T: Hash> Action<T> for CountDistinct {
    type Output = HyperLogLog;

    fn run(&self, items: impl Iterator<Item = T>, _: &TaskContext) -> HyperLogLog {
        let mut sketch = HyperLogLog::new(self.precision);
        items.for_each(|item| sketch.insert(&item));
        sketch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_are_found_sorted_and_ties_keep_their_order() {
        let items = [(3, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (0, 'e')];
        let found = smallest(items.into_iter(), 3, |item| item.0);
        assert_eq!(found, [(0, 'e'), (1, 'b'), (1, 'd')]);
        assert!(smallest(items.into_iter(), 0, |item| item.0).is_empty());
        assert_eq!(smallest(items.into_iter(), 99, |item| item.0).len(), 5);
    }
}
