//! Runs drawn at random: sets, executors, failures, losses, cancels, stale and doubled messages.
//! A model that knows only the rules watches every effect; at the end comes a quiet phase in which
//! everything must be completed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::model::{Faults, Model};
use super::rig::stage;
use crate::messages::{
    ExclusionOptions, PoolSpec, SchedulingMode, SpeculationOptions, TaskOptions,
};

/// One thing that happens. Numbers pick among what is there, modulo how much there is.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Submit { tasks: u8, places: u32, map: bool, pool: u8 },
    SubmitNewer { set: u8 },
    Succeed { task: u8 },
    Fail { task: u8, how: u8 },
    StaleReport { task: u8, success: bool },
    WrongExecutor { task: u8, success: bool },
    AddExecutor { host: u8, cores: u8 },
    AddKnown { executor: u8 },
    AddLost { executor: u8 },
    Lose { executor: u8, by_app: bool, outputs: bool },
    Decommission { executor: u8 },
    Cancel { set: u8 },
    Retire { set: u8 },
    KillTask { task: u8 },
    Pass { ms: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<u8>;
    let yes_no = any::<bool>;
    prop_oneof![
        4 => (0..12u8, any::<u32>(), yes_no(), 0..4u8)
            .prop_map(|(tasks, places, map, pool)| Step::Submit { tasks, places, map, pool }),
        1 => which().prop_map(|set| Step::SubmitNewer { set }),
        14 => which().prop_map(|task| Step::Succeed { task }),
        6 => (which(), which()).prop_map(|(task, how)| Step::Fail { task, how }),
        2 => (which(), yes_no()).prop_map(|(task, success)| Step::StaleReport { task, success }),
        2 => (which(), yes_no()).prop_map(|(task, success)| Step::WrongExecutor { task, success }),
        4 => (0..4u8, 1..5u8).prop_map(|(host, cores)| Step::AddExecutor { host, cores }),
        1 => which().prop_map(|executor| Step::AddKnown { executor }),
        1 => which().prop_map(|executor| Step::AddLost { executor }),
        2 => (which(), yes_no(), yes_no())
            .prop_map(|(executor, by_app, outputs)| Step::Lose { executor, by_app, outputs }),
        1 => which().prop_map(|executor| Step::Decommission { executor }),
        1 => which().prop_map(|set| Step::Cancel { set }),
        1 => which().prop_map(|set| Step::Retire { set }),
        1 => which().prop_map(|task| Step::KillTask { task }),
        6 => (0..500u16).prop_map(|ms| Step::Pass { ms }),
    ]
}

fn options() -> impl Strategy<Value = TaskOptions> {
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let numbers = (1..5u32, 1..3u32, 0..300u64, 0..300u64);
    (switches, numbers).prop_map(
        |((fair, speculate, exclude, pipelined), (failures, cpus, process, node))| {
            let pool = |mode, weight, min_share| PoolSpec { mode, weight, min_share };
            TaskOptions {
                mode: if fair { SchedulingMode::Fair } else { SchedulingMode::Fifo },
                pools: BTreeMap::from([
                    ("pool1".into(), pool(SchedulingMode::Fair, 2, 0)),
                    ("pool2".into(), pool(SchedulingMode::Fifo, 1, 3)),
                ]),
                max_failures: failures,
                cpus_per_task: cpus,
                wait_process_ms: process,
                wait_node_ms: node,
                speculation: speculate.then(|| SpeculationOptions {
                    quantile_milli: 300,
                    multiplier_milli: 1500,
                    ..SpeculationOptions::default()
                }),
                exclusion: exclude
                    .then(|| ExclusionOptions { timeout_ms: 700, ..ExclusionOptions::default() }),
                pipeline_us: if pipelined { 5000 } else { 0 },
                ..TaskOptions::default()
            }
        },
    )
}

fn run_of_steps() -> impl Strategy<Value = (TaskOptions, Vec<Step>)> {
    (options(), proptest::collection::vec(step(), 1..120))
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

#[test]
fn every_partition_of_a_living_set_succeeds_exactly_once_whatever_happens() {
    let faults = RefCell::new(Faults::default());
    let result = TestRunner::new(config(1500)).run(&run_of_steps(), |(options, steps)| {
        let mut model = Model::new(options);
        steps.iter().for_each(|step| model.take(step));
        model.calm_down();
        faults.borrow_mut().add(&model.faults);
        Ok::<(), TestCaseError>(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    faults.borrow().assert_all_fired();
}

#[test]
fn the_same_events_give_the_same_effects() {
    TestRunner::new(config(100))
        .run(&run_of_steps(), |(options, steps)| {
            let run = || {
                let mut model = Model::new(options.clone());
                model.keep_trace = true;
                steps.iter().for_each(|step| model.take(step));
                model.trace
            };
            prop_assert_eq!(run(), run());
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_large_set_runs_to_its_end() {
    let mut model = Model::new(TaskOptions::default());
    model.audit = false;
    model.take(&Step::AddExecutor { host: 0, cores: 2 });
    model.submit_plain(stage(0, 0), 100_000);
    model.calm_down();
}
