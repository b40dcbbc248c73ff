//! Aggregation by key inside one partition: combine values, merge combiners, group.

use std::hash::Hash;
use std::marker::PhantomData;

use hashbrown::hash_map::Entry;

use firesteel_closure::{Call, Data, Decoder, Encoder, Value, Wire, WireError, wire};

use crate::{FixedMap, Pipe, TaskContext};

/// How values of one key become a combiner.
pub trait Combine<V, C>: Wire + Clone {
    /// The first value of a key.
    fn create(&self, value: V) -> C;
    /// One more.
    fn merge_value(&self, combiner: C, value: V) -> C;
    /// Two combiners of one key.
    fn merge_combiners(&self, left: C, right: C) -> C;
}

/// Three functions (`combine_by_key`).
#[derive(Clone)]
pub struct CombineWith<A, B, D> {
    create: A,
    merge_value: B,
    merge_combiners: D,
}

impl<A, B, D> CombineWith<A, B, D> {
    /// From its functions.
    pub fn new(create: A, merge_value: B, merge_combiners: D) -> Self {
        CombineWith { create, merge_value, merge_combiners }
    }
}

wire!([A: Wire, B: Wire, D: Wire] CombineWith<A, B, D> { create, merge_value, merge_combiners });

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

/// A zero and two functions (`aggregate_by_key`, `fold_by_key`).
#[derive(Clone)]
pub struct AggregateWith<Z, B, D> {
    zero: Value<Z>,
    merge_value: B,
    merge_combiners: D,
}

impl<Z, B, D> AggregateWith<Z, B, D> {
    /// From its zero and functions.
    pub fn new(zero: Z, merge_value: B, merge_combiners: D) -> Self {
        AggregateWith { zero: Value(zero), merge_value, merge_combiners }
    }
}

wire!([Z: Data, B: Wire, D: Wire] AggregateWith<Z, B, D> { zero, merge_value, merge_combiners });

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

/// Pairs combined by key.
pub(crate) type Folded<K, C> =
    std::iter::Map<hashbrown::hash_map::IntoIter<K, Option<C>>, fn((K, Option<C>)) -> (K, C)>;

/// Combines values by key.
pub(crate) fn combine_into_map<K: Hash + Eq, V, C>(
    items: impl Iterator<Item = (K, V)>,
    combine: &impl Combine<V, C>,
) -> Folded<K, C> {
    fold_by_key(items, |value| combine.create(value), |c, value| combine.merge_value(c, value))
}

/// Folds the values of each key. A slot is empty only while `merge` runs, which takes its combiner by
/// value; should `merge` panic, the map is dropped with the task.
fn fold_by_key<K: Hash + Eq, V, C>(
    items: impl Iterator<Item = (K, V)>,
    create: impl Fn(V) -> C,
    merge: impl Fn(C, V) -> C,
) -> Folded<K, C> {
    let mut map: FixedMap<K, Option<C>> = FixedMap::default();
    items.for_each(|(key, value)| match map.entry(key) {
        Entry::Occupied(mut entry) => {
            let slot = entry.get_mut();
            let combiner = slot.take().expect("a slot is only empty during its own merge");
            *slot = Some(merge(combiner, value));
        }
        Entry::Vacant(entry) => {
            entry.insert(Some(create(value)));
        }
    });
    map.into_iter().map(|(key, slot)| (key, slot.expect("every merge has put its result back")))
}

/// Combines the values of each key in a partition that holds all of them.
pub struct CombineValues<P, M, C> {
    parent: P,
    combine: M,
    out: PhantomData<fn() -> C>,
}

impl<P, M, C> CombineValues<P, M, C> {
    /// `combine` over `parent`'s pairs.
    pub fn new(parent: P, combine: M) -> Self {
        CombineValues { parent, combine, out: PhantomData }
    }
}

wire!([P: Wire, M: Wire, C: 'static] CombineValues<P, M, C> { parent, combine, out });

impl<K, V, C, P, M> Pipe for CombineValues<P, M, C>
where
    K: Hash + Eq + 'static,
    V: 'static,
    C: 'static,
    P: Pipe<Item = (K, V)>,
    M: Combine<V, C>,
{
    type Item = (K, C);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, C)> + use<K, V, C, P, M> + 'static {
        let pairs = combine_into_map(self.parent.compute(partition, task), &self.combine);
        task.interruptible(pairs)
    }
}

/// Merges the combiners of each key, as map tasks sent them.
pub struct MergeCombiners<P, M, V> {
    parent: P,
    combine: M,
    value: PhantomData<fn() -> V>,
}

impl<P, M, V> MergeCombiners<P, M, V> {
    /// `combine` over `parent`'s combiners.
    pub fn new(parent: P, combine: M) -> Self {
        MergeCombiners { parent, combine, value: PhantomData }
    }
}

wire!([P: Wire, M: Wire, V: 'static] MergeCombiners<P, M, V> { parent, combine, value });

impl<K, V, C, P, M> Pipe for MergeCombiners<P, M, V>
where
    K: Hash + Eq + 'static,
    V: 'static,
    C: 'static,
    P: Pipe<Item = (K, C)>,
    M: Combine<V, C>,
{
    type Item = (K, C);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, C)> + use<K, V, C, P, M> + 'static {
        let merge = |left, right| self.combine.merge_combiners(left, right);
        let pairs = fold_by_key(self.parent.compute(partition, task), |combiner| combiner, merge);
        task.interruptible(pairs)
    }
}

/// The values of each key, in the order they arrive.
pub(crate) fn group<K: Hash + Eq, V>(items: impl Iterator<Item = (K, V)>) -> FixedMap<K, Vec<V>> {
    let mut map: FixedMap<K, Vec<V>> = FixedMap::default();
    items.for_each(|(key, value)| map.entry(key).or_default().push(value));
    map
}

/// `group_by_key` in a partition that holds all values of its keys.
pub struct Group<P> {
    parent: P,
}

impl<P> Group<P> {
    /// Groups `parent`'s pairs.
    pub fn new(parent: P) -> Self {
        Group { parent }
    }
}

wire!([P: Wire] Group<P> { parent });

impl<K: Hash + Eq + 'static, V: 'static, P: Pipe<Item = (K, V)>> Pipe for Group<P> {
    type Item = (K, Vec<V>);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, Vec<V>)> + use<K, V, P> + 'static {
        task.interruptible(group(self.parent.compute(partition, task)).into_iter())
    }
}
