//! Random lineages, random jobs on them and random faults, against a model that plays the task
//! scheduler and checks every effect. Then a quiet phase, in which everything must come to an end.

mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::*;
use world::World;

/// A node of the random graph: kind, two parents, partitions and whether it is cached.
type Node = (u8, u8, u8, u8);
/// A step of the run: what happens, and two choices.
type Step = (u8, u8, u8);

/// Counts of what happened, by name, over all cases.
type Tally = BTreeMap<&'static str, u64>;

/// What must have happened at least once for the test to be worth its name.
const MUST_HAPPEN: [&str; 25] = [
    "abort: fetch failures",
    "abort: results of rolled back stages",
    "abort: task set",
    "attempt beyond the first",
    "cached partitions rolled back",
    "cancel: all",
    "cancel: group",
    "cancel: job",
    "cancel: stage",
    "executor added again",
    "executor lost, outputs kept",
    "executor lost, outputs too",
    "fetch failure of the latest attempt",
    "fetch failure of an old attempt",
    "job failed",
    "job succeeded",
    "cached rdd spared a shuffle",
    "map outputs dropped",
    "map stage rolled back",
    "output of a lost executor refused",
    "shuffle removed under a job",
    "success repeated",
    "success of a retired attempt",
    "task failed",
    "task set submitted for several jobs",
];

fn pick<T: Copy>(items: impl IntoIterator<Item = T>, choice: u8) -> Option<T> {
    let items: Vec<T> = items.into_iter().collect();
    if items.is_empty() { None } else { Some(items[choice as usize % items.len()]) }
}

fn graph(nodes: &[Node]) -> Vec<Rdd> {
    let mut graph = Graph::default();
    let mut rdds = vec![graph.source(2)];
    for (kind, left, right, size) in nodes {
        let left = Arc::clone(&rdds[*left as usize % rdds.len()]);
        let right = Arc::clone(&rdds[*right as usize % rdds.len()]);
        let partitions = u32::from(size % 4) + 1;
        let rdd = match kind % 8 {
            0 => graph.source(partitions),
            1 => graph.map(&left),
            2 if left.partitions + right.partitions < 10 => graph.union(&[&left, &right]),
            3 => match left.dependencies.first() {
                Some(shared @ Dependency::Shuffle { .. }) => {
                    let shared = shared.clone();
                    graph.rdd(left.partitions, vec![shared])
                }
                _ => graph.shuffled(&[&left], partitions),
            },
            4 => {
                let groups = vec![(0..left.partitions).collect()];
                graph.rdd(1, vec![narrow(&left, NarrowMapping::Groups(groups.into()))])
            }
            5 => graph.shuffled(&[&left, &right], partitions),
            _ => graph.shuffled(&[&left], partitions),
        };
        if size & 0x30 == 0 {
            persist(&rdd);
        }
        rdds.push(rdd);
    }
    rdds
}

fn live_through(flags: u8, nodes: &[Node], steps: &[Step]) -> World {
    let mut world = World::new(flags, graph(nodes));
    world.submit_job(u8::MAX, flags);
    for step in steps {
        world.step(*step);
    }
    world.quiet_down();
    world
}

fn run(name: &str, cases: u32, check: impl Fn(u8, &[Node], &[Step]) -> Result<(), TestCaseError>) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases = config.cases.max(cases); // more by PROPTEST_CASES
    let strategy = (any::<u8>(), vec(any::<Node>(), 1..14), vec(any::<Step>(), 1..240));
    let verdict = TestRunner::new_with_rng(config, rng)
        .run(&strategy, |(flags, nodes, steps)| check(flags, &nodes, &steps));
    if let Err(error) = verdict {
        panic!("{name}: {error}");
    }
}

#[test]
fn whatever_happens_each_job_ends_once_with_each_result_once_and_nothing_is_left() {
    let tally = RefCell::new(Tally::new());
    run("random runs", 5000, |flags, nodes, steps| {
        let world = live_through(flags, nodes, steps);
        for (what, count) in world.tally {
            *tally.borrow_mut().entry(what).or_default() += count;
        }
        Ok(())
    });
    let tally = tally.into_inner();
    let absent: Vec<_> = MUST_HAPPEN.iter().filter(|what| !tally.contains_key(*what)).collect();
    assert!(absent.is_empty(), "never happened: {absent:?}, did: {tally:#?}");
    println!("{tally:#?}");
}

#[test]
fn the_same_events_give_the_same_effects() {
    run("same effects", 100, |flags, nodes, steps| {
        let (first, second) =
            (live_through(flags, nodes, steps).trace, live_through(flags, nodes, steps).trace);
        prop_assert_eq!(first, second);
        Ok(())
    });
}
