//! Tasks that take their executor along, and those that happen to run beside them (L06).

use firesteel_types::{ExecutorId, TaskFailure, TaskOutcome};

use super::rig::*;
use crate::messages::{TaskEvent, TaskOptions, TaskSet};

fn failing_after(max_failures: u32) -> TaskOptions {
    TaskOptions { max_failures, ..TaskOptions::default() }
}

fn failures(rig: &mut Rig) -> Vec<String> {
    rig.lines().into_iter().filter(|line| line.contains("failed: p")).collect()
}

#[test]
fn losses_count_over_all_attempts_of_a_stage_though_each_of_them_was_retired() {
    let mut rig = Rig::with_options(failing_after(3), &[]);
    for attempt in 0..3 {
        rig.add(attempt, "a", 1);
        rig.submit(TaskSet { stage: stage(0, attempt), ..set(0, 1) });
        // The executor had outputs that the stage reads: the DAG scheduler retires the attempt first.
        rig.send(TaskEvent::TaskSetRetired { stage: stage(0, attempt) });
        rig.lose(attempt, true, true);
        let expected = ["set 0.2 failed: p0 3 times, executor 2 lost: gone".to_owned()];
        assert_eq!(failures(&mut rig), expected[..usize::from(attempt == 2)]);
    }
    rig.cancel(stage(0, 2));
    assert!(rig.scheduler.is_idle() && rig.scheduler.has_no_suspects());
}

#[test]
fn a_loss_that_the_task_itself_reports_counts_against_it() {
    let mut rig = Rig::with_options(failing_after(3), &[(0, "a", 1)]);
    rig.submit(set(0, 1));
    for task in 0..3 {
        let (executor, reason) = (ExecutorId(0), "gone".to_owned());
        let lost = TaskFailure::ExecutorLost { executor, caused_by_app: true, reason };
        rig.report(task, 0, TaskOutcome::Failed(lost));
        let expected = ["set 0.0 failed: p0 3 times, executor 0 lost: gone".to_owned()];
        assert_eq!(failures(&mut rig), expected[..usize::from(task == 2)]);
    }
    rig.cancel(stage(0, 0));
    assert!(rig.scheduler.is_idle() && rig.scheduler.has_no_suspects());
}

#[test]
fn what_is_not_the_applications_doing_counts_against_nobody() {
    let mut rig = Rig::with_options(failing_after(1), &[]);
    rig.submit(set(0, 2));
    for executor in 0..5 {
        rig.add(executor, "a", 2);
        rig.lose(executor, false, true);
    }
    assert_eq!(failures(&mut rig), [""; 0]);
    assert!(rig.scheduler.has_no_suspects());
}

#[test]
fn a_long_task_that_ran_beside_poison_of_other_jobs_is_not_worn_out_by_them() {
    let mut rig = Rig::with_options(failing_after(4), &[]);
    rig.submit(set(0, 1));
    let mut executor = 0;
    for poison in 1..=5 {
        rig.add(executor, "a", 2);
        rig.submit(set(poison, 1));
        for _ in 0..3 {
            rig.lose(executor, true, true);
            executor += 1;
            rig.add(executor, "a", 2);
        }
        assert_eq!(failures(&mut rig), [""; 0]);
        // The fourth time each has an executor of its own.
        rig.lose(executor, false, true);
        rig.add(executor + 1, "a", 1);
        rig.add(executor + 2, "a", 1);
        rig.lose(executor + 2, true, true);
        let lost = executor + 2;
        let expected = format!("set {poison}.0 failed: p0 4 times, executor {lost} lost: gone");
        assert_eq!(failures(&mut rig), [expected]);
        rig.cancel(stage(poison, 0));
        rig.lose(executor + 1, false, true);
        executor += 3;
    }
    rig.add(executor, "a", 1);
    assert_eq!(rig.scheduler.running_tasks(), 1, "it still runs");
}

#[test]
fn two_tasks_that_were_there_each_time_both_reach_the_limit() {
    let mut rig = Rig::with_options(failing_after(2), &[]);
    rig.submit(set(0, 1));
    rig.submit(set(1, 1));
    for executor in 0..2 {
        rig.add(executor, "a", 2);
        rig.lose(executor, true, true);
    }
    assert_eq!(failures(&mut rig).len(), 2);
    assert!(rig.scheduler.has_no_suspects());
}

#[test]
fn losses_are_forgotten_with_the_stage() {
    let mut rig = Rig::with(&[(0, "a", 2)]);
    rig.submit(set(0, 1));
    rig.submit(set(1, 1));
    rig.lose(0, true, true);
    assert!(!rig.scheduler.has_no_suspects());
    rig.add(1, "a", 2);
    let _ = rig.lines();
    rig.succeed(2, 1);
    rig.cancel(stage(1, 0));
    rig.succeed(3, 1);
    assert!(!rig.scheduler.has_no_suspects(), "it may only have been rolled back");
    rig.scheduler.forget_losses(|_| false);
    assert!(rig.scheduler.is_idle() && rig.scheduler.has_no_suspects());
}
