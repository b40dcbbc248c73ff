//! Joins and cogroups: two RDDs of pairs, brought together by key.

use firesteel_closure::{Data, Pure};
use firesteel_rdd::join::{CoGroup, InnerJoin, LeftOuterJoin, RightOuterJoin, SubtractByKey};
use firesteel_rdd::narrow::{FlatMap, OnEachValue};
use firesteel_rdd::wide::ByKey;
use firesteel_rdd::{AnyPartitioner, Boxed, Pipe};
use firesteel_types::{CallSite, NarrowMapping};

use super::graph::Node;
use super::keys::Key;
use super::partitioning::{IntoPartitioner, default_partitioner, resolve};
use crate::{Error, Rdd};

impl<K: 'static, V: 'static, P: Pipe<Item = (K, V)>> Rdd<(K, V), P> {
    /// All pairs of values with a common key. The values of `other` in a partition are kept in
    /// memory: put the smaller side there.
    #[track_caller]
    pub fn join<W, Q>(&self, other: &Rdd<(K, W), Q>) -> Rdd<(K, (V, W))>
    where
        K: Key + Clone,
        V: Data + Clone,
        W: Data + Clone,
        Q: Pipe<Item = (K, W)>,
    {
        let partitioner = self.common_partitioner(other);
        self.two_sided(CallSite::here("join"), other, partitioner, InnerJoin::new)
    }

    /// [`Rdd::join`] into these partitions.
    #[track_caller]
    pub fn join_into<W, Q>(
        &self,
        partitions: impl IntoPartitioner<K>,
        other: &Rdd<(K, W), Q>,
    ) -> Rdd<(K, (V, W))>
    where
        K: Key + Clone,
        V: Data + Clone,
        W: Data + Clone,
        Q: Pipe<Item = (K, W)>,
    {
        let site = CallSite::here("join_into");
        let (partitioner, defect) = resolve(&site, partitions);
        self.two_sided_or(site, other, partitioner, defect, InnerJoin::new)
    }

    /// [`Rdd::join`], and every pair of this side that has no partner, with `None`.
    #[track_caller]
    pub fn left_outer_join<W, Q>(&self, other: &Rdd<(K, W), Q>) -> Rdd<(K, (V, Option<W>))>
    where
        K: Key + Clone,
        V: Data + Clone,
        W: Data + Clone,
        Q: Pipe<Item = (K, W)>,
    {
        let partitioner = self.common_partitioner(other);
        self.two_sided(CallSite::here("left_outer_join"), other, partitioner, LeftOuterJoin::new)
    }

    /// [`Rdd::join`], and every pair of the other side that has no partner, with `None`.
    #[track_caller]
    pub fn right_outer_join<W, Q>(&self, other: &Rdd<(K, W), Q>) -> Rdd<(K, (Option<V>, W))>
    where
        K: Key + Clone,
        V: Data + Clone,
        W: Data + Clone,
        Q: Pipe<Item = (K, W)>,
    {
        let partitioner = self.common_partitioner(other);
        self.two_sided(CallSite::here("right_outer_join"), other, partitioner, RightOuterJoin::new)
    }

    /// [`Rdd::join`], and every pair of either side that has no partner, with `None`.
    #[track_caller]
    pub fn full_outer_join<W, Q>(&self, other: &Rdd<(K, W), Q>) -> Rdd<(K, (Option<V>, Option<W>))>
    where
        K: Key + Clone,
        V: Data + Clone,
        W: Data + Clone,
        Q: Pipe<Item = (K, W)>,
    {
        let site = CallSite::here("full_outer_join");
        let partitioner = self.common_partitioner(other);
        let groups = self.cogrouped(site, other, partitioner, None);
        let node = groups.derive("MapPartitionsRDD", site).partitioned_as(&groups);
        let pairs = OnEachValue(Pure::new(full_outer::<V, W>));
        node.into_boxed(FlatMap::new(groups.pipe.clone(), pairs))
    }

    /// For each key of either side, all values of both.
    #[track_caller]
    pub fn cogroup<W, Q>(&self, other: &Rdd<(K, W), Q>) -> Rdd<(K, (Vec<V>, Vec<W>))>
    where
        K: Key,
        V: Data,
        W: Data,
        Q: Pipe<Item = (K, W)>,
    {
        let partitioner = self.common_partitioner(other);
        self.cogrouped(CallSite::here("cogroup"), other, partitioner, None)
    }

    /// [`Rdd::cogroup`] into these partitions.
    #[track_caller]
    pub fn cogroup_into<W, Q>(
        &self,
        partitions: impl IntoPartitioner<K>,
        other: &Rdd<(K, W), Q>,
    ) -> Rdd<(K, (Vec<V>, Vec<W>))>
    where
        K: Key,
        V: Data,
        W: Data,
        Q: Pipe<Item = (K, W)>,
    {
        let site = CallSite::here("cogroup_into");
        let (partitioner, defect) = resolve(&site, partitions);
        self.cogrouped(site, other, partitioner, defect)
    }

    /// The pairs whose key `other` does not have.
    #[track_caller]
    pub fn subtract_by_key<W, Q>(&self, other: &Rdd<(K, W), Q>) -> Rdd<(K, V)>
    where
        K: Key + Clone,
        V: Data + Clone,
        W: Data,
        Q: Pipe<Item = (K, W)>,
    {
        let partitioner = self.common_partitioner(other);
        self.two_sided(CallSite::here("subtract_by_key"), other, partitioner, SubtractByKey::new)
    }

    fn common_partitioner<W: 'static, Q: Pipe<Item = (K, W)>>(
        &self,
        other: &Rdd<(K, W), Q>,
    ) -> AnyPartitioner<K>
    where
        K: Key,
    {
        default_partitioner(&self.context, vec![self.side(), other.side()])
    }

    pub(super) fn two_sided<W, Q, U, J>(
        &self,
        site: CallSite,
        other: &Rdd<(K, W), Q>,
        partitioner: AnyPartitioner<K>,
        join: fn(Boxed<(K, V)>, Boxed<(K, W)>) -> J,
    ) -> Rdd<(K, U)>
    where
        K: Key,
        V: Data,
        W: Data,
        Q: Pipe<Item = (K, W)>,
        U: 'static,
        J: Pipe<Item = (K, U)>,
    {
        self.two_sided_or(site, other, partitioner, None, join)
    }

    /// Brings both sides together: each through a shuffle, or as it is where it is partitioned so.
    fn two_sided_or<W, Q, U, J>(
        &self,
        site: CallSite,
        other: &Rdd<(K, W), Q>,
        partitioner: AnyPartitioner<K>,
        defect: Option<Error>,
        join: fn(Boxed<(K, V)>, Boxed<(K, W)>) -> J,
    ) -> Rdd<(K, U)>
    where
        K: Key,
        V: Data,
        W: Data,
        Q: Pipe<Item = (K, W)>,
        U: 'static,
        J: Pipe<Item = (K, U)>,
    {
        let (node, left, right) = self.bring_together(site, other, &partitioner, defect);
        node.partitioned_by(&partitioner).into_boxed(join(left, right))
    }

    /// The values of both sides under each key: in an order that is part of what comes out.
    pub(super) fn cogrouped<W, Q>(
        &self,
        site: CallSite,
        other: &Rdd<(K, W), Q>,
        partitioner: AnyPartitioner<K>,
        defect: Option<Error>,
    ) -> Rdd<(K, (Vec<V>, Vec<W>))>
    where
        K: Key,
        V: Data,
        W: Data,
        Q: Pipe<Item = (K, W)>,
    {
        let (node, left, right) = self.bring_together(site, other, &partitioner, defect);
        let node = node.order_sensitive().reordering().partitioned_by(&partitioner);
        node.into_boxed(CoGroup::new(left, right))
    }

    fn bring_together<W, Q>(
        &self,
        site: CallSite,
        other: &Rdd<(K, W), Q>,
        partitioner: &AnyPartitioner<K>,
        defect: Option<Error>,
    ) -> (Node, Boxed<(K, V)>, Boxed<(K, W)>)
    where
        K: Key,
        V: Data,
        W: Data,
        Q: Pipe<Item = (K, W)>,
    {
        let node = Node::new(&self.context, "CoGroupedRDD", site);
        let node = node.with_partitions(partitioner.partitions());
        let (node, left) = self.read_by(node, partitioner);
        let (mut node, right) = other.read_by(node, partitioner);
        if let Some(defect) = defect {
            node.set_defect(defect);
        }
        (node.reordering(), left, right)
    }

    fn read_by(&self, node: Node, partitioner: &AnyPartitioner<K>) -> (Node, Boxed<(K, V)>)
    where
        K: Key,
        V: Data,
    {
        if self.info.partitioner.as_ref() == Some(partitioner.id()) {
            let node = node.narrow(&self.info, NarrowMapping::OneToOne);
            return (node, Boxed::new(self.pipe.clone()));
        }
        let writer = ByKey::new(partitioner.clone());
        let (node, records) =
            self.read_through_shuffle::<(K, V)>(node, writer, partitioner.partitions());
        (node, Boxed::new(records))
    }
}

fn full_outer<V: Clone, W: Clone>((left, right): (Vec<V>, Vec<W>)) -> Outer<V, W> {
    fn or_none<T>(side: Vec<T>) -> Vec<Option<T>> {
        if side.is_empty() { vec![None] } else { side.into_iter().map(Some).collect() }
    }
    Outer { left: or_none(left), right: or_none(right), next: 0 }
}

/// Both sides of a full outer join, pair by pair, none kept; a missing side is `None`.
struct Outer<V, W> {
    left: Vec<Option<V>>,
    right: Vec<Option<W>>,
    next: usize,
}

impl<V: Clone, W: Clone> Iterator for Outer<V, W> {
    type Item = (Option<V>, Option<W>);

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.get(self.next / self.right.len())?.clone();
        let right = self.right[self.next % self.right.len()].clone();
        self.next += 1;
        Some((left, right))
    }
}
