//! Transformations that move items between partitions, of items that are not pairs.

use firesteel_closure::{Closure, Data, Pure};
use firesteel_rdd::aggregate::ReduceWith;
use firesteel_rdd::join::SubtractByKey;
use firesteel_rdd::key::{BorrowedKey, ComputedKey, KeyOf, WholeItem};
use firesteel_rdd::narrow::Keyed;
use firesteel_rdd::reshape::Union;
use firesteel_rdd::sort::SortBy;
use firesteel_rdd::wide::{ByContent, RoundRobin};
use firesteel_rdd::{AnyPartitioner, Boxed, Pipe};
use firesteel_shuffle::Compared;
use firesteel_types::{CallSite, Determinism, NarrowMapping};

use super::graph::{Node, extras};
use super::keys::{Key, SortKey};
use super::partitioning::{IntoPartitioner, default_partitioner, resolve};
use crate::{Context, Error, Rdd, With};

/// The partitions of several RDDs, one after the other. Of a union, those of its own parents: a loop of unions is as deep
/// as one.
pub(crate) fn union_at<T: 'static>(context: &Context, site: CallSite, rdds: &[Rdd<T>]) -> Rdd<T> {
    let mut node = Node::new(context, "UnionRDD", site);
    let rdds: Vec<Rdd<T>> = rdds.iter().flat_map(united).collect();
    let mut parents = Vec::with_capacity(rdds.len());
    let mut next = 0;
    for rdd in &rdds {
        let len = rdd.info.partitions;
        node = node.narrow(&rdd.info, NarrowMapping::Range { start: next, len });
        next += len;
        parents.push((Boxed::clone(&rdd.pipe), len));
    }
    node.with_partitions(next).uniting(rdds).into_boxed(Union::new(parents))
}

/// What an RDD is the union of; itself if it is none, or one that no job can use.
fn united<T: 'static>(rdd: &Rdd<T>) -> Vec<Rdd<T>> {
    let extras = extras(&rdd.info).filter(|extras| extras.defect.is_none());
    let united = extras.and_then(|extras| extras.united.as_ref()?.downcast_ref::<Vec<Rdd<T>>>());
    united.cloned().unwrap_or_else(|| vec![rdd.clone()])
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// The items of both. Duplicates stay; see [`Rdd::distinct`].
    #[track_caller]
    pub fn union<Q: Pipe<Item = T>>(&self, other: &Rdd<T, Q>) -> Rdd<T> {
        union_at(&self.context, CallSite::here("union"), &[self.boxed(), other.boxed()])
    }
}

/// The wide adapters that take a closure, for [`Rdd`] and for [`With`]: there the closure's first argument is `$env`.
macro_rules! adapters {
    ($($env:ty)?) => {
        /// The items sorted by a key, over all partitions, ascending. Stable. The key is computed once per item and
        /// kept beside it: for a key that lies in the item, such as a name, use [`Rdd::sort_by_ref`].
        #[track_caller]
        pub fn sort_by<K, F>(&self, key: F) -> Rdd<T>
        where
            T: Data,
            K: SortKey,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            let (key, partitions) = (ComputedKey::new(self.ship(key)), self.rdd().sort_partitions());
            self.rdd().sort_call::<K, _>(CallSite::here("sort_by"), key, partitions, false)
        }

        /// [`Rdd::sort_by`], descending.
        #[track_caller]
        pub fn sort_by_desc<K, F>(&self, key: F) -> Rdd<T>
        where
            T: Data,
            K: SortKey,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            let (key, partitions) = (ComputedKey::new(self.ship(key)), self.rdd().sort_partitions());
            self.rdd().sort_call::<K, _>(CallSite::here("sort_by_desc"), key, partitions, true)
        }

        /// [`Rdd::sort_by`] into this many partitions.
        #[track_caller]
        pub fn sort_by_into<K, F>(&self, partitions: usize, key: F) -> Rdd<T>
        where
            T: Data,
            K: SortKey,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            let (site, key) = (CallSite::here("sort_by_into"), ComputedKey::new(self.ship(key)));
            self.rdd().sort_call::<K, _>(site, key, partitions, false)
        }

        /// [`Rdd::sort_by`] for a key that lies in the item: nothing is copied.
        /// `people.sort_by_ref(|person| &person.name)`
        #[track_caller]
        pub fn sort_by_ref<K, F>(&self, key: F) -> Rdd<T>
        where
            T: Data,
            K: SortKey,
            F: for<'a> Fn($($env,)? &'a T) -> &'a K + Closure, // captures? pass it by rdd.with(value)
        {
            let (key, partitions) = (BorrowedKey::new(self.ship(key)), self.rdd().sort_partitions());
            self.rdd().sort_call::<K, _>(CallSite::here("sort_by_ref"), key, partitions, false)
        }

        /// [`Rdd::sort_by_ref`], descending.
        #[track_caller]
        pub fn sort_by_ref_desc<K, F>(&self, key: F) -> Rdd<T>
        where
            T: Data,
            K: SortKey,
            F: for<'a> Fn($($env,)? &'a T) -> &'a K + Closure, // captures? pass it by rdd.with(value)
        {
            let (key, partitions) = (BorrowedKey::new(self.ship(key)), self.rdd().sort_partitions());
            self.rdd().sort_call::<K, _>(CallSite::here("sort_by_ref_desc"), key, partitions, true)
        }

        /// The items under each key that `f` finds in them.
        #[track_caller]
        pub fn group_by<K, F>(&self, f: F) -> Rdd<(K, Vec<T>)>
        where
            T: Data,
            K: Key,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            let site = CallSite::here("group_by");
            let keyed = self.rdd().map_call(site, Keyed(self.ship(f)));
            let partitioner = default_partitioner(&self.rdd().context, vec![keyed.side()]);
            keyed.group_call(site, partitioner, None)
        }
    };
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    adapters!();

    pub(super) fn sort_partitions(&self) -> usize {
        self.info.partitions.max(1) as usize
    }

    pub(super) fn sort_call<K, F>(
        &self,
        site: CallSite,
        key: F,
        partitions: usize,
        descending: bool,
    ) -> Rdd<T>
    where
        T: Data,
        K: SortKey,
        F: KeyOf<T, K>,
    {
        let (node, records, _) =
            self.range_shuffled::<K, F>(site, key.clone(), partitions, descending);
        node.into_boxed(SortBy::<_, _, K>::new(records, key, descending))
    }
}

impl<T: 'static, P: Pipe<Item = T>, E: Data> With<T, P, E> {
    adapters!(&E);
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
            Determinism::Determinate => {
                self.read_through_compared(node, RoundRobin, readers, Compared::Nothing)
            }
            _ => self.read_through_compared(node, ByContent, readers, Compared::Records),
        };
        node.into_boxed(records)
    }

    /// The items sorted by themselves, over all partitions, ascending. Stable.
    #[track_caller]
    pub fn sort(&self) -> Rdd<T>
    where
        T: SortKey,
    {
        self.sort_call(CallSite::here("sort"), WholeItem, self.sort_partitions(), false)
    }

    /// [`Rdd::sort`], descending.
    #[track_caller]
    pub fn sort_desc(&self) -> Rdd<T>
    where
        T: SortKey,
    {
        self.sort_call(CallSite::here("sort_desc"), WholeItem, self.sort_partitions(), true)
    }

    /// Every different item once.
    #[track_caller]
    pub fn distinct(&self) -> Rdd<T>
    where
        T: Key,
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
        T: Key,
    {
        let site = CallSite::here("distinct_into");
        let (partitioner, defect) = resolve(&site, partitions);
        self.as_keys(site).distinct_call(site, partitioner, defect)
    }

    /// Every different item that is in both.
    #[track_caller]
    pub fn intersection<Q: Pipe<Item = T>>(&self, other: &Rdd<T, Q>) -> Rdd<T>
    where
        T: Key,
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
        T: Key + Clone,
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

impl<T: Key, P: Pipe<Item = (T, ())>> Rdd<(T, ()), P> {
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
