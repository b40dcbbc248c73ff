//! Checkpoints: an RDD's partitions are written after the first job that reads it, then everything it
//! was made from is let go of.
//!
//! ```text
//!   rdd ── checkpoint() ──► node (pending) ── first job ends ──► write job ──► cut:
//!                                                                 │   the pipeline reads files or blocks,
//!                                                                 │   the lineage ends at a new leaf,
//!                                                                 ▼   parents go with the last job that
//!                                                               done  started before
//! ```

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_closure::Data;
use firesteel_conf::entries;
use firesteel_io::{Location, Written};
use firesteel_rdd::action::Count;
use firesteel_rdd::cache::{Cached, SharedLevel};
use firesteel_rdd::checkpoint::{Checkpointed, Link, WriteCheckpoint};
use firesteel_rdd::{Boxed, Pipe};
use firesteel_shuffle::Codec;
use firesteel_storage::BlockId;
use firesteel_task::Environment;
use firesteel_types::{CallSite, Dependency, NarrowMapping, RddInfo, StorageLevel};

use super::graph::extras;
use crate::output::Output;
use crate::{Context, Error, Rdd, Result, input};

/// What a context knows of checkpoints.
#[derive(Default)]
pub(crate) struct Checkpoints {
    directory: Mutex<Option<Location>>,
    /// Asked for and not yet done.
    pending: Arc<AtomicUsize>,
}

impl Context {
    /// Where [`Rdd::checkpoint`] writes: a new directory under this one, a path or the URL of an object
    /// store. It stays when the application ends.
    #[track_caller]
    pub fn set_checkpoint_dir(&self, directory: &str) -> Result<()> {
        self.set_checkpoint_dir_at(CallSite::here("set_checkpoint_dir"), directory)
    }

    fn set_checkpoint_dir_at(&self, site: CallSite, directory: &str) -> Result<()> {
        let root = Location::parse(directory, &input::store_options(self.conf()));
        if root.local().is_some_and(|path| path.as_os_str().is_empty()) {
            let reason = "a checkpoint directory needs a name";
            return Err(Error::invalid(&site, reason));
        }
        let own = root.child(&format!("{:032x}", fastrand::u128(..)));
        if let Some(path) = own.local() {
            std::fs::create_dir_all(path).map_err(|source| {
                let (path, source) = (path.to_owned(), Arc::new(source));
                let action = "create the checkpoint directory";
                Error::Output { place: None, action, path, source }.at(&site)
            })?;
        }
        *lock(&self.0.checkpoints.directory) = Some(own);
        Ok(())
    }

    /// The directory that [`Context::set_checkpoint_dir`] chose.
    pub fn get_checkpoint_dir(&self) -> Option<String> {
        lock(&self.0.checkpoints.directory).as_ref().map(Location::to_string)
    }

    /// Made now if only `spark.checkpoint.dir` names one.
    fn checkpoint_dir(&self, site: &CallSite) -> Result<Location> {
        let set = || lock(&self.0.checkpoints.directory).clone();
        if let Some(directory) = set() {
            return Ok(directory);
        }
        if let Some(directory) = self.conf().get(&entries::CHECKPOINT_DIR)? {
            self.set_checkpoint_dir_at(*site, &directory)?;
        }
        set().ok_or_else(|| {
            let reason = "the checkpoint directory has not been set: call ctx.set_checkpoint_dir(..) \
                          or set spark.checkpoint.dir";
            Error::invalid(site, reason)
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<T: Data, P: Pipe<Item = T>> Rdd<T, P> {
    /// An RDD of the same items that is written to the checkpoint directory
    /// ([`Context::set_checkpoint_dir`]) after the first job that reads it, and read from there from
    /// then on; the RDDs it was made from are let go of. The partitions are computed once more for
    /// that, so [`Rdd::cache`] first if that takes long.
    #[track_caller]
    pub fn checkpoint(&self) -> Rdd<T> {
        let site = CallSite::here("checkpoint");
        if extras(&self.info).is_some_and(|extras| extras.checkpoint.is_some()) {
            return self.boxed();
        }
        let node = self.derive("CheckpointedRDD", site).partitioned_as(self);
        let found = self.context.checkpoint_dir(&site).and_then(|directory| {
            let conf = self.context.conf();
            let codec = firesteel_engine::codec_if(conf, conf.get(&entries::CHECKPOINT_COMPRESS)?)?;
            Ok((directory.child(&format!("rdd-{}", node.id)), codec))
        });
        let (directory, codec) = match found {
            Ok(found) => found,
            Err(error) => return node.defect(error).into_boxed(self.pipe.clone()),
        };
        let link = Link::new(self.pipe.clone());
        let work = Reliable {
            rdd: Mutex::new(Some(self.clone())),
            link: link.clone(),
            directory: directory.clone(),
            codec,
            site,
        };
        let checkpoint = Checkpoint::new(&self.context, site, Box::new(work));
        node.checkpointed(checkpoint).into_boxed(Checkpointed::new(link, directory))
    }

    /// An RDD of the same items whose partitions are cached in memory and on local disks
    /// ([`StorageLevel::MEMORY_AND_DISK`]) by the first job that reads it; the RDDs it was made from are
    /// let go of then. Quicker than [`Rdd::checkpoint`], but what is lost is lost: jobs that need it
    /// fail. With tasks in child processes (`spark.firesteel.local.transport=process`), which keep
    /// partitions each for itself, nothing is let go of.
    #[track_caller]
    pub fn local_checkpoint(&self) -> Rdd<T>
    where
        T: Clone,
    {
        let site = CallSite::here("local_checkpoint");
        let level = SharedLevel::new(StorageLevel::MEMORY_AND_DISK);
        let node = self.derive("CachedRDD", site).partitioned_as(self).persisted(&level);
        let link = Link::new(self.pipe.clone());
        let pipe = Boxed::new(Arc::new(Cached::new(link.clone(), node.id, level)));
        let work = Local { context: self.context.clone(), link, pipe: pipe.clone(), site };
        let checkpoint = Checkpoint::new(&self.context, site, Box::new(work));
        node.checkpointed(checkpoint).into_rdd(pipe)
    }
}

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// Whether the partitions are written, and its parents let go of.
    pub fn is_checkpointed(&self) -> bool {
        self.checkpoint_state().is_some_and(|checkpoint| checkpoint.is_done())
    }

    /// The directory that [`Rdd::checkpoint`] wrote, once it has.
    pub fn get_checkpoint_file(&self) -> Option<String> {
        let checkpoint = self.checkpoint_state().filter(|checkpoint| checkpoint.is_done())?;
        checkpoint.work.directory().map(Location::to_string)
    }

    fn checkpoint_state(&self) -> Option<&Checkpoint> {
        extras(&self.info)?.checkpoint.as_deref()
    }
}

/// How the partitions get to where they stay.
trait Work: Send + Sync {
    /// Writes all partitions of `node`; whether they are all there now.
    fn write(&self, node: &Arc<RddInfo>) -> Result<bool>;
    /// Lets the pipeline read what was written; what it read before.
    fn cut(&self) -> Arc<dyn Any + Send + Sync>;
    /// The kind of RDD that stands for what was written.
    fn leaf_kind(&self) -> &'static str;
    /// Where, if in files that stay.
    fn directory(&self) -> Option<&Location>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Pending,
    Running,
    Done,
}

/// The checkpoint of one node.
pub(crate) struct Checkpoint {
    status: Mutex<Status>,
    /// What the node reads until it is checkpointed.
    held: Mutex<Option<Arc<Vec<Dependency>>>>,
    work: Box<dyn Work>,
    site: CallSite,
    pending: Arc<AtomicUsize>,
    /// Whether its files go with it.
    clean: bool,
}

impl Checkpoint {
    fn new(context: &Context, site: CallSite, work: Box<dyn Work>) -> Arc<Self> {
        let pending = context.0.checkpoints.pending.clone();
        pending.fetch_add(1, Ordering::AcqRel);
        let clean = context.conf().get(&entries::CLEAN_CHECKPOINTS).unwrap_or(false);
        let status = Mutex::new(Status::Pending);
        Arc::new(Checkpoint { status, held: Mutex::default(), work, site, pending, clean })
    }

    /// Holds what the node reads.
    pub(super) fn hold(&self, dependencies: &Arc<Vec<Dependency>>) {
        *lock(&self.held) = Some(dependencies.clone());
    }

    fn is_done(&self) -> bool {
        *lock(&self.status) == Status::Done
    }

    /// Writes and cuts, unless that is done or another thread is at it.
    fn run(&self, context: &Context, node: &Arc<RddInfo>) -> Result<()> {
        let Some(turn) = Turn::take(&self.status) else { return Ok(()) };
        if self.work.write(node)? {
            self.cut(context, node);
            turn.end(Status::Done);
        }
        Ok(())
    }

    /// The pipeline first: a task that reads what was written needs nothing of the old lineage, but not
    /// the other way round.
    fn cut(&self, context: &Context, node: &Arc<RddInfo>) {
        let parents = self.work.cut();
        let (id, kind) = (context.0.engine.next_rdd(), self.work.leaf_kind());
        let mut leaf = RddInfo::new(id, kind, self.site, node.partitions, Vec::new());
        leaf.partitioner = node.partitioner.clone();
        let (rdd, mapping) = (Arc::new(leaf), NarrowMapping::OneToOne);
        if let Some(lent) = &node.lent {
            lent.replace(vec![Dependency::Narrow { rdd, mapping }]);
        }
        if let Some(extras) = extras(node) {
            extras.forget_depth();
        }
        self.pending.fetch_sub(1, Ordering::AcqRel);
        let held = lock(&self.held).take();
        context.0.engine.let_go_after_jobs(Arc::new((held, parents)));
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        let done = self.status.get_mut().is_ok_and(|status| *status == Status::Done);
        if !done {
            self.pending.fetch_sub(1, Ordering::AcqRel);
        } else if let (true, Some(directory)) = (self.clean, self.work.directory())
            && let Err(error) = directory.remove_directory()
        {
            tracing::warn!(%directory, %error, "checkpoint not removed");
        }
    }
}

/// The right to write a checkpoint; given back if that fails.
struct Turn<'a> {
    status: &'a Mutex<Status>,
    after: Status,
}

impl<'a> Turn<'a> {
    fn take(status: &'a Mutex<Status>) -> Option<Self> {
        let mut now = lock(status);
        (*now == Status::Pending).then(|| {
            *now = Status::Running;
            Turn { status, after: Status::Pending }
        })
    }

    fn end(mut self, after: Status) {
        self.after = after;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(self.status) = self.after;
    }
}

/// After a job on `rdd`: writes the checkpoints that were asked for in its lineage, the nearest of each
/// branch. Those behind them follow from the jobs that write these.
pub(super) fn write_pending(context: &Context, rdd: &Arc<RddInfo>) -> Result<()> {
    if context.0.checkpoints.pending.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    let mut seen = BTreeSet::from([rdd.id]);
    let mut todo = vec![rdd.clone()];
    while let Some(node) = todo.pop() {
        match extras(&node).and_then(|extras| extras.checkpoint.as_ref()) {
            Some(checkpoint) if !checkpoint.is_done() => checkpoint.run(context, &node)?,
            _ => todo.extend(
                node.reads().iter().map(Dependency::rdd).filter(|rdd| seen.insert(rdd.id)).cloned(),
            ),
        }
    }
    Ok(())
}

/// To files that stay.
struct Reliable<T, P> {
    /// What is written, until it is.
    rdd: Mutex<Option<Rdd<T, P>>>,
    link: Arc<Link<P>>,
    directory: Location,
    codec: Codec,
    site: CallSite,
}

impl<T: Data, P: Pipe<Item = T>> Work for Reliable<T, P> {
    fn write(&self, _: &Arc<RddInfo>) -> Result<bool> {
        let Some(rdd) = lock(&self.rdd).clone() else { return Ok(true) };
        let staged = Output::create(&self.directory, false, &rdd.context);
        let staged = staged.map_err(|error| error.at(&self.site))?;
        let action = WriteCheckpoint::new(staged.target(), self.codec);
        let files: Result<Vec<Written>> = rdd.run_all(self.site, action)?.collect();
        staged.commit(files?).map_err(|error| error.at(&self.site))?;
        Ok(true)
    }

    fn cut(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new((self.link.cut(), lock(&self.rdd).take().map(|rdd| (rdd.info, rdd.pipe))))
    }

    fn leaf_kind(&self) -> &'static str {
        "ReliableCheckpointRDD"
    }

    fn directory(&self) -> Option<&Location> {
        Some(&self.directory)
    }
}

/// To blocks of this process.
struct Local<T, P> {
    context: Context,
    link: Arc<Link<P>>,
    pipe: Boxed<T>,
    site: CallSite,
}

impl<T: Data, P: Pipe<Item = T>> Local<T, P> {
    fn missing(&self, node: &RddInfo) -> Vec<u32> {
        let blocks = self.context.0.engine.environment().blocks();
        let is_missing = |part: &u32| blocks.status(BlockId::Rdd(node.id, *part)).is_none();
        (0..node.partitions).filter(is_missing).collect()
    }
}

impl<T: Data, P: Pipe<Item = T>> Work for Local<T, P> {
    fn write(&self, node: &Arc<RddInfo>) -> Result<bool> {
        if !self.context.0.engine.caches_blocks_here() {
            return Ok(false);
        }
        let missing = self.missing(node);
        if !missing.is_empty() {
            let rdd = Rdd {
                context: self.context.clone(),
                info: node.clone(),
                pipe: Arc::new(self.pipe.clone()),
                partitioner: None,
                item: std::marker::PhantomData::<fn() -> T>,
            };
            rdd.run(self.site, missing, Count)?.try_for_each(|count| count.map(drop))?;
        }
        let missing = self.missing(node);
        if !missing.is_empty() {
            tracing::warn!(rdd = %node.id, ?missing, "partitions could not be cached: not checkpointed");
        }
        Ok(missing.is_empty())
    }

    fn cut(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.link.cut())
    }

    fn leaf_kind(&self) -> &'static str {
        "LocalCheckpointRDD"
    }

    fn directory(&self) -> Option<&Location> {
        None
    }
}
