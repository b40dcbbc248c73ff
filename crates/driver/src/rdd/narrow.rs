//! Transformations of one partition at a time: they fuse with what comes before and after.

use std::fmt::Display;
use std::sync::Arc;

use firesteel_closure::{Call, Closure, Data};
use firesteel_rdd::external::External;
use firesteel_rdd::narrow::{
    Emitter, Filter, FlatMap, FlatMapTo, Glom, IgnoreIndex, Keyed, Map, MapPartitions,
};
use firesteel_rdd::reshape::{
    Cartesian, Coalesce, Deferred, Zip, ZipPartitions, ZipWithIndex, ZipWithUniqueId,
};
use firesteel_rdd::sample::{RandomPart, Sample};
use firesteel_rdd::source::part_of;
use firesteel_rdd::{Partition, Pipe};
use firesteel_types::{CallSite, NarrowMapping};

use super::graph::Prepare;
use super::with::code;
use crate::{Error, Rdd, Result, With};

/// The narrow adapters that take a closure, for [`Rdd`] and for [`With`]: there the closure's first argument is `$env`.
macro_rules! adapters {
    ($kind:ident $(, $env:ty)?) => {
        /// Every item through `f`.
        #[track_caller]
        pub fn map<U, F>(&self, f: F) -> Rdd<U, Map<Arc<P>, code!($kind F), U>>
        where
            U: 'static,
            F: Fn($($env,)? T) -> U + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().map_call(CallSite::here("map"), self.ship(f))
        }

        /// The items for which `f` holds.
        #[track_caller]
        pub fn filter<F>(&self, f: F) -> Rdd<T, Filter<Arc<P>, code!($kind F)>>
        where
            F: Fn($($env,)? &T) -> bool + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().filter_call(CallSite::here("filter"), self.ship(f))
        }

        /// All items that `f` makes of each. When `f` would have to return something that borrows from
        /// the item, use [`Rdd::flat_map_to`].
        #[track_caller]
        pub fn flat_map<I, F>(&self, f: F) -> Rdd<I::Item, FlatMap<Arc<P>, code!($kind F), I>>
        where
            I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
            F: Fn($($env,)? T) -> I + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().flat_map_call(CallSite::here("flat_map"), self.ship(f))
        }

        /// All items that `f` pushes for each; `f` borrows the item, so that no intermediate collection
        /// is needed: `lines.flat_map_to(|line, out| out.extend(line.split(' ').map(str::to_owned)))`.
        #[track_caller]
        pub fn flat_map_to<U, F>(&self, f: F) -> Rdd<U, FlatMapTo<Arc<P>, code!($kind F), U>>
        where
            U: 'static,
            F: Fn($($env,)? &T, &mut Emitter<U>) + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().flat_map_to_call(CallSite::here("flat_map_to"), self.ship(f))
        }

        /// Every partition through `f`, as an iterator.
        #[track_caller]
        pub fn map_partitions<I, F>(
            &self,
            f: F,
        ) -> Rdd<I::Item, MapPartitions<Arc<P>, IgnoreIndex<code!($kind F)>, I>>
        where
            I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
            F: Fn($($env,)? Partition<T>) -> I + Closure, // captures? pass it by rdd.with(value)
        {
            let f = IgnoreIndex(self.ship(f));
            self.rdd().map_partitions_call(CallSite::here("map_partitions"), f)
        }

        /// Every partition through `f`, with its index.
        #[track_caller]
        pub fn map_partitions_with_index<I, F>(
            &self,
            f: F,
        ) -> Rdd<I::Item, MapPartitions<Arc<P>, code!($kind F), I>>
        where
            I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
            F: Fn($($env,)? usize, Partition<T>) -> I + Closure, // captures? pass it by rdd.with(value)
        {
            let site = CallSite::here("map_partitions_with_index");
            self.rdd().map_partitions_call(site, self.ship(f))
        }

        /// Each item with the key that `f` finds in it.
        #[track_caller]
        pub fn key_by<K, F>(&self, f: F) -> Rdd<(K, T), Map<Arc<P>, Keyed<code!($kind F)>, (K, T)>>
        where
            K: 'static,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().map_call(CallSite::here("key_by"), Keyed(self.ship(f)))
        }

        /// The partitions of both sides, index by index, through `f`.
        #[track_caller]
        pub fn zip_partitions<U, Q, I, F>(
            &self,
            other: &Rdd<U, Q>,
            f: F,
        ) -> Rdd<I::Item, ZipPartitions<Arc<P>, Arc<Q>, code!($kind F), I>>
        where
            U: 'static,
            Q: Pipe<Item = U>,
            I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
            F: Fn($($env,)? Partition<T>, Partition<U>) -> I + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().zip_partitions_call(CallSite::here("zip_partitions"), other, self.ship(f))
        }
    };
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    adapters!(plain);
}

impl<T: 'static, P: Pipe<Item = T>, E: Data> With<T, P, E> {
    adapters!(shared, &E);
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    pub(crate) fn map_call<U: 'static, C: Call<(T,), U>>(
        &self,
        site: CallSite,
        f: C,
    ) -> Rdd<U, Map<Arc<P>, C, U>> {
        self.derive("MapPartitionsRDD", site).into_rdd(Map::new(self.pipe.clone(), f))
    }

    pub(crate) fn filter_call<C: for<'a> Call<(&'a T,), bool>>(
        &self,
        site: CallSite,
        f: C,
    ) -> Rdd<T, Filter<Arc<P>, C>> {
        let node = self.derive("MapPartitionsRDD", site).partitioned_as(self);
        node.into_rdd(Filter::new(self.pipe.clone(), f))
    }

    fn flat_map_call<I, C>(&self, site: CallSite, f: C) -> Rdd<I::Item, FlatMap<Arc<P>, C, I>>
    where
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        C: Call<(T,), I>,
    {
        self.derive("MapPartitionsRDD", site).into_rdd(FlatMap::new(self.pipe.clone(), f))
    }

    fn flat_map_to_call<U, C>(&self, site: CallSite, f: C) -> Rdd<U, FlatMapTo<Arc<P>, C, U>>
    where
        U: 'static,
        C: for<'a> Call<(&'a T, &'a mut Emitter<U>), ()>,
    {
        self.derive("MapPartitionsRDD", site).into_rdd(FlatMapTo::new(self.pipe.clone(), f))
    }

    pub(crate) fn map_partitions_call<I, C>(
        &self,
        site: CallSite,
        f: C,
    ) -> Rdd<I::Item, MapPartitions<Arc<P>, C, I>>
    where
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        C: Call<(usize, Partition<T>), I>,
    {
        // The user's code sees a whole partition, and may keep it in a hash map on the way.
        let node = self.derive("MapPartitionsRDD", site).order_sensitive().reordering();
        node.into_rdd(MapPartitions::new(self.pipe.clone(), f))
    }

    /// One vector per partition.
    #[track_caller]
    pub fn glom(&self) -> Rdd<Vec<T>, Glom<Arc<P>>> {
        self.derive("MapPartitionsRDD", CallSite::here("glom"))
            .order_sensitive()
            .into_rdd(Glom::new(self.pipe.clone()))
    }

    /// Items paired by position. Both sides must have equally many partitions, and equally many
    /// items in each.
    #[track_caller]
    pub fn zip<U: 'static, Q: Pipe<Item = U>>(
        &self,
        other: &Rdd<U, Q>,
    ) -> Rdd<(T, U), Zip<Arc<P>, Arc<Q>>> {
        let node = self.pairwise(CallSite::here("zip"), other);
        node.into_rdd(Zip::new(self.pipe.clone(), other.pipe.clone()))
    }

    pub(super) fn zip_partitions_call<U, Q, I, C>(
        &self,
        site: CallSite,
        other: &Rdd<U, Q>,
        f: C,
    ) -> Rdd<I::Item, ZipPartitions<Arc<P>, Arc<Q>, C, I>>
    where
        U: 'static,
        Q: Pipe<Item = U>,
        I: IntoIterator<Item: 'static, IntoIter: 'static> + 'static,
        C: Call<(Partition<T>, Partition<U>), I>,
    {
        let pipe = ZipPartitions::new(self.pipe.clone(), other.pipe.clone(), f);
        self.pairwise(site, other).reordering().into_rdd(pipe)
    }

    fn pairwise<U, Q>(&self, site: CallSite, other: &Rdd<U, Q>) -> super::Node {
        let (left, right) = (self.info.partitions, other.info.partitions);
        let node = self
            .derive("ZippedPartitionsRDD2", site)
            .narrow(&other.info, NarrowMapping::OneToOne)
            .order_sensitive();
        if left == right {
            return node;
        }
        let reason = format!(
            "both sides need equally many partitions, but the left has {left} and the right {right}"
        );
        node.defect(Error::invalid(&site, reason))
    }

    /// Every item of this with every item of `other`. A partition of `other` that does not fit into memory is read
    /// from disk for each item of this: let `other` be the smaller one.
    #[track_caller]
    pub fn cartesian<U, Q>(&self, other: &Rdd<U, Q>) -> Rdd<(T, U), Cartesian<Arc<P>, Arc<Q>>>
    where
        T: Clone,
        U: Data + Clone,
        Q: Pipe<Item = U>,
    {
        let site = CallSite::here("cartesian");
        let (left, right) = (self.info.partitions, other.info.partitions);
        let pairs = u64::from(left) * u64::from(right);
        let mut node = super::Node::new(&self.context, "CartesianRDD", site);
        match u32::try_from(pairs) {
            Ok(count) => node.partitions = count,
            Err(_) => node.set_defect(Error::invalid(
                &site,
                format!("{left} times {right} partitions are too many; coalesce first"),
            )),
        }
        let lefts = (0..node.partitions).map(|i| vec![i / right]).collect();
        let rights = (0..node.partitions).map(|i| vec![i % right]).collect();
        node.narrow(&self.info, NarrowMapping::Groups(lefts))
            .narrow(&other.info, NarrowMapping::Groups(rights))
            .into_rdd(Cartesian::new(self.pipe.clone(), other.pipe.clone(), right.max(1)))
    }

    /// Fewer partitions without a shuffle: neighbours are read one after the other by one task. More
    /// than there are is not possible without a shuffle; then nothing changes.
    #[track_caller]
    pub fn coalesce(&self, partitions: usize) -> Rdd<T, Coalesce<P>> {
        let site = CallSite::here("coalesce");
        let node =
            super::Node::new(&self.context, "CoalescedRDD", site).partition_count(partitions);
        let before = self.info.partitions;
        let count = node.partitions.min(before);
        let group = |i| part_of(u64::from(before), i, count).map(|p| p as u32).collect();
        let groups: Arc<[Vec<u32>]> = (0..count).map(group).collect();
        node.with_partitions(count)
            .narrow(&self.info, NarrowMapping::Groups(groups.clone()))
            .into_rdd(Coalesce::new(self.pipe.clone(), groups))
    }

    /// A random part: each item with probability `fraction`, or with replacement `fraction` times on
    /// average. The same seed chooses the same items.
    #[track_caller]
    pub fn sample(&self, with_replacement: bool, fraction: f64, seed: u64) -> Rdd<T, Sample<Arc<P>>>
    where
        T: Clone,
    {
        let site = CallSite::here("sample");
        let node = self.derive("PartitionwiseSampledRDD", site).partitioned_as(self);
        let mut node = node.order_sensitive();
        let highest = if with_replacement { f64::INFINITY } else { 1.0 };
        let valid = fraction.is_finite() && (0.0..=highest).contains(&fraction);
        if !valid {
            node.set_defect(Error::invalid(&site, wrong_fraction(with_replacement, fraction)));
        }
        let fraction = if valid { fraction } else { 0.0 };
        node.into_rdd(Sample::new(self.pipe.clone(), with_replacement, fraction, seed))
    }

    /// Splits the items at random, in proportion to `weights`; every item is in exactly one part.
    #[track_caller]
    pub fn random_split(
        &self,
        weights: &[f64],
        seed: u64,
    ) -> Result<Vec<Rdd<T, RandomPart<Arc<P>>>>> {
        let site = CallSite::here("random_split");
        let total: f64 = weights.iter().sum();
        if !(weights.iter().all(|weight| *weight >= 0.0) && total > 0.0 && total.is_finite()) {
            let reason = format!(
                "weights must not be negative, and their sum must be positive, but they are {weights:?}"
            );
            return Err(Error::invalid(&site, reason));
        }
        let mut reached = 0.0;
        let last = weights.len().saturating_sub(1);
        let part = |(i, weight): (usize, &f64)| {
            let start = reached / total;
            reached += weight;
            let end = if i == last { 1.0 } else { reached / total };
            let node = self.derive("PartitionwiseSampledRDD", site).partitioned_as(self);
            node.order_sensitive().into_rdd(RandomPart::new(self.pipe.clone(), start..end, seed))
        };
        Ok(weights.iter().enumerate().map(part).collect())
    }

    /// Each item with its position in the whole RDD. Positions of all but the first partition depend
    /// on the sizes of those before: the first job that needs them runs a job to count.
    #[track_caller]
    pub fn zip_with_index(&self) -> Rdd<(T, u64), ZipWithIndex<Arc<P>>> {
        let site = CallSite::here("zip_with_index");
        let starts = Deferred::default();
        let counting = CountPartitions { rdd: self.clone(), starts: starts.clone(), site };
        self.derive("ZippedWithIndexRDD", site)
            .order_sensitive()
            .prepared_by(Arc::new(counting))
            .into_rdd(ZipWithIndex::new(self.pipe.clone(), starts))
    }

    /// Each item with a number of its own, with gaps, without a job.
    #[track_caller]
    pub fn zip_with_unique_id(&self) -> Rdd<(T, u64), ZipWithUniqueId<Arc<P>>> {
        self.derive("MapPartitionsRDD", CallSite::here("zip_with_unique_id"))
            .order_sensitive()
            .into_rdd(ZipWithUniqueId::new(self.pipe.clone(), self.info.partitions))
    }

    /// The items of each partition, one per line, through an external program; its output lines.
    /// `command` is the program and its arguments; no shell is involved. A status other than 0 fails
    /// the task with what the program wrote to standard error.
    #[track_caller]
    pub fn pipe<I>(&self, command: I) -> Rdd<String, External<Arc<P>>>
    where
        T: Display,
        I: IntoIterator<Item: Into<String>>,
    {
        let site = CallSite::here("pipe");
        let argv: Vec<String> = command.into_iter().map(Into::into).collect();
        let mut node = self.derive("PipedRDD", site).order_sensitive().reordering();
        if argv.first().is_none_or(|program| program.is_empty()) {
            node.set_defect(Error::invalid(&site, "the command is empty"));
        }
        node.into_rdd(External::new(self.pipe.clone(), argv))
    }
}

fn wrong_fraction(with_replacement: bool, fraction: f64) -> String {
    match with_replacement {
        true => format!("the fraction must be a number of at least 0, but is {fraction}"),
        false => format!("the fraction must lie between 0 and 1, but is {fraction}"),
    }
}

/// Finds the first number of each partition by counting the items of those before.
struct CountPartitions<T, P> {
    rdd: Rdd<T, P>,
    starts: Deferred<Vec<u64>>,
    site: CallSite,
}

impl<T: 'static, P: Pipe<Item = T>> Prepare for CountPartitions<T, P> {
    fn prepare(&self) -> Result<()> {
        if self.starts.is_ready() {
            return Ok(());
        }
        let partitions = self.rdd.info.partitions;
        let counted = (0..partitions.saturating_sub(1)).collect();
        let counts: Vec<u64> = self
            .rdd
            .run(self.site, counted, firesteel_rdd::action::Count)?
            .collect::<Result<_>>()?;
        let mut next = 0;
        let starts = std::iter::once(0).chain(counts.into_iter().map(|count| {
            next += count;
            next
        }));
        self.starts.set(starts.collect());
        Ok(())
    }
}
