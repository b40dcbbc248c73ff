//! Lost executors, speculation and exclusion.

use firesteel_types::{Event, ExecutorId, TaskFailure, TaskOutcome};

use super::rig::*;
use crate::messages::{
    ExclusionOptions, SpeculationOptions, TaskEffect, TaskEvent, TaskOptions, TaskSetFailure,
};

fn speculating() -> TaskOptions {
    let options = SpeculationOptions { quantile_milli: 500, ..SpeculationOptions::default() };
    TaskOptions { speculation: Some(options), ..TaskOptions::default() }
}

fn excluding(limits: ExclusionOptions) -> TaskOptions {
    TaskOptions { exclusion: Some(limits), ..TaskOptions::default() }
}

#[test]
fn an_executor_that_was_lost_never_comes_back() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 1));
    rig.lose(1, false, true);
    rig.lines();
    rig.add(1, "a", 1);
    rig.lose(7, false, true);
    rig.add(7, "a", 1);
    rig.expect(&[]);
    assert_eq!(rig.scheduler.executors(), 0);
    rig.succeed(0, 1);
    rig.expect(&["discard t0"]);
    rig.lose(1, true, true);
    rig.expect(&[]);
}

#[test]
fn a_task_that_failed_waits_a_second_for_another_executor() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 2));
    rig.expect(&["launch t0 s0.0 p0.0 on 1", "launch t1 s0.0 p1.0 on 2"]);
    rig.fail(0, 1);
    rig.expect(&["ended t0 p0: failed", "wake at 1000"]);
    rig.tick(999);
    rig.expect(&["wake at 1000"]);
    rig.succeed(1, 2);
    rig.expect(&["ended t1 p1: success", "launch t2 s0.0 p0.1 on 2"]);
    rig.fail(2, 2);
    rig.expect(&["ended t2 p0: failed", "launch t3 s0.0 p0.2 on 1"]);
    rig.lose(2, false, false);
    rig.fail(3, 1);
    rig.expect(&["ended t3 p0: failed", "launch t4 s0.0 p0.3 on 1"]);
}

#[test]
fn a_task_that_failed_goes_back_to_its_executor_when_no_other_was_free_for_a_second() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 2));
    rig.lines();
    rig.at(10).fail(0, 1);
    rig.expect(&["ended t0 p0: failed", "wake at 1010"]);
    rig.tick(1010);
    rig.expect(&["launch t2 s0.0 p0.1 on 1"]);
}

#[test]
fn an_executor_added_twice_counts_once() {
    let mut rig = Rig::with(&[(1, "a", 1), (1, "b", 8)]);
    rig.submit(set(0, 3));
    rig.expect(&["launch t0 s0.0 p0.0 on 1"]);
    assert_eq!(rig.scheduler.executors(), 1);
}

#[test]
fn a_decommissioned_executor_ends_its_tasks_and_gets_no_more() {
    let mut rig = Rig::with(&[(1, "a", 1)]);
    rig.submit(set(0, 2));
    rig.send(TaskEvent::ExecutorDecommissioned { executor: ExecutorId(1) });
    rig.lines();
    rig.succeed(0, 1);
    rig.expect(&["ended t0 p0: success"]);
    rig.add(2, "b", 1);
    rig.expect(&["launch t1 s0.0 p1.0 on 2"]);
}

#[test]
fn finished_map_tasks_run_again_when_their_outputs_are_lost() {
    let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
    rig.submit(map_set(0, 3));
    rig.succeed(0, 1);
    rig.lines();
    rig.lose(1, false, true);
    rig.expect(&["ended t2 p2: executor lost"]);
    assert_eq!(resubmitted(&rig), [(0, 0, ExecutorId(1))]);
    rig.succeed(1, 2);
    rig.succeed(3, 2);
    rig.succeed(4, 2);
    rig.expect(&[
        "ended t1 p1: success",
        "launch t3 s0.0 p0.1 on 2",
        "ended t3 p0: success",
        "launch t4 s0.0 p2.1 on 2",
        "ended t4 p2: success",
    ]);
    assert!(rig.scheduler.is_idle());
}

fn resubmitted(rig: &Rig) -> Vec<(u32, u32, ExecutorId)> {
    rig.posted(|event| match event {
        Event::TaskResubmitted { index, partition, executor, .. } => {
            Some((*index, *partition, *executor))
        }
        _ => None,
    })
}

#[test]
fn finished_tasks_stay_finished_when_nothing_is_lost_with_the_executor() {
    for (set, outputs_lost) in [(map_set(0, 3), false), (set(0, 3), true)] {
        let mut rig = Rig::with(&[(1, "a", 1), (2, "b", 1)]);
        rig.submit(set);
        rig.succeed(0, 1);
        rig.lose(1, false, outputs_lost);
        assert_eq!(resubmitted(&rig), []);
        rig.succeed(1, 2);
        rig.lines();
        rig.succeed(3, 2);
        rig.expect(&["ended t3 p2: success"]);
        assert!(rig.scheduler.is_idle());
    }
}

/// Two hosts and four tasks: three end at once, the last drags on.
fn with_a_slow_task(executors: &[(u32, &str, u32)]) -> Rig {
    let mut rig = Rig::with_options(speculating(), executors);
    rig.submit(set(0, 4));
    let lines = rig.lines();
    for task in 0..3 {
        let line = lines.iter().find(|line| line.starts_with(&format!("launch t{task} ")));
        let executor = line.expect("four slots")[..].rsplit(' ').next().expect("an executor");
        rig.at(50).succeed(task, executor.parse().expect("a number"));
    }
    rig.lines();
    rig
}

#[test]
fn a_slow_task_gets_one_copy_on_another_host_and_the_first_to_end_wins() {
    let mut rig = with_a_slow_task(&[(1, "a", 3), (2, "a", 3), (3, "b", 2)]);
    rig.tick(100);
    rig.tick(200);
    rig.expect(&["wake at 200", "launch t4 s0.0 p3.1 on 3 copy", "wake at 300"]);
    let copies = rig.posted(|event| match event {
        Event::SpeculativeTaskSubmitted { index, partition, .. } => Some((*index, *partition)),
        _ => None,
    });
    assert_eq!(copies, [(3, 3)]);
    rig.tick(300);
    rig.expect(&["wake at 400"]);
    rig.at(310).succeed(4, 3);
    rig.expect(&["ended t4 p3: success", "kill t3 on 1: another attempt succeeded"]);
    assert!(!rig.scheduler.is_idle());
    rig.at(320).succeed(3, 1);
    rig.expect(&["ended t3 p3: killed", "discard t3"]);
    assert!(rig.scheduler.is_idle());
    rig.tick(400);
    rig.expect(&[]);
}

#[test]
fn on_one_host_the_copy_goes_to_another_executor_and_on_one_executor_nowhere() {
    let mut rig = with_a_slow_task(&[(1, "a", 2), (2, "a", 2)]);
    rig.tick(200);
    rig.expect(&["launch t4 s0.0 p3.1 on 1 copy", "wake at 300"]);
    let mut rig = with_a_slow_task(&[(1, "a", 8)]);
    rig.tick(200);
    rig.expect(&["wake at 300"]);
    rig.at(250).add(2, "b", 1);
    rig.tick(300);
    rig.expect(&["launch t4 s0.0 p3.1 on 2 copy", "wake at 400"]);
}

#[test]
fn a_copy_that_fails_leaves_the_original_running_and_need_not_be_the_last() {
    let mut rig = with_a_slow_task(&[(1, "a", 2), (2, "b", 2)]);
    rig.tick(200);
    rig.expect(&["launch t4 s0.0 p3.1 on 1 copy", "wake at 300"]);
    rig.at(210).fail(4, 1);
    rig.expect(&["ended t4 p3: failed"]);
    rig.at(220).fail(3, 2);
    rig.expect(&["ended t3 p3: failed", "launch t5 s0.0 p3.2 on 1"]);
}

#[test]
fn nothing_is_copied_before_enough_tasks_succeeded_or_enough_time_passed() {
    let mut rig = Rig::with_options(speculating(), &[(1, "a", 2), (2, "b", 3)]);
    rig.submit(set(0, 4));
    rig.at(50).succeed(0, 2);
    rig.tick(5000);
    let copies = |rig: &mut Rig| rig.lines().iter().filter(|line| line.ends_with("copy")).count();
    assert_eq!(copies(&mut rig), 0);
    rig.at(5001).succeed(1, 1);
    rig.tick(5100);
    assert_eq!(copies(&mut rig), 0, "median 2525 times 3 is not over");
    rig.tick(7577);
    assert_eq!(copies(&mut rig), 2);
}

#[test]
fn losing_the_winners_output_lets_the_loser_of_the_race_count_again() {
    let mut rig = Rig::with_options(speculating(), &[(1, "a", 3), (2, "b", 3)]);
    rig.submit(map_set(0, 5));
    for (task, executor) in [(0, 1), (1, 2), (2, 1)] {
        rig.at(10).succeed(task, executor);
    }
    rig.tick(200);
    rig.lines();
    // Tasks 3 (on 2) and 4 (on 1) drag on and have copies 5 and 6; 3 wins its race.
    rig.at(210).succeed(3, 2);
    rig.expect(&["ended t3 p3: success", "kill t5 on 1: another attempt succeeded"]);
    rig.at(220).lose(2, false, true);
    rig.lines();
    rig.at(230).succeed(5, 1);
    let lines = rig.lines();
    assert_eq!(lines[0], "ended t5 p3: success");
}

#[test]
fn a_task_avoids_the_executor_and_then_the_node_it_failed_on() {
    let options = excluding(ExclusionOptions {
        max_failed_tasks_per_executor_stage: 9,
        ..ExclusionOptions::default()
    });
    let mut rig = Rig::with_options(options, &[(1, "a", 4), (2, "a", 3), (3, "a", 2), (4, "b", 1)]);
    rig.submit(set(0, 1));
    rig.fail(0, 1);
    rig.fail(1, 2);
    rig.expect(&[
        "launch t0 s0.0 p0.0 on 1",
        "ended t0 p0: failed",
        "launch t1 s0.0 p0.1 on 2",
        "ended t1 p0: failed",
        "launch t2 s0.0 p0.2 on 4",
    ]);
}

#[test]
fn an_executor_and_then_a_node_is_excluded_from_a_stage() {
    let mut rig =
        Rig::with_options(excluding(ExclusionOptions::default()), &[(1, "a", 2), (2, "a", 2)]);
    rig.submit(set(0, 8));
    rig.fail(0, 1);
    rig.fail(2, 1);
    rig.add(3, "b", 1);
    rig.fail(1, 2);
    rig.fail(3, 2);
    let excluded = rig.posted(|event| match event {
        Event::ExecutorExcluded { executor, stage: Some(_), failures, .. } => {
            Some(format!("executor {executor} {failures}"))
        }
        Event::NodeExcluded { host, stage: Some(_), failures, .. } => {
            Some(format!("node {host} {failures}"))
        }
        _ => None,
    });
    assert_eq!(excluded, ["executor 1 2", "executor 2 2", "node a 2"]);
    rig.lines();
    rig.add(4, "a", 8);
    rig.expect(&[]);
    rig.submit(set(1, 1));
    assert_eq!(rig.lines().len(), 1, "another stage may still run there");
}

#[test]
fn a_set_fails_when_every_executor_is_excluded_for_a_task() {
    let mut rig =
        Rig::with_options(excluding(ExclusionOptions::default()), &[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 1));
    rig.fail(0, 1);
    rig.lines();
    rig.fail(1, 2);
    rig.expect(&["ended t1 p0: failed", "set 0.0 unschedulable: p0"]);
    let named = rig.effects.iter().any(|effect| match effect {
        TaskEffect::TaskSetFailed {
            cause: TaskSetFailure::Unschedulable { reason, .. }, ..
        } => reason.contains("spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor"),
        _ => false,
    });
    assert!(named);
    assert!(rig.scheduler.is_idle());
}

#[test]
fn a_task_that_is_given_back_when_every_executor_was_excluded_meanwhile_fails_its_set() {
    let limits =
        ExclusionOptions { max_failed_tasks_per_executor_stage: 1, ..ExclusionOptions::default() };
    let options = TaskOptions { exclusion: Some(limits), ..speculating() };
    let mut rig = Rig::with_options(options, &[(1, "a", 2), (2, "b", 2)]);
    rig.submit(set(0, 4));
    rig.at(10).succeed(0, 1);
    rig.at(10).succeed(1, 2);
    rig.lines();
    rig.tick(200);
    let copies = ["launch t4 s0.0 p3.1 on 1 copy", "launch t5 s0.0 p2.1 on 2 copy", "wake at 300"];
    rig.expect(&copies);
    // The copies fail, and the originals run: nothing waits.
    rig.at(210).fail(4, 1);
    rig.at(220).fail(5, 2);
    rig.lines();
    rig.at(230).report(2, 1, killed());
    let lines = rig.lines();
    assert!(lines.iter().any(|line| line.contains("set 0.0 unschedulable")), "{lines:?}");
}

#[test]
fn losing_the_last_executor_that_is_not_excluded_fails_the_set_but_losing_all_does_not() {
    let mut rig =
        Rig::with_options(excluding(ExclusionOptions::default()), &[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 1));
    rig.fail(0, 1);
    rig.lines();
    rig.lose(2, false, true);
    rig.expect(&["ended t1 p0: executor lost", "set 0.0 unschedulable: p0"]);
    rig.submit(set(1, 1));
    rig.lines();
    rig.lose(1, false, true);
    rig.expect(&["ended t2 p0: executor lost"]);
    rig.add(3, "a", 1);
    rig.expect(&["launch t3 s1.0 p0.1 on 3"]);
}

#[test]
fn failures_of_sets_that_succeed_exclude_executors_from_the_application_for_a_time() {
    let limits = ExclusionOptions {
        timeout_ms: 1000,
        max_failed_tasks_per_executor_stage: 9,
        ..ExclusionOptions::default()
    };
    let mut rig = Rig::with_options(excluding(limits), &[(1, "a", 2), (2, "b", 1)]);
    rig.submit(set(0, 2));
    rig.fail(0, 1);
    rig.lines();
    rig.at(10).succeed(1, 2);
    rig.expect(&["ended t1 p1: success", "launch t2 s0.0 p0.1 on 2"]);
    rig.at(20).succeed(2, 2);
    rig.submit(set(1, 2));
    rig.lines();
    rig.at(30).fail(3, 1);
    rig.at(40).succeed(4, 2);
    rig.lines();
    rig.at(50).succeed(5, 2);
    rig.expect(&["ended t5 p0: success", "wake at 1050"]);
    rig.submit(set(2, 2));
    rig.expect(&["launch t6 s2.0 p0.0 on 2"]);
    rig.tick(1050);
    rig.expect(&["launch t7 s2.0 p1.0 on 1"]);
    let heard = rig.posted(|event| match event {
        Event::ExecutorExcluded { executor, stage: None, .. } => Some(format!("out {executor}")),
        Event::ExecutorUnexcluded { executor, .. } => Some(format!("in {executor}")),
        _ => None,
    });
    assert_eq!(heard, ["out 1", "in 1"]);
}

#[test]
fn kills_and_fetch_failures_exclude_nobody() {
    let limits =
        ExclusionOptions { max_failed_tasks_per_executor_stage: 1, ..ExclusionOptions::default() };
    let mut rig = Rig::with_options(excluding(limits), &[(1, "a", 1)]);
    rig.submit(set(0, 2));
    rig.report(0, 1, killed());
    rig.report(1, 1, fetch_failed());
    rig.submit(set(1, 1));
    let excluded =
        rig.posted(|event| matches!(event, Event::ExecutorExcluded { .. }).then_some(()));
    assert_eq!(excluded.len(), 0);
    assert_eq!(rig.scheduler.running_tasks(), 1);
}

#[test]
fn a_loser_that_fails_harms_nobody() {
    let fatal = TaskFailure::Fatal { message: "no".into() };
    for failure in [fatal, error()] {
        let limits = ExclusionOptions {
            max_failed_tasks_per_executor_stage: 1,
            ..ExclusionOptions::default()
        };
        let options = TaskOptions { max_failures: 1, exclusion: Some(limits), ..speculating() };
        let mut rig = Rig::with_options(options, &[(1, "a", 2), (2, "b", 3)]);
        rig.submit(set(0, 4));
        rig.at(10).succeed(0, 2);
        rig.at(10).succeed(1, 1);
        rig.tick(200);
        rig.lines();
        rig.at(210).succeed(2, 2);
        let loser = rig.lines()[1].clone();
        let task = loser[6..loser.find(" on").expect("a kill")].parse().expect("a number");
        rig.report(task, 1, TaskOutcome::Failed(failure));
        assert_eq!(rig.lines().len(), 1, "its end is told, and nothing follows");
        let excluded =
            rig.posted(|event| matches!(event, Event::ExecutorExcluded { .. }).then_some(()));
        assert_eq!(excluded.len(), 0);
    }
}

#[test]
fn failures_of_sets_that_do_not_succeed_exclude_nobody_from_the_application() {
    let limits = ExclusionOptions {
        max_failed_tasks_per_executor: 1,
        max_failed_tasks_per_executor_stage: 9,
        ..ExclusionOptions::default()
    };
    let mut rig = Rig::with_options(excluding(limits), &[(1, "a", 1), (2, "b", 1)]);
    rig.submit(set(0, 1));
    rig.fail(0, 1);
    rig.cancel(stage(0, 0));
    rig.report(1, 2, killed());
    rig.submit(set(1, 2));
    assert_eq!(rig.scheduler.running_tasks(), 2);
}

#[test]
fn failures_that_lie_too_far_apart_exclude_nobody_from_the_application() {
    let limits = ExclusionOptions {
        timeout_ms: 1000,
        max_failed_tasks_per_executor_stage: 9,
        ..ExclusionOptions::default()
    };
    let mut rig = Rig::with_options(excluding(limits), &[(1, "a", 1), (2, "b", 1)]);
    for (id, at) in [(0, 0), (1, 2000)] {
        let task = u64::from(id) * 2;
        rig.at(at).submit(set(id, 1));
        rig.fail(task, 1);
        rig.succeed(task + 1, 2);
    }
    rig.submit(set(2, 2));
    assert_eq!(rig.scheduler.running_tasks(), 2);
}

#[test]
fn nobody_looks_for_slow_tasks_when_only_a_retired_set_runs() {
    let mut rig = Rig::with_options(speculating(), &[(1, "a", 1)]);
    rig.submit(set(0, 1));
    rig.send(TaskEvent::TaskSetRetired { stage: stage(0, 0) });
    rig.expect(&["launch t0 s0.0 p0.0 on 1", "wake at 100"]);
    rig.tick(100);
    rig.expect(&[]);
}
