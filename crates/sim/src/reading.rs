//! What tasks read: map outputs, from where their executor believes that they lie, and cached partitions, from their own
//! executor or from another one.
//!
//! An executor remembers where map outputs lie and asks again only for a task that was launched in a later epoch. So
//! readers go to places that are out of date, and must find nothing there but what was registered (S21).

use std::collections::VecDeque;
use std::sync::Arc;

use firesteel_backend::fetch::Heard;
use firesteel_scheduler::messages::TaskSetKind;
use firesteel_standalone_core::ExecutorKey;
use firesteel_types::{
    BlockLocation, Dependency, MapOutputLocation, RddBlock, RddInfo, ShuffleId, StorageLevel,
    TaskId, TaskInfo,
};

use crate::driver::DriverNode;
use crate::lineage::{self, Computed, mix};
use crate::nodes::ExecutorNode;
use crate::world::{Body, ProcId, World};

/// Where map outputs lie, as an executor heard.
#[derive(Clone, Debug)]
pub(crate) struct Locations {
    pub(crate) epoch: u64,
    pub(crate) outputs: Arc<[Option<MapOutputLocation>]>,
}

/// Why a task cannot read what it needs.
pub(crate) enum Missing {
    Output {
        shuffle: ShuffleId,
        map: u32,
        /// Where its executor believes the outputs of the shuffle to lie.
        outputs: Arc<[Option<MapOutputLocation>]>,
    },
    /// The executor that has it is frozen until then.
    Paused(u64),
    /// It was told something wrong.
    Violation(String),
}

/// A partition that was computed and is to be cached.
pub(crate) type Fresh = (RddBlock, StorageLevel, Computed);

/// One task that reads.
struct Reader<'a> {
    world: &'a World,
    proc: ProcId,
    executor: &'a ExecutorNode,
    node: &'a DriverNode,
    driver_awake: u64,
    task: TaskId,
    located: Heard<Locations>,
    fresh: Vec<Fresh>,
    counted: Counted,
}

#[derive(Default)]
struct Counted {
    asked: u64,
    outdated: u64,
    remote: u64,
    gone: u64,
}

impl World {
    /// What the task computes from blocks as they lie about, and which partitions it caches.
    pub(crate) fn compute(
        &mut self,
        proc: ProcId,
        driver: ProcId,
        info: &TaskInfo,
        kind: TaskSetKind,
    ) -> Result<(Computed, Vec<Fresh>), Missing> {
        self.read(proc, driver, info, |reader| {
            let rdd = reader.node.computed_rdd(kind);
            let computed = reader.partition(&rdd, info.partition)?;
            Ok((computed, std::mem::take(&mut reader.fresh)))
        })
    }

    /// A task looks where its map outputs lie when it starts: when it reads them, that may be out of date.
    pub(crate) fn look_ahead(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let Some(Body::Executor(executor)) = &self.procs[proc].body else { return Ok(()) };
        let driver = executor.driver;
        let Some(Body::Driver(node)) = &self.procs[driver].body else { return Ok(()) };
        let Some((info, kind)) = node.tasks.get(&task).cloned() else { return Ok(()) };
        let mut shuffles = Vec::new();
        let rdd = node.computed_rdd(kind);
        lineage::shuffles_read(&rdd, info.partition, &|_| false, &mut shuffles);
        let looked = self.read(proc, driver, &info, |reader| {
            shuffles.iter().try_for_each(|(shuffle, _)| reader.locate(*shuffle).map(drop))
        });
        match looked {
            Err(Missing::Violation(broken)) => Err(broken),
            _ => Ok(()),
        }
    }

    /// The shuffles that a task reads as things are now, with their number of map outputs.
    pub(crate) fn shuffles_to_read(
        &mut self,
        proc: ProcId,
        driver: ProcId,
        info: &TaskInfo,
    ) -> Result<VecDeque<(ShuffleId, u32)>, Missing> {
        self.read(proc, driver, info, |reader| {
            let Some((_, kind)) = reader.node.tasks.get(&info.task) else {
                return Ok(VecDeque::new());
            };
            let (rdd, mut found) = (reader.node.computed_rdd(*kind), VecDeque::new());
            reader.shuffles(&rdd, info.partition, &mut found)?;
            Ok(found)
        })
    }

    /// Where the outputs of a shuffle lie, as far as a task's executor knows or hears.
    pub(crate) fn locate_for(
        &mut self,
        proc: ProcId,
        info: &TaskInfo,
        shuffle: ShuffleId,
    ) -> Result<Arc<[Option<MapOutputLocation>]>, Missing> {
        let driver = match &self.procs[proc].body {
            Some(Body::Executor(executor)) => executor.driver,
            _ => return Err(Missing::Paused(self.now)),
        };
        self.read(proc, driver, info, |reader| Ok(reader.locate(shuffle)?.outputs))
    }

    fn read<T>(
        &mut self,
        proc: ProcId,
        driver: ProcId,
        info: &TaskInfo,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Missing>,
    ) -> Result<T, Missing> {
        let located = match &mut self.procs[proc].body {
            Some(Body::Executor(executor)) => {
                std::mem::replace(&mut executor.located, Heard::new(self.settings.planted))
            }
            _ => Heard::new(self.settings.planted),
        };
        let (Some(Body::Executor(executor)), Some(Body::Driver(node))) =
            (&self.procs[proc].body, &self.procs[driver].body)
        else {
            return Err(Missing::Paused(self.now + 1000));
        };
        let mut reader = Reader {
            world: self,
            proc,
            executor,
            node,
            driver_awake: self.procs[driver].paused_until,
            task: info.task,
            located,
            fresh: Vec::new(),
            counted: Counted::default(),
        };
        let result = read(&mut reader);
        let (located, counted) = (reader.located, reader.counted);
        if let Some(Body::Executor(executor)) = &mut self.procs[proc].body {
            executor.located = located;
        }
        self.counters.locations_asked += counted.asked;
        self.counters.locations_outdated += counted.outdated;
        self.counters.cached_remote_reads += counted.remote;
        self.counters.cached_gone += counted.gone;
        result
    }
}

impl Reader<'_> {
    fn partition(&mut self, rdd: &RddInfo, partition: u32) -> Result<Computed, Missing> {
        let block = RddBlock { rdd: rdd.id, partition };
        if rdd.is_persisted()
            && let Some(found) = self.cached(block)?
        {
            return Ok(found);
        }
        let value = mix(u64::from(rdd.id.0) + 1, u64::from(partition));
        let mut computed = Computed { value, ..Computed::default() };
        for dependency in &rdd.dependencies {
            match dependency {
                Dependency::Shuffle { shuffle, rdd: parent } => {
                    for map in 0..parent.partitions {
                        let output = self.output(*shuffle, map)?;
                        let with = mix(output.value, u64::from(partition));
                        computed.add(&output, with);
                    }
                }
                Dependency::Narrow { rdd: parent, mapping } => {
                    for partition in mapping.parents(partition) {
                        let parent = self.partition(parent, partition)?;
                        computed.add(&parent, parent.value);
                    }
                }
            }
        }
        if rdd.is_persisted() {
            self.fresh.push((block, rdd.storage_level.get(), computed.clone()));
        }
        Ok(computed)
    }

    /// What is computed now: nothing behind partitions that are cached.
    fn shuffles(
        &mut self,
        rdd: &RddInfo,
        partition: u32,
        found: &mut VecDeque<(ShuffleId, u32)>,
    ) -> Result<(), Missing> {
        let block = RddBlock { rdd: rdd.id, partition };
        if rdd.is_persisted() && self.cached(block)?.is_some() {
            return Ok(());
        }
        for dependency in &rdd.dependencies {
            match dependency {
                Dependency::Shuffle { shuffle, rdd: parent } => {
                    found.push_back((*shuffle, parent.partitions));
                }
                Dependency::Narrow { rdd: parent, mapping } => {
                    for partition in mapping.parents(partition) {
                        self.shuffles(parent, partition, found)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A cached partition: one of this task, of this executor, or of another one that the driver names.
    fn cached(&mut self, block: RddBlock) -> Result<Option<Computed>, Missing> {
        let fresh = self.fresh.iter().find(|(known, ..)| *known == block);
        if let Some((_, _, computed)) = fresh {
            return Ok(Some(computed.clone()));
        }
        if let Some(here) = self.executor.store.get(block) {
            return self.not_outdated(block, here).map(Some);
        }
        self.driver_answers()?;
        let holders = self.node.scheduler.blocks().holders(block);
        for location in holders {
            self.node.book.check_holder(location, block).map_err(Missing::Violation)?;
            let holder = self.world.holder(&self.executor.key, location);
            let holder = holder.filter(|holder| *holder != self.proc);
            let holder = holder.map(|holder| &self.world.procs[holder]);
            let holder =
                holder.filter(|holder| holder.alive && holder.paused_until <= self.world.now);
            let found = match holder.and_then(|holder| holder.body.as_ref()) {
                Some(Body::Executor(holder)) => holder.store.get(block),
                _ => None,
            };
            if let Some(found) = found {
                self.counted.remote += 1;
                return self.not_outdated(block, found).map(Some);
            }
            self.counted.gone += 1;
        }
        Ok(None)
    }

    fn not_outdated(
        &self,
        block: RddBlock,
        (computed, epoch): (&Computed, u64),
    ) -> Result<Computed, Missing> {
        let checked = self.node.book.check_cached(self.task, block, epoch);
        checked.map(|()| computed.clone()).map_err(Missing::Violation)
    }

    fn driver_answers(&self) -> Result<(), Missing> {
        match self.driver_awake > self.world.now {
            true => Err(Missing::Paused(self.driver_awake)),
            false => Ok(()),
        }
    }

    /// Where the outputs of a shuffle lie: as is known here, unless the task was launched in a later epoch.
    fn locate(&mut self, shuffle: ShuffleId) -> Result<Locations, Missing> {
        let epoch = self.node.book.epoch_of(self.task);
        let blocks = self.node.scheduler.blocks();
        if let Some(known) = self.located.known(shuffle, epoch) {
            self.counted.outdated += u64::from(known.epoch < blocks.epoch());
            return Ok(known);
        }
        self.driver_answers()?;
        let outputs = blocks.map_outputs(shuffle).unwrap_or_default();
        self.node.book.check_outputs(shuffle, outputs).map_err(Missing::Violation)?;
        let located = Locations { epoch: blocks.epoch(), outputs: outputs.into() };
        self.counted.asked += 1;
        self.located.hear(shuffle, located.epoch, located.clone());
        Ok(located)
    }

    fn output(&mut self, shuffle: ShuffleId, map: u32) -> Result<Computed, Missing> {
        let fetched = self.executor.fetches.get(&self.task);
        if let Some(value) = fetched.and_then(|fetched| fetched.value(shuffle, map)) {
            return Ok(value.clone());
        }
        let Locations { outputs, .. } = self.locate(shuffle)?;
        let at = outputs.get(map as usize).copied().flatten();
        let missing = Missing::Output { shuffle, map, outputs };
        let Some(MapOutputLocation { location, task }) = at else { return Err(missing) };
        let read = self.node.book.check_read(self.task, shuffle, map, task);
        read.map_err(Missing::Violation)?;
        let Some(holder) = self.world.holder(&self.executor.key, location) else {
            return Err(missing);
        };
        if !self.world.can_be_reached(holder) {
            return Err(missing);
        }
        let holder = &self.world.procs[holder];
        if !holder.alive {
            return Err(missing);
        }
        if holder.paused_until > self.world.now {
            return Err(Missing::Paused(holder.paused_until));
        }
        let Some(Body::Executor(holder)) = &holder.body else { return Err(missing) };
        holder.blocks.get(&(shuffle, map, task)).cloned().ok_or(missing)
    }
}

impl World {
    /// Whether its driver could tell others where it serves its blocks.
    pub(crate) fn can_be_reached(&self, holder: ProcId) -> bool {
        let link = self.procs[holder].links.get(&0);
        link.is_none_or(|link| self.connections[*link].introduced)
    }

    /// The process that serves blocks of the reader's application there, dead or alive.
    pub(crate) fn holder(&self, reader: &ExecutorKey, location: BlockLocation) -> Option<ProcId> {
        let key = ExecutorKey { app: reader.app.clone(), executor: location.executor()? };
        self.executors.get(&key).copied()
    }
}
