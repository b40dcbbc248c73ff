//! The everyday adapters: map, filter, flat_map, map_partitions, glom, and wrappers that turn a
//! function of a value into one of a pair.

use std::cmp::Reverse;
use std::marker::PhantomData;

use firesteel_closure::{Call, Data, Value, Wire, wire};
use firesteel_task::TaskContext;

use crate::{Partition, Pipe};

wire! {
    /// `map`
    pub struct Map[P: Wire, F: Wire, U: 'static] {
        parent: P,
        f: F;
        out: PhantomData<fn() -> U>,
    }

    /// Applies `f` to every item.
    pub fn new;
}

impl<P: Pipe, U: 'static, F: Call<(P::Item,), U>> Pipe for Map<P, F, U> {
    type Item = U;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = U> + use<P, F, U> + 'static {
        let f = self.f.clone();
        self.parent.compute(partition, task).map(move |item| f.call((item,)))
    }
}

wire! {
    /// `filter`
    pub struct Filter[P: Wire, F: Wire] {
        parent: P,
        f: F,
    }

    /// Keeps the items for which `f` holds.
    pub fn new;
}

impl<P: Pipe, F: for<'a> Call<(&'a P::Item,), bool>> Pipe for Filter<P, F> {
    type Item = P::Item;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P, F> + 'static {
        let f = self.f.clone();
        self.parent.compute(partition, task).filter(move |item| f.call((item,)))
    }
}

wire! {
    /// `flat_map`
    pub struct FlatMap[P: Wire, F: Wire, I: 'static] {
        parent: P,
        f: F;
        out: PhantomData<fn() -> I>,
    }

    /// Replaces every item by those that `f` makes of it.
    pub fn new;
}

impl<P, F, I> Pipe for FlatMap<P, F, I>
where
    P: Pipe,
    I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
    F: Call<(P::Item,), I>,
{
    type Item = I::Item;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = I::Item> + use<P, F, I> + 'static {
        let f = self.f.clone();
        self.parent.compute(partition, task).flat_map(move |item| f.call((item,)))
    }
}

/// Where the closure of `flat_map_to` puts its results.
#[derive(Debug)]
pub struct Emitter<U> {
    items: Vec<U>,
}

impl<U> Emitter<U> {
    /// Emits one more item, behind those before it.
    #[inline]
    pub fn push(&mut self, item: U) {
        self.items.push(item);
    }
}

impl<U> Extend<U> for Emitter<U> {
    #[inline]
    fn extend<I: IntoIterator<Item = U>>(&mut self, items: I) {
        self.items.extend(items);
    }
}

wire! {
    /// `flat_map_to`: the closure borrows the item and pushes, so that results may be cut out of it
    /// without an intermediate collection; one buffer serves the whole partition.
    pub struct FlatMapTo[P: Wire, F: Wire, U: 'static] {
        parent: P,
        f: F;
        out: PhantomData<fn() -> U>,
    }

    /// Replaces every item by those that `f` pushes for it.
    pub fn new;
}

impl<P, F, U> Pipe for FlatMapTo<P, F, U>
where
    P: Pipe,
    U: 'static,
    F: for<'a> Call<(&'a P::Item, &'a mut Emitter<U>), ()>,
{
    type Item = U;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = U> + use<P, F, U> + 'static {
        Emitting {
            parent: self.parent.compute(partition, task),
            f: self.f.clone(),
            emitted: Emitter { items: Vec::new() },
        }
    }
}

struct Emitting<I, F, U> {
    parent: I,
    f: F,
    /// What is still to be yielded, last first.
    emitted: Emitter<U>,
}

impl<I, F, U> Emitting<I, F, U>
where
    I: Iterator,
    F: for<'a> Call<(&'a I::Item, &'a mut Emitter<U>), ()>,
{
    fn refill(&mut self) -> Option<()> {
        while self.emitted.items.is_empty() {
            let item = self.parent.next()?;
            self.f.call((&item, &mut self.emitted));
            self.emitted.items.reverse();
        }
        Some(())
    }
}

impl<I, F, U> Iterator for Emitting<I, F, U>
where
    I: Iterator,
    F: for<'a> Call<(&'a I::Item, &'a mut Emitter<U>), ()>,
{
    type Item = U;

    #[inline]
    fn next(&mut self) -> Option<U> {
        if let Some(item) = self.emitted.items.pop() {
            return Some(item);
        }
        self.refill()?;
        self.emitted.items.pop()
    }

    fn fold<B, G: FnMut(B, U) -> B>(self, init: B, mut g: G) -> B {
        let Emitting { parent, f, mut emitted } = self;
        emitted.items.reverse();
        let state = emitted.items.drain(..).fold(init, &mut g);
        parent.fold(state, |state, item| {
            f.call((&item, &mut emitted));
            emitted.items.drain(..).fold(state, &mut g)
        })
    }
}

wire! {
    /// `map_partitions` and `map_partitions_with_index`
    pub struct MapPartitions[P: Wire, F: Wire, I: 'static] {
        parent: P,
        f: F;
        out: PhantomData<fn() -> I>,
    }

    /// Replaces every partition by the items that `f` makes of it; `f` gets its index, too.
    pub fn new;
}

impl<P, F, I> Pipe for MapPartitions<P, F, I>
where
    P: Pipe,
    I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
    F: Call<(usize, Partition<P::Item>), I>,
{
    type Item = I::Item;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = I::Item> + use<P, F, I> + 'static {
        let items = Partition::new(self.parent.compute(partition, task));
        self.f.call((partition as usize, items)).into_iter()
    }
}

wire! {
    /// `glom`
    pub struct Glom[P: Wire] {
        parent: P,
    }

    /// One vector per partition.
    pub fn new;
}

impl<P: Pipe> Pipe for Glom<P> {
    type Item = Vec<P::Item>;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Vec<P::Item>> + use<P> + 'static {
        std::iter::once(self.parent.compute(partition, task).collect())
    }
}

macro_rules! wrapper {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name<F>(pub F);

        impl<F: Wire> Wire for $name<F> {
            fn encode(
                &self,
                out: &mut firesteel_closure::Encoder,
            ) -> Result<(), firesteel_closure::WireError> {
                self.0.encode(out)
            }

            fn decode(
                input: &mut firesteel_closure::Decoder<'_>,
            ) -> Result<Self, firesteel_closure::WireError> {
                F::decode(input).map($name)
            }
        }
    };
}

wrapper!(
    /// A function of the value, applied to pairs: the key stays.
    OnValue
);
wrapper!(
    /// A function of the value that makes several, applied to pairs: each with the key.
    OnEachValue
);
wrapper!(
    /// A function of the item, as its key.
    Keyed
);
wrapper!(
    /// A function of a partition that does not ask for its index.
    IgnoreIndex
);

impl<K, V, U, F: Call<(V,), U>> Call<((K, V),), (K, U)> for OnValue<F> {
    #[inline(always)]
    fn call(&self, ((key, value),): ((K, V),)) -> (K, U) {
        (key, self.0.call((value,)))
    }
}

impl<K, V, I, F> Call<((K, V),), WithKey<K, I>> for OnEachValue<F>
where
    K: Clone,
    I: IntoIterator,
    F: Call<(V,), I>,
{
    #[inline(always)]
    fn call(&self, ((key, value),): ((K, V),)) -> WithKey<K, I> {
        WithKey { key, values: self.0.call((value,)).into_iter() }
    }
}

impl<T, K, F: for<'a> Call<(&'a T,), K>> Call<(T,), (K, T)> for Keyed<F> {
    #[inline(always)]
    fn call(&self, (item,): (T,)) -> (K, T) {
        (self.0.call((&item,)), item)
    }
}

impl<T, I, F: Call<(Partition<T>,), I>> Call<(usize, Partition<T>), I> for IgnoreIndex<F> {
    #[inline(always)]
    fn call(&self, (_, items): (usize, Partition<T>)) -> I {
        self.0.call((items,))
    }
}

/// Several values under one key.
pub struct WithKey<K, I: IntoIterator> {
    key: K,
    values: I::IntoIter,
}

impl<K: Clone, I: IntoIterator> Iterator for WithKey<K, I> {
    type Item = (K, I::Item);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.key.clone(), self.values.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

wrapper!(
    /// A key function, in the opposite order.
    Descending
);
wrapper!(
    /// A partition folded into one item, or none if it is empty, by a function of two.
    ReducePartition
);

impl<T, K, F: for<'a> Call<(&'a T,), K>> Call<(&T,), Reverse<K>> for Descending<F> {
    #[inline(always)]
    fn call(&self, (item,): (&T,)) -> Reverse<K> {
        Reverse(self.0.call((item,)))
    }
}

impl<T, F: Call<(T, T), T>> Call<(Partition<T>,), Option<T>> for ReducePartition<F> {
    fn call(&self, (items,): (Partition<T>,)) -> Option<T> {
        items.reduce(|a, b| self.0.call((a, b)))
    }
}

wire! {
    /// A partition folded into a value that starts at `zero`.
    #[derive(Clone)]
    pub struct FoldPartition[U: Data, F: Wire] {
        zero: Value<U>,
        add: F,
    }
}

impl<U, F> FoldPartition<U, F> {
    /// By `add`, from `zero`.
    pub fn new(zero: U, add: F) -> Self {
        FoldPartition { zero: Value(zero), add }
    }
}

impl<T, U, F> Call<(Partition<T>,), Option<U>> for FoldPartition<U, F>
where
    U: Data + Clone,
    F: Call<(U, T), U>,
{
    fn call(&self, (items,): (Partition<T>,)) -> Option<U> {
        Some(items.fold(self.zero.0.clone(), |state, item| self.add.call((state, item))))
    }
}
