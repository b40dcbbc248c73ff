//! Sorting inside one partition. Stable: equal keys keep the order in which they arrive.

use std::marker::PhantomData;

use firesteel_closure::{Call, Wire, wire};

use crate::{Pipe, TaskContext};

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

impl<P, F, K> Pipe for SortBy<P, F, K>
where
    P: Pipe,
    K: Ord + 'static,
    F: for<'a> Call<(&'a P::Item,), K>,
{
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P, F, K> + 'static {
        let mut items: Vec<_> = self.parent.compute(partition, task).collect();
        task.check_killed();
        if self.descending {
            items.sort_by_cached_key(|item| std::cmp::Reverse(self.key.call((item,))));
        } else {
            items.sort_by_cached_key(|item| self.key.call((item,)));
        }
        task.interruptible(items.into_iter())
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

impl<K: Ord + 'static, V: 'static, P: Pipe<Item = (K, V)>> Pipe for SortByKey<P> {
    type Item = (K, V);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, V)> + use<K, V, P> + 'static {
        let mut items: Vec<_> = self.parent.compute(partition, task).collect();
        task.check_killed();
        if self.descending {
            items.sort_by(|a, b| b.0.cmp(&a.0));
        } else {
            items.sort_by(|a, b| a.0.cmp(&b.0));
        }
        task.interruptible(items.into_iter())
    }
}
