//! Two sides brought together by key, in partitions that hold all of a key's pairs of both sides.
//!
//! A join keeps one side in a hash map and streams the other past it; cogroup keeps both.

use std::hash::Hash;
use std::sync::Arc;

use firesteel_closure::{Wire, wire};

use crate::aggregate::group;
use crate::{FixedMap, Pipe, TaskContext};

macro_rules! two_sided {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<P, Q> {
            left: P,
            right: Q,
        }

        impl<P, Q> $name<P, Q> {
            /// Of these two sides.
            pub fn new(left: P, right: Q) -> Self {
                $name { left, right }
            }
        }

        wire!([P: Wire, Q: Wire] $name<P, Q> { left, right });
    };
}

two_sided!(
    /// `join`: streams the left side past a table of the right.
    InnerJoin
);
two_sided!(
    /// `left_outer_join`: streams the left side past a table of the right.
    LeftOuterJoin
);
two_sided!(
    /// `right_outer_join`: streams the right side past a table of the left.
    RightOuterJoin
);
two_sided!(
    /// `cogroup`: all values of both sides for each key.
    CoGroup
);
two_sided!(
    /// `subtract_by_key`: the left pairs whose key the right side does not have.
    SubtractByKey
);

/// The values kept for a key, paired with one streamed value.
fn matches<K: Clone, V: Clone, W: Clone, U>(
    key: K,
    value: V,
    kept: Option<Arc<Vec<W>>>,
    pair: fn(V, W) -> U,
) -> impl Iterator<Item = (K, U)> {
    kept.into_iter().flat_map(move |kept| {
        let (key, value) = (key.clone(), value.clone());
        (0..kept.len()).map(move |i| (key.clone(), pair(value.clone(), kept[i].clone())))
    })
}

fn table<K: Hash + Eq, V>(items: impl Iterator<Item = (K, V)>) -> FixedMap<K, Arc<Vec<V>>> {
    group(items).into_iter().map(|(key, values)| (key, Arc::new(values))).collect()
}

impl<K, V, W, P, Q> Pipe for InnerJoin<P, Q>
where
    K: Hash + Eq + Clone + 'static,
    V: Clone + 'static,
    W: Clone + 'static,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (V, W));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let right = table(self.right.compute(partition, task));
        self.left.compute(partition, task).flat_map(move |(key, value)| {
            let kept = right.get(&key).cloned();
            matches(key, value, kept, |v, w| (v, w))
        })
    }
}

impl<K, V, W, P, Q> Pipe for LeftOuterJoin<P, Q>
where
    K: Hash + Eq + Clone + 'static,
    V: Clone + 'static,
    W: Clone + 'static,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (V, Option<W>));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let right = table(self.right.compute(partition, task).map(|(k, w)| (k, Some(w))));
        let nothing = Arc::new(vec![None]);
        self.left.compute(partition, task).flat_map(move |(key, value)| {
            let kept = right.get(&key).unwrap_or(&nothing).clone();
            matches(key, value, Some(kept), |v, w| (v, w))
        })
    }
}

impl<K, V, W, P, Q> Pipe for RightOuterJoin<P, Q>
where
    K: Hash + Eq + Clone + 'static,
    V: Clone + 'static,
    W: Clone + 'static,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (Option<V>, W));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let left = table(self.left.compute(partition, task).map(|(k, v)| (k, Some(v))));
        let nothing = Arc::new(vec![None]);
        self.right.compute(partition, task).flat_map(move |(key, value)| {
            let kept = left.get(&key).unwrap_or(&nothing).clone();
            matches(key, value, Some(kept), |w, v| (v, w))
        })
    }
}

impl<K, V, W, P, Q> Pipe for CoGroup<P, Q>
where
    K: Hash + Eq + 'static,
    V: 'static,
    W: 'static,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, (Vec<V>, Vec<W>));

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let mut groups: FixedMap<K, (Vec<V>, Vec<W>)> = FixedMap::default();
        self.left
            .compute(partition, task)
            .for_each(|(key, value)| groups.entry(key).or_default().0.push(value));
        self.right
            .compute(partition, task)
            .for_each(|(key, value)| groups.entry(key).or_default().1.push(value));
        task.interruptible(groups.into_iter())
    }
}

impl<K, V, W, P, Q> Pipe for SubtractByKey<P, Q>
where
    K: Hash + Eq + 'static,
    V: 'static,
    W: 'static,
    P: Pipe<Item = (K, V)>,
    Q: Pipe<Item = (K, W)>,
{
    type Item = (K, V);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = Self::Item> + use<K, V, W, P, Q> + 'static {
        let right: FixedMap<K, ()> =
            self.right.compute(partition, task).map(|(key, _)| (key, ())).collect();
        self.left.compute(partition, task).filter(move |(key, _)| !right.contains_key(key))
    }
}
