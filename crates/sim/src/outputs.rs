//! Map outputs in the world: versions that depend on the attempt, outputs that rot, what a reader finds missing.

use firesteel_backend::fetch::Located;
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::DagEvent;
use firesteel_standalone_core::ExecutorKey;
use firesteel_types::{
    BlockLocation, Dependency, MapAttempt, MapOutputLocation, ShuffleId, TaskFailure, TaskId,
    TaskInfo,
};

use crate::driver::DriverNode;
use crate::lineage::{self, Computed, versioned};
use crate::reading::Missing;
use crate::world::{Body, Kind, ProcId, World};

/// So many versions an output may have: few, so that some attempts agree.
const VERSIONS: u64 = 2;

impl World {
    /// A map task of an indeterminate shuffle writes the version of its attempt.
    pub(crate) fn write_version(
        &mut self,
        executor: ProcId,
        shuffle: ShuffleId,
        task: &TaskInfo,
        computed: &mut Computed,
    ) {
        let Some(node) = self.driver_of(executor) else { return };
        if !node.indeterminate.contains(&shuffle) {
            return;
        }
        let (output, version) = ((shuffle, task.partition), task.task.0 % VERSIONS);
        computed.value = versioned(computed.value, Some(&version));
        computed.versions.insert(output, version);
        let before = node.last_versions.insert(output, version);
        let changed = before.is_some_and(|before| before != version);
        let task = task.task;
        self.tell(|_| format!("task {task} writes version {version} of {output:?}"));
        self.counters.outputs_changed += u64::from(changed);
    }

    /// The world knows what a task computed before its driver does.
    pub(crate) fn note_computed(&mut self, executor: ProcId, task: TaskId, computed: Computed) {
        if let Some(node) = self.driver_of(executor) {
            node.computed.insert(task, computed);
        }
    }

    fn driver_of(&mut self, executor: ProcId) -> Option<&mut DriverNode> {
        let Some(Body::Executor(executor)) = &self.procs[executor].body else { return None };
        let driver = executor.driver;
        match &mut self.procs[driver].body {
            Some(Body::Driver(node)) => Some(node),
            _ => None,
        }
    }

    /// Files of an executor that goes on living cannot be read any more.
    pub(crate) fn spoil_outputs(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Executor) else { return Ok(()) };
        let most = self.rng.usize(1..12);
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let spoilt: Vec<_> = node.blocks.keys().copied().take(most).collect();
        spoilt.iter().for_each(|block| drop(node.blocks.remove(block)));
        self.counters.outputs_spoilt += spoilt.len() as u64;
        Ok(())
    }

    /// A user drops the last handle to a shuffle: no job that comes reads it. One that runs may.
    pub(crate) fn drop_some_shuffle(&mut self) -> Result<(), String> {
        let Some(driver) = self.some(Kind::Driver) else { return Ok(()) };
        let Some(Body::Driver(node)) = &mut self.procs[driver].body else { return Ok(()) };
        let all =
            node.usable.iter().flat_map(|rdd| &rdd.dependencies).filter_map(|read| match read {
                Dependency::Shuffle { shuffle, .. } => Some(*shuffle),
                Dependency::Narrow { .. } => None,
            });
        let Some(shuffle) = self.rng.choice(all.collect::<Vec<_>>()) else { return Ok(()) };
        node.usable.retain(|rdd| !lineage::depends_on(rdd, shuffle));
        self.counters.shuffles_removed += 1;
        self.tell(|_| format!("process {driver} drops shuffle {shuffle}"));
        for proc in &mut self.procs {
            if let Some(Body::Executor(holder)) = &mut proc.body
                && holder.driver == driver
            {
                holder.blocks.retain(|(other, ..), _| *other != shuffle);
            }
        }
        let removed = DagEvent::ShuffleRemoved { shuffle };
        self.feed_schedulers(driver, vec![SchedulerInput::Dag(removed)])
    }

    /// What a reader tells of an output that it could not have: with all others that their holder cannot
    /// serve. A holder that is gone serves none, and one that is asked may not be done in time.
    pub(crate) fn fetch_failure(
        &mut self,
        reader: &ExecutorKey,
        missing: Missing,
        task: &TaskInfo,
    ) -> TaskFailure {
        let Missing::Output { shuffle, map, outputs } = missing else {
            return TaskFailure::Error { message: "no answer".to_owned() };
        };
        let at = outputs.get(map as usize).copied().flatten();
        let in_time = self.rng.u8(..4) > 0;
        let broken = at.map(|at| self.broken_outputs(reader, shuffle, map, at, &outputs, in_time));
        TaskFailure::FetchFailed {
            shuffle,
            map_partition: map,
            reduce_partition: task.partition,
            location: at.map_or(BlockLocation::DRIVER, |at| at.location),
            broken: broken.unwrap_or_default(),
            message: "it is not there".to_owned(),
        }
    }

    fn broken_outputs(
        &self,
        reader: &ExecutorKey,
        shuffle: ShuffleId,
        map: u32,
        at: MapOutputLocation,
        outputs: &[Option<MapOutputLocation>],
        in_time: bool,
    ) -> Vec<MapAttempt> {
        let holder = self.holder(reader, at.location);
        let holder = holder.filter(|holder| self.can_be_reached(*holder));
        let readable = self.survey(holder, shuffle, in_time);
        Located(outputs).broken(at.location, map, &readable)
    }

    /// The outputs of a shuffle that a holder says it can serve: none if it is gone, or does not say so in time.
    pub(crate) fn survey(
        &self,
        holder: Option<ProcId>,
        shuffle: ShuffleId,
        in_time: bool,
    ) -> Vec<MapAttempt> {
        let holder = holder.map(|holder| &self.procs[holder]);
        let holder = holder.filter(|holder| holder.alive && in_time);
        let Some(Body::Executor(node)) = holder.and_then(|holder| holder.body.as_ref()) else {
            return Vec::new();
        };
        let all = (shuffle, 0, TaskId(0))..=(shuffle, u32::MAX, TaskId(u64::MAX));
        let there = node.blocks.range(all).map(|((_, map_partition, task), _)| MapAttempt {
            map_partition: *map_partition,
            task: *task,
        });
        there.collect()
    }

    /// Executors drop outputs that nobody will read.
    pub(crate) fn drop_outputs(
        &mut self,
        driver: ProcId,
        node: &DriverNode,
        shuffle: ShuffleId,
        outputs: &[(BlockLocation, MapAttempt)],
    ) -> Result<(), String> {
        for (location, output) in outputs {
            self.counters.outputs_dropped += 1;
            let at = MapOutputLocation { location: *location, task: output.task };
            let known = node.book.outputs(shuffle);
            if known.is_some_and(|known| known[output.map_partition as usize] == Some(at)) {
                return Err(format!("S09: {output:?} is dropped while readers are sent there"));
            }
            let holders = self.procs.iter_mut().filter_map(|proc| proc.body.as_mut());
            for body in holders {
                if let Body::Executor(holder) = body
                    && holder.driver == driver
                    && location.executor() == Some(holder.key.executor)
                {
                    holder.blocks.remove(&(shuffle, output.map_partition, output.task));
                }
            }
        }
        Ok(())
    }
}

impl DriverNode {
    /// What the report of a map task of an indeterminate shuffle says of its records.
    pub(crate) fn checksum(&self, task: TaskId) -> u64 {
        let Some(shuffle) = self.shuffle_of(task) else { return 0 };
        let checked = self.indeterminate.contains(&shuffle);
        let computed = self.computed.get(&task).filter(|_| checked);
        computed.map_or(0, |computed| computed.value.max(1))
    }
}
