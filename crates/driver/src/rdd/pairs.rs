//! Transformations and actions of key-value pairs.

use std::collections::HashMap;
use std::sync::Arc;

use firesteel_closure::{Call, Closure, Data, Pure};
use firesteel_rdd::action::Collect;
use firesteel_rdd::aggregate::{
    AggregateWith, Combine, CombineValues, CombineWith, Group, MergeCombiners, ReduceWith,
};
use firesteel_rdd::key::FirstOfPair;
use firesteel_rdd::narrow::{FlatMap, Map, OnEachValue, OnValue, WithKey};
use firesteel_rdd::sample::SampleByKey;
use firesteel_rdd::sort::SortBy;
use firesteel_rdd::wide::{ByKey, Combined};
use firesteel_rdd::{AnyPartitioner, Pipe};
use firesteel_types::CallSite;

use super::keys::{Key, SortKey};
use super::partitioning::{IntoPartitioner, default_partitioner, resolve};
use super::with::code;
use crate::user_code::on_driver;
use crate::{Error, Rdd, Result, With};

/// The adapters of pairs that take closures, for [`Rdd`] and for [`With`]: there the closure's first argument is `$env`.
macro_rules! adapters {
    ($kind:ident $(, $env:ty)?) => {
        /// Every value through `f`; keys and their partitions stay.
        #[track_caller]
        pub fn map_values<U, F>(
            &self,
            f: F,
        ) -> Rdd<(K, U), Map<Arc<P>, OnValue<code!($kind F)>, (K, U)>>
        where
            U: 'static,
            F: Fn($($env,)? V) -> U + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().map_values_call(CallSite::here("map_values"), self.ship(f))
        }

        /// All values that `f` makes of each, under its key.
        #[track_caller]
        pub fn flat_map_values<I, F>(
            &self,
            f: F,
        ) -> Rdd<(K, I::Item), FlatMap<Arc<P>, OnEachValue<code!($kind F)>, WithKey<K, I>>>
        where
            K: Clone,
            I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
            F: Fn($($env,)? V) -> I + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().flat_map_values_call(CallSite::here("flat_map_values"), self.ship(f))
        }

        /// The values of each key folded into one, on the map side first.
        #[track_caller]
        pub fn reduce_by_key<F>(&self, f: F) -> Rdd<(K, V)>
        where
            K: Key,
            V: Data,
            F: Fn($($env,)? V, V) -> V + Closure, // captures? pass it by rdd.with(value)
        {
            let (site, partitioner) =
                (CallSite::here("reduce_by_key"), self.rdd().default_partitioner());
            self.rdd().combine_call(site, partitioner, None, ReduceWith(self.ship(f)))
        }

        /// [`Rdd::reduce_by_key`] into these partitions.
        #[track_caller]
        pub fn reduce_by_key_into<F>(
            &self,
            partitions: impl IntoPartitioner<K>,
            f: F,
        ) -> Rdd<(K, V)>
        where
            K: Key,
            V: Data,
            F: Fn($($env,)? V, V) -> V + Closure, // captures? pass it by rdd.with(value)
        {
            let site = CallSite::here("reduce_by_key_into");
            let (partitioner, defect) = resolve(&site, partitions);
            self.rdd().combine_call(site, partitioner, defect, ReduceWith(self.ship(f)))
        }

        /// The values of each key folded into one that starts at `zero`, once per map partition.
        #[track_caller]
        pub fn fold_by_key<F>(&self, zero: V, f: F) -> Rdd<(K, V)>
        where
            K: Key,
            V: Data + Clone,
            F: Fn($($env,)? V, V) -> V + Closure, // captures? pass it by rdd.with(value)
        {
            let combine = AggregateWith::new(zero, self.ship(f), self.ship(f));
            let partitioner = self.rdd().default_partitioner();
            self.rdd().combine_call(CallSite::here("fold_by_key"), partitioner, None, combine)
        }

        /// The values of each key folded into another type that starts at `zero`, once per map
        /// partition.
        #[track_caller]
        pub fn aggregate_by_key<C, F, G>(&self, zero: C, add: F, merge: G) -> Rdd<(K, C)>
        where
            K: Key,
            C: Data + Clone,
            F: Fn($($env,)? C, V) -> C + Closure, // captures? pass it by rdd.with(value)
            G: Fn($($env,)? C, C) -> C + Closure, // captures? pass it by rdd.with(value)
        {
            let combine = AggregateWith::new(zero, self.ship(add), self.ship(merge));
            let partitioner = self.rdd().default_partitioner();
            self.rdd().combine_call(CallSite::here("aggregate_by_key"), partitioner, None, combine)
        }

        /// The general form: makes a combiner of a key's first value, adds values, merges combiners.
        #[track_caller]
        pub fn combine_by_key<C, F, G, H>(&self, create: F, add: G, merge: H) -> Rdd<(K, C)>
        where
            K: Key,
            C: Data,
            F: Fn($($env,)? V) -> C + Closure, // captures? pass it by rdd.with(value)
            G: Fn($($env,)? C, V) -> C + Closure, // captures? pass it by rdd.with(value)
            H: Fn($($env,)? C, C) -> C + Closure, // captures? pass it by rdd.with(value)
        {
            let combine =
                CombineWith::new(self.ship(create), self.ship(add), self.ship(merge));
            let partitioner = self.rdd().default_partitioner();
            self.rdd().combine_call(CallSite::here("combine_by_key"), partitioner, None, combine)
        }

        /// [`Rdd::combine_by_key`] into these partitions.
        #[track_caller]
        pub fn combine_by_key_into<C, F, G, H>(
            &self,
            partitions: impl IntoPartitioner<K>,
            create: F,
            add: G,
            merge: H,
        ) -> Rdd<(K, C)>
        where
            K: Key,
            C: Data,
            F: Fn($($env,)? V) -> C + Closure, // captures? pass it by rdd.with(value)
            G: Fn($($env,)? C, V) -> C + Closure, // captures? pass it by rdd.with(value)
            H: Fn($($env,)? C, C) -> C + Closure, // captures? pass it by rdd.with(value)
        {
            let site = CallSite::here("combine_by_key_into");
            let combine =
                CombineWith::new(self.ship(create), self.ship(add), self.ship(merge));
            let (partitioner, defect) = resolve(&site, partitions);
            self.rdd().combine_call(site, partitioner, defect, combine)
        }

        /// The values of each key folded into one, as a map on the driver.
        #[track_caller]
        pub fn reduce_by_key_locally<F>(&self, f: F) -> Result<HashMap<K, V>>
        where
            K: Key,
            V: Data,
            F: Fn($($env,)? V, V) -> V + Closure, // captures? pass it by rdd.with(value)
        {
            self.reduce_by_key(f).collect_as_map()
        }
    };
}

impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>> Rdd<(K, V), P> {
    adapters!(plain);
}

impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>, E: Data> With<(K, V), P, E> {
    adapters!(shared, &E);
}

impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>> Rdd<(K, V), P> {
    pub(crate) fn map_values_call<U: 'static, C: Call<(V,), U>>(
        &self,
        site: CallSite,
        f: C,
    ) -> Rdd<(K, U), Map<Arc<P>, OnValue<C>, (K, U)>> {
        let node = self.derive("MapPartitionsRDD", site).partitioned_as(self);
        node.into_rdd(Map::new(self.pipe.clone(), OnValue(f)))
    }

    pub(crate) fn flat_map_values_call<I, C>(
        &self,
        site: CallSite,
        f: C,
    ) -> Rdd<(K, I::Item), FlatMap<Arc<P>, OnEachValue<C>, WithKey<K, I>>>
    where
        K: Clone,
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        C: Call<(V,), I>,
    {
        let node = self.derive("MapPartitionsRDD", site).partitioned_as(self);
        node.into_rdd(FlatMap::new(self.pipe.clone(), OnEachValue(f)))
    }

    /// The key of each pair; the result has no partitioner.
    #[track_caller]
    pub fn keys(&self) -> Rdd<K, impl Pipe<Item = K> + use<K, V, P>> {
        self.map_call(CallSite::here("keys"), Pure::new(|(key, _)| key))
    }

    /// The value of each pair; the result has no partitioner.
    #[track_caller]
    pub fn values(&self) -> Rdd<V, impl Pipe<Item = V> + use<K, V, P>> {
        self.map_call(CallSite::here("values"), Pure::new(|(_, value)| value))
    }

    /// Each pair with its key's fraction of being chosen; keys without a fraction are left out.
    #[track_caller]
    pub fn sample_by_key(
        &self,
        with_replacement: bool,
        fractions: impl IntoIterator<Item = (K, f64)>,
        seed: u64,
    ) -> Rdd<(K, V), SampleByKey<Arc<P>, K>>
    where
        K: Key + Clone,
        V: Clone,
    {
        let site = CallSite::here("sample_by_key");
        let fractions: Vec<(K, f64)> = fractions.into_iter().collect();
        let highest = if with_replacement { f64::INFINITY } else { 1.0 };
        let wrong = fractions.iter().find(|(_, f)| !f.is_finite() || !(0.0..=highest).contains(f));
        let node = self.derive("PartitionwiseSampledRDD", site).partitioned_as(self);
        let mut node = node.order_sensitive();
        if let Some((_, fraction)) = wrong {
            let reason = format!("each fraction must lie between 0 and {highest}: {fraction}");
            node.set_defect(Error::invalid(&site, reason));
        }
        node.into_rdd(SampleByKey::new(self.pipe.clone(), fractions, with_replacement, seed))
    }
}

/// Grouping and placing by key.
impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>> Rdd<(K, V), P> {
    /// Without a shuffle where each key's values are in one partition already.
    pub(crate) fn combine_call<C: Data, M: Combine<V, C>>(
        &self,
        site: CallSite,
        partitioner: AnyPartitioner<K>,
        defect: Option<Error>,
        combine: M,
    ) -> Rdd<(K, C)>
    where
        K: Key,
    {
        if defect.is_none() && self.info.partitioner.as_ref() == Some(partitioner.id()) {
            let node = self.derive("MapPartitionsRDD", site).partitioned_as(self).reordering();
            return node.into_boxed(CombineValues::new(self.pipe.clone(), combine));
        }
        let readers = partitioner.partitions();
        let writer = Combined::<K, V, C, M>::new(partitioner.clone(), combine.clone());
        let (mut node, records) = self.shuffled::<(K, C)>("ShuffledRDD", site, writer, readers);
        if let Some(defect) = defect {
            node.set_defect(defect);
        }
        let merged = MergeCombiners::<_, _, V>::new(records, combine);
        node.reordering().partitioned_by(&partitioner).into_boxed(merged)
    }

    /// All values of each key. All of one key's values must fit into memory: to fold them, use
    /// [`Rdd::reduce_by_key`] or [`Rdd::aggregate_by_key`].
    #[track_caller]
    pub fn group_by_key(&self) -> Rdd<(K, Vec<V>)>
    where
        K: Key,
        V: Data,
    {
        self.group_call(CallSite::here("group_by_key"), self.default_partitioner(), None)
    }

    /// [`Rdd::group_by_key`] into these partitions.
    #[track_caller]
    pub fn group_by_key_into(&self, partitions: impl IntoPartitioner<K>) -> Rdd<(K, Vec<V>)>
    where
        K: Key,
        V: Data,
    {
        let site = CallSite::here("group_by_key_into");
        let (partitioner, defect) = resolve(&site, partitions);
        self.group_call(site, partitioner, defect)
    }

    pub(super) fn group_call(
        &self,
        site: CallSite,
        partitioner: AnyPartitioner<K>,
        defect: Option<Error>,
    ) -> Rdd<(K, Vec<V>)>
    where
        K: Key,
        V: Data,
    {
        let placed = self.place(site, partitioner, defect);
        let node = placed.derive("MapPartitionsRDD", site).partitioned_as(&placed);
        node.order_sensitive().reordering().into_boxed(Group::new(placed.pipe.clone()))
    }

    pub(super) fn default_partitioner(&self) -> AnyPartitioner<K>
    where
        K: Key,
    {
        default_partitioner(&self.context, vec![self.side()])
    }

    /// The pairs where `partitions` says, by a shuffle unless they are there already.
    #[track_caller]
    pub fn partition_by(&self, partitions: impl IntoPartitioner<K>) -> Rdd<(K, V)>
    where
        K: Key,
        V: Data,
    {
        let site = CallSite::here("partition_by");
        let (partitioner, defect) = resolve(&site, partitions);
        self.place(site, partitioner, defect)
    }

    pub(super) fn place(
        &self,
        site: CallSite,
        partitioner: AnyPartitioner<K>,
        defect: Option<Error>,
    ) -> Rdd<(K, V)>
    where
        K: Key,
        V: Data,
    {
        if defect.is_none() && self.info.partitioner.as_ref() == Some(partitioner.id()) {
            return self.boxed();
        }
        let readers = partitioner.partitions();
        let writer = ByKey::new(partitioner.clone());
        let (mut node, records) = self.shuffled::<(K, V)>("ShuffledRDD", site, writer, readers);
        if let Some(defect) = defect {
            node.set_defect(defect);
        }
        node.partitioned_by(&partitioner).into_boxed(records)
    }

    /// [`Rdd::partition_by`], and each partition sorted by key.
    #[track_caller]
    pub fn repartition_and_sort_within_partitions(
        &self,
        partitions: impl IntoPartitioner<K>,
    ) -> Rdd<(K, V)>
    where
        K: Key + Ord,
        V: Data,
    {
        let site = CallSite::here("repartition_and_sort_within_partitions");
        let (partitioner, defect) = resolve(&site, partitions);
        let placed = self.place(site, partitioner, defect);
        let node = placed.derive("MapPartitionsRDD", site).partitioned_as(&placed);
        node.into_boxed(SortBy::new(placed.pipe.clone(), FirstOfPair, false))
    }

    /// The values of one key. Reads one partition only, where keys are partitioned.
    #[track_caller]
    pub fn lookup(&self, key: &K) -> Result<Vec<V>>
    where
        K: Key + Clone,
        V: Data,
    {
        let site = CallSite::here("lookup");
        let partitions = match self.lookup_partition(&site, key)? {
            Some(partition) => vec![partition],
            None => (0..self.info.partitions).collect(),
        };
        let found = self.with(key.clone()).filter(|key, (k, _)| k == key);
        let values = found.map_call(site, Pure::new(|(_, value): (K, V)| value));
        let parts: Result<Vec<Vec<V>>> = values.run(site, partitions, Collect)?.collect();
        Ok(parts?.into_iter().flatten().collect())
    }

    /// Where the key is, if partitions are known; sampled bounds are found first.
    fn lookup_partition(&self, site: &CallSite, key: &K) -> Result<Option<u32>>
    where
        K: Key,
    {
        let Some(partitioner) = self.key_partitioner() else { return Ok(None) };
        super::graph::prepare(&self.info)?;
        on_driver(site, || {
            partitioner.find(key).map(Some).map_err(|reason| Error::invalid(site, reason))
        })
    }

    /// How many pairs each key has, counted by tasks. For more keys than the driver can hold, use
    /// `map_values(|_| 1).reduce_by_key(...)`.
    #[track_caller]
    pub fn count_by_key(&self) -> Result<HashMap<K, u64>>
    where
        K: Key,
    {
        let site = CallSite::here("count_by_key");
        self.map_values_call(site, Pure::new(|_| 1u64)).counts(site)
    }

    /// All pairs as a map; of several values of a key, the last stays.
    #[track_caller]
    pub fn collect_as_map(&self) -> Result<HashMap<K, V>>
    where
        K: Key,
        V: Data,
    {
        self.as_map(CallSite::here("collect_as_map"))
    }

    fn as_map(&self, site: CallSite) -> Result<HashMap<K, V>>
    where
        K: Key,
        V: Data,
    {
        on_driver(&site, || {
            let mut map = HashMap::new();
            for part in self.run_all(site, Collect)? {
                map.extend(part?);
            }
            Ok(map)
        })
    }
}

impl<K: Key, P: Pipe<Item = (K, u64)>> Rdd<(K, u64), P> {
    /// The sums by key: each key comes to the driver once.
    pub(super) fn counts(&self, site: CallSite) -> Result<HashMap<K, u64>> {
        let add = ReduceWith(Pure::new(|a: u64, b: u64| a + b));
        self.combine_call(site, self.default_partitioner(), None, add).as_map(site)
    }
}

/// Sorting by key.
impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>> Rdd<(K, V), P> {
    /// The pairs sorted by key over all partitions, ascending. Stable.
    #[track_caller]
    pub fn sort_by_key(&self) -> Rdd<(K, V)>
    where
        K: SortKey,
        V: Data,
    {
        self.sort_key_call(CallSite::here("sort_by_key"), self.sort_partitions(), false)
    }

    /// The pairs sorted by key over all partitions, descending. Stable.
    #[track_caller]
    pub fn sort_by_key_desc(&self) -> Rdd<(K, V)>
    where
        K: SortKey,
        V: Data,
    {
        self.sort_key_call(CallSite::here("sort_by_key_desc"), self.sort_partitions(), true)
    }

    /// [`Rdd::sort_by_key`] into this many partitions.
    #[track_caller]
    pub fn sort_by_key_into(&self, partitions: usize) -> Rdd<(K, V)>
    where
        K: SortKey,
        V: Data,
    {
        self.sort_key_call(CallSite::here("sort_by_key_into"), partitions, false)
    }

    /// The pairs in ranges of the key, so that each partition's keys lie above those before it; not
    /// sorted within partitions. Bounds are sampled by a job when the first job needs them.
    #[track_caller]
    pub fn partition_by_range(&self, partitions: usize) -> Rdd<(K, V)>
    where
        K: SortKey,
        V: Data,
    {
        let site = CallSite::here("partition_by_range");
        let (node, records, partitioner) =
            self.range_shuffled::<K, _>(site, FirstOfPair, partitions, false);
        node.partitioned_by(&partitioner).into_boxed(records)
    }

    fn sort_key_call(&self, site: CallSite, partitions: usize, descending: bool) -> Rdd<(K, V)>
    where
        K: SortKey,
        V: Data,
    {
        let (node, records, partitioner) =
            self.range_shuffled::<K, _>(site, FirstOfPair, partitions, descending);
        let node = node.partitioned_by(&partitioner);
        node.into_boxed(SortBy::<_, _, K>::new(records, FirstOfPair, descending))
    }
}
