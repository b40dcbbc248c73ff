//! Adapters whose closures take an environment: how captured values are passed in the open.

use std::cmp::Reverse;
use std::hash::Hash;
use std::sync::Arc;

use firesteel_closure::{Data, Shared};
use firesteel_rdd::action::{Aggregate, ForEach, OfPartition, Reduce, TakeOrdered};
use firesteel_rdd::aggregate::{AggregateWith, CombineWith, ReduceWith};
use firesteel_rdd::narrow::{
    Descending, Emitter, Filter, FlatMap, FlatMapTo, IgnoreIndex, Keyed, Map, MapPartitions,
    OnEachValue, OnValue, WithKey,
};
use firesteel_rdd::reshape::ZipPartitions;
use firesteel_rdd::{Partition, Pipe};
use firesteel_types::CallSite;

use super::partitioning::default_partitioner;
use crate::{Error, Rdd, Result};

/// An RDD together with an environment; see [`Rdd::with`]. Its adapters are those of [`Rdd`], with
/// `&E` as the closures' first argument.
#[must_use = "`with` only begins: call an adapter on it"]
pub struct With<T, P, E> {
    pub(super) rdd: Rdd<T, P>,
    pub(super) environment: Arc<E>,
}

impl<T: 'static, P: Pipe<Item = T>, E: Data> With<T, P, E> {
    fn shared<F: Copy + Send + Sync + 'static>(&self, f: F) -> Shared<E, F> {
        Shared::new(self.environment.clone(), f)
    }

    /// [`Rdd::map`]
    #[track_caller]
    pub fn map<U, F>(&self, f: F) -> Rdd<U, Map<Arc<P>, Shared<E, F>, U>>
    where
        U: 'static,
        F: Fn(&E, T) -> U + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.map_call(CallSite::here("map"), self.shared(f))
    }

    /// [`Rdd::filter`]
    #[track_caller]
    pub fn filter<F>(&self, f: F) -> Rdd<T, Filter<Arc<P>, Shared<E, F>>>
    where
        F: Fn(&E, &T) -> bool + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.filter_call(CallSite::here("filter"), self.shared(f))
    }

    /// [`Rdd::flat_map`]
    #[track_caller]
    pub fn flat_map<I, F>(&self, f: F) -> Rdd<I::Item, FlatMap<Arc<P>, Shared<E, F>, I>>
    where
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        F: Fn(&E, T) -> I + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.flat_map_call(CallSite::here("flat_map"), self.shared(f))
    }

    /// [`Rdd::flat_map_to`]
    #[track_caller]
    pub fn flat_map_to<U, F>(&self, f: F) -> Rdd<U, FlatMapTo<Arc<P>, Shared<E, F>, U>>
    where
        U: 'static,
        F: Fn(&E, &T, &mut Emitter<U>) + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.flat_map_to_call(CallSite::here("flat_map_to"), self.shared(f))
    }

    /// [`Rdd::map_partitions`]
    #[track_caller]
    pub fn map_partitions<I, F>(
        &self,
        f: F,
    ) -> Rdd<I::Item, MapPartitions<Arc<P>, IgnoreIndex<Shared<E, F>>, I>>
    where
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        F: Fn(&E, Partition<T>) -> I + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let f = IgnoreIndex(self.shared(f));
        self.rdd.map_partitions_call(CallSite::here("map_partitions"), f)
    }

    /// [`Rdd::map_partitions_with_index`]
    #[track_caller]
    pub fn map_partitions_with_index<I, F>(
        &self,
        f: F,
    ) -> Rdd<I::Item, MapPartitions<Arc<P>, Shared<E, F>, I>>
    where
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        F: Fn(&E, usize, Partition<T>) -> I + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let site = CallSite::here("map_partitions_with_index");
        self.rdd.map_partitions_call(site, self.shared(f))
    }

    /// [`Rdd::key_by`]
    #[track_caller]
    pub fn key_by<K, F>(&self, f: F) -> Rdd<(K, T), Map<Arc<P>, Keyed<Shared<E, F>>, (K, T)>>
    where
        K: 'static,
        F: Fn(&E, &T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.map_call(CallSite::here("key_by"), Keyed(self.shared(f)))
    }

    /// [`Rdd::group_by`]
    #[track_caller]
    pub fn group_by<K, F>(&self, f: F) -> Rdd<(K, Vec<T>)>
    where
        T: Data,
        K: Data + Hash + Eq,
        F: Fn(&E, &T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let site = CallSite::here("group_by");
        let keyed = self.rdd.map_call(site, Keyed(self.shared(f)));
        let partitioner = default_partitioner(&self.rdd.context, vec![keyed.side()]);
        keyed.group_call(site, partitioner, None)
    }

    /// [`Rdd::sort_by`]
    #[track_caller]
    pub fn sort_by<K, F>(&self, key: F) -> Rdd<T>
    where
        T: Data,
        K: Data + Ord + Clone,
        F: Fn(&E, &T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let partitions = self.rdd.sort_partitions();
        self.rdd.sort_call(CallSite::here("sort_by"), self.shared(key), partitions, false)
    }

    /// [`Rdd::sort_by_desc`]
    #[track_caller]
    pub fn sort_by_desc<K, F>(&self, key: F) -> Rdd<T>
    where
        T: Data,
        K: Data + Ord + Clone,
        F: Fn(&E, &T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let partitions = self.rdd.sort_partitions();
        self.rdd.sort_call(CallSite::here("sort_by_desc"), self.shared(key), partitions, true)
    }

    /// [`Rdd::for_each`]
    #[track_caller]
    pub fn for_each<F>(&self, f: F) -> Result<()>
    where
        F: Fn(&E, T) + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let action = ForEach::new(self.shared(f));
        self.rdd.run_all(CallSite::here("for_each"), action)?.collect()
    }

    /// [`Rdd::for_each_partition`]
    #[track_caller]
    pub fn for_each_partition<F>(&self, f: F) -> Result<()>
    where
        F: Fn(&E, Partition<T>) + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let action = OfPartition::new(self.shared(f));
        self.rdd.run_all(CallSite::here("for_each_partition"), action)?.collect()
    }

    /// [`Rdd::reduce`]
    #[track_caller]
    pub fn reduce<F>(&self, f: F) -> Result<T>
    where
        T: Data,
        F: Fn(&E, T, T) -> T + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let action = Reduce::new(self.shared(f));
        let merge = |a, b| f(&self.environment, a, b);
        let reduced = self.rdd.reduce_call(CallSite::here("reduce"), action, merge)?;
        reduced.ok_or(Error::Empty { operation: "reduce" })
    }

    /// [`Rdd::fold`]
    #[track_caller]
    pub fn fold<F>(&self, zero: T, f: F) -> Result<T>
    where
        T: Data + Clone,
        F: Fn(&E, T, T) -> T + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.aggregate_at(CallSite::here("fold"), zero, f, f)
    }

    /// [`Rdd::aggregate`]
    #[track_caller]
    pub fn aggregate<U, F, G>(&self, zero: U, add: F, merge: G) -> Result<U>
    where
        U: Data + Clone,
        F: Fn(&E, U, T) -> U + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
        G: Fn(&E, U, U) -> U,
    {
        self.aggregate_at(CallSite::here("aggregate"), zero, add, merge)
    }

    fn aggregate_at<U, F, G>(&self, site: CallSite, zero: U, add: F, merge: G) -> Result<U>
    where
        U: Data + Clone,
        F: Fn(&E, U, T) -> U + Copy + Send + Sync + 'static,
        G: Fn(&E, U, U) -> U,
    {
        let action = Aggregate::new(zero.clone(), self.shared(add));
        let parts: Result<Vec<U>> = self.rdd.run_all(site, action)?.collect();
        Ok(parts?.into_iter().fold(zero, |a, b| merge(&self.environment, a, b)))
    }

    /// [`Rdd::top_by`]
    #[track_caller]
    pub fn top_by<K, F>(&self, n: usize, key: F) -> Result<Vec<T>>
    where
        T: Data,
        K: Ord + 'static,
        F: Fn(&E, &T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let action = TakeOrdered::new(n as u64, Descending(self.shared(key)));
        let descending = |item: &T| Reverse(key(&self.environment, item));
        self.rdd.merge_ordered(CallSite::here("top_by"), n, action, descending)
    }

    /// [`Rdd::take_ordered_by`]
    #[track_caller]
    pub fn take_ordered_by<K, F>(&self, n: usize, key: F) -> Result<Vec<T>>
    where
        T: Data,
        K: Ord + 'static,
        F: Fn(&E, &T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let action = TakeOrdered::new(n as u64, self.shared(key));
        let ascending = |item: &T| key(&self.environment, item);
        self.rdd.merge_ordered(CallSite::here("take_ordered_by"), n, action, ascending)
    }

    /// [`Rdd::zip_partitions`]
    #[track_caller]
    pub fn zip_partitions<U, Q, I, F>(
        &self,
        other: &Rdd<U, Q>,
        f: F,
    ) -> Rdd<I::Item, ZipPartitions<Arc<P>, Arc<Q>, Shared<E, F>, I>>
    where
        U: 'static,
        Q: Pipe<Item = U>,
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        F: Fn(&E, Partition<T>, Partition<U>) -> I + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.zip_partitions_call(CallSite::here("zip_partitions"), other, self.shared(f))
    }
}

/// Pairs.
impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>, E: Data> With<(K, V), P, E> {
    /// [`Rdd::map_values`]
    #[track_caller]
    pub fn map_values<U, F>(&self, f: F) -> Rdd<(K, U), Map<Arc<P>, OnValue<Shared<E, F>>, (K, U)>>
    where
        U: 'static,
        F: Fn(&E, V) -> U + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.map_values_call(CallSite::here("map_values"), self.shared(f))
    }

    /// [`Rdd::flat_map_values`]
    #[track_caller]
    pub fn flat_map_values<I, F>(
        &self,
        f: F,
    ) -> Rdd<(K, I::Item), FlatMap<Arc<P>, OnEachValue<Shared<E, F>>, WithKey<K, I>>>
    where
        K: Clone,
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        F: Fn(&E, V) -> I + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        self.rdd.flat_map_values_call(CallSite::here("flat_map_values"), self.shared(f))
    }

    /// [`Rdd::reduce_by_key`]
    #[track_caller]
    pub fn reduce_by_key<F>(&self, f: F) -> Rdd<(K, V)>
    where
        K: Data + Hash + Eq,
        V: Data,
        F: Fn(&E, V, V) -> V + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
    {
        let site = CallSite::here("reduce_by_key");
        let partitioner = self.rdd.default_partitioner();
        self.rdd.combine_call(site, partitioner, None, ReduceWith(self.shared(f)))
    }

    /// [`Rdd::aggregate_by_key`]
    #[track_caller]
    pub fn aggregate_by_key<C, F, G>(&self, zero: C, add: F, merge: G) -> Rdd<(K, C)>
    where
        K: Data + Hash + Eq,
        C: Data + Clone,
        F: Fn(&E, C, V) -> C + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
        G: Fn(&E, C, C) -> C + Copy + Send + Sync + 'static,
    {
        let site = CallSite::here("aggregate_by_key");
        let combine = AggregateWith::new(zero, self.shared(add), self.shared(merge));
        self.rdd.combine_call(site, self.rdd.default_partitioner(), None, combine)
    }

    /// [`Rdd::combine_by_key`]
    #[track_caller]
    pub fn combine_by_key<C, F, G, H>(&self, create: F, add: G, merge: H) -> Rdd<(K, C)>
    where
        K: Data + Hash + Eq,
        C: Data,
        F: Fn(&E, V) -> C + Copy + Send + Sync + 'static, // it captures? put the value into with(...)
        G: Fn(&E, C, V) -> C + Copy + Send + Sync + 'static,
        H: Fn(&E, C, C) -> C + Copy + Send + Sync + 'static,
    {
        let site = CallSite::here("combine_by_key");
        let (create, add) = (self.shared(create), self.shared(add));
        let combine = CombineWith::new(create, add, self.shared(merge));
        self.rdd.combine_call(site, self.rdd.default_partitioner(), None, combine)
    }
}
