//! Where tasks run: in threads of this process, or on the executors of a cluster. What is decided about
//! them is the same.

use std::any::Any;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use firesteel_conf::{ByteSize, Conf, LocalTransport, Master, Threads, entries};
use firesteel_executor::Forgotten;
use firesteel_scheduler::SchedulerInput;
use firesteel_types::{
    BlockLocation, Event, ExecutorId, ExecutorInfo, Host, MapAttempt, MapOutputLocation, RddBlock,
    RddId, ShuffleId, TaskId, ThreadInfo,
};

use super::backend::{Cluster, ClusterManager, NewCluster, PreparedFile, claimant, dispatch};
use super::{Engine, local};
use crate::files::Files;
use crate::{Error, Result};

pub(super) enum Place {
    Threads { transport: LocalTransport, workers: u32, max_result_bytes: u64 },
    Cluster(Arc<Cluster>),
}

/// A place that is not used yet.
pub(crate) enum NewPlace {
    /// Threads of this process.
    Threads { transport: LocalTransport, workers: u32, max_result_bytes: u64 },
    /// A cluster that the application is registered with.
    Cluster(Box<NewCluster>),
}

impl NewPlace {
    /// The place that a master names. A task that needs more cores than there are would wait for ever.
    pub(crate) fn of(
        master: &Master,
        conf: &Conf,
        cpus_per_task: u32,
        files: &Files,
        managers: &[Arc<dyn ClusterManager>],
    ) -> Result<Self> {
        match master {
            Master::Local { threads, .. } => {
                let workers = threads_of(*threads);
                let reason = format!(
                    "it has {workers} core(s), but spark.task.cpus asks for {cpus_per_task} per \
                     task; lower spark.task.cpus or use local[{cpus_per_task}]"
                );
                if cpus_per_task > workers {
                    return Err(Error::Master { master: master.to_string(), reason });
                }
                let transport = conf.get(&entries::LOCAL_TRANSPORT)?;
                let ByteSize(max_result_bytes) = conf.get(&entries::DRIVER_MAX_RESULT_SIZE)?;
                Ok(NewPlace::Threads { transport, workers, max_result_bytes })
            }
            _ => {
                let manager = claimant(master, managers)?;
                let new = NewCluster::join(&**manager, master, conf, cpus_per_task, files)?;
                Ok(NewPlace::Cluster(Box::new(new)))
            }
        }
    }

    pub(super) fn place(&self) -> Place {
        match *self {
            NewPlace::Threads { transport, workers, max_result_bytes } => {
                Place::Threads { transport, workers, max_result_bytes }
            }
            NewPlace::Cluster(ref new) => Place::Cluster(new.cluster().clone()),
        }
    }

    pub(super) fn start(self, engine: &Arc<Engine>) -> Result<()> {
        match self {
            NewPlace::Threads { workers, .. } => {
                engine.announce()?;
                let info = ExecutorInfo::new(Host::new("localhost"), workers);
                engine.feed(SchedulerInput::ExecutorAdded { executor: ExecutorId::DRIVER, info });
                engine.heartbeats.start(engine, true)?;
                local::spawn_workers(engine, workers, local::work)
            }
            NewPlace::Cluster(new) => {
                new.start(engine)?;
                engine.heartbeats.start(engine, false)?;
                local::spawn_workers(engine, 1, dispatch)
            }
        }
    }
}

fn threads_of(threads: Threads) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u32::try_from(cores).ok().and_then(NonZeroU32::new);
    threads.resolve(cores.unwrap_or(NonZeroU32::MIN)).get()
}

impl Place {
    /// Passes the order on to the executor, if the task does not run in this process.
    pub(super) fn kill(&self, executor: ExecutorId, task: TaskId, reason: String) {
        if let Place::Cluster(cluster) = self {
            cluster.kill(executor, task, reason);
        }
    }

    /// Executors on nodes that the schedulers exclude would be of no use.
    pub(super) fn note_exclusion(&self, event: &Event) {
        let Place::Cluster(cluster) = self else { return };
        match event {
            Event::NodeExcluded { host, stage: None, .. } => {
                cluster.node_excluded(host.clone(), true);
            }
            Event::NodeUnexcluded { host, .. } => cluster.node_excluded(host.clone(), false),
            _ => {}
        }
    }

    /// Has a holder make replicas of cached partitions.
    pub(super) fn replicate(&self, holder: BlockLocation, blocks: &[RddBlock]) {
        if let Place::Cluster(cluster) = self {
            cluster.replicate(holder, blocks);
        }
    }

    /// Readies a file for executors; `None` where tasks find the driver's copy. Reads it as a whole.
    pub(super) fn prepare_file(&self, name: &str, path: &Path) -> io::Result<Option<PreparedFile>> {
        match self {
            Place::Threads { .. } => Ok(None),
            Place::Cluster(cluster) => cluster.prepare_file(name, path).map(Some),
        }
    }

    /// Tasks that are sent from now on find the file.
    pub(super) fn publish_file(&self, prepared: Option<PreparedFile>) {
        if let (Place::Cluster(cluster), Some(prepared)) = (self, prepared) {
            cluster.publish_file(prepared);
        }
    }

    pub(super) fn stop(&self) {
        if let Place::Cluster(cluster) = self {
            cluster.stop();
        }
    }
}

impl Place {
    /// Where the driver serves its blocks; on no port if nobody else can read them.
    pub(super) fn driver_address(&self) -> (Host, u16) {
        let address = match self {
            Place::Threads { .. } => None,
            Place::Cluster(cluster) => cluster.address(),
        };
        address.unwrap_or_else(|| (Host::new("localhost"), 0))
    }

    /// What the threads of an executor do; `None`: nobody tells. Waits for its answer.
    pub(super) fn threads(&self, executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
        match self {
            _ if executor == ExecutorId::DRIVER => Some(firesteel_executor::threads()),
            Place::Threads { .. } => None,
            Place::Cluster(cluster) => cluster.threads(executor),
        }
    }

    /// The id that a cluster gave the application.
    pub(super) fn application_id(&self) -> Option<String> {
        match self {
            Place::Threads { .. } => None,
            Place::Cluster(cluster) => cluster.application_id(),
        }
    }
}

impl Engine {
    /// How many tasks run at once, as far as is known.
    pub fn cores(&self) -> u32 {
        match &self.place {
            Place::Threads { workers, .. } => *workers,
            Place::Cluster(cluster) => cluster.cores().max(2),
        }
    }

    /// Bytes of broadcast values that this process sent to executors.
    pub fn served_broadcast_bytes(&self) -> u64 {
        match &self.place {
            Place::Threads { .. } => 0,
            Place::Cluster(cluster) => cluster.served_broadcast_bytes(),
        }
    }

    /// Bytes of parallelized collections that executors fetched from this process.
    pub fn served_item_bytes(&self) -> u64 {
        match &self.place {
            Place::Threads { .. } => 0,
            Place::Cluster(cluster) => cluster.served_item_bytes(),
        }
    }

    /// Bytes of all messages that launched tasks on executors.
    pub fn sent_task_bytes(&self) -> u64 {
        match &self.place {
            Place::Threads { .. } => 0,
            Place::Cluster(cluster) => cluster.sent_task_bytes(),
        }
    }

    /// Bytes of results that this process fetched from executors.
    pub fn fetched_result_bytes(&self) -> u64 {
        match &self.place {
            Place::Threads { .. } => 0,
            Place::Cluster(cluster) => cluster.fetched_result_bytes(),
        }
    }

    /// The most bytes of tasks' reports that this process has queued at once.
    pub fn most_queued_bytes(&self) -> u64 {
        match &self.place {
            Place::Threads { .. } => 0,
            Place::Cluster(cluster) => cluster.most_queued_bytes(),
        }
    }

    /// Tells readers in this process where map outputs lie. Those of a cluster ask the block master.
    pub(super) fn publish(&self, shuffle: ShuffleId, locations: &[Option<MapOutputLocation>]) {
        if let Place::Threads { .. } = &self.place {
            self.environment.publish(shuffle, locations);
        }
    }

    /// Drops map outputs that nobody will read.
    pub(super) fn drop_map_outputs(
        &self,
        shuffle: ShuffleId,
        outputs: Vec<(BlockLocation, MapAttempt)>,
    ) {
        for (location, output) in outputs {
            match &self.place {
                Place::Threads { .. } => self.environment.drop_map_output(shuffle, output),
                Place::Cluster(cluster) => {
                    cluster.forget_at(location, Forgotten::MapOutput(shuffle, output));
                }
            }
        }
    }

    /// Drops the cached partitions of an RDD, at one holder or at all, as far as they were computed before an epoch. What they
    /// hold may be dropped only without the engine's lock.
    pub(super) fn drop_cached_partitions(
        &self,
        at: Option<BlockLocation>,
        rdd: RddId,
        epoch: u64,
    ) -> Box<dyn Any + Send> {
        if let Place::Cluster(cluster) = &self.place {
            let outdated = Forgotten::Outdated(rdd, epoch);
            match at {
                Some(location) => cluster.forget_at(location, outdated),
                None => cluster.forget(outdated),
            }
        }
        Box::new(self.environment.take_outdated(rdd, epoch))
    }

    /// Tells executors what nobody needs any more.
    pub(crate) fn forget(&self, forgotten: Forgotten) {
        if let Place::Cluster(cluster) = &self.place {
            cluster.forget(forgotten);
            if let Forgotten::Broadcast(id) | Forgotten::BroadcastCopies(id) = forgotten {
                self.lock().scheduler.remove_broadcast(id);
            }
        }
    }
}
