//! What is pipelined, and what is not.

use firesteel_types::JobId;

use super::rig::*;
use crate::messages::{TaskEvent, TaskOptions, TaskSet};

fn pipelined() -> TaskOptions {
    TaskOptions { pipeline_us: 1000, ..TaskOptions::default() }
}

/// One executor of one core, a set of this many tasks.
fn rig(tasks: u32) -> Rig {
    let mut rig = Rig::with_options(pipelined(), &[(1, "a", 1)]);
    rig.submit(set(0, tasks));
    rig
}

/// How many tasks are at executors after each of so many successes, one after the other.
fn there(rig: &mut Rig, successes: u64, run_time_us: u64) -> Vec<usize> {
    let succeed = |task| {
        rig.succeed_in(task, 1, run_time_us);
        rig.scheduler.running_tasks()
    };
    (0..successes).map(succeed).collect()
}

#[test]
fn as_many_are_pipelined_as_fit_and_never_more_than_were_seen() {
    for (run_time_us, expected) in
        [(1, [2, 3, 4, 3, 6]), (300, [2, 3, 4, 3, 4]), (600, [2; 5]), (1001, [1; 5])]
    {
        assert_eq!(there(&mut rig(100), 5, run_time_us), expected, "tasks of {run_time_us} us");
    }
    assert_eq!(there(&mut rig(1000), 100, 0).iter().max(), Some(&33), "one runs, 32 wait");
    let options = TaskOptions { pipeline_us: 0, ..pipelined() };
    let mut none = Rig::with_options(options, &[(1, "a", 1)]);
    none.submit(set(0, 100));
    assert_eq!(there(&mut none, 5, 1), [1; 5], "unless nothing is to be pipelined");
}

#[test]
fn the_last_ones_go_to_the_first_free_slot() {
    let mut rig = Rig::with_options(pipelined(), &[(1, "a", 1), (2, "b", 2)]);
    rig.submit(set(0, 8));
    rig.expect(&[
        "launch t0 s0.0 p0.0 on 2",
        "launch t1 s0.0 p1.0 on 1",
        "launch t2 s0.0 p2.0 on 2",
    ]);
    rig.succeed_in(1, 1, 1);
    rig.expect(&["ended t1 p1: success", "launch t3 s0.0 p3.0 on 1", "launch t4 s0.0 p4.0 on 1"]);
    rig.succeed_in(3, 1, 1);
    rig.expect(&["ended t3 p3: success"]);
    rig.succeed_in(0, 2, 1);
    rig.expect(&["ended t0 p0: success", "launch t5 s0.0 p5.0 on 2"]);
}

#[test]
fn only_a_success_brings_pipelined_tasks() {
    let mut rig = rig(100);
    there(&mut rig, 5, 1);
    let before = rig.scheduler.running_tasks();
    rig.report(5, 1, killed());
    rig.fail(6, 1);
    assert_eq!(rig.scheduler.running_tasks(), before - 2);
    rig.succeed_in(7, 1, 1);
    assert_eq!(rig.scheduler.running_tasks(), 3, "what was seen before counts no more");
}

#[test]
fn nothing_is_pipelined_of_a_set_that_comes_first() {
    let mut rig = rig(100);
    rig.submit(TaskSet { priority: JobId(1), ..set(1, 100) });
    rig.succeed_in(0, 1, 500_000);
    rig.succeed_in(1, 1, 500_000);
    assert_eq!(rig.scheduler.running_tasks(), 1, "the first set's tasks take long");
}

#[test]
fn what_waits_there_is_lost_with_its_executor_and_killed_with_its_set() {
    let mut lost = rig(100);
    there(&mut lost, 5, 1);
    lost.add(2, "b", 1);
    lost.lines();
    lost.lose(1, false, true);
    let ends = lost.lines().iter().filter(|line| line.ends_with("executor lost")).count();
    assert_eq!((ends, lost.scheduler.running_tasks()), (6, 1));
    let mut cancelled = rig(100);
    there(&mut cancelled, 5, 1);
    cancelled.lines();
    cancelled.cancel(stage(0, 0));
    assert_eq!(cancelled.lines().iter().filter(|line| line.starts_with("kill")).count(), 6);
}

#[test]
fn a_lost_executor_is_held_against_what_it_ran_and_not_against_what_waited_there() {
    let options = TaskOptions { max_failures: 1, ..pipelined() };
    let mut rig = Rig::with_options(options, &[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 100));
    rig.succeed_in(0, 1, 1);
    rig.lines();
    rig.lose(1, true, false);
    let lines = rig.lines();
    let failed = lines.iter().filter(|line| line.contains("failed: p")).collect::<Vec<_>>();
    assert_eq!(failed, ["set 0.0 failed: p2 1 times, executor 1 lost: gone"], "{lines:?}");
}

#[test]
fn cores_that_others_have_do_not_count() {
    let mut rig = Rig::with_options(pipelined(), &[(1, "a", 4)]);
    rig.submit(set(0, 3));
    rig.submit(TaskSet { priority: JobId(1), ..set(1, 100) });
    let after = |task| {
        rig.succeed_in(task, 1, 500);
        rig.scheduler.running_tasks()
    };
    assert_eq!((3..20).map(after).max(), Some(3 + 1 + 2), "two take as long as may be");
}

#[test]
fn an_executor_that_will_go_gets_none() {
    let mut rig = rig(100);
    there(&mut rig, 5, 1);
    let executor = firesteel_types::ExecutorId(1);
    rig.send(TaskEvent::ExecutorDecommissioned { executor });
    for task in 5..11 {
        rig.succeed_in(task, 1, 1);
    }
    assert_eq!((rig.scheduler.running_tasks(), rig.scheduler.free_cores()), (0, 1));
}
