//! Actions: they run jobs and bring results to the driver. Results are combined in the order of
//! partitions, so that an action gives the same answer every time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use firesteel_closure::{Data, Pure};
use firesteel_conf::entries;
use firesteel_rdd::action::{
    Action, Aggregate, Collect, Count, CountByValue, CountDistinct, ForEach, OfPartition, Reduce,
    Take, TakeOrdered, smallest,
};
use firesteel_rdd::body::ResultBody;
use firesteel_rdd::narrow::{Descending, FoldPartition, IgnoreIndex, ReducePartition};
use firesteel_rdd::sketch::HyperLogLog;
use firesteel_rdd::wide::InOrder;
use firesteel_rdd::{Partition, Pipe};
use firesteel_task::{Payload, TaskContext};
use firesteel_types::{CallSite, JobError, Properties};

use super::checkpoint;
use super::graph::prepare;
use crate::local_properties::{self, LocalProperties};
use crate::{Error, Rdd, Result, interrupt};

/// How many levels `tree_reduce` and `tree_aggregate` use, as in Spark.
const TREE_DEPTH: u32 = 2;

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// Runs `action` on these partitions and waits; the results come in the partitions' order.
    pub(crate) fn run<A: Action<T>>(
        &self,
        site: CallSite,
        partitions: Vec<u32>,
        action: A,
    ) -> Result<impl Iterator<Item = Result<A::Output>> + use<T, P, A>> {
        let outputs = self.outputs(site, partitions, action);
        let outputs = outputs.inspect_err(|_| interrupt::wait_if_told_to_end())?;
        Ok(outputs.into_iter().map(|output| Ok(output.into_value()?)))
    }

    fn outputs<A: Action<T>>(
        &self,
        site: CallSite,
        partitions: Vec<u32>,
        action: A,
    ) -> Result<Vec<Payload>> {
        if TaskContext::current().is_some() {
            let reason = "a task cannot run jobs: call the action on the driver and pass its result \
                          with `rdd.with(..)`";
            return Err(Error::invalid(&site, reason));
        }
        self.check()?;
        let LocalProperties { job: properties, future } = local_properties::get(self.context.id());
        if let Some(reason) = future.as_ref().and_then(|future| future.cancelled()) {
            let job = self.context.0.engine.name_job();
            return Err(JobError::Cancelled { job, reason }.into());
        }
        let properties = properties.with(Properties::CALL_SITE, &site.to_string());
        let body = Arc::new(ResultBody::new(self.pipe.clone(), action));
        let engine = &self.context.0.engine;
        let waiter = engine.submit(self.info.clone(), partitions, body, properties)?;
        if let Some(reason) = future.and_then(|future| future.add(waiter.job())) {
            engine.cancel_job(waiter.job(), &reason);
        }
        let outputs = waiter.wait()?;
        checkpoint::write_pending(&self.context, &self.info)?;
        Ok(outputs)
    }

    /// Whether a job can run at all, even one that reads no partition; does what must be done before.
    fn check(&self) -> Result<()> {
        if self.context.is_stopped() {
            return Err(Error::ContextStopped);
        }
        prepare(&self.info)
    }

    pub(crate) fn run_all<A: Action<T>>(
        &self,
        site: CallSite,
        action: A,
    ) -> Result<impl Iterator<Item = Result<A::Output>> + use<T, P, A>> {
        self.run(site, (0..self.info.partitions).collect(), action)
    }

    /// Runs `f` on some partitions only, each at most once; the results come in the order asked for.
    #[track_caller]
    pub fn run_on_partitions<U, F>(&self, partitions: &[usize], f: F) -> Result<Vec<U>>
    where
        U: Data,
        F: Fn(Partition<T>) -> U + Copy + Send + Sync + 'static, // it captures? use map_partitions of rdd.with(value) first
    {
        let site = CallSite::here("run_on_partitions");
        let count = self.partition_count();
        let mut seen = std::collections::BTreeSet::new();
        for partition in partitions {
            let problem = match () {
                () if *partition >= count => format!("is out of range: the RDD has {count}"),
                () if !seen.insert(*partition) => "is asked for twice".to_owned(),
                () => continue,
            };
            return Err(Error::invalid(&site, format!("partition {partition} {problem}")));
        }
        let partitions = partitions.iter().map(|partition| *partition as u32).collect();
        self.run(site, partitions, OfPartition::new(Pure::new(f)))?.collect()
    }

    /// All items, in order.
    #[track_caller]
    pub fn collect(&self) -> Result<Vec<T>>
    where
        T: Data,
    {
        let parts: Result<Vec<Vec<T>>> =
            self.run_all(CallSite::here("collect"), Collect)?.collect();
        Ok(parts?.into_iter().flatten().collect())
    }

    /// The number of items.
    #[track_caller]
    pub fn count(&self) -> Result<u64> {
        self.run_all(CallSite::here("count"), Count)?.sum()
    }

    /// The first item.
    #[track_caller]
    pub fn first(&self) -> Result<T>
    where
        T: Data,
    {
        let first = self.take_at(CallSite::here("first"), 1)?;
        first.into_iter().next().ok_or(Error::Empty { operation: "first" })
    }

    /// Whether there are no items.
    #[track_caller]
    pub fn is_empty(&self) -> Result<bool> {
        let site = CallSite::here("is_empty");
        let units = self.map_call(site, Pure::new(|_| ()));
        Ok(units.take_at(site, 1)?.is_empty())
    }

    /// The first `n` items. Looks into one partition first, and into more and more as needed
    /// (`spark.rdd.limit.initialNumPartitions`, `spark.rdd.limit.scaleUpFactor`).
    #[track_caller]
    pub fn take(&self, n: usize) -> Result<Vec<T>>
    where
        T: Data,
    {
        self.take_at(CallSite::here("take"), n)
    }

    fn take_at(&self, site: CallSite, n: usize) -> Result<Vec<T>>
    where
        T: Data,
    {
        self.check()?;
        let conf = self.context.conf();
        let factor = conf.get(&entries::RDD_LIMIT_SCALE_UP_FACTOR)?;
        let mut width = conf.get(&entries::RDD_LIMIT_INITIAL_NUM_PARTITIONS)?;
        let mut items = Vec::new();
        let mut next = 0;
        while items.len() < n && next < self.info.partitions {
            let end = self.info.partitions.min(next.saturating_add(width));
            let limit = (n - items.len()) as u64;
            for part in self.run(site, (next..end).collect(), Take { limit })? {
                items.extend(part?);
            }
            next = end;
            width = width.saturating_mul(factor);
        }
        items.truncate(n);
        Ok(items)
    }

    /// The `n` smallest items, ascending.
    #[track_caller]
    pub fn take_ordered(&self, n: usize) -> Result<Vec<T>>
    where
        T: Data + Ord + Clone,
    {
        self.ordered(CallSite::here("take_ordered"), n, |item| item.clone())
    }

    /// The `n` items with the smallest keys, ascending.
    #[track_caller]
    pub fn take_ordered_by<K, F>(&self, n: usize, key: F) -> Result<Vec<T>>
    where
        T: Data,
        K: Ord + 'static,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into the items first
    {
        self.ordered(CallSite::here("take_ordered_by"), n, key)
    }

    /// The `n` largest items, descending.
    #[track_caller]
    pub fn top(&self, n: usize) -> Result<Vec<T>>
    where
        T: Data + Ord + Clone,
    {
        self.ordered(CallSite::here("top"), n, |item| std::cmp::Reverse(item.clone()))
    }

    /// The `n` items with the largest keys, descending; of equal keys, those that come first.
    #[track_caller]
    pub fn top_by<K, F>(&self, n: usize, key: F) -> Result<Vec<T>>
    where
        T: Data,
        K: Ord + 'static,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static, // it captures? put the value into the items first
    {
        let site = CallSite::here("top_by");
        let action = TakeOrdered::new(n as u64, Descending(Pure::new(key)));
        self.merge_ordered(site, n, action, |item| std::cmp::Reverse(key(item)))
    }

    fn ordered<K, F>(&self, site: CallSite, n: usize, key: F) -> Result<Vec<T>>
    where
        T: Data,
        K: Ord + 'static,
        F: Fn(&T) -> K + Copy + Send + Sync + 'static,
    {
        self.merge_ordered(site, n, TakeOrdered::new(n as u64, Pure::new(key)), key)
    }

    pub(super) fn merge_ordered<K: Ord>(
        &self,
        site: CallSite,
        n: usize,
        action: impl Action<T, Output = Vec<T>>,
        key: impl Fn(&T) -> K,
    ) -> Result<Vec<T>> {
        let parts: Result<Vec<Vec<T>>> = self.run_all(site, action)?.collect();
        Ok(smallest(parts?.into_iter().flatten(), n, key))
    }

    /// A random sample of exactly `n` items (all of them, if there are fewer and none is taken
    /// twice), in random order.
    #[track_caller]
    pub fn take_sample(&self, with_replacement: bool, n: usize, seed: u64) -> Result<Vec<T>>
    where
        T: Data + Clone,
    {
        let site = CallSite::here("take_sample");
        let total = self.run_all(site, Count)?.sum::<Result<u64>>()?;
        if total == 0 || n == 0 {
            return Ok(Vec::new());
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        let positions: Vec<u64> = if with_replacement {
            (0..n).map(|_| rng.u64(..total)).collect()
        } else {
            distinct_positions(&mut rng, n, total)
        };
        let mut wanted = positions.clone();
        wanted.sort_unstable();
        wanted.dedup();
        let numbered = self.zip_with_index();
        let chosen = numbered.with(wanted.clone()).filter(|w, (_, i)| w.binary_search(i).is_ok());
        let parts: Result<Vec<Vec<(T, u64)>>> = chosen.run_all(site, Collect)?.collect();
        let found: Vec<T> = parts?.into_iter().flatten().map(|(item, _)| item).collect();
        let at = |position| wanted.binary_search(position).ok().and_then(|i| found.get(i));
        Ok(positions.iter().filter_map(at).cloned().collect())
    }

    /// All items folded into one by `f`, which should be associative.
    #[track_caller]
    pub fn reduce<F>(&self, f: F) -> Result<T>
    where
        T: Data,
        F: Fn(T, T) -> T + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).reduce(|value, a, b| ...)
    {
        let reduced = self.reduce_call(CallSite::here("reduce"), Reduce::new(Pure::new(f)), f)?;
        reduced.ok_or(Error::Empty { operation: "reduce" })
    }

    pub(crate) fn reduce_call(
        &self,
        site: CallSite,
        action: impl Action<T, Output = Option<T>>,
        merge: impl FnMut(T, T) -> T,
    ) -> Result<Option<T>> {
        let parts: Result<Vec<Option<T>>> = self.run_all(site, action)?.collect();
        Ok(parts?.into_iter().flatten().reduce(merge))
    }

    /// All items folded by `f`, starting at `zero` in each partition and once more on the driver.
    #[track_caller]
    pub fn fold<F>(&self, zero: T, f: F) -> Result<T>
    where
        T: Data + Clone,
        F: Fn(T, T) -> T + Copy + Send + Sync + 'static, // it captures? put the value into the items first
    {
        self.aggregate_at(CallSite::here("fold"), zero, f, f)
    }

    /// All items folded into another type: `add` within partitions, `merge` across them, both starting
    /// at `zero`.
    #[track_caller]
    pub fn aggregate<U, F, G>(&self, zero: U, add: F, merge: G) -> Result<U>
    where
        U: Data + Clone,
        F: Fn(U, T) -> U + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).aggregate(...)
        G: Fn(U, U) -> U,
    {
        self.aggregate_at(CallSite::here("aggregate"), zero, add, merge)
    }

    fn aggregate_at<U, F, G>(&self, site: CallSite, zero: U, add: F, merge: G) -> Result<U>
    where
        U: Data + Clone,
        F: Fn(U, T) -> U + Copy + Send + Sync + 'static,
        G: Fn(U, U) -> U,
    {
        let action = Aggregate::new(zero.clone(), Pure::new(add));
        let parts: Result<Vec<U>> = self.run_all(site, action)?.collect();
        Ok(parts?.into_iter().fold(zero, merge))
    }

    /// [`Rdd::reduce`] with most of the merging done by tasks: for many partitions or large values.
    #[track_caller]
    pub fn tree_reduce<F>(&self, f: F) -> Result<T>
    where
        T: Data + Clone,
        F: Fn(T, T) -> T + Copy + Send + Sync + 'static, // it captures? put the value into the items first
    {
        let site = CallSite::here("tree_reduce");
        let reduced = self.map_partitions_call(site, IgnoreIndex(ReducePartition(Pure::new(f))));
        let merged = reduced.shrink(site, f)?;
        merged.ok_or(Error::Empty { operation: "tree_reduce" })
    }

    /// [`Rdd::aggregate`] with most of the merging done by tasks: for many partitions or large values.
    #[track_caller]
    pub fn tree_aggregate<U, F, G>(&self, zero: U, add: F, merge: G) -> Result<U>
    where
        U: Data + Clone,
        F: Fn(U, T) -> U + Copy + Send + Sync + 'static, // it captures? put the value into the items first
        G: Fn(U, U) -> U + Copy + Send + Sync + 'static,
    {
        let site = CallSite::here("tree_aggregate");
        let folded = self.map_partitions_call(
            site,
            IgnoreIndex(FoldPartition::new(zero.clone(), Pure::new(add))),
        );
        Ok(folded.shrink(site, merge)?.unwrap_or(zero))
    }

    /// Merges one value per partition, in levels.
    fn shrink<F>(&self, site: CallSite, merge: F) -> Result<Option<T>>
    where
        T: Data,
        F: Fn(T, T) -> T + Copy + Send + Sync + 'static,
    {
        let partitions = f64::from(self.info.partitions.max(1));
        let scale = partitions.powf(1.0 / f64::from(TREE_DEPTH)).ceil().max(2.0) as u32;
        let mut level = self.boxed();
        while level.info.partitions > scale + level.info.partitions / scale {
            let fewer = level.info.partitions / scale;
            let writer = InOrder::new(level.info.partitions);
            let (node, records) = level.shuffled::<T>("ShuffledRDD", site, writer, fewer);
            let merged = ReducePartition(Pure::new(merge));
            level = node.into_rdd(records).map_partitions_call(site, IgnoreIndex(merged)).boxed();
        }
        level.reduce_call(site, Reduce::new(Pure::new(merge)), merge)
    }

    /// Calls `f` for every item, in tasks.
    #[track_caller]
    pub fn for_each<F>(&self, f: F) -> Result<()>
    where
        F: Fn(T) + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).for_each(|value, x| ...)
    {
        self.run_all(CallSite::here("for_each"), ForEach::new(Pure::new(f)))?.collect()
    }

    /// Calls `f` for every partition, in tasks.
    #[track_caller]
    pub fn for_each_partition<F>(&self, f: F) -> Result<()>
    where
        F: Fn(Partition<T>) + Copy + Send + Sync + 'static, // it captures? write rdd.with(value).for_each_partition(|value, items| ...)
    {
        self.run_all(CallSite::here("for_each_partition"), OfPartition::new(Pure::new(f)))?
            .collect()
    }

    /// How often each item occurs. For many different items, use `reduce_by_key`.
    #[track_caller]
    pub fn count_by_value(&self) -> Result<HashMap<T, u64>>
    where
        T: Data + Hash + Eq,
    {
        let mut counts = HashMap::new();
        for part in self.run_all(CallSite::here("count_by_value"), CountByValue)? {
            part?.into_iter().for_each(|(item, count)| *counts.entry(item).or_insert(0) += count);
        }
        Ok(counts)
    }

    /// About how many different items there are; `relative_sd` is the wanted relative standard
    /// deviation, e.g. 0.05.
    #[track_caller]
    pub fn count_approx_distinct(&self, relative_sd: f64) -> Result<u64>
    where
        T: Hash,
    {
        let site = CallSite::here("count_approx_distinct");
        if !(0.0021..=0.4).contains(&relative_sd) {
            let reason = format!(
                "the relative standard deviation must lie between 0.0021 and 0.4: {relative_sd}"
            );
            return Err(Error::invalid(&site, reason));
        }
        let precision = HyperLogLog::precision_for(relative_sd);
        let mut all = HyperLogLog::new(precision);
        for part in self.run_all(site, CountDistinct { precision })? {
            all = all.merge(part?);
        }
        Ok(all.estimate())
    }

    /// All items, one partition in memory at a time; one job per partition, when it is reached.
    #[track_caller]
    pub fn to_local_iterator(&self) -> impl Iterator<Item = Result<T>> + use<T, P>
    where
        T: Data,
    {
        let site = CallSite::here("to_local_iterator");
        let rdd = self.clone();
        let mut failed = false;
        let unusable = self.check().err().map(Err);
        let partitions = if unusable.is_some() { 0 } else { self.info.partitions };
        unusable.into_iter().chain((0..partitions).flat_map(move |partition| {
            if failed {
                return Vec::new();
            }
            let items = rdd
                .run(site, vec![partition], Collect)
                .and_then(|mut parts| parts.next().unwrap_or_else(|| Ok(Vec::new())));
            match items {
                Ok(items) => items.into_iter().map(Ok).collect(),
                Err(error) => {
                    failed = true;
                    vec![Err(error)]
                }
            }
        }))
    }
}

/// Different positions below `total`: all of them, shuffled, if `n` is as many or more.
fn distinct_positions(rng: &mut fastrand::Rng, n: usize, total: u64) -> Vec<u64> {
    let n = (n as u64).min(total);
    // Floyd's algorithm: n draws, whatever the total.
    let mut chosen = std::collections::BTreeSet::new();
    for bound in total - n..total {
        let draw = rng.u64(..=bound);
        if !chosen.insert(draw) {
            chosen.insert(bound);
        }
    }
    let mut positions: Vec<u64> = chosen.into_iter().collect();
    rng.shuffle(&mut positions);
    positions
}
