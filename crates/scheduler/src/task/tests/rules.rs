//! The rules of success, failure, cancel and retire, one by one.

use firesteel_types::{Event, JobId, TaskFailure, TaskId, TaskOutcome};

use super::rig::*;
use crate::messages::{TaskEvent, TaskOptions, TaskSet};

#[test]
fn a_set_runs_wave_by_wave_and_leaves_nothing_behind() {
    let mut rig = Rig::with(&[(1, "a", 2)]);
    rig.submit(set(0, 3));
    rig.expect(&["launch t0 s0.0 p0.0 on 1", "launch t1 s0.0 p1.0 on 1"]);
    rig.succeed(0, 1);
    rig.expect(&["ended t0 p0: success", "launch t2 s0.0 p2.0 on 1"]);
    rig.succeed(2, 1);
    assert!(!rig.scheduler.is_idle());
    rig.succeed(1, 1);
    rig.expect(&["ended t2 p2: success", "ended t1 p1: success"]);
    assert!(rig.scheduler.is_idle());
    assert_eq!((rig.scheduler.free_cores(), rig.scheduler.running_tasks()), (2, 0));
}

#[test]
fn listeners_hear_of_each_start_and_each_end_once() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.at(5).submit(set(0, 2));
    rig.at(9).fail(0, 1);
    rig.at(12).succeed(1, 1);
    rig.at(13).succeed(2, 1);
    let starts = rig.posted(|event| match event {
        Event::TaskStart { task, at } => Some((task.task.0, task.attempt, task.launched, *at)),
        _ => None,
    });
    let ticks: Vec<_> =
        starts.iter().map(|(task, attempt, l, at)| (*task, *attempt, l.0, at.0)).collect();
    assert_eq!(ticks, [(0, 0, 5, 5), (1, 1, 9, 9), (2, 0, 12, 12)]);
    let ends = rig.posted(|event| match event {
        Event::TaskEnd { task, failure, at, .. } => Some((task.task.0, failure.is_some(), at.0)),
        _ => None,
    });
    assert_eq!(ends, [(0, true, 9), (1, false, 12), (2, false, 13)]);
}

#[test]
fn a_task_may_fail_until_the_limit_and_then_the_set_fails() {
    let options = TaskOptions { max_failures: 2, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 2)]);
    rig.submit(set(0, 3));
    rig.fail(0, 1);
    rig.lines();
    rig.fail(2, 1);
    rig.expect(&[
        "ended t2 p0: failed",
        "set 0.0 failed: p0 2 times, boom",
        "kill t1 on 1: the task set failed",
    ]);
    rig.cancel(stage(0, 0));
    rig.expect(&[]);
    rig.report(1, 1, killed());
    rig.expect(&[]);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn failures_are_counted_per_partition() {
    let options = TaskOptions { max_failures: 2, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 2)]);
    rig.submit(set(0, 2));
    rig.fail(0, 1);
    rig.fail(1, 1);
    rig.expect(&[
        "launch t0 s0.0 p0.0 on 1",
        "launch t1 s0.0 p1.0 on 1",
        "ended t0 p0: failed",
        "launch t2 s0.0 p0.1 on 1",
        "ended t1 p1: failed",
        "launch t3 s0.0 p1.1 on 1",
    ]);
}

#[test]
fn a_fatal_failure_fails_the_set_at_once() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 2));
    rig.lines();
    let fatal = TaskFailure::Fatal { message: "cannot encode".into() };
    rig.report(0, 1, TaskOutcome::Failed(fatal));
    rig.expect(&["ended t0 p0: failed", "set 0.0 failed: p0 1 times, cannot encode"]);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn kills_and_losses_by_the_platform_do_not_count() {
    let options = TaskOptions { max_failures: 1, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 1));
    rig.report(0, 1, killed());
    rig.lose(1, false, true);
    rig.expect(&[
        "launch t0 s0.0 p0.0 on 1",
        "ended t0 p0: killed",
        "launch t1 s0.0 p0.1 on 1",
        "ended t1 p0: executor lost",
        "launch t2 s0.0 p0.2 on 2",
    ]);
    rig.lose(2, true, true);
    rig.expect(&[
        "ended t2 p0: executor lost",
        "set 0.0 failed: p0 1 times, executor 2 lost: gone",
    ]);
}

#[test]
fn reports_that_are_stale_change_nothing_but_outputs_are_dropped() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 3));
    rig.lines();
    rig.succeed(99, 1);
    rig.expect(&["discard t99"]);
    rig.succeed(0, 2);
    rig.expect(&["discard t0"]);
    rig.fail(0, 2);
    rig.fail(77, 1);
    rig.expect(&[]);
    rig.succeed(0, 1);
    rig.expect(&["ended t0 p0: success", "launch t2 s0.0 p2.0 on 1"]);
    rig.succeed(0, 1);
    rig.expect(&["discard t0"]);
    assert_eq!(rig.scheduler.stale_reports(), 5);
    assert_eq!(rig.scheduler.running_tasks(), 2);
}

#[test]
fn a_fetch_failure_retires_the_set_and_lets_the_others_end() {
    let mut rig = Rig::with(&[(1, "a", 2)]);
    rig.submit(set(0, 4));
    rig.lines();
    rig.report(0, 1, fetch_failed());
    rig.expect(&["ended t0 p0: fetch failed"]);
    rig.send(TaskEvent::TaskSetRetired { stage: stage(0, 0) });
    rig.succeed(1, 1);
    rig.expect(&["ended t1 p1: success"]);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn a_newer_attempt_retires_the_older_and_never_the_other_way_round() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 2));
    rig.submit(TaskSet { stage: stage(0, 1), ..set(0, 2) });
    rig.submit(set(0, 2));
    rig.lines();
    rig.fail(0, 1);
    rig.expect(&["ended t0 p0: failed", "launch t1 s0.1 p0.0 on 1"]);
    rig.submit(set(0, 2));
    assert_eq!(rig.scheduler.task_sets(), 1);
}

#[test]
fn a_set_submitted_twice_runs_once() {
    let mut rig = Rig::with(&[(1, "a", 4)]);
    rig.submit(set(0, 1));
    rig.submit(set(0, 1));
    rig.expect(&["launch t0 s0.0 p0.0 on 1"]);
}

#[test]
fn a_retired_set_reports_its_ends_but_neither_retries_nor_fails() {
    let options = TaskOptions { max_failures: 1, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 1)]);
    rig.submit(set(0, 2));
    rig.send(TaskEvent::TaskSetRetired { stage: stage(0, 0) });
    rig.lines();
    rig.fail(0, 1);
    rig.expect(&["ended t0 p0: failed"]);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn a_cancelled_set_is_killed_and_says_nothing_more() {
    let mut rig = Rig::with(&[(1, "a", 3)]);
    rig.submit(set(0, 5));
    rig.lines();
    rig.cancel(stage(0, 0));
    rig.expect(&["kill t0 on 1: cancelled", "kill t1 on 1: cancelled", "kill t2 on 1: cancelled"]);
    rig.cancel(stage(0, 0));
    rig.succeed(0, 1);
    rig.expect(&["discard t0"]);
    rig.report(1, 1, killed());
    rig.fail(2, 1);
    rig.expect(&[]);
    assert!(rig.scheduler.is_idle());
    assert_eq!(rig.scheduler.free_cores(), 3);
    let ends = rig.posted(|event| match event {
        Event::TaskEnd { failure: Some(TaskFailure::Killed { .. }), .. } => Some(()),
        _ => None,
    });
    assert_eq!(ends.len(), 3);
}

#[test]
fn a_cancelled_set_frees_its_cores_for_others_as_its_tasks_end() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 2));
    rig.submit(set(1, 1));
    rig.cancel(stage(0, 0));
    rig.lines();
    rig.report(0, 1, killed());
    rig.expect(&["launch t1 s1.0 p0.0 on 1"]);
}

#[test]
fn a_user_can_kill_a_task_that_runs() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 1));
    rig.lines();
    for task in [0, 5] {
        rig.send(TaskEvent::TaskKillRequested { task: TaskId(task), reason: "by hand".into() });
    }
    rig.expect(&["kill t0 on 1: by hand"]);
}

#[test]
fn an_empty_set_is_over_at_once() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 0));
    rig.expect(&[]);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn without_executors_a_set_waits() {
    let mut rig = Rig::new(TaskOptions::default());
    rig.submit(set(0, 1));
    rig.tick(1_000_000);
    rig.expect(&[]);
    assert_eq!(rig.scheduler.waiting_tasks(), 1);
    rig.add(1, "a", 1);
    rig.expect(&["launch t0 s0.0 p0.0 on 1"]);
}

#[test]
fn a_task_takes_as_many_cores_as_it_needs() {
    let options = TaskOptions { cpus_per_task: 2, ..TaskOptions::default() };
    let mut rig = Rig::with_options(options, &[(1, "a", 5), (2, "b", 1)]);
    rig.submit(set(0, 9));
    rig.expect(&["launch t0 s0.0 p0.0 on 1", "launch t1 s0.0 p1.0 on 1"]);
    assert_eq!(rig.scheduler.free_cores(), 2);
}

#[test]
fn task_ids_and_attempts_count_up() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 1));
    rig.report(0, 1, killed());
    rig.report(1, 1, killed());
    rig.succeed(2, 1);
    rig.submit(TaskSet { priority: JobId(1), ..set(1, 1) });
    let launches: Vec<_> = rig.lines().into_iter().filter(|l| l.starts_with("launch")).collect();
    let expected = [
        "launch t0 s0.0 p0.0 on 1",
        "launch t1 s0.0 p0.1 on 1",
        "launch t2 s0.0 p0.2 on 1",
        "launch t3 s1.0 p0.0 on 1",
    ];
    assert_eq!(launches, expected);
}
