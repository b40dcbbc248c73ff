//! The context: where a program starts, where RDDs come from, where jobs are run.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firesteel_closure::Data;
use firesteel_conf::{Conf, Loader, entries};
use firesteel_engine::{ClusterManager, Engine, Listener};
use firesteel_rdd::Pipe;
use firesteel_rdd::source::{Empty, NumberRange, Parallelized, RangeItem, RangeSource};
use firesteel_task::{Accumulate, Accumulator, Broadcast};
use firesteel_types::{CallSite, Properties, StageId};

use crate::monitoring::{self, Ui};
use crate::output::Leftovers;
use crate::progress::ConsoleProgress;
use crate::rdd::{Checkpoints, Node};
use crate::status_tracker::StatusTracker;
use crate::{Error, Rdd, Result, interrupt, local_properties};

/// The entry point: makes RDDs and runs their jobs. Cheap to clone; all clones are one context.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) leftovers: Leftovers,
    pub(crate) checkpoints: Checkpoints,
    progress: Option<ConsoleProgress>,
    ui: Ui,
    id: u64,
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
    managers: Managers,
}

#[derive(Default)]
struct Managers(Vec<Arc<dyn ClusterManager>>);

impl std::fmt::Debug for Managers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|manager| manager.name())).finish()
    }
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

    /// A setting by its key, such as `spark.task.maxFailures`; a later value replaces an earlier one. Whether the value
    /// is valid, [`Builder::build`] tells.
    #[must_use]
    pub fn config(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Reads `--master`, `--conf` and `--properties-file` from these arguments instead of
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

    /// A kind of cluster that the application may run on, beside those that every program knows.
    #[cfg(feature = "cluster")]
    #[must_use]
    pub fn cluster_manager(mut self, manager: Arc<dyn ClusterManager>) -> Self {
        self.managers.0.push(manager);
        self
    }

    /// Starts the application: its threads, or on a cluster its executors. The error says which setting is wrong, or
    /// what could not be started.
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
        let managers = [self.managers.0, known_managers()].concat();
        Context::start(conf, self.listeners.0, &managers)
    }
}

/// Kinds of clusters that the program was built for, beside those that the engine knows.
#[cfg(feature = "kubernetes")]
fn known_managers() -> Vec<Arc<dyn ClusterManager>> {
    vec![Arc::new(firesteel_kubernetes::Kubernetes)]
}

#[cfg(not(feature = "kubernetes"))]
fn known_managers() -> Vec<Arc<dyn ClusterManager>> {
    Vec::new()
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

    fn start(
        mut conf: Conf,
        mut listeners: Vec<Box<dyn Listener>>,
        managers: &[Arc<dyn ClusterManager>],
    ) -> Result<Self> {
        let shows_progress = conf.get(&entries::SHOW_CONSOLE_PROGRESS)? && stderr_is_terminal();
        let interval = conf.get(&entries::CONSOLE_PROGRESS_INTERVAL)?;
        let handles_interrupt = conf.get(&entries::HANDLE_INTERRUPT)?;
        listeners.extend(monitoring::listeners(&conf)?);
        // Before the engine, which tells a master where it is.
        let ui = Ui::open(&mut conf)?;
        let engine = Engine::start_on(conf, listeners, managers)?;
        ui.show(&engine)?;
        let progress = shows_progress.then(|| ConsoleProgress::start(&engine, interval));
        let context = Context(Arc::new(Inner::new(engine, progress, ui)));
        if handles_interrupt {
            interrupt::watch(Arc::downgrade(&context.0));
        }
        Ok(context)
    }

    /// The settings in force.
    pub fn conf(&self) -> &Conf {
        self.0.engine.conf()
    }

    /// As set by [`Builder::app_name`] or `spark.app.name`.
    pub fn app_name(&self) -> &str {
        self.0.engine.app_name()
    }

    /// The application's id, e.g. `local-1700000000000`.
    pub fn application_id(&self) -> &str {
        self.0.engine.application_id()
    }

    /// The master's URL in force, such as `local[4]` or `spark://host:7077`.
    pub fn master(&self) -> String {
        self.0.engine.master().to_string()
    }

    /// How many partitions `parallelize` makes (`spark.default.parallelism`, else all cores).
    pub fn default_parallelism(&self) -> usize {
        self.configured_parallelism().unwrap_or_else(|| self.0.engine.cores()) as usize
    }

    /// Whether a shuffle's partitions are set for all shuffles.
    pub(crate) fn configured_parallelism(&self) -> Option<u32> {
        self.conf().get(&entries::DEFAULT_PARALLELISM).ok().flatten()
    }

    /// Where the application answers requests of Spark's REST API, `http://ADDRESS/api/v1`; `None` if
    /// `spark.ui.enabled` is false or no port could be had.
    #[cfg(feature = "monitor")]
    pub fn ui_address(&self) -> Option<std::net::SocketAddr> {
        self.0.ui.address()
    }

    /// Adds a listener; it hears what happens from now on.
    pub fn add_listener(&self, listener: impl Listener + 'static) {
        self.0.engine.add_listener(Box::new(listener));
    }

    /// Waits until listeners have heard everything that has happened so far.
    pub fn wait_for_listeners(&self) {
        self.0.engine.wait_for_listeners();
    }

    /// Looks at how jobs, stages and executors stand.
    pub fn status_tracker(&self) -> StatusTracker {
        StatusTracker::new(self.0.engine.clone())
    }

    /// Cancels all jobs, ends all threads. Jobs submitted later are refused. Also done when the last
    /// clone of the context and the last RDD of it are dropped.
    pub fn stop(&self) {
        self.0.stop(0);
    }

    /// The same; listeners are told that the program is going to end with this code.
    pub fn stop_with_exit_code(&self, exit_code: i32) {
        self.0.stop(exit_code);
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

    /// The integers of a range (`0..10`, `1..=10u8`), in [`Context::default_parallelism`] partitions.
    #[track_caller]
    pub fn range<T: RangeItem>(&self, range: impl NumberRange<T>) -> Rdd<T, RangeSource<T>> {
        let site = CallSite::here("range");
        let node = Node::new(self, "RangeRDD", site).partition_count(self.default_parallelism());
        let (start, end, inclusive) = range.bounds();
        let source = RangeSource::every(start, end, inclusive, node.partitions);
        numbers(node, source, || RangeSource::every(start, start, false, 1), &site)
    }

    /// The integers of a range in steps (which may be negative), in this many partitions.
    #[track_caller]
    pub fn range_in<T: RangeItem>(
        &self,
        partitions: usize,
        range: impl NumberRange<T>,
        step: i64,
    ) -> Rdd<T, RangeSource<T, true>> {
        let site = CallSite::here("range_in");
        let mut node = Node::new(self, "RangeRDD", site).partition_count(partitions);
        if step == 0 {
            node = node.defect(Error::invalid(&site, "the step must not be 0"));
        }
        let (start, end, inclusive) = range.bounds();
        let source = RangeSource::stepped(start, end, inclusive, step, node.partitions);
        numbers(node, source, || RangeSource::stepped(start, start, false, 1, 1), &site)
    }

    /// No items, no partitions.
    #[track_caller]
    pub fn empty<T: 'static>(&self) -> Rdd<T, Empty<T>> {
        Node::new(self, "EmptyRDD", CallSite::here("empty")).into_rdd(Empty::default())
    }

    /// The partitions of several RDDs, one after the other. RDDs whose pipelines have different types (a `map` and a
    /// `filter`) are made one type by [`Rdd::boxed`]: `ctx.union(&[a.boxed(), b.boxed()])`.
    #[track_caller]
    pub fn union<T: 'static, P: Pipe<Item = T>>(&self, rdds: &[Rdd<T, P>]) -> Rdd<T> {
        let boxed: Vec<Rdd<T>> = rdds.iter().map(Rdd::boxed).collect();
        crate::rdd::union_at(self, CallSite::here("union"), &boxed)
    }
}

/// Shared variables.
impl Context {
    /// A read-only value for all tasks: goes to each executor once.
    ///
    /// A context that was stopped has no tasks any more: using what this returns then is an error that says so.
    #[track_caller]
    pub fn broadcast<T: Data>(&self, value: T) -> Broadcast<T> {
        self.0.engine.broadcast(value, CallSite::here("broadcast"))
    }

    /// A variable that tasks add to and the driver reads. Each partition's additions count once,
    /// however often it is tried.
    pub fn accumulator<A: Accumulate>(&self) -> Accumulator<A> {
        self.0.engine.accumulator()
    }

    /// One with a name: listeners hear what each task that counts added
    /// ([`Event::AccumulableUpdated`](firesteel_types::Event)), and the status shows it with its stage.
    pub fn named_accumulator<A: Accumulate + Display>(&self, name: &str) -> Accumulator<A> {
        self.0.engine.named_accumulator(name)
    }
}

/// Files for tasks.
impl Context {
    /// Gives the driver and every executor, also those that come later, a copy of a file: a path of the driver's machine, or a URL
    /// (`http`, `https` and object stores, with the feature `object-store`). Tasks that start after this find it by its name, the
    /// last part of the path, with [`SparkFiles::get`](firesteel_task::SparkFiles::get).
    ///
    /// A file that is there already with the same content changes nothing. One of the same name with other content is refused,
    /// unless `spark.files.overwrite` is true: then tasks that start after this find the new one.
    #[track_caller]
    pub fn add_file(&self, path: &str) -> Result<()> {
        let site = CallSite::here("add_file");
        self.0.engine.add_file(path).map_err(|error| match error {
            firesteel_engine::Error::File { file, reason } => {
                Error::invalid(&site, format!("{file}: {reason}"))
            }
            other => Error::from(other).at(&site),
        })
    }

    /// The files of `spark.files` and [`Context::add_file`] in the order of their names: paths, and URLs without their queries.
    pub fn list_files(&self) -> Vec<String> {
        self.0.engine.list_files()
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
        node.set_defect(Error::invalid(site, "the range holds 2^64 numbers or more"));
        empty()
    });
    node.into_rdd(source.expect("an empty range can be counted"))
}

/// Jobs of this thread, and their cancellation.
impl Context {
    /// Sets a property of the jobs that this thread submits from now on, or removes it.
    pub fn set_local_property(&self, key: &str, value: Option<&str>) {
        local_properties::change(self.0.id, |properties| properties.job.set(key, value));
    }

    /// A property that this thread has set for its jobs.
    pub fn local_property(&self, key: &str) -> Option<String> {
        local_properties::get(self.0.id).job.get(key).map(str::to_owned)
    }

    /// Puts the jobs that this thread submits from now on into a group.
    pub fn set_job_group(&self, group: &str, description: &str) {
        self.set_local_property(Properties::GROUP, Some(group));
        self.set_local_property(Properties::DESCRIPTION, Some(description));
    }

    /// Ends what [`Context::set_job_group`] began.
    pub fn clear_job_group(&self) {
        self.set_local_property(Properties::GROUP, None);
        self.set_local_property(Properties::DESCRIPTION, None);
    }

    /// Says what the jobs do that this thread submits from now on.
    pub fn set_job_description(&self, description: Option<&str>) {
        self.set_local_property(Properties::DESCRIPTION, description);
    }

    /// The pool in which jobs of this thread run from now on (`spark.scheduler.pool`), with
    /// `spark.scheduler.mode=FAIR`.
    pub fn set_pool(&self, pool: Option<&str>) {
        self.set_local_property(Properties::POOL, pool);
    }

    /// Adds a tag to the jobs that this thread submits from now on. A tag is not empty and has no comma.
    #[track_caller]
    pub fn add_job_tag(&self, tag: &str) -> Result<()> {
        let site = CallSite::here("add_job_tag");
        if tag.is_empty() || tag.contains(',') {
            let reason = format!("a tag is not empty and has no comma, unlike {tag:?}");
            return Err(Error::invalid(&site, reason));
        }
        local_properties::change(self.0.id, |properties| {
            properties.job.tags_mut().insert(tag.to_owned());
        });
        Ok(())
    }

    /// Takes back what [`Context::add_job_tag`] did.
    pub fn remove_job_tag(&self, tag: &str) {
        local_properties::change(self.0.id, |properties| {
            properties.job.tags_mut().remove(tag);
        });
    }

    /// Removes all tags of this thread.
    pub fn clear_job_tags(&self) {
        local_properties::change(self.0.id, |properties| properties.job.tags_mut().clear());
    }

    /// The tags of the jobs that this thread submits.
    pub fn job_tags(&self) -> BTreeSet<String> {
        local_properties::get(self.0.id).job.tags().clone()
    }

    /// Cancels the running jobs of a group.
    pub fn cancel_job_group(&self, group: &str) {
        self.0.engine.cancel_job_group(group, &format!("job group {group} was cancelled"));
    }

    /// Cancels the running jobs that have a tag.
    pub fn cancel_jobs_with_tag(&self, tag: &str) {
        self.0.engine.cancel_jobs_with_tag(tag, &format!("jobs with tag {tag} were cancelled"));
    }

    /// Cancels all running jobs.
    pub fn cancel_all_jobs(&self) {
        self.0.engine.cancel_all_jobs("all jobs were cancelled");
    }

    /// Cancels the jobs that need a stage.
    pub fn cancel_stage(&self, stage: StageId) {
        self.0.engine.cancel_stage(stage, &format!("stage {stage} was cancelled"));
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    pub(crate) fn next_unique(&self) -> u64 {
        self.0.next_unique.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a program ends with whose main thread panicked.
const PANICKED: i32 = 101;

impl Inner {
    fn new(engine: Arc<Engine>, progress: Option<ConsoleProgress>, ui: Ui) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Inner {
            engine,
            progress,
            ui,
            leftovers: Leftovers::default(),
            checkpoints: Checkpoints::default(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            next_unique: AtomicU64::new(0),
        }
    }

    fn stop(&self, exit_code: i32) {
        self.engine.stop_with(exit_code);
        self.ui.stop();
        self.progress.iter().for_each(ConsoleProgress::stop);
    }

    /// The process was told to end: as [`Context::stop`], with a reason. Waits for the tasks.
    pub(crate) fn interrupt(&self, reason: &str, exit_code: i32) {
        self.engine.cancel_all_jobs(reason);
        self.stop(exit_code);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop(if std::thread::panicking() { PANICKED } else { 0 });
        self.leftovers.remove();
    }
}

fn stderr_is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}
