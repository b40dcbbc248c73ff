//! Rules of the block master, and what the schedulers' shell is told to do about blocks.

use firesteel_types::{Event, ExecutorId, ExecutorInfo, MapStatus, StorageLevel, TaskId, Tick};

use super::*;
use crate::messages::{DagEvent, DagOptions, TaskOptions};
use crate::{Scheduler, SchedulerEffect, SchedulerInput};

const RDD: RddId = RddId(7);

fn at(executor: u32) -> BlockLocation {
    ExecutorId(executor).into()
}

fn block(partition: u32) -> RddBlock {
    RddBlock { rdd: RDD, partition }
}

fn stored(level: StorageLevel) -> BlockStatus {
    BlockStatus { memory_bytes: 10, disk_bytes: 0, level, epoch: 0 }
}

/// A master with executors 1, 2 and 3, all on one host.
fn master() -> BlockMaster {
    let mut master = BlockMaster::new(true, Planted::default());
    (1..4).for_each(|executor| master.add_holder(at(executor), Host::new("h")));
    master
}

fn cache(master: &mut BlockMaster, executor: u32, partition: u32, level: StorageLevel) -> Noted {
    let status = BlockStatus { epoch: master.epoch(), ..stored(level) };
    master.update(at(executor), block(partition), Some(status))
}

#[test]
fn holders_come_and_go_by_block_by_rdd_and_by_loss() {
    let mut master = master();
    let level = StorageLevel::MEMORY_ONLY;
    let other = RddBlock { rdd: RddId(8), partition: 0 };
    assert_eq!(cache(&mut master, 1, 0, level), Noted::Yes);
    assert_eq!(cache(&mut master, 2, 0, level), Noted::Yes);
    master.update(at(1), other, Some(stored(level)));
    assert_eq!(master.holders(block(0)), [at(1), at(2)].into());
    assert_eq!(master.update(at(2), block(0), None), Noted::Yes);
    assert_eq!(master.holders(block(0)), [at(1)].into());
    master.unpersist(RDD);
    assert!(master.holders(block(0)).is_empty() && !master.holders(other).is_empty());
    let late = cache(&mut master, 2, 0, level);
    assert_eq!(late, Noted::Outdated(2), "what comes late is for nobody");
    assert_eq!(master.update(at(2), block(0), None), Noted::Yes);
    master.persist(RDD);
    assert_eq!(cache(&mut master, 2, 0, level), Noted::Yes);
    master.remove_holder(at(1));
    assert!(master.holders(other).is_empty() && master.cached_rdds() == 1);
    assert_eq!(cache(&mut master, 1, 1, level), Noted::Ignored, "it is lost");
    master.drop_cached(RDD);
    assert_eq!(master.cached_rdds(), 0);
    assert_eq!(cache(&mut master, 2, 0, level), Noted::Yes, "it stays persisted");
}

#[test]
fn partitions_with_too_few_replicas_are_replicated_by_those_that_have_them() {
    let mut master = BlockMaster::new(true, Planted::default());
    (1..3).for_each(|executor| master.add_holder(at(executor), Host::new("h")));
    for partition in 0..2 {
        cache(&mut master, 1, partition, StorageLevel::DISK_ONLY_3);
        cache(&mut master, 2, partition, StorageLevel::DISK_ONLY_3);
    }
    cache(&mut master, 1, 2, StorageLevel::MEMORY_ONLY);
    cache(&mut master, 1, 3, StorageLevel::MEMORY_ONLY_2);
    assert_eq!(master.to_replicate(), [(at(1), vec![block(3)])].into(), "nobody else is there");
    master.add_holder(at(3), Host::new("h"));
    let short = [(at(1), vec![block(0), block(3)]), (at(2), vec![block(1)])];
    assert_eq!(master.to_replicate(), short.into());
    cache(&mut master, 3, 3, StorageLevel::MEMORY_ONLY_2);
    master.remove_holder(at(1));
    let short = [(at(2), vec![block(0), block(1)]), (at(3), vec![block(3)])];
    assert_eq!(master.to_replicate(), short.into());
    master.remove_holder(at(2));
    assert_eq!(master.to_replicate(), [].into());
    let mut idle = BlockMaster::new(false, Planted::default());
    (1..3).for_each(|executor| idle.add_holder(at(executor), Host::new("h")));
    cache(&mut idle, 1, 3, StorageLevel::MEMORY_ONLY_2);
    assert_eq!(idle.to_replicate(), [].into(), "it is not asked for");
}

#[test]
fn what_was_not_heard_is_found_in_what_a_holder_says_later() {
    let mut master = master();
    let (level, status) = (StorageLevel::MEMORY_ONLY, stored(StorageLevel::MEMORY_ONLY));
    cache(&mut master, 1, 0, level);
    cache(&mut master, 1, 1, level);
    cache(&mut master, 2, 3, level);
    let says = [(block(1), status), (block(2), status)];
    let differences = master.differences(at(1), &says);
    assert_eq!(differences, [(block(0), None), (block(2), Some(status))]);
    assert!(master.differences(at(2), &[(block(3), status)]).is_empty());
    assert_eq!(master.differences(at(3), &says).len(), 2);
}

#[test]
fn replicas_go_to_other_hosts_first_and_to_all_executors_in_turn() {
    let mut master = BlockMaster::new(true, Planted::default());
    for executor in 0..6 {
        master.add_holder(at(executor), Host::new(if executor < 2 { "a" } else { "b" }));
    }
    let mut first = BTreeSet::new();
    for partition in 0..100 {
        cache(&mut master, 0, partition, StorageLevel::MEMORY_ONLY_2);
        let Peers { replicas, candidates } = master.peers(at(0), block(partition));
        assert_eq!((replicas, candidates.len()), (0, 5));
        assert_eq!(candidates[4], at(1), "its own host comes last");
        first.insert(candidates[0]);
        let chosen = candidates[0].executor().unwrap().0;
        cache(&mut master, chosen, partition, StorageLevel::MEMORY_ONLY_2);
        let rest = Peers { replicas: 1, candidates: candidates[1..].to_vec() };
        assert_eq!(master.peers(at(0), block(partition)), rest, "who has one is not asked");
    }
    assert_eq!(first.len(), 4, "all of the other host get some");
    master.remove_holder(at(0));
    let none = Peers::default();
    assert_eq!(master.peers(at(0), block(7)), none, "nobody would make the rest of its replicas");
}

#[test]
fn every_publication_begins_an_epoch_and_what_was_lost_is_not_located() {
    let mut master = master();
    let shuffle = ShuffleId(0);
    assert_eq!((master.epoch(), master.map_outputs(shuffle)), (0, None));
    let written = |executor, task| MapOutputLocation { location: at(executor), task: TaskId(task) };
    let outputs = master.outputs_mut();
    outputs.ensure(shuffle, 2);
    outputs.register(shuffle, 0, written(1, 5), MapStatus::default());
    outputs.register(shuffle, 1, written(2, 6), MapStatus::default());
    assert!(outputs.publication(shuffle).is_some() && outputs.publication(shuffle).is_none());
    assert_eq!(master.epoch(), 1);
    let located = [Some(written(1, 5)), Some(written(2, 6))];
    assert_eq!(master.map_outputs(shuffle), Some(&located[..]));
    assert_eq!(master.outputs_mut().lose(at(2)), [shuffle]);
    assert!(master.outputs_mut().publication(shuffle).is_some());
    let located = [Some(written(1, 5)), None];
    assert_eq!((master.epoch(), master.map_outputs(shuffle)), (2, Some(&located[..])));
    master.outputs_mut().remove(shuffle);
    assert_eq!((master.epoch(), master.map_outputs(shuffle)), (2, None));
}

/// A scheduler with executors, and what it says about blocks.
struct Shell(Scheduler);

impl Shell {
    fn feed(&mut self, input: SchedulerInput) -> Vec<String> {
        let mut out = Vec::new();
        self.0.handle(Tick(1), input, &mut out);
        out.iter().filter_map(told).collect()
    }

    fn add(&mut self, executor: u32) -> Vec<String> {
        let info = ExecutorInfo::new(Host::new("h"), 1);
        self.feed(SchedulerInput::ExecutorAdded { executor: ExecutorId(executor), info })
    }

    fn lose(&mut self, executor: u32) -> Vec<String> {
        let (executor, reason) = (ExecutorId(executor), String::new());
        let (caused_by_app, outputs_lost) = (false, true);
        self.feed(SchedulerInput::ExecutorLost { executor, caused_by_app, outputs_lost, reason })
    }

    fn update(&mut self, executor: u32, partition: u32) -> Vec<String> {
        self.update_of(self.0.blocks().epoch(), executor, partition)
    }

    /// Of a partition that was computed in this epoch.
    fn update_of(&mut self, epoch: u64, executor: u32, partition: u32) -> Vec<String> {
        let status = Some(BlockStatus { epoch, ..stored(StorageLevel::MEMORY_ONLY_2) });
        self.feed(SchedulerInput::BlockUpdated {
            location: at(executor),
            block: block(partition),
            status,
        })
    }

    fn report(&mut self, executor: u32, partitions: &[u32]) -> Vec<String> {
        let status = stored(StorageLevel::MEMORY_ONLY_2);
        let cached = partitions.iter().map(|partition| (block(*partition), status)).collect();
        self.feed(SchedulerInput::BlocksReported { location: at(executor), cached })
    }
}

fn told(effect: &SchedulerEffect) -> Option<String> {
    match effect {
        SchedulerEffect::DropCachedPartitions { at, rdd, epoch } => {
            let at = at.map_or("everybody".to_owned(), |at| at.to_string());
            Some(format!("{at} drops {rdd} before {epoch}"))
        }
        SchedulerEffect::ReplicateBlocks { holder, blocks } => {
            let blocks: Vec<String> = blocks.iter().map(RddBlock::to_string).collect();
            Some(format!("{holder} replicates {}", blocks.join(" ")))
        }
        SchedulerEffect::Post(Event::BlockUpdated { block, executor, level, .. }) => {
            Some(format!("{block} on {executor}: {}", level.replication))
        }
        _ => None,
    }
}

#[test]
fn messages_about_blocks_become_events_and_orders_and_nothing_after_a_loss() {
    let mut shell = Shell(Scheduler::new(DagOptions::default(), TaskOptions::default()));
    assert!(shell.update(1, 0).is_empty(), "nobody knows it yet");
    shell.add(1);
    assert_eq!(shell.update(1, 0), ["rdd_7_0 on 1: 2"]);
    assert_eq!(shell.report(1, &[1]), ["rdd_7_0 on 1: 1", "rdd_7_1 on 1: 2"]);
    assert_eq!(shell.add(2), ["executor 1 replicates rdd_7_1"]);
    assert_eq!(shell.update(2, 1), ["rdd_7_1 on 2: 2"]);
    assert!(shell.lose(1).is_empty(), "there is nobody else");
    assert!(shell.update(1, 0).is_empty() && shell.report(1, &[0]).is_empty());
    assert_eq!(shell.add(3), ["executor 2 replicates rdd_7_1"]);
    let healed = ["rdd_7_4 on 2: 2", "executor 2 replicates rdd_7_1 rdd_7_4"];
    assert_eq!(shell.report(2, &[1, 4]), healed, "nobody knew of it when 1 was lost");
    assert_eq!(shell.report(2, &[1]), ["rdd_7_4 on 2: 1"], "what is evicted stays so");
    assert!(shell.update(3, 1).len() == 1 && shell.lose(2).is_empty());
    assert!(shell.lose(3).is_empty() && shell.add(2).is_empty() && shell.add(5).is_empty());
    let alone = ["rdd_7_1 on 5: 2", "executor 5 replicates rdd_7_1"];
    assert_eq!(shell.update(5, 1), alone, "its first holders were lost before they knew of it");
    shell.add(6);
    shell.0.peers(at(6), block(9));
    shell.lose(6);
    let told = shell.update(2, 9);
    let ordered = told.contains(&"executor 2 replicates rdd_7_9".to_owned());
    assert!(ordered, "nobody had heard that 6 has it, which sent it: {told:?}");
    let unpersisted = shell.feed(SchedulerInput::Dag(DagEvent::RddUnpersisted { rdd: RDD }));
    assert_eq!(unpersisted, ["everybody drops 7 before 1"]);
    assert_eq!(shell.update(2, 1), ["executor 2 drops 7 before 2"]);
    assert_eq!(shell.report(2, &[0, 1]), ["executor 2 drops 7 before 1"]);
    shell.feed(SchedulerInput::Dag(DagEvent::RddPersisted { rdd: RDD }));
    let late = ["executor 2 drops 7 before 2"];
    assert_eq!(shell.update_of(0, 2, 1), late, "a task from before it was unpersisted");
    assert_eq!(shell.update(2, 1), ["rdd_7_1 on 2: 2"]);
}

#[test]
fn tasks_and_replicas_from_before_a_roll_back_bring_nothing_that_counts() {
    let mut master = master();
    let level = StorageLevel::MEMORY_ONLY_2;
    let before = stored(level);
    assert!(master.outdated().is_empty());
    cache(&mut master, 1, 0, level);
    let epoch = master.drop_cached(RDD);
    assert_eq!((epoch, master.epoch(), &*master.outdated()), (1, 1, &[(RDD, 1)][..]));
    let replica = master.update(at(2), block(0), Some(before));
    assert_eq!((replica, master.holders(block(0)).len()), (Noted::Outdated(1), 0));
    assert_eq!(cache(&mut master, 3, 0, level), Noted::Yes, "it was launched since");
    assert_eq!(master.drop_cached(RDD), 2);
    assert_eq!(*master.outdated(), [(RDD, 2)]);
    master.unpersist(RDD);
    assert_eq!(*master.outdated(), [(RDD, 3)], "jobs that run may still look for it");
    master.persist(RDD);
    assert_eq!(*master.outdated(), [(RDD, 4)], "what is on its way is of before");
    master.remove_rdd(RDD);
    assert!(master.outdated().is_empty(), "nobody will look for it");
}

#[test]
fn executors_are_told_what_is_outdated_once() {
    let mut master = master();
    for rdd in 0..1000 {
        master.unpersist(RddId(rdd));
    }
    assert_eq!(master.outdated_since(0).len(), 1000, "one that is new hears all");
    let told = master.outdated_number();
    assert!(master.outdated_since(told).is_empty());
    let again = master.drop_cached(RddId(3));
    assert_eq!(master.outdated_since(told), [(RddId(3), again)]);
    master.remove_rdd(RddId(5));
    assert_eq!(master.outdated_since(told), [(RddId(3), again)], "nobody will look for it");
    assert_eq!(master.outdated_since(0).len(), 999);
}

#[test]
fn an_rdd_that_is_computed_from_other_records_is_dropped_also_if_nobody_told_that_it_is_cached() {
    let mut blocks = BlockMaster::new(true, Planted::default());
    let generations = Generations::from([(ShuffleId(1), 1)]);
    assert!(!blocks.compute_cached_from(RddId(7), Generations::new()));
    assert!(blocks.compute_cached_from(RddId(7), generations.clone()));
    assert!(!blocks.compute_cached_from(RddId(7), generations));
}
