//! Actions: they run jobs and bring results to the driver. Results are combined in the order of
//! partitions, so that an action gives the same answer every time.

use std::collections::HashMap;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use firesteel_closure::{Call, Closure, Data, Pure};
use firesteel_conf::entries;
use firesteel_engine::JobWaiter;
use firesteel_rdd::action::{
    Action, Aggregate, Collect, Count, CountDistinct, ForEach, OfPartition, Reduce, Take,
    TakeOrdered, smallest,
};
use firesteel_rdd::body::ResultBody;
use firesteel_rdd::narrow::{Descending, FoldPartition, IgnoreIndex, ReducePartition};
use firesteel_rdd::sketch::HyperLogLog;
use firesteel_rdd::wide::InOrder;
use firesteel_rdd::{Partition, Pipe};
use firesteel_task::{Payload, TaskBody, TaskContext};
use firesteel_types::{CallSite, JobError, Properties, RddInfo};

use super::checkpoint;
use super::graph::prepare;
use super::keys::Key;
use crate::local_properties::{self, LocalProperties};
use crate::user_code::on_driver;
use crate::{Context, Error, Rdd, Result, With, interrupt};

/// How many levels `tree_reduce` and `tree_aggregate` use, as in Spark.
const TREE_DEPTH: u32 = 2;

/// The actions that take closures, for [`Rdd`] and for [`With`]: there the closure's first argument is `$env`.
macro_rules! actions {
    ($($env:ty)?) => {
        /// The `n` items with the smallest keys, ascending; of equal keys, those that come first.
        #[track_caller]
        pub fn take_ordered_by<K, F>(&self, n: usize, key: F) -> Result<Vec<T>>
        where
            T: Data,
            K: Ord + 'static,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().ordered(CallSite::here("take_ordered_by"), n, self.ship(key))
        }

        /// The `n` items with the largest keys, descending; of equal keys, those that come first.
        #[track_caller]
        pub fn top_by<K, F>(&self, n: usize, key: F) -> Result<Vec<T>>
        where
            T: Data,
            K: Ord + 'static,
            F: Fn($($env,)? &T) -> K + Closure, // captures? pass it by rdd.with(value)
        {
            self.rdd().ordered(CallSite::here("top_by"), n, Descending(self.ship(key)))
        }

        /// All items folded into one by `f`, which should be associative.
        #[track_caller]
        pub fn reduce<F>(&self, f: F) -> Result<T>
        where
            T: Data,
            F: Fn($($env,)? T, T) -> T + Closure, // captures? pass it by rdd.with(value)
        {
            let (site, action) = (CallSite::here("reduce"), Reduce::new(self.ship(f)));
            let reduce = || self.rdd().reduce_call(site, action, self.here(f));
            let reduced = on_driver(&site, reduce)?;
            reduced.ok_or_else(|| Error::empty(&site))
        }

        /// All items folded by `f`, starting at `zero` in each partition and once more on the driver.
        #[track_caller]
        pub fn fold<F>(&self, zero: T, f: F) -> Result<T>
        where
            T: Data + Clone,
            F: Fn($($env,)? T, T) -> T + Closure, // captures? pass it by rdd.with(value)
        {
            let site = CallSite::here("fold");
            let action = Aggregate::new(zero.clone(), self.ship(f));
            on_driver(&site, || self.rdd().fold_call(site, zero, action, self.here(f)))
        }

        /// All items folded into another type: `add` within partitions, `merge` across them on the
        /// driver, both starting at `zero`.
        #[track_caller]
        pub fn aggregate<U, F, G>(&self, zero: U, add: F, merge: G) -> Result<U>
        where
            U: Data + Clone,
            F: Fn($($env,)? U, T) -> U + Closure, // captures? pass it by rdd.with(value)
            G: Fn($($env,)? U, U) -> U,
        {
            let site = CallSite::here("aggregate");
            let action = Aggregate::new(zero.clone(), self.ship(add));
            on_driver(&site, || self.rdd().fold_call(site, zero, action, self.here(merge)))
        }

        /// [`Rdd::reduce`] with most of the merging done by tasks: for many partitions or large
        /// values.
        #[track_caller]
        pub fn tree_reduce<F>(&self, f: F) -> Result<T>
        where
            T: Data + Clone,
            F: Fn($($env,)? T, T) -> T + Closure, // captures? pass it by rdd.with(value)
        {
            let (site, f) = (CallSite::here("tree_reduce"), self.ship(f));
            let reduce = IgnoreIndex(ReducePartition(f.clone()));
            let merged = self.rdd().map_partitions_call(site, reduce).shrink(site, f)?;
            merged.ok_or_else(|| Error::empty(&site))
        }

        /// [`Rdd::aggregate`] with most of the merging done by tasks: for many partitions or large
        /// values.
        #[track_caller]
        pub fn tree_aggregate<U, F, G>(&self, zero: U, add: F, merge: G) -> Result<U>
        where
            U: Data + Clone,
            F: Fn($($env,)? U, T) -> U + Closure, // captures? pass it by rdd.with(value)
            G: Fn($($env,)? U, U) -> U + Closure, // captures? pass it by rdd.with(value)
        {
            let site = CallSite::here("tree_aggregate");
            let fold = IgnoreIndex(FoldPartition::new(zero.clone(), self.ship(add)));
            let folded = self.rdd().map_partitions_call(site, fold);
            Ok(folded.shrink(site, self.ship(merge))?.unwrap_or(zero))
        }

        /// Runs `f` on some partitions only, each at most once; the results come in the order of
        /// `partitions`.
        #[track_caller]
        pub fn run_on_partitions<U, F>(&self, partitions: &[usize], f: F) -> Result<Vec<U>>
        where
            U: Data,
            F: Fn($($env,)? Partition<T>) -> U + Closure, // captures? pass it by rdd.with(value)
        {
            let (site, action) =
                (CallSite::here("run_on_partitions"), OfPartition::new(self.ship(f)));
            let partitions = self.rdd().check_partitions(&site, partitions)?;
            self.rdd().run(site, partitions, action)?.collect()
        }

        /// Calls `f` for every item, in tasks.
        #[track_caller]
        pub fn for_each<F>(&self, f: F) -> Result<()>
        where
            F: Fn($($env,)? T) + Closure, // captures? pass it by rdd.with(value)
        {
            let action = ForEach::new(self.ship(f));
            self.rdd().run_all(CallSite::here("for_each"), action)?.collect()
        }

        /// Calls `f` for every partition, in tasks.
        #[track_caller]
        pub fn for_each_partition<F>(&self, f: F) -> Result<()>
        where
            F: Fn($($env,)? Partition<T>) + Closure, // captures? pass it by rdd.with(value)
        {
            let action = OfPartition::new(self.ship(f));
            self.rdd().run_all(CallSite::here("for_each_partition"), action)?.collect()
        }
    };
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    actions!();
}

impl<T: 'static, P: Pipe<Item = T>, E: Data> With<T, P, E> {
    actions!(&E);
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// Runs `action` on these partitions; the results come in the partitions' order, as they are ready.
    pub(crate) fn run<A: Action<T>>(
        &self,
        site: CallSite,
        partitions: Vec<u32>,
        action: A,
    ) -> Result<Results<A::Output>> {
        let body = Arc::new(ResultBody::new(self.pipe.clone(), action));
        let job = RunningJob::start(&self.context, &self.info, site, partitions, body)?;
        Ok(Results { job, output: PhantomData })
    }

    /// Whether a job can run at all, even one that reads no partition; does what must be done before.
    fn check(&self, site: &CallSite) -> Result<()> {
        check(&self.context, &self.info, site)
    }

    pub(crate) fn run_all<A: Action<T>>(
        &self,
        site: CallSite,
        action: A,
    ) -> Result<Results<A::Output>> {
        self.run(site, (0..self.info.partitions).collect(), action)
    }

    /// Partitions of this RDD, each once.
    fn check_partitions(&self, site: &CallSite, partitions: &[usize]) -> Result<Vec<u32>> {
        let count = self.partition_count();
        let mut seen = std::collections::BTreeSet::new();
        for partition in partitions {
            let problem = match () {
                () if *partition >= count => format!("is out of range: the RDD has {count}"),
                () if !seen.insert(*partition) => "is named twice".to_owned(),
                () => continue,
            };
            return Err(Error::invalid(site, format!("partition {partition} {problem}")));
        }
        Ok(partitions.iter().map(|partition| *partition as u32).collect())
    }

    /// All items, in order.
    #[track_caller]
    pub fn collect(&self) -> Result<Vec<T>>
    where
        T: Data,
    {
        let site = CallSite::here("collect");
        on_driver(&site, || self.collect_at(site))
    }

    pub(super) fn collect_at(&self, site: CallSite) -> Result<Vec<T>>
    where
        T: Data,
    {
        let mut items = Vec::new();
        for part in self.run_all(site, Collect)? {
            items.append(&mut part?);
        }
        Ok(items)
    }

    /// The number of items.
    #[track_caller]
    pub fn count(&self) -> Result<u64> {
        self.run_all(CallSite::here("count"), Count)?.sum()
    }

    /// The first item of the first partition that has one; [`Error::Empty`] if there is none.
    #[track_caller]
    pub fn first(&self) -> Result<T>
    where
        T: Data,
    {
        let site = CallSite::here("first");
        let first = on_driver(&site, || self.take_at(site, 1))?;
        first.into_iter().next().ok_or_else(|| Error::empty(&site))
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
        let site = CallSite::here("take");
        on_driver(&site, || self.take_at(site, n))
    }

    pub(super) fn take_at(&self, site: CallSite, n: usize) -> Result<Vec<T>>
    where
        T: Data,
    {
        self.check(&site)?;
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
        self.ordered(CallSite::here("take_ordered"), n, Pure::new(T::clone))
    }

    /// The `n` largest items, descending.
    #[track_caller]
    pub fn top(&self, n: usize) -> Result<Vec<T>>
    where
        T: Data + Ord + Clone,
    {
        self.ordered(CallSite::here("top"), n, Descending(Pure::new(T::clone)))
    }

    fn ordered<K, C>(&self, site: CallSite, n: usize, key: C) -> Result<Vec<T>>
    where
        T: Data,
        K: Ord + 'static,
        C: for<'a> Call<(&'a T,), K>,
    {
        let action = TakeOrdered::new(n as u64, key.clone());
        on_driver(&site, || {
            let mut found = Vec::new();
            for part in self.run_all(site, action)? {
                let both = found.into_iter().chain(part?);
                found = smallest(both, n, |item| key.call((item,)));
            }
            Ok(found)
        })
    }

    fn fold_call<U: Data>(
        &self,
        site: CallSite,
        zero: U,
        action: impl Action<T, Output = U>,
        merge: impl Fn(U, U) -> U,
    ) -> Result<U> {
        let mut folded = zero;
        for part in self.run_all(site, action)? {
            folded = merge(folded, part?);
        }
        Ok(folded)
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

    pub(super) fn reduce_call(
        &self,
        site: CallSite,
        action: impl Action<T, Output = Option<T>>,
        mut merge: impl FnMut(T, T) -> T,
    ) -> Result<Option<T>>
    where
        T: Data,
    {
        let mut reduced = None;
        for part in self.run_all(site, action)? {
            reduced = match (reduced, part?) {
                (Some(left), Some(right)) => Some(merge(left, right)),
                (left, right) => left.or(right),
            };
        }
        Ok(reduced)
    }

    /// Merges one value per partition, in levels.
    fn shrink<C: Call<(T, T), T>>(&self, site: CallSite, merge: C) -> Result<Option<T>>
    where
        T: Data,
    {
        let partitions = f64::from(self.info.partitions.max(1));
        let scale = partitions.powf(1.0 / f64::from(TREE_DEPTH)).ceil().max(2.0) as u32;
        let mut level = self.boxed();
        while level.info.partitions > scale + level.info.partitions / scale {
            let fewer = level.info.partitions / scale;
            let writer = InOrder::new(level.info.partitions);
            let (node, records) = level.shuffled::<T>("ShuffledRDD", site, writer, fewer);
            let merged = IgnoreIndex(ReducePartition(merge.clone()));
            level = node.into_rdd(records).map_partitions_call(site, merged).boxed();
        }
        let reduce = Reduce::new(merge.clone());
        on_driver(&site, || {
            level.reduce_call(site, reduce, |left, right| merge.call((left, right)))
        })
    }

    /// How often each item occurs, counted by tasks. For more different items than the driver can hold, use
    /// `map(|item| (item, 1)).reduce_by_key(...)`.
    #[track_caller]
    pub fn count_by_value(&self) -> Result<HashMap<T, u64>>
    where
        T: Key,
    {
        let site = CallSite::here("count_by_value");
        self.map_call(site, Pure::new(|item| (item, 1u64))).counts(site)
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
        let unusable = self.check(&site).err().map(Err);
        let partitions = if unusable.is_some() { 0 } else { self.info.partitions };
        unusable.into_iter().chain((0..partitions).flat_map(move |partition| {
            if failed {
                return Vec::new();
            }
            let items = rdd
                .run(site, vec![partition], Collect)
                .and_then(|parts| parts.collect::<Result<Vec<Vec<T>>>>());
            match items {
                Ok(parts) => parts.into_iter().flatten().map(Ok).collect(),
                Err(error) => {
                    failed = true;
                    vec![Err(error)]
                }
            }
        }))
    }
}

fn check(context: &Context, rdd: &Arc<RddInfo>, site: &CallSite) -> Result<()> {
    if context.is_stopped() {
        return Err(Error::ContextStopped { place: None }.at(site));
    }
    prepare(rdd)
}

/// The results of a job that runs, in the order of its partitions. The thread that takes them merges them while the
/// job goes on; when it stops, by an error or a panic, the job is cancelled.
pub(crate) struct Results<U> {
    job: RunningJob,
    output: PhantomData<fn() -> U>,
}

impl<U: Data> Iterator for Results<U> {
    type Item = Result<U>;

    fn next(&mut self) -> Option<Result<U>> {
        let result = self.job.next()?;
        Some(result.and_then(|result| on_driver(&self.job.site, || Ok(result.into_value()?))))
    }
}

/// A job whose results are taken, whatever their type is: compiled once, not for every action.
struct RunningJob {
    waiter: Arc<JobWaiter>,
    context: Context,
    lineage: Arc<RddInfo>,
    site: CallSite,
    ended: bool,
}

impl RunningJob {
    fn start(
        context: &Context,
        lineage: &Arc<RddInfo>,
        site: CallSite,
        partitions: Vec<u32>,
        body: Arc<dyn TaskBody>,
    ) -> Result<Self> {
        let waiter = Self::submit(context, lineage, site, partitions, body);
        let waiter = waiter.inspect_err(|_| interrupt::wait_if_told_to_end())?;
        let (context, lineage) = (context.clone(), lineage.clone());
        Ok(RunningJob { waiter, context, lineage, site, ended: false })
    }

    fn submit(
        context: &Context,
        lineage: &Arc<RddInfo>,
        site: CallSite,
        partitions: Vec<u32>,
        body: Arc<dyn TaskBody>,
    ) -> Result<Arc<JobWaiter>> {
        if TaskContext::current().is_some() {
            let reason = "a task cannot run jobs: call the action on the driver and pass its result \
                          with `rdd.with(..)`";
            return Err(Error::invalid(&site, reason));
        }
        check(context, lineage, &site)?;
        let LocalProperties { job: properties, future } = local_properties::get(context.id());
        let engine = &context.0.engine;
        if let Some(reason) = future.as_ref().and_then(|future| future.cancelled()) {
            let (job, action) = (engine.name_job(), site.to_string());
            return Err(JobError::Cancelled { job, action, reason }.into());
        }
        let properties = properties.with(Properties::CALL_SITE, &site.to_string());
        let waiter = engine.submit(lineage.clone(), partitions, body, properties);
        let waiter = waiter.map_err(|error| Error::from(error).at(&site))?;
        if let Some(reason) = future.and_then(|future| future.add(waiter.job())) {
            engine.cancel_job(waiter.job(), &reason);
        }
        Ok(waiter)
    }

    fn next(&mut self) -> Option<Result<Payload>> {
        if self.ended {
            return None;
        }
        let result = match self.waiter.next() {
            Some(Ok(result)) => return Some(Ok(result)),
            Some(Err(error)) => Err(Error::from(error).at(&self.site)),
            None => checkpoint::write_pending(&self.context, &self.lineage),
        };
        self.ended = true;
        result.inspect_err(|_| interrupt::wait_if_told_to_end()).err().map(Err)
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        if !self.ended {
            let reason = "the action stopped before it had all results";
            self.context.0.engine.cancel_job(self.waiter.job(), reason);
        }
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
