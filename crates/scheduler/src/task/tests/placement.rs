//! Where tasks go: spread, pools, locality and its waits.

use std::collections::BTreeMap;

use firesteel_types::{Event, ExecutorId, JobId};

use super::rig::*;
use crate::messages::{PoolSpec, SchedulingMode, TaskEvent, TaskOptions, TaskSet};

fn fair(pools: &[(&str, SchedulingMode, u32, u32)]) -> TaskOptions {
    let pools = pools.iter().map(|(name, mode, weight, min_share)| {
        (name.to_string(), PoolSpec { mode: *mode, weight: *weight, min_share: *min_share })
    });
    TaskOptions { mode: SchedulingMode::Fair, pools: pools.collect(), ..TaskOptions::default() }
}

fn in_pool(set: TaskSet, pool: &str) -> TaskSet {
    TaskSet { pool: Some(pool.into()), ..set }
}

/// How many tasks of each stage were launched.
fn launches(rig: &mut Rig) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in rig.lines().iter().filter(|line| line.starts_with("launch")) {
        *counts.entry(line.split(' ').nth(2).expect("a stage").to_string()).or_insert(0) += 1;
    }
    counts
}

/// Lets sets queue up before the executor comes, and says who got its slots.
fn shares(options: TaskOptions, sets: Vec<TaskSet>, cores: u32) -> Vec<(String, usize)> {
    let mut rig = Rig::new(options);
    sets.into_iter().for_each(|set| rig.submit(set));
    rig.add(1, "a", cores);
    launches(&mut rig).into_iter().collect()
}

#[track_caller]
fn check_shares(options: TaskOptions, sets: Vec<TaskSet>, cores: u32, expected: &[(&str, usize)]) {
    let expected: Vec<_> = expected.iter().map(|(s, n)| (s.to_string(), *n)).collect();
    assert_eq!(shares(options, sets, cores), expected);
}

#[test]
fn offers_go_round_the_executors_one_task_each() {
    let mut rig = Rig::with(&[(1, "a", 2), (2, "b", 4), (3, "c", 2)]);
    rig.submit(set(0, 6));
    let lines = rig.lines();
    let executors: Vec<_> = lines.iter().map(|line| &line[line.len() - 1..]).collect();
    assert_eq!(executors, ["2", "1", "3", "2", "1", "3"]);
}

#[test]
fn fifo_serves_priority_then_stage() {
    let sets = || {
        vec![
            TaskSet { priority: JobId(2), ..set(0, 4) },
            TaskSet { priority: JobId(1), ..set(7, 2) },
            TaskSet { priority: JobId(1), ..set(3, 2) },
        ]
    };
    let options = TaskOptions::default;
    check_shares(options(), sets(), 1, &[("s3.0", 1)]);
    check_shares(options(), sets(), 3, &[("s3.0", 2), ("s7.0", 1)]);
    check_shares(options(), sets(), 5, &[("s0.0", 1), ("s3.0", 2), ("s7.0", 2)]);
}

#[test]
fn fifo_ignores_pools() {
    let mut options = fair(&[("rich", SchedulingMode::Fair, 9, 9)]);
    options.mode = SchedulingMode::Fifo;
    check_shares(options, vec![set(0, 4), in_pool(set(1, 4), "rich")], 4, &[("s0.0", 4)]);
}

#[test]
fn fair_pools_share_by_weight() {
    let options = fair(&[("heavy", SchedulingMode::Fifo, 2, 0)]);
    let sets = vec![in_pool(set(0, 9), "light"), in_pool(set(1, 9), "heavy")];
    check_shares(options, sets, 6, &[("s0.0", 2), ("s1.0", 4)]);
}

#[test]
fn a_minimum_share_goes_before_weight() {
    let options =
        fair(&[("needy", SchedulingMode::Fifo, 1, 3), ("heavy", SchedulingMode::Fifo, 100, 0)]);
    let sets = || vec![in_pool(set(0, 9), "heavy"), in_pool(set(1, 9), "needy")];
    check_shares(options.clone(), sets(), 3, &[("s1.0", 3)]);
    check_shares(options, sets(), 5, &[("s0.0", 2), ("s1.0", 3)]);
}

#[test]
fn needy_pools_are_served_by_how_much_they_lack() {
    let options = fair(&[("one", SchedulingMode::Fifo, 1, 2), ("two", SchedulingMode::Fifo, 1, 4)]);
    let sets = vec![in_pool(set(0, 9), "one"), in_pool(set(1, 9), "two")];
    check_shares(options, sets, 6, &[("s0.0", 2), ("s1.0", 4)]);
}

#[test]
fn inside_a_pool_sets_are_served_as_the_pool_says() {
    let sets = || vec![in_pool(set(0, 9), "p"), in_pool(set(1, 9), "p")];
    check_shares(fair(&[("p", SchedulingMode::Fifo, 1, 0)]), sets(), 4, &[("s0.0", 4)]);
    let fairly = &[("s0.0", 2), ("s1.0", 2)];
    check_shares(fair(&[("p", SchedulingMode::Fair, 1, 0)]), sets(), 4, fairly);
}

#[test]
fn sets_without_a_pool_share_the_default_pool() {
    let options = fair(&[("default", SchedulingMode::Fifo, 3, 0)]);
    let sets = vec![set(0, 9), in_pool(set(1, 9), "other")];
    check_shares(options, sets, 4, &[("s0.0", 3), ("s1.0", 1)]);
}

#[test]
fn a_fair_share_follows_what_ends() {
    let mut rig = Rig::with_options(fair(&[]), &[(1, "a", 2)]);
    rig.submit(in_pool(set(0, 9), "x"));
    rig.submit(in_pool(set(1, 9), "y"));
    rig.lines();
    rig.succeed(0, 1);
    rig.expect(&["ended t0 p0: success", "launch t2 s1.0 p0.0 on 1"]);
    rig.succeed(1, 1);
    rig.expect(&["ended t1 p1: success", "launch t3 s0.0 p2.0 on 1"]);
}

#[test]
fn tasks_go_where_their_data_is() {
    let mut rig = Rig::with(&[(1, "a", 2), (2, "b", 2)]);
    rig.submit(set_preferring(0, &[&["b"], &["a/1"], &["b/2"], &[]]));
    rig.expect(&[
        "launch t0 s0.0 p1.0 on 1 PROCESS_LOCAL",
        "launch t1 s0.0 p2.0 on 2 PROCESS_LOCAL",
        "launch t2 s0.0 p3.0 on 1",
        "launch t3 s0.0 p0.0 on 2 NODE_LOCAL",
    ]);
}

#[test]
fn a_task_waits_for_its_executor_then_its_host_then_goes_anywhere() {
    let options =
        TaskOptions { wait_process_ms: 100, wait_node_ms: 1000, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 1), (2, "a", 1), (3, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a/1"], &["a/1"], &["a/1"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 1 PROCESS_LOCAL", "wake at 100"]);
    rig.tick(99);
    rig.expect(&["wake at 100"]);
    rig.tick(100);
    rig.expect(&["launch t1 s0.0 p1.0 on 2 NODE_LOCAL", "wake at 1100"]);
    rig.tick(1100);
    rig.expect(&["launch t2 s0.0 p2.0 on 3 ANY"]);
}

#[test]
fn tasks_without_preference_do_not_wait_for_those_with_one() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a"], &["a"], &[]]));
    rig.expect(&["launch t0 s0.0 p2.0 on 2", "launch t1 s0.0 p0.0 on 1 NODE_LOCAL"]);
}

#[test]
fn a_level_is_not_waited_for_if_nobody_alive_could_serve_it() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set_preferring(0, &[&["nowhere/9"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 1 ANY"]);
}

#[test]
fn a_lost_executor_opens_the_levels_that_waited_for_it() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a"], &["a"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 1 NODE_LOCAL", "wake at 3000"]);
    rig.lose(1, false, true);
    rig.expect(&["ended t0 p0: executor lost", "launch t1 s0.0 p0.1 on 2 ANY"]);
}

#[test]
fn a_decommissioned_executor_is_not_waited_for() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 2)]);
    rig.submit(set_preferring(0, &[&["a"], &["a"]]));
    rig.lines();
    rig.send(TaskEvent::ExecutorDecommissioned { executor: ExecutorId(1) });
    rig.expect(&["launch t1 s0.0 p1.0 on 2 ANY"]);
}

#[test]
fn a_local_launch_closes_the_farther_levels_again() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a"], &["a"], &["a"], &["a"]]));
    rig.tick(3000);
    rig.expect(&[
        "launch t0 s0.0 p0.0 on 1 NODE_LOCAL",
        "wake at 3000",
        "launch t1 s0.0 p1.0 on 2 ANY",
    ]);
    rig.at(3500).succeed(0, 1);
    rig.expect(&["ended t0 p0: success", "launch t2 s0.0 p2.0 on 1 NODE_LOCAL"]);
    rig.at(4000).succeed(1, 2);
    rig.expect(&["ended t1 p1: success", "wake at 6500"]);
}

#[test]
fn a_stream_of_local_launches_cannot_put_the_next_level_off() {
    let places: Vec<&[&str]> = vec![&["a"]; 100];
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &places));
    let mut far = Vec::new();
    for step in 0..50 {
        let line = rig.lines().into_iter().rev().find(|line| line.ends_with("NODE_LOCAL"));
        let line = line.expect("a local launch at each step");
        let task = line[8..line.find(" s").expect("a stage")].parse().expect("a task's number");
        rig.at(step * 1000).succeed(task, 1);
        far.extend(rig.posted(|event| match event {
            Event::TaskStart { task, at } if task.executor == ExecutorId(2) => Some(at.0),
            _ => None,
        }));
    }
    assert_eq!(far.first(), Some(&3000));
}

#[test]
fn a_new_executor_with_the_data_is_waited_for_from_then_on() {
    let mut rig = Rig::with(&[(1, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a"], &["a"], &["a"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 1 ANY"]);
    rig.at(10).add(2, "a", 1);
    rig.expect(&["launch t1 s0.0 p1.0 on 2 NODE_LOCAL"]);
    rig.at(20).succeed(0, 1);
    rig.expect(&["ended t0 p0: success", "wake at 3010"]);
}

#[test]
fn the_last_local_task_opens_the_next_level_for_executors_that_waited() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a"], &["dead"], &["a"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 1 NODE_LOCAL", "wake at 3000"]);
    rig.at(50).succeed(0, 1);
    rig.expect(&[
        "ended t0 p0: success",
        "launch t1 s0.0 p2.0 on 1 NODE_LOCAL",
        "launch t2 s0.0 p1.0 on 2 ANY",
    ]);
}

#[test]
fn no_executor_takes_a_task_from_a_free_one_that_holds_its_data() {
    let options = TaskOptions { wait_process_ms: 0, wait_node_ms: 0, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "c", 8), (2, "b", 1), (3, "a", 1)]);
    rig.submit(set_preferring(0, &[&["a/3"], &["b"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 3 PROCESS_LOCAL", "launch t1 s0.0 p1.0 on 2 NODE_LOCAL"]);
}

#[test]
fn a_set_that_holds_out_for_locality_does_not_hold_up_the_next() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a"], &["a"]]));
    rig.submit(set(1, 1));
    rig.expect(&[
        "launch t0 s0.0 p0.0 on 1 NODE_LOCAL",
        "wake at 3000",
        "launch t1 s1.0 p0.0 on 2",
    ]);
}

#[test]
fn a_timer_that_comes_late_does_not_lengthen_the_next_wait() {
    let options =
        TaskOptions { wait_process_ms: 100, wait_node_ms: 1000, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set_preferring(0, &[&["a/1"], &["a/1"]]));
    rig.lines();
    rig.tick(150);
    rig.expect(&["wake at 1100"]);
}

#[test]
fn a_new_executor_with_the_data_is_waited_for_even_if_another_set_takes_it_first() {
    let mut rig = Rig::with(&[(1, "b", 1)]);
    rig.submit(TaskSet { priority: JobId(5), ..set_preferring(0, &[&["a"], &["a"]]) });
    rig.submit(set(1, 1));
    rig.expect(&["launch t0 s0.0 p0.0 on 1 ANY"]);
    rig.at(10).add(2, "a", 1);
    rig.expect(&["launch t1 s1.0 p0.0 on 2"]);
    rig.at(20).succeed(0, 1);
    rig.expect(&["ended t0 p0: success", "wake at 3010"]);
}

#[test]
fn a_set_keeps_its_turn_even_if_the_next_one_has_its_data_there() {
    let mut rig = Rig::new(TaskOptions::default());
    rig.submit(set_preferring(0, &[&["dead"]]));
    rig.submit(set_preferring(1, &[&["b/2"]]));
    rig.add(2, "b", 1);
    rig.expect(&["launch t0 s0.0 p0.0 on 2 ANY"]);
}

#[test]
fn an_executor_too_small_for_any_task_is_not_waited_for() {
    let options = TaskOptions { cpus_per_task: 2, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 1), (2, "b", 2)]);
    rig.submit(set_preferring(0, &[&["a/1"]]));
    rig.expect(&["launch t0 s0.0 p0.0 on 2 ANY"]);
}
