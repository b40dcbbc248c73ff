//! Transformations that move items between partitions, of items that are not pairs.

use std::hash::Hash;

use firesteel_closure::{Call, Data, Pure};
use firesteel_rdd::aggregate::ReduceWith;
use firesteel_rdd::join::SubtractByKey;
use firesteel_rdd::reshape::Union;
use firesteel_rdd::sort::SortBy;
use firesteel_rdd::wide::{ByContent, RoundRobin};
use firesteel_rdd::{AnyPartitioner, Boxed, Pipe};
use firesteel_types::{CallSite, Determinism, NarrowMapping};

use super::graph::Node;
use super::partitioning::{IntoPartitioner, default_partitioner, resolve};
use crate::{Context, Error, Rdd};

/// The partitions of several RDDs, one after the other.
pub(crate) fn union_at<T: 'static>(context: &Context, site: CallSite, rdds: &[Rdd<T>]) -> Rdd<T> {
    let mut node = Node::new(context, "UnionRDD", site);
    let mut parents = Vec::with_capacity(rdds.len());
    let mut next = 0;
    for rdd in rdds {
        let len = rdd.info.partitions;
        node = node.narrow(&rdd.info, NarrowMapping::Range { start: next, len });
        next += len;
        parents.push((Boxed::clone(&rdd.pipe), len));
    }
    node.with_partitions(next).into_rdd(Union::new(parents)).boxed()
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// The items of both. Duplicates stay; see [`Rdd::distinct`].
    #[track_caller]
    pub fn union<Q: Pipe<Item = T>>(&self, other: &Rdd<T, Q>) -> Rdd<T> {
        union_at(&self.context, CallSite::here("union"), &[self.boxed(), other.boxed()])
    }
}

impl<T: Data, P: Pipe<Item = T>> Rdd<T, P> {
    /// The items distributed evenly over this many partitions, by a shuffle. Where the order of the items may
    /// change when they are computed again (after `reduce_by_key`, `map_partitions` and the like) they are
    /// distributed by what they hold: about evenly, as far as they differ.
    #[track_caller]
    pub fn repartition(&self, partitions: usize) -> Rdd<T> {
        let site = CallSite::here("repartition");
        let node = Node::new(&self.context, "ShuffledRDD", site).partition_count(partitions);
        let readers = node.partitions;
        let (node, records) = match self.info.determinism() {
            Determinism::Determinate => self.read_through_checked(node, RoundRobin, readers, false),
            _ => self.read_through_checked(node, ByContent, readers, true),
        };
        node.into_rdd(records).boxed()
    }

    /// The items sorted by a key, over all partitions, ascending. Stable.
    #[track_caller]
    pub fn sort_by<K, F>(&self, key: F) -> Rdd<T>
    where
        K: Data + Ord + Clone,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).sort_by(|value, x| ...)
    {
        let site = CallSite::here("sort_by");
        self.sort_call(site, Pure::new(key), self.sort_partitions(), false)
    }

    /// The items sorted by a key, descending. Stable.
    #[track_caller]
    pub fn sort_by_desc<K, F>(&self, key: F) -> Rdd<T>
    where
        K: Data + Ord + Clone,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).sort_by_desc(|value, x| ...)
    {
        let site = CallSite::here("sort_by_desc");
        self.sort_call(site, Pure::new(key), self.sort_partitions(), true)
    }

    /// [`Rdd::sort_by`] into this many partitions.
    #[track_caller]
    pub fn sort_by_into<K, F>(&self, partitions: usize, key: F) -> Rdd<T>
    where
        K: Data + Ord + Clone,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into the items first
    {
        self.sort_call(CallSite::here("sort_by_into"), Pure::new(key), partitions, false)
    }

    pub(super) fn sort_partitions(&self) -> usize {
        self.info.partitions.max(1) as usize
    }

    pub(super) fn sort_call<K, C>(
        &self,
        site: CallSite,
        key: C,
        partitions: usize,
        descending: bool,
    ) -> Rdd<T>
    where
        K: Data + Ord + Clone,
        C: for<'a> Call<(&'a T,), K>,
    {
        let (node, records, _) =
            self.range_shuffled::<K, C>(site, key.clone(), partitions, descending);
        node.into_rdd(SortBy::<_, _, K>::new(records, key, descending)).boxed()
    }

    /// The items under each key that `f` finds in them.
    #[track_caller]
    pub fn group_by<K, F>(&self, f: F) -> Rdd<(K, Vec<T>)>
    where
        K: Data + Hash + Eq,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).group_by(|value, x| ...)
    {
        let site = CallSite::here("group_by");
        let keyed = self.map_call(site, firesteel_rdd::narrow::Keyed(Pure::new(f)));
        let partitioner = default_partitioner(&self.context, vec![keyed.side()]);
        keyed.group_call(site, partitioner, None)
    }

    /// Every different item once.
    #[track_caller]
    pub fn distinct(&self) -> Rdd<T>
    where
        T: Hash + Eq,
    {
        let site = CallSite::here("distinct");
        let keyed = self.as_keys(site);
        let partitioner = default_partitioner(&self.context, vec![keyed.side()]);
        keyed.distinct_call(site, partitioner, None)
    }

    /// [`Rdd::distinct`] into these partitions.
    #[track_caller]
    pub fn distinct_into(&self, partitions: impl IntoPartitioner<T>) -> Rdd<T>
    where
        T: Hash + Eq,
    {
        let site = CallSite::here("distinct_into");
        let (partitioner, defect) = resolve(&site, partitions);
        self.as_keys(site).distinct_call(site, partitioner, defect)
    }

    /// Every different item that is in both.
    #[track_caller]
    pub fn intersection<Q: Pipe<Item = T>>(&self, other: &Rdd<T, Q>) -> Rdd<T>
    where
        T: Hash + Eq,
    {
        let site = CallSite::here("intersection");
        let (left, right) = (self.as_keys(site), other.as_keys(site));
        let partitioner = default_partitioner(&self.context, vec![left.side(), right.side()]);
        let both = left.cogrouped(site, &right, partitioner, None);
        let found = both.filter_call(
            site,
            Pure::new(|(_, (a, b)): &(T, (Vec<()>, Vec<()>))| !a.is_empty() && !b.is_empty()),
        );
        found.map_call(site, Pure::new(|(item, _)| item)).boxed()
    }

    /// The items that are not in `other`; duplicates stay.
    #[track_caller]
    pub fn subtract<Q: Pipe<Item = T>>(&self, other: &Rdd<T, Q>) -> Rdd<T>
    where
        T: Hash + Eq + Clone,
    {
        let site = CallSite::here("subtract");
        let (left, right) = (self.as_keys(site), other.as_keys(site));
        let partitioner = default_partitioner(&self.context, vec![left.side(), right.side()]);
        let kept = left.two_sided(site, &right, partitioner, SubtractByKey::new);
        kept.map_call(site, Pure::new(|(item, ())| item)).boxed()
    }

    fn as_keys(&self, site: CallSite) -> Rdd<(T, ()), impl Pipe<Item = (T, ())> + use<T, P>> {
        self.map_call(site, Pure::new(|item| (item, ())))
    }
}

impl<T: Data + Hash + Eq, P: Pipe<Item = (T, ())>> Rdd<(T, ()), P> {
    fn distinct_call(
        &self,
        site: CallSite,
        partitioner: AnyPartitioner<T>,
        defect: Option<Error>,
    ) -> Rdd<T> {
        let combine = ReduceWith(Pure::new(|(), ()| ()));
        let once = self.combine_call(site, partitioner, defect, combine);
        once.map_call(site, Pure::new(|(item, ())| item)).boxed()
    }
}
