//! Growing the lineage graph: a node under construction, and what the driver attaches to it.

use std::any::Any;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use firesteel_engine::{CachedPartitions, ShuffleHandle};
use firesteel_rdd::cache::SharedLevel;
use firesteel_rdd::{AnyPartitioner, Boxed, Pipe};
use firesteel_types::{
    Attachment, CallSite, Dependency, Determinism, Lent, NarrowMapping, PartitionerId, RddId,
    RddInfo,
};

use super::checkpoint::Checkpoint;
use crate::{Context, Error, Rdd, Result, scope};

/// Work that must be done before the first job that needs a node: sampling bounds, counting.
pub(crate) trait Prepare: Send + Sync {
    /// Does it, if it is not done.
    fn prepare(&self) -> Result<()>;
}

/// What the driver keeps with a node.
#[derive(Default)]
pub(crate) struct Extras {
    /// Why no job can use this node.
    pub(crate) defect: Option<Error>,
    pub(crate) prepare: Option<Arc<dyn Prepare>>,
    /// The map sides this node reads.
    pub(crate) _shuffles: Vec<Arc<ShuffleHandle>>,
    /// The context it belongs to.
    context: u64,
    /// How many narrow steps lie between this node and the shuffles or sources above.
    depth: AtomicU32,
    /// About how many bytes of a task's stack those steps need, this one among them.
    stack: AtomicUsize,
    /// This node and all above it are prepared and without mistakes.
    ready: AtomicBool,
    /// Its checkpoint, if one was asked for.
    pub(crate) checkpoint: Option<Arc<Checkpoint>>,
    /// How this node caches its partitions, if it does.
    pub(crate) level: Option<Arc<SharedLevel>>,
    /// The partitions this node keeps, if it does.
    _cached: Option<Arc<CachedPartitions>>,
    /// The RDDs that it is the union of, if it is one: a `Vec<Rdd<T>>`.
    pub(super) united: Option<Arc<dyn Any + Send + Sync>>,
}

impl Extras {
    /// Nothing lies above it any more.
    pub(super) fn forget_depth(&self) {
        self.depth.store(0, Ordering::Relaxed);
        self.stack.store(0, Ordering::Relaxed);
    }
}

/// More narrow steps than this nest too deeply for a thread's stack.
const DEEPEST: u32 = 5_000;
/// What all steps may need of a task's stack, which has 16 MiB.
const MOST_STACK: usize = 15 << 20;
/// What a step needs of it at most: so much, and so many times an item.
const STACK_OF_STEP: (usize, usize) = if cfg!(debug_assertions) { (2_600, 12) } else { (600, 4) };

/// A node under construction.
pub(crate) struct Node {
    pub(crate) id: RddId,
    pub(crate) partitions: u32,
    context: Context,
    kind: &'static str,
    site: CallSite,
    name: Option<String>,
    dependencies: Vec<Dependency>,
    extras: Extras,
    partitioner: Option<(PartitionerId, Arc<dyn Any + Send + Sync>)>,
    determinism: Determinism,
}

impl Node {
    pub(crate) fn new(context: &Context, kind: &'static str, site: CallSite) -> Self {
        Node {
            id: context.0.engine.next_rdd(),
            partitions: 0,
            context: context.clone(),
            kind,
            site,
            name: None,
            dependencies: Vec::new(),
            extras: Extras { context: context.id(), ..Extras::default() },
            partitioner: None,
            determinism: Determinism::Determinate,
        }
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the number of partitions; none, or more than can be numbered, is the user's mistake.
    pub(crate) fn partition_count(mut self, partitions: usize) -> Self {
        match u32::try_from(partitions) {
            Ok(count @ 1..) => self.partitions = count,
            _ => {
                self.partitions = 1;
                let reason = format!(
                    "the number of partitions must be between 1 and {}, but is {partitions}",
                    u32::MAX
                );
                self.set_defect(Error::invalid(&self.site, reason));
            }
        }
        self
    }

    pub(crate) fn one_to_one(self, parent: &Arc<RddInfo>) -> Self {
        let partitions = parent.partitions;
        self.narrow(parent, NarrowMapping::OneToOne).with_partitions(partitions)
    }

    pub(crate) fn with_partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    pub(crate) fn narrow(mut self, parent: &Arc<RddInfo>, mapping: NarrowMapping) -> Self {
        self.check_parent(parent);
        let above = extras(parent).map_or(0, |extras| extras.depth.load(Ordering::Relaxed));
        let depth = self.extras.depth.get_mut();
        *depth = (above + 1).max(*depth);
        let above = extras(parent).map_or(0, |extras| extras.stack.load(Ordering::Relaxed));
        let stack = self.extras.stack.get_mut();
        *stack = above.max(*stack);
        if *depth > DEEPEST {
            let reason = format!(
                "more than {DEEPEST} steps without a shuffle would run as one deep call; put a \
                 repartition or a checkpoint in between"
            );
            self.set_defect(Error::invalid(&self.site, reason));
        }
        self.determinism = self.determinism.max(parent.determinism());
        self.dependencies.push(Dependency::Narrow { rdd: parent.clone(), mapping });
        self
    }

    pub(crate) fn reads(mut self, shuffle: Arc<ShuffleHandle>, parent: &Arc<RddInfo>) -> Self {
        self.check_parent(parent);
        self.determinism = self.determinism.max(parent.determinism().after_shuffle());
        let id = shuffle.shuffle();
        self.dependencies.push(Dependency::Shuffle { shuffle: id, rdd: parent.clone() });
        self.extras._shuffles.push(shuffle);
        self
    }

    /// What it computes depends on the order of what it reads. To be said after what it reads.
    pub(crate) fn order_sensitive(mut self) -> Self {
        self.determinism = self.determinism.after_order_sensitive();
        self
    }

    /// What it computes may come in another order next time. To be said after what it reads.
    pub(crate) fn reordering(mut self) -> Self {
        self.determinism = self.determinism.after_reordering();
        self
    }

    /// What it computes may be something else next time.
    pub(crate) fn indeterminate(mut self) -> Self {
        self.determinism = Determinism::Indeterminate;
        self
    }

    /// Ids, shuffles and blocks belong to one context: two cannot be mixed.
    fn check_parent(&mut self, parent: &RddInfo) {
        let other = extras(parent).is_some_and(|extras| extras.context != self.context.id());
        if other {
            let reason = "both RDDs must come from the same context; collect one side and \
                          parallelize it in the other's context";
            self.set_defect(Error::invalid(&self.site, reason));
        }
    }

    pub(crate) fn prepared_by(mut self, prepare: Arc<dyn Prepare>) -> Self {
        self.extras.prepare = Some(prepare);
        self
    }

    pub(crate) fn partitioned_by<K: 'static>(mut self, partitioner: &AnyPartitioner<K>) -> Self {
        self.partitioner = Some((partitioner.id().clone(), Arc::new(partitioner.clone())));
        self
    }

    /// Keeps the parent's partitioner: keys do not change.
    pub(crate) fn partitioned_as<T, P>(self, parent: &Rdd<T, P>) -> Self {
        self.partitioned_with(&parent.info, &parent.partitioner)
    }

    fn partitioned_with(
        mut self,
        parent: &RddInfo,
        partitioner: &Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        self.partitioner = parent.partitioner.clone().zip(partitioner.clone());
        self
    }

    pub(crate) fn persisted(mut self, level: &Arc<SharedLevel>) -> Self {
        self.extras.level = Some(level.clone());
        self.extras._cached = Some(self.context.0.engine.cache_partitions(self.id));
        self
    }

    /// It is the union of these, and nothing else.
    pub(super) fn uniting<T: 'static>(mut self, rdds: Vec<Rdd<T>>) -> Self {
        self.extras.united = Some(Arc::new(rdds));
        self
    }

    pub(crate) fn checkpointed(mut self, checkpoint: Arc<Checkpoint>) -> Self {
        self.extras.checkpoint = Some(checkpoint);
        self
    }

    pub(crate) fn defect(mut self, error: Error) -> Self {
        self.set_defect(error);
        self
    }

    pub(crate) fn set_defect(&mut self, error: Error) {
        self.extras.defect.get_or_insert(error);
    }

    /// Adds what this step needs of the stack, with items of this size.
    fn check_stack(&mut self, item: usize) {
        let stack = self.extras.stack.get_mut();
        let (fixed, copies) = STACK_OF_STEP;
        *stack = stack.saturating_add(fixed + copies * item);
        if *stack > MOST_STACK {
            let reason = format!(
                "so many steps without a shuffle, with items of {item} bytes here, would overflow the stack of a task; put a \
                 repartition or a checkpoint in between, or large items in a Box"
            );
            self.set_defect(Error::invalid(&self.site, reason));
        }
    }

    pub(crate) fn into_rdd<T: 'static, P: Pipe<Item = T>>(self, pipe: P) -> Rdd<T, P> {
        let (context, info, partitioner) = self.finish(size_of::<T>());
        Rdd { context, info, pipe: Arc::new(pipe), partitioner, item: PhantomData }
    }

    /// An RDD whose pipeline's type is hidden, and never spelled out.
    pub(crate) fn into_boxed<T: 'static, P: Pipe<Item = T>>(self, pipe: P) -> Rdd<T> {
        self.into_rdd(Boxed::new(pipe))
    }

    /// All of an RDD but its pipeline, with items of this size. Compiled once, not for every pipeline.
    fn finish(
        mut self,
        item: usize,
    ) -> (Context, Arc<RddInfo>, Option<Arc<dyn Any + Send + Sync>>) {
        self.check_stack(item);
        let (id, partitioner) = self.partitioner.unzip();
        let (dependencies, lent) = match &self.extras.checkpoint {
            None => (self.dependencies, None),
            Some(checkpoint) => {
                let held = Arc::new(self.dependencies);
                checkpoint.hold(&held);
                (Vec::new(), Some(Lent::new(&held)))
            }
        };
        let mut info = RddInfo::new(self.id, self.kind, self.site, self.partitions, dependencies);
        info.name = self.name;
        info.enclosing = scope::current();
        info.lent = lent;
        info.partitioner = id;
        info.level = self.determinism;
        if let Some(level) = &self.extras.level {
            info.storage_level.set(level.get());
        }
        info.attachment = Attachment(Some(Arc::new(self.extras)));
        (self.context, Arc::new(info), partitioner)
    }
}

/// Does what the nodes under `rdd` want done before a job; finds the mistakes in them. Parents first.
/// What was found ready is not looked at again, so that a long loop of jobs stays linear.
pub(crate) fn prepare(rdd: &Arc<RddInfo>) -> Result<()> {
    let mut nodes = unprepared(rdd);
    // Ids grow from parents to children.
    nodes.sort_by_key(|node| node.id);
    for extras in nodes.iter().filter_map(|node| extras(node)) {
        if let Some(defect) = &extras.defect {
            return Err(defect.clone());
        }
        if let Some(prepare) = &extras.prepare {
            prepare.prepare()?;
        }
        extras.ready.store(true, Ordering::Release);
    }
    Ok(())
}

fn unprepared(rdd: &Arc<RddInfo>) -> Vec<Arc<RddInfo>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut pending = vec![rdd.clone()];
    while let Some(node) = pending.pop() {
        let ready = extras(&node).is_some_and(|extras| extras.ready.load(Ordering::Acquire));
        if !ready && seen.insert(node.id) {
            pending.extend(node.reads().iter().map(|dependency| dependency.rdd().clone()));
            found.push(node);
        }
    }
    found
}

pub(crate) fn extras(node: &RddInfo) -> Option<&Extras> {
    node.attachment.0.as_ref()?.downcast_ref()
}
