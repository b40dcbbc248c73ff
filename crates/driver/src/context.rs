//! The context: where a program starts, where RDDs come from, where jobs are run.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use firesteel_closure::Data;
use firesteel_conf::{Conf, Loader, Master, Threads, entries};
use firesteel_executor::Forgotten;
use firesteel_rdd::Pipe;
use firesteel_rdd::source::{Empty, Parallelized, RangeItem, RangeSource};
use firesteel_scheduler::engine::Input;
use firesteel_scheduler::messages::DagEvent;
use firesteel_task::{Accumulate, Accumulator, Broadcast, BroadcastOwner};
use firesteel_types::{
    AccumulatorId, BroadcastId, CallSite, Event, ExecutorId, RddId, ShuffleId, StageId,
    StorageLevel,
};

use crate::bus::{Bus, Listener};
use crate::engine::{Engine, NewPlace};
use crate::files::Files;
use crate::local_properties;
use crate::output::Leftovers;
use crate::progress::ConsoleProgress;
use crate::rdd::{Checkpoints, Node};
use crate::{Error, Rdd, Result, interrupt, options};

/// The entry point: makes RDDs and runs their jobs. Cheap to clone; all clones are one context.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) leftovers: Leftovers,
    pub(crate) checkpoints: Checkpoints,
    files: Files,
    id: u64,
    conf: Conf,
    master: Master,
    app_name: String,
    app_id: String,
    next_rdd: AtomicU32,
    next_shuffle: AtomicU32,
    next_accumulator: AtomicU64,
    next_unique: AtomicU64,
}

/// Settings of a context to be.
///
/// What is set here wins over `--conf` and `--master` on the command line, over the environment, and
/// over `spark-defaults.conf`.
#[derive(Debug, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
    arguments: Option<Vec<String>>,
    listeners: Listeners,
}

#[derive(Default)]
struct Listeners(Vec<Box<dyn Listener>>);

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} listener(s)", self.0.len())
    }
}

impl Builder {
    /// The application's name (`spark.app.name`).
    #[must_use]
    pub fn app_name(self, name: &str) -> Self {
        self.config("spark.app.name", name)
    }

    /// Where to run (`spark.master`), e.g. `local[4]`.
    #[must_use]
    pub fn master(self, master: &str) -> Self {
        self.config("spark.master", master)
    }

    /// Any setting.
    #[must_use]
    pub fn config(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Reads `--master`, `--conf`, `--name` and `--properties-file` from these arguments instead of
    /// the process's; an empty list reads none.
    #[must_use]
    pub fn arguments<I: IntoIterator<Item: Into<String>>>(mut self, arguments: I) -> Self {
        self.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// A listener that hears everything from the start.
    #[must_use]
    pub fn listener(mut self, listener: impl Listener + 'static) -> Self {
        self.listeners.0.push(Box::new(listener));
        self
    }

    /// Starts the context.
    pub fn build(self) -> Result<Context> {
        let mut loader = Loader::from_process()?;
        if let Some(arguments) = self.arguments {
            loader = loader.arguments(arguments);
        }
        let mut conf = loader.load()?.conf;
        for (key, value) in self.settings {
            conf.set(key, value);
        }
        conf.validate()?;
        for warning in conf.warnings() {
            tracing::warn!("{warning}");
        }
        Context::start(conf, self.listeners.0)
    }
}

impl Context {
    /// Settings for a new context.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A context with settings from the command line, the environment and `spark-defaults.conf`.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    fn start(conf: Conf, listeners: Vec<Box<dyn Listener>>) -> Result<Self> {
        firesteel_storage::raise_open_file_limit();
        if cfg!(panic = "abort") {
            let message = "tasks end by unwinding: build with panic = \"unwind\"".to_owned();
            return Err(Error::Unsupported { message });
        }
        let master = conf.get(&entries::MASTER)?.unwrap_or_else(local_on_all_cores);
        let dag = options::dag_options(&conf)?;
        let tasks = options::task_options(&conf, &master)?;
        let files = Files::gather(&conf)?;
        let place = NewPlace::of(&master, &conf, tasks.cpus_per_task, &files)?;
        let bus = Bus::new(conf.get(&entries::LISTENER_BUS_CAPACITY)? as usize);
        if conf.get(&entries::SHOW_CONSOLE_PROGRESS)? && stderr_is_terminal() {
            let interval = conf.get(&entries::CONSOLE_PROGRESS_INTERVAL)?;
            bus.add(Box::new(ConsoleProgress::new(interval)));
        }
        listeners.into_iter().for_each(|listener| bus.add(listener));
        let scratch = options::scratch(&conf)?;
        let engine =
            Engine::start(place, dag, tasks, scratch, bus.clone()).inspect_err(|_| bus.close())?;
        if let Some(root) = files.root() {
            engine.environment().set_files_root(root.to_owned());
        }
        let context = Context(Arc::new(Inner::new(engine, conf, master, files)?));
        context.announce();
        if context.0.conf.get(&entries::HANDLE_INTERRUPT)? {
            interrupt::watch(Arc::downgrade(&context.0));
        }
        Ok(context)
    }

    fn announce(&self) {
        let inner = &self.0;
        if inner.conf.get(&entries::LOG_CONF).unwrap_or(false) {
            for (key, value) in inner.conf.redacted() {
                tracing::info!(key, value, "setting");
            }
        }
        inner.engine.bus().post(Event::ApplicationStart {
            name: inner.app_name.clone(),
            app_id: inner.app_id.clone(),
            at: inner.engine.now(),
        });
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let properties = inner.conf.redacted().map(owned).collect();
        inner.engine.bus().post(Event::EnvironmentUpdate { properties });
    }

    /// The settings in force.
    pub fn conf(&self) -> &Conf {
        &self.0.conf
    }

    /// The application's name.
    pub fn app_name(&self) -> &str {
        &self.0.app_name
    }

    /// The application's id, e.g. `local-1700000000000`.
    pub fn application_id(&self) -> &str {
        &self.0.app_id
    }

    /// Where it runs.
    pub fn master(&self) -> String {
        self.0.master.to_string()
    }

    /// How many partitions `parallelize` makes (`spark.default.parallelism`, else all cores).
    pub fn default_parallelism(&self) -> usize {
        let set = self.0.conf.get(&entries::DEFAULT_PARALLELISM).ok().flatten();
        set.unwrap_or_else(|| self.0.engine.cores()) as usize
    }

    /// Whether a shuffle's partitions are set for all shuffles.
    pub(crate) fn configured_parallelism(&self) -> Option<u32> {
        self.0.conf.get(&entries::DEFAULT_PARALLELISM).ok().flatten()
    }

    /// Adds a listener; it hears what happens from now on.
    pub fn add_listener(&self, listener: impl Listener + 'static) {
        self.0.engine.bus().add(Box::new(listener));
    }

    /// Waits until listeners have heard everything that has happened so far.
    pub fn wait_for_listeners(&self) {
        self.0.engine.bus().drain();
    }

    /// Cancels all jobs, ends all threads. Jobs submitted later are refused. Also done when the last
    /// clone of the context and the last RDD of it are dropped.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.engine.is_stopped()
    }
}

/// Sources.
impl Context {
    /// The items of a collection, in [`Context::default_parallelism`] partitions.
    #[track_caller]
    pub fn parallelize<T, I>(&self, items: I) -> Rdd<T, Parallelized<T>>
    where
        T: Data + Clone,
        I: IntoIterator<Item = T>,
    {
        let site = CallSite::here("parallelize");
        self.parallelize_at(site, items.into_iter().collect(), self.default_parallelism())
    }

    /// The items of a collection, in this many partitions.
    #[track_caller]
    pub fn parallelize_in<T, I>(&self, partitions: usize, items: I) -> Rdd<T, Parallelized<T>>
    where
        T: Data + Clone,
        I: IntoIterator<Item = T>,
    {
        let site = CallSite::here("parallelize_in");
        self.parallelize_at(site, items.into_iter().collect(), partitions)
    }

    fn parallelize_at<T: Data + Clone>(
        &self,
        site: CallSite,
        items: Vec<T>,
        partitions: usize,
    ) -> Rdd<T, Parallelized<T>> {
        let node = Node::new(self, "ParallelCollectionRDD", site).partition_count(partitions);
        let count = node.partitions;
        node.into_rdd(Parallelized::new(items, count))
    }

    /// The integers of a range, in [`Context::default_parallelism`] partitions.
    #[track_caller]
    pub fn range<T: RangeItem>(&self, range: Range<T>) -> Rdd<T, RangeSource<T>> {
        let site = CallSite::here("range");
        let node = Node::new(self, "RangeRDD", site).partition_count(self.default_parallelism());
        let source = RangeSource::every(range.start, range.end, node.partitions);
        let empty = || RangeSource::every(range.start, range.start, 1);
        numbers(node, source, empty, &site)
    }

    /// The integers of a range in steps (which may be negative), in this many partitions.
    #[track_caller]
    pub fn range_in<T: RangeItem>(
        &self,
        partitions: usize,
        range: Range<T>,
        step: i64,
    ) -> Rdd<T, RangeSource<T, true>> {
        let site = CallSite::here("range_in");
        let mut node = Node::new(self, "RangeRDD", site).partition_count(partitions);
        if step == 0 {
            node = node.defect(Error::invalid(&site, "the step must not be 0"));
        }
        let source = RangeSource::stepped(range.start, range.end, step, node.partitions);
        let empty = || RangeSource::stepped(range.start, range.start, 1, 1);
        numbers(node, source, empty, &site)
    }

    /// No items, no partitions.
    #[track_caller]
    pub fn empty<T: 'static>(&self) -> Rdd<T, Empty<T>> {
        Node::new(self, "EmptyRDD", CallSite::here("empty")).into_rdd(Empty::default())
    }

    /// The partitions of several RDDs, one after the other.
    #[track_caller]
    pub fn union<T: 'static>(&self, rdds: &[Rdd<T>]) -> Rdd<T> {
        crate::rdd::union_at(self, CallSite::here("union"), rdds)
    }
}

/// Shared variables.
impl Context {
    /// A read-only value for all tasks: goes to each executor once.
    ///
    /// A context that was stopped has no tasks any more: using what this returns then is an error that says so.
    #[track_caller]
    pub fn broadcast<T: Data>(&self, value: T) -> Broadcast<T> {
        // No two contexts of a process have the same: a value in the wrong hands must not pass for another.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = BroadcastId(NEXT.fetch_add(1, Ordering::Relaxed));
        let value = Arc::new(value);
        let engine = &self.0.engine;
        if engine.is_stopped() {
            let site = CallSite::here("broadcast");
            let reason =
                format!("broadcast {id} cannot be used: its context was stopped before {site}");
            return Broadcast::unusable(id, value, reason);
        }
        engine.environment().put_broadcast(id, value.clone());
        engine.bus().post(Event::BlockUpdated {
            block: format!("broadcast_{id}"),
            executor: ExecutorId::DRIVER,
            memory_bytes: size_of::<T>() as u64,
            disk_bytes: 0,
            level: StorageLevel::MEMORY_AND_DISK,
        });
        Broadcast::new(id, value, Box::new(KeptBroadcast { id, engine: engine.clone() }))
    }

    /// A variable that tasks add to and the driver reads. Each partition's additions count once,
    /// however often it is tried.
    pub fn accumulator<A: Accumulate>(&self) -> Accumulator<A> {
        let id = AccumulatorId(self.0.next_accumulator.fetch_add(1, Ordering::Relaxed));
        let accumulator = Accumulator::new(id);
        if let Some(target) = accumulator.target() {
            self.0.engine.register_accumulator(id, target);
        }
        accumulator
    }
}

/// An RDD of a range, or of nothing and with a mistake if it has too many numbers.
fn numbers<T: 'static, P: Pipe<Item = T>>(
    mut node: Node,
    source: Option<P>,
    empty: impl FnOnce() -> Option<P>,
    site: &CallSite,
) -> Rdd<T, P> {
    let source = source.or_else(|| {
        node.set_defect(Error::invalid(site, "the range holds more than 2^64 numbers"));
        empty()
    });
    node.into_rdd(source.expect("an empty range can be counted"))
}

struct KeptBroadcast {
    id: BroadcastId,
    engine: Arc<Engine>,
}

impl BroadcastOwner for KeptBroadcast {
    fn unpersist(&self) {
        self.engine.environment().unpersist_broadcast(self.id);
        self.engine.forget(Forgotten::BroadcastCopies(self.id));
    }

    fn destroy(&self, reason: &str) {
        self.engine.environment().destroy_broadcast(self.id, reason);
        self.engine.forget(Forgotten::BroadcastCopies(self.id));
        self.engine.forget(Forgotten::Broadcast(self.id));
    }
}

impl Drop for KeptBroadcast {
    fn drop(&mut self) {
        self.engine.environment().remove_broadcast(self.id);
        self.engine.forget(Forgotten::Broadcast(self.id));
        self.engine.bus().post(Event::BroadcastRemoved { broadcast: self.id });
    }
}

/// Jobs of this thread, and their cancellation.
impl Context {
    /// Puts the jobs that this thread submits from now on into a group.
    pub fn set_job_group(&self, group: &str, description: &str) {
        local_properties::change(self.0.id, |properties| {
            properties.group = Some(group.to_owned());
            properties.description = Some(description.to_owned());
        });
    }

    /// Ends what [`Context::set_job_group`] began.
    pub fn clear_job_group(&self) {
        local_properties::change(self.0.id, |properties| {
            properties.group = None;
            properties.description = None;
        });
    }

    /// Says what the jobs do that this thread submits from now on.
    pub fn set_job_description(&self, description: Option<&str>) {
        local_properties::change(self.0.id, |properties| {
            properties.description = description.map(str::to_owned);
        });
    }

    /// The pool in which jobs of this thread run from now on (`spark.scheduler.pool`), with
    /// `spark.scheduler.mode=FAIR`.
    pub fn set_pool(&self, pool: Option<&str>) {
        local_properties::change(self.0.id, |properties| {
            properties.pool = pool.map(str::to_owned);
        });
    }

    /// Cancels the running jobs of a group.
    pub fn cancel_job_group(&self, group: &str) {
        let reason = format!("job group {group} was cancelled");
        let cancelled = DagEvent::JobGroupCancelled { group: group.to_owned(), reason };
        self.0.engine.feed(Input::Dag(cancelled));
    }

    /// Cancels all running jobs.
    pub fn cancel_all_jobs(&self) {
        let reason = "all jobs were cancelled".to_owned();
        self.0.engine.feed(Input::Dag(DagEvent::AllJobsCancelled { reason }));
    }

    /// Cancels the jobs that need a stage.
    pub fn cancel_stage(&self, stage: StageId) {
        let reason = format!("stage {stage} was cancelled");
        self.0.engine.feed(Input::Dag(DagEvent::StageCancelled { stage, reason }));
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    pub(crate) fn next_rdd(&self) -> RddId {
        RddId(self.0.next_rdd.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_shuffle(&self) -> ShuffleId {
        ShuffleId(self.0.next_shuffle.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_unique(&self) -> u64 {
        self.0.next_unique.fetch_add(1, Ordering::Relaxed)
    }
}

impl Inner {
    fn new(engine: Arc<Engine>, conf: Conf, master: Master, files: Files) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let local = || format!("local-{}", since_epoch.map_or(0, |since| since.as_millis()));
        let app_id = engine.application_id().unwrap_or_else(local);
        let app_name = conf.get(&entries::APP_NAME)?.unwrap_or_else(executable_name);
        Ok(Inner {
            engine,
            leftovers: Leftovers::default(),
            checkpoints: Checkpoints::default(),
            files,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            conf,
            master,
            app_name,
            app_id,
            next_rdd: AtomicU32::new(0),
            next_shuffle: AtomicU32::new(0),
            next_accumulator: AtomicU64::new(0),
            next_unique: AtomicU64::new(0),
        })
    }

    fn stop(&self) {
        if self.engine.is_stopped() {
            return;
        }
        self.engine.stop();
        self.files.remove();
        self.engine.bus().post(Event::ApplicationEnd { at: self.engine.now() });
        self.engine.bus().close();
    }

    /// The process was told to end: as [`Inner::stop`], with a reason. Waits for the tasks.
    pub(crate) fn interrupt(&self, reason: &str) {
        let reason = reason.to_owned();
        self.engine.feed(Input::Dag(DagEvent::AllJobsCancelled { reason }));
        self.stop();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
        self.leftovers.remove();
    }
}

pub(crate) fn executable_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_stem());
    name.map_or_else(|| "firesteel".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn local_on_all_cores() -> Master {
    Master::Local { threads: Threads::All, max_failures: None }
}

fn stderr_is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}
