//! One test per rule, each told as events in and lines out.

use std::time::{Duration, Instant};

use super::*;
use crate::messages::{TaskSet, TaskSetFailure, TaskSetKind};

const NOTHING: [&str; 0] = [];

/// `source -> map =s0=> reduce`, 2 map and 2 reduce partitions.
fn two_stages() -> Rdd {
    let mut graph = Graph::default();
    let source = graph.source(2);
    let mapped = graph.map(&source);
    graph.shuffled(&[&mapped], 2)
}

/// A bench with a job over [`two_stages`] whose map stage 0 ran on executor 1.
fn reducing() -> (Bench, Rdd) {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.finish((0, 0), 2, 1);
    (bench, rdd)
}

fn task_sets(effects: Vec<DagEffect>) -> Vec<TaskSet> {
    let set = |effect| if let DagEffect::SubmitTaskSet(set) = effect { Some(set) } else { None };
    effects.into_iter().filter_map(set).collect()
}

fn job(job: u32, rdd: &Rdd) -> DagEvent {
    DagEvent::JobSubmitted(JobSpec {
        job: JobId(job),
        rdd: Arc::clone(rdd),
        partitions: (0..rdd.partitions).collect(),
        properties: collecting(),
    })
}

#[test]
fn a_job_without_partitions_starts_and_ends_at_once() {
    let mut bench = Bench::new();
    let lines = bench.submit_in(0, &two_stages(), vec![], Properties::default());
    assert_eq!(lines, ["job 0 starts []", "job 0 ends", "end 0 ok"]);
    assert!(bench.dag.is_idle());
}

#[test]
fn a_job_without_shuffles_is_one_stage_and_ends_with_its_last_partition() {
    let (mut bench, rdd) = (Bench::new(), Graph::default().source(2));
    assert_eq!(bench.submit(0, &rdd), ["job 0 starts [0.0]", "stage 0.0 starts", "run 0.0 [0 1]"]);
    assert_eq!(bench.succeed((0, 0), 1, 1), ["apply t0", "deliver 0[1] t0", "release t0"]);
    assert_eq!(
        bench.succeed((0, 0), 0, 1),
        ["apply t1", "deliver 0[0] t1", "release t1", "stage 0.0 ok", "job 0 ends", "end 0 ok"]
    );
    assert!(bench.dag.is_idle());
}

#[test]
fn only_the_partitions_asked_for_are_run_and_each_index_is_delivered() {
    let (mut bench, rdd) = (Bench::new(), Graph::default().source(9));
    let lines = bench.submit_in(0, &rdd, vec![7, 2, 7], Properties::default());
    assert_eq!(lines[2], "run 0.0 [2 7]");
    assert_eq!(
        bench.succeed((0, 0), 7, 1),
        ["apply t0", "deliver 0[0] t0", "deliver 0[2] t0", "release t0"]
    );
    assert_eq!(bench.succeed((0, 0), 2, 1).last().unwrap(), "end 0 ok");
}

#[test]
fn a_stage_is_submitted_when_its_parents_outputs_are_all_there_and_published() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    assert_eq!(
        bench.submit(0, &rdd),
        ["job 0 starts [0.0 1.0]", "stage 0.0 starts", "run 0.0 [0 1]"]
    );
    assert_eq!(bench.succeed((0, 0), 0, 1), ["apply t0", "release t0"]);
    assert_eq!(
        bench.succeed((0, 0), 1, 2),
        [
            "apply t1",
            "release t1",
            "stage 0.0 ok",
            "publish s0 [1 2]",
            "stage 1.0 starts",
            "run 1.0 [0 1]"
        ]
    );
    assert_eq!(bench.finish((1, 0), 2, 1).last().unwrap(), "end 0 ok");
    assert!(bench.dag.is_idle());
}

#[test]
fn a_stage_with_two_parents_waits_for_both() {
    let mut graph = Graph::default();
    let (left, right) = (graph.source(1), graph.source(1));
    let joined = graph.shuffled(&[&left, &right], 1);
    let mut bench = Bench::new();
    let lines = bench.submit(0, &joined);
    assert_eq!(lines[0], "job 0 starts [0.0 1.0 2.0]");
    assert_eq!(lines[1..], ["stage 0.0 starts", "run 0.0 [0]", "stage 1.0 starts", "run 1.0 [0]"]);
    let lines = bench.succeed((1, 0), 0, 1);
    assert_eq!(lines.last().unwrap(), "publish s1 [1]");
    assert_eq!(bench.succeed((0, 0), 0, 1).last().unwrap(), "run 2.0 [0]");
}

#[test]
fn a_later_job_skips_a_stage_whose_outputs_exist_and_stage_ids_are_not_reused() {
    let (mut bench, rdd) = reducing();
    bench.finish((1, 0), 2, 1);
    assert!(bench.dag.is_idle());
    assert_eq!(
        bench.submit(1, &rdd),
        ["job 1 starts [2.0 3.0]", "stage 3.0 starts", "run 3.0 [0 1]"]
    );
}

#[test]
fn a_later_job_runs_only_the_missing_partitions_of_a_shuffle() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.succeed((0, 0), 0, 1);
    let reason = "enough".to_string();
    bench.send(DagEvent::JobCancelled { job: JobId(0), reason });
    assert_eq!(bench.submit(1, &rdd)[1..], ["stage 2.0 starts", "run 2.0 [1]"]);
}

#[test]
fn jobs_that_run_at_once_share_a_shuffle_stage() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    assert_eq!(bench.submit(1, &rdd), ["job 1 starts [0.0 2.0]"]);
    let lines = bench.finish((0, 0), 2, 1);
    assert!(lines.contains(&"run 1.0 [0 1]".into()) && lines.contains(&"run 2.0 [0 1]".into()));
}

#[test]
fn a_removed_shuffle_is_computed_again() {
    let (mut bench, rdd) = reducing();
    bench.finish((1, 0), 2, 1);
    assert_eq!(bench.dag.counts().shuffles, 1);
    assert_eq!(bench.send(DagEvent::ShuffleRemoved { shuffle: ShuffleId(0) }), NOTHING);
    assert_eq!(bench.dag.counts().shuffles, 0);
    assert!(bench.submit(1, &rdd).contains(&"run 2.0 [0 1]".into()));
}

#[test]
fn a_shuffle_removed_under_a_job_is_lost_and_leaves_nothing_behind() {
    let (mut bench, _rdd) = reducing();
    let removed = DagEvent::ShuffleRemoved { shuffle: ShuffleId(0) };
    assert_eq!(bench.send(removed)[..2], ["publish s0 [- -]", "retire 1.0"]);
    assert!(bench.tick(200).contains(&"run 0.1 [0 1]".into()));
    bench.finish((0, 1), 2, 1);
    assert_eq!(bench.finish((1, 1), 2, 1).last().unwrap(), "end 0 ok");
    assert_eq!(bench.dag.counts(), Default::default());
}

#[test]
fn a_wholly_cached_rdd_needs_no_parents_and_a_partly_cached_one_does() {
    let mut graph = Graph::default();
    let source = graph.source(1);
    let reduced = graph.shuffled(&[&source], 2);
    let mapped = graph.map(&reduced);
    let mut bench = Bench::new();
    bench.cache(&reduced, 0, 1, true);
    bench.cache(&reduced, 1, 1, true);
    assert!(bench.submit(0, &mapped).contains(&"run 0.0 [0]".into()), "not asked to be cached");
    persist(&reduced);
    let lines = bench.submit(1, &mapped);
    assert_eq!(lines[1..], ["publish s0 [-]", "stage 2.0 starts", "run 2.0 [0 1]"]);
    bench.send(DagEvent::AllJobsCancelled { reason: "next".into() });
    bench.cache(&reduced, 1, 1, false);
    assert!(bench.submit(2, &mapped).contains(&"run 3.0 [0]".into()));
    bench.send(DagEvent::AllJobsCancelled { reason: "next".into() });
    bench.cache(&reduced, 1, 2, true);
    assert!(bench.submit(3, &mapped).contains(&"run 6.0 [0 1]".into()));
    bench.send(DagEvent::AllJobsCancelled { reason: "next".into() });
    bench.send(DagEvent::RddUnpersisted { rdd: reduced.id });
    assert!(bench.submit(4, &mapped).contains(&"run 7.0 [0]".into()));
    assert_eq!(bench.dag.counts().cached_rdds, 0);
}

#[test]
fn cached_partitions_are_gone_with_their_executor() {
    let mut graph = Graph::default();
    let source = graph.source(1);
    let reduced = graph.shuffled(&[&source], 1);
    persist(&reduced);
    let mut bench = Bench::new();
    bench.submit(0, &reduced);
    bench.cache(&reduced, 0, 1, true);
    bench.lose(1, false);
    bench.cache(&reduced, 0, 1, true);
    assert_eq!(bench.dag.counts().cached_rdds, 0, "word from a lost executor is not believed");
}

#[test]
fn a_fetch_failure_outweighs_the_table_of_cached_partitions() {
    let mut graph = Graph::default();
    let source = graph.source(1);
    let reduced = graph.shuffled(&[&source], 1);
    persist(&reduced);
    let mut bench = Bench::new();
    bench.cache(&reduced, 0, 1, true);
    assert!(bench.submit(0, &reduced).contains(&"run 1.0 [0]".into()));
    bench.fail((1, 0), fetch_failure(0, 0, 1));
    assert_eq!(bench.tick(200), ["stage 0.0 starts", "run 0.0 [0]"]);
    assert!(bench.succeed((0, 0), 0, 1).contains(&"run 1.1 [0]".into()));
}

#[test]
fn tasks_prefer_cached_partitions_then_sources_then_those_of_the_first_narrow_parent() {
    let mut graph = Graph::default();
    let located = graph.located(2, vec![], vec![vec![on(1)], vec![on(2)]]);
    let plain = graph.source(1);
    let cached = graph.map(&plain);
    persist(&cached);
    let shuffled = graph.shuffled(&[&plain], 1);
    let (left, right) = (graph.map(&located), graph.map(&cached));
    let union = graph.union(&[&left, &right, &shuffled]);
    let groups = NarrowMapping::Groups(vec![vec![1, 0], vec![2], vec![3]].into());
    let coalesced = graph.rdd(3, vec![narrow(&union, groups)]);
    let mut bench = Bench::new();
    bench.cache(&cached, 0, 3, true);
    bench.effects(job(0, &coalesced));
    let sets = {
        let task = bench.task((0, 0), 0, 1);
        task_sets(bench.effects(succeeded(task)))
    };
    let preferred: Vec<_> = sets[0].tasks.iter().map(|task| task.preferred.clone()).collect();
    assert_eq!(preferred, [vec![on(2)], vec![on(3)], vec![]]);
    persist(&coalesced);
    bench.cache(&coalesced, 0, 4, true);
    let sets = task_sets(bench.effects(job(1, &coalesced)));
    assert_eq!(sets[0].tasks[0].preferred, [on(4)]);
}

#[test]
fn a_task_set_carries_the_lowest_job_its_pool_and_its_kind() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    let pool = Properties::default().with(Properties::POOL, "fast");
    bench.submit_in(4, &rdd, vec![0], pool);
    bench.submit(3, &rdd);
    bench.succeed((0, 0), 0, 1);
    let task = bench.task((0, 0), 1, 1);
    let sets = task_sets(bench.effects(succeeded(task)));
    let heads: Vec<_> = sets.iter().map(|s| (s.kind, s.priority, s.pool.clone(), s.rdd)).collect();
    assert_eq!(
        heads,
        [
            (TaskSetKind::Result(JobId(4)), JobId(4), Some("fast".into()), rdd.id),
            (TaskSetKind::Result(JobId(3)), JobId(3), None, rdd.id)
        ]
    );
    bench.lose(1, true);
    bench.fail((1, 0), fetch_failure(0, 0, 1));
    bench.now += 200;
    let sets = task_sets(bench.effects(DagEvent::Ticked));
    assert_eq!((sets[0].kind, sets[0].priority), (TaskSetKind::ShuffleMap(ShuffleId(0)), JobId(3)));
}

#[test]
fn stages_are_described_by_rdd_or_action_by_rdds_and_parents() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    let effects = bench.effects(job(0, &rdd));
    let DagEffect::Outside(SchedulerEffect::Post(Event::JobStart { stages, .. })) = &effects[0]
    else {
        panic!()
    };
    let rdds = |stage: &StageInfo| stage.rdds.iter().map(|rdd| rdd.rdd.id).collect::<Vec<_>>();
    let map_side = rdd.dependencies[0].rdd();
    assert_eq!(&*stages[0].name, map_side.call_site.to_string());
    assert_eq!(&*stages[1].name, ACTION);
    assert_eq!((rdds(&stages[0]), &stages[0].parents[..]), (vec![RddId(1), RddId(0)], &[][..]));
    assert_eq!((rdds(&stages[1]), &stages[1].parents[..]), (vec![RddId(2)], &[StageId(0)][..]));
    let shape: Vec<_> = stages.iter().map(|info| (info.tasks, info.shuffle_map)).collect();
    assert_eq!(shape, [(2, true), (2, false)]);
}

#[test]
fn repeated_and_late_successes_change_nothing_but_are_released() {
    let (mut bench, _rdd) = reducing();
    assert_eq!(bench.succeed((0, 0), 1, 2), ["release t2"]);
    assert_eq!(bench.succeed((1, 0), 0, 1)[1], "deliver 0[0] t3");
    assert_eq!(bench.succeed((1, 0), 0, 2), ["release t4"]);
    bench.succeed((1, 0), 1, 1);
    assert_eq!(bench.succeed((1, 0), 1, 1), ["release t6"]);
    assert_eq!(bench.succeed((77, 0), 1, 1), ["release t7"]);
}

#[test]
fn a_failure_that_is_not_a_fetch_failure_is_left_to_the_task_scheduler() {
    let (mut bench, _rdd) = reducing();
    let failures = [
        TaskFailure::Error { message: "no".into() },
        TaskFailure::Killed { reason: "speculation".into() },
        TaskFailure::Fatal { message: "no".into() },
    ];
    for failure in failures {
        assert_eq!(bench.fail((1, 0), failure), NOTHING);
    }
}

#[test]
fn an_output_written_before_its_executor_was_lost_is_void_and_its_partition_runs_again() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    let late = bench.task((0, 0), 0, 1);
    bench.lose(1, true);
    let executor = ExecutorId(1);
    bench.send(DagEvent::ExecutorAdded { executor, host: host(1) });
    assert_eq!(bench.end(late, TaskOutcome::Success), ["release t0"]);
    assert_eq!(
        bench.succeed((0, 0), 1, 1),
        [
            "apply t1",
            "release t1",
            "retire 0.0",
            "stage 0.0 failed",
            "stage 0.1 starts",
            "run 0.1 [0]"
        ]
    );
    assert!(bench.succeed((0, 1), 0, 1).contains(&"publish s0 [1 1]".into()));
}

#[test]
fn nothing_is_registered_at_an_executor_that_is_gone() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.lose(1, true);
    assert_eq!(bench.succeed((0, 0), 0, 1), ["release t0"], "launched after the loss");
}

#[test]
fn outputs_kept_by_a_shuffle_service_outlive_their_executor() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.succeed((0, 0), 0, 1);
    let late = bench.task((0, 0), 1, 1);
    assert_eq!(bench.lose(1, false), NOTHING);
    let lines = bench.end(late, TaskOutcome::Success);
    assert!(lines.contains(&"publish s0 [1 1]".into()));
    let lines = bench.lose(1, true);
    assert_eq!(lines[..2], ["publish s0 [- -]", "retire 1.0"], "then the service goes too");
}

#[test]
fn attempts_that_read_lost_outputs_rest_and_are_not_blamed() {
    let (mut bench, _rdd) = reducing();
    let limit = DagOptions::default().max_consecutive_attempts;
    for attempt in 0..limit + 2 {
        let lines = bench.lose(attempt + 1, true);
        assert_eq!(lines[1], format!("retire 1.{attempt}"));
        let lines = bench.tick(200);
        assert!(lines.contains(&format!("run 0.{} [0 1]", attempt + 1)), "{lines:?}");
        bench.finish((0, attempt + 1), 2, attempt + 2);
    }
    assert_eq!(bench.finish((1, limit + 2), 2, 1).last().unwrap(), "end 0 ok");
}

#[test]
fn outputs_lost_while_their_stage_runs_are_made_by_a_new_attempt_and_accumulate_once() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.succeed((0, 0), 0, 1);
    assert_eq!(bench.lose(1, true), ["publish s0 [- -]"]);
    let lines = bench.succeed((0, 0), 1, 2);
    assert_eq!(lines[2..], ["retire 0.0", "stage 0.0 failed", "stage 0.1 starts", "run 0.1 [0]"]);
    let lines = bench.succeed((0, 1), 0, 2);
    assert_eq!(lines[..3], ["release t2", "stage 0.1 ok", "publish s0 [2 2]"]);
}

#[test]
fn a_map_task_run_again_within_its_task_set_counts() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.succeed((0, 0), 0, 1);
    bench.lose(1, true);
    assert_eq!(bench.succeed((0, 0), 0, 2), ["release t1"]);
    let lines = bench.succeed((0, 0), 1, 2);
    assert_eq!(lines[2..5], ["cancel 0.0", "stage 0.0 ok", "publish s0 [2 2]"]);
}

#[test]
fn a_map_task_still_running_again_when_its_stage_completes_is_cancelled() {
    let (mut bench, _rdd) = reducing();
    bench.lose(1, true);
    bench.fail((1, 0), fetch_failure(0, 1, 1));
    bench.tick(200);
    bench.succeed((0, 1), 0, 2);
    bench.lose(2, true);
    bench.succeed((0, 0), 0, 3);
    let lines = bench.succeed((0, 1), 1, 3);
    assert_eq!(lines[1..4], ["cancel 0.1", "stage 0.1 ok", "publish s0 [3 3]"]);
}

#[test]
fn a_fetch_failure_ends_the_attempt_and_both_stages_run_again_after_the_delay() {
    let (mut bench, _rdd) = reducing();
    assert_eq!(bench.succeed((1, 0), 1, 1)[1], "deliver 0[1] t2");
    let armed = bench.now + 1 + 200;
    assert_eq!(
        bench.fail((1, 0), fetch_failure(0, 1, 1)),
        [
            "publish s0 [1 -]".to_string(),
            "retire 1.0".into(),
            "stage 1.0 failed".into(),
            format!("timer {armed}")
        ]
    );
    assert_eq!(bench.dag.counts().resting, 2);
    assert_eq!(bench.tick(10), [format!("timer {armed}")], "an early tick is armed again");
    assert_eq!(bench.tick(200), ["stage 0.1 starts", "run 0.1 [1]"]);
    let lines = bench.succeed((0, 1), 1, 2);
    assert_eq!(lines[1..], ["stage 0.1 ok", "publish s0 [1 2]", "stage 1.1 starts", "run 1.1 [0]"]);
    assert_eq!(bench.succeed((1, 1), 0, 1).last().unwrap(), "end 0 ok");
    assert_eq!(bench.tick(500), NOTHING);
    assert!(bench.dag.is_idle());
}

#[test]
fn further_fetch_failures_of_the_attempt_are_gathered_and_those_of_older_ones_ignored() {
    let (mut bench, _rdd) = reducing();
    bench.fail((1, 0), fetch_failure(0, 1, 1));
    assert_eq!(bench.fail((1, 0), fetch_failure(0, 0, 1)), ["publish s0 [- -]"]);
    assert_eq!(bench.tick(200), ["stage 0.1 starts", "run 0.1 [0 1]"]);
    bench.finish((0, 1), 2, 2);
    assert_eq!(bench.fail((1, 0), fetch_failure(0, 0, 2)), NOTHING);
    assert_eq!(bench.dag.counts().running, 1);
}

#[test]
fn a_fetch_failure_told_while_the_reader_waits_is_repaired_before_it_is_submitted() {
    let (mut bench, _rdd) = reducing();
    bench.fail((1, 0), fetch_failure(0, 1, 1));
    bench.tick(200);
    assert_eq!(bench.fail((1, 0), fetch_failure(0, 0, 1))[0], "publish s0 [- -]");
    assert_eq!(
        bench.succeed((0, 1), 1, 2)[1..],
        ["retire 0.1", "stage 0.1 failed", "stage 0.2 starts", "run 0.2 [0]"]
    );
}

#[test]
fn an_output_recomputed_elsewhere_is_not_unregistered_by_a_late_message() {
    let (mut bench, _rdd) = reducing();
    let lines = bench.fail((1, 0), fetch_failure(0, 1, 5));
    assert_eq!(lines[..2], ["retire 1.0", "stage 1.0 failed"]);
    assert_eq!(bench.tick(200), ["stage 1.1 starts", "run 1.1 [0 1]"]);
}

#[test]
fn late_successes_of_a_retired_attempt_count() {
    let (mut bench, _rdd) = reducing();
    bench.fail((1, 0), fetch_failure(0, 1, 1));
    assert_eq!(bench.succeed((1, 0), 0, 1)[1], "deliver 0[0] t3");
    bench.tick(200);
    let lines = bench.succeed((0, 0), 1, 1);
    assert_eq!(
        lines,
        [
            "release t4",
            "cancel 0.1",
            "stage 0.1 ok",
            "publish s0 [1 1]",
            "stage 1.1 starts",
            "run 1.1 [1]"
        ]
    );
    let lines = bench.succeed((1, 0), 1, 1);
    assert_eq!(lines[1..4], ["deliver 0[1] t5", "release t5", "cancel 1.1"]);
    assert_eq!(lines[4..], ["stage 1.1 ok", "cancel 1.0", "job 0 ends", "end 0 ok"]);
}

#[test]
fn a_job_that_ends_by_late_successes_takes_the_repairs_made_for_it_along() {
    let (mut bench, _rdd) = reducing();
    bench.fail((1, 0), fetch_failure(0, 1, 1));
    bench.tick(200);
    let lines = bench.finish((1, 0), 2, 1);
    assert_eq!(lines[3..6], ["cancel 1.0", "cancel 0.1", "stage 0.1 failed"]);
    assert_eq!(lines[6..], ["job 0 ends", "end 0 ok"]);
    assert!(bench.dag.is_idle());
}

/// Fails attempt `attempt` of stage 1 by a fetch failure and, if it is tried again, repairs stage 0.
fn fail_to_fetch(bench: &mut Bench, attempt: u32) -> Vec<String> {
    let lines = bench.fail((1, attempt), fetch_failure(0, 1, 1));
    bench.tick(200);
    bench.succeed((0, attempt + 1), 1, 1);
    lines
}

#[test]
fn a_stage_that_fails_to_fetch_the_same_four_times_in_a_row_aborts_its_jobs() {
    let (mut bench, rdd) = reducing();
    // The first tells that map output 1 cannot be read; the others tell nothing new.
    for attempt in 0..4 {
        assert!(fail_to_fetch(&mut bench, attempt).contains(&format!("retire 1.{attempt}")));
    }
    let lines = fail_to_fetch(&mut bench, 4);
    assert_eq!(lines[..3], ["publish s0 [1 -]", "cancel 1.4", "stage 1.4 failed"]);
    assert_eq!(lines[3..8], ["cancel 1.0", "cancel 1.1", "cancel 1.2", "cancel 1.3", "job 0 ends"]);
    assert_eq!(
        lines[8],
        format!(
            "end job 0 aborted: stage 1 ({ACTION}, of {}): 4 attempt(s) in a row failed to fetch \
             (spark.stage.maxConsecutiveAttempts), most recently: could not fetch map output 1 of shuffle 0 from \
             executor 1: connection refused",
            rdd.call_site
        )
    );
    assert!(bench.dag.is_idle());
}

#[test]
fn success_of_a_stage_resets_its_count_of_failed_attempts() {
    let mut graph = Graph::default();
    let source = graph.source(2);
    let middle = graph.shuffled(&[&source], 2);
    let last = graph.shuffled(&[&middle], 1);
    let mut bench = Bench::new();
    bench.submit(0, &last);
    bench.finish((0, 0), 2, 1);
    for attempt in 0..3 {
        fail_to_fetch(&mut bench, attempt);
    }
    bench.finish((1, 3), 2, 2);
    bench.lose(2, true);
    bench.fail((2, 0), fetch_failure(1, 0, 2));
    assert!(bench.tick(200).contains(&"run 1.4 [0 1]".into()));
    for attempt in 4..7 {
        let lines = bench.fail((1, attempt), fetch_failure(0, 1, 1));
        assert!(lines.contains(&format!("retire 1.{attempt}")), "{lines:?}");
        bench.tick(200);
        bench.succeed((0, attempt), 1, 1);
    }
}

#[test]
fn a_failed_task_set_aborts_every_job_that_needs_its_stage_and_no_other() {
    let mut graph = Graph::default();
    let (shared, own) = (graph.source(1), graph.source(1));
    let first = graph.shuffled(&[&shared, &own], 1);
    let dependency = first.dependencies[0].clone();
    let second = graph.rdd(1, vec![dependency]);
    let third = graph.rdd(1, vec![first.dependencies[1].clone()]);
    let mut bench = Bench::new();
    bench.submit(0, &first);
    bench.submit(1, &second);
    bench.submit(2, &third);
    let failure = TaskFailure::Error { message: "disk full".into() };
    let cause = TaskSetFailure::TaskFailed { partition: 0, attempts: 4, failure };
    let stage = stage_ref(0, 0);
    let lines = bench.send(DagEvent::TaskSetFailed { stage, cause: cause.clone() });
    let name = shared.call_site;
    let error = |job: u32| {
        format!(
            "end job {job} aborted: partition 0 of stage 0.0 ({name}) failed 4 time(s), most \
             recently: disk full"
        )
    };
    assert_eq!(
        lines,
        [
            "cancel 0.0".to_string(),
            "stage 0.0 failed".into(),
            "job 0 ends".into(),
            error(0),
            "job 1 ends".into(),
            error(1)
        ]
    );
    assert_eq!(bench.send(DagEvent::TaskSetFailed { stage, cause }), NOTHING);
    bench.succeed((1, 0), 0, 1);
    assert_eq!(bench.succeed((4, 0), 0, 1).last().unwrap(), "end 2 ok");
    assert!(bench.dag.is_idle());
}

#[test]
fn a_task_set_nothing_can_run_aborts_with_the_reason_and_that_of_an_old_attempt_is_ignored() {
    let (mut bench, _rdd) = reducing();
    let failed = |attempt| DagEvent::TaskSetFailed {
        stage: stage_ref(1, attempt),
        cause: TaskSetFailure::Unschedulable { partition: 1, reason: "all excluded".into() },
    };
    bench.fail((1, 0), fetch_failure(0, 1, 5));
    assert_eq!(bench.send(failed(0)), NOTHING);
    bench.tick(200);
    assert_eq!(bench.send(failed(0)), NOTHING);
    let lines = bench.send(failed(1));
    assert!(lines[4].ends_with("partition 1 cannot be placed: all excluded"), "{lines:?}");
}

#[test]
fn what_a_task_did_in_all_attempts_aborts_its_stage_whichever_of_them_it_is_told_of() {
    let (mut bench, _rdd) = reducing();
    let lost = |partition| DagEvent::TaskSetFailed {
        stage: stage_ref(1, 0),
        cause: TaskSetFailure::TaskFailed {
            partition,
            attempts: 4,
            failure: TaskFailure::ExecutorLost {
                executor: ExecutorId(5),
                caused_by_app: true,
                reason: "it is silent".into(),
            },
        },
    };
    bench.fail((1, 0), fetch_failure(0, 1, 5));
    bench.tick(200);
    bench.succeed((0, 1), 0, 1);
    bench.succeed((1, 1), 0, 1);
    assert_eq!(bench.send(lost(0)), NOTHING, "its result came from another attempt");
    let lines = bench.send(lost(1));
    assert!(lines.iter().any(|line| line.starts_with("end job 0 aborted")), "{lines:?}");
}

#[test]
fn a_stage_that_fails_says_where_in_the_program_its_steps_are() {
    let mut graph = Graph::default();
    let source = graph.source(1);
    let mapped = graph.map(&source);
    let shuffled = graph.shuffled(&[&mapped], 1);
    let mut last = Arc::clone(&shuffled);
    let of_line = |line| CallSite { line, ..source.call_site };
    for line in 9001..=9020 {
        let parent = narrow(&last, NarrowMapping::OneToOne);
        last = Arc::new(RddInfo::new(RddId(line), "TestRDD", of_line(line), 1, vec![parent]));
    }
    let mut bench = Bench::new();
    bench.submit(0, &last);
    let failed = |bench: &mut Bench, stage| {
        let failure = TaskFailure::Error { message: "disk full".into() };
        let cause = TaskSetFailure::TaskFailed { partition: 0, attempts: 4, failure };
        bench.send(DagEvent::TaskSetFailed { stage: stage_ref(stage, 0), cause }).pop().unwrap()
    };
    let of_map_side = format!("({}, of {})", mapped.call_site, source.call_site);
    let error = failed(&mut bench, 0);
    assert!(error.contains(&of_map_side), "{error}");
    bench.submit(1, &last);
    bench.finish((2, 0), 1, 1);
    // Of a long chain those that are nearest to the action, and no more than can be read.
    let nearest: Vec<String> = (9013..=9020).rev().map(|line| of_line(line).to_string()).collect();
    let error = failed(&mut bench, 3);
    assert!(
        error.contains(&format!("({ACTION}, of {}, and others)", nearest.join(", "))),
        "{error}"
    );
}

#[test]
fn the_steps_of_a_stage_are_told_of_all_its_branches_and_not_behind_what_is_cached() {
    let mut graph = Graph::default();
    let (source, cached) = (graph.source(1), graph.source(1));
    let of_line = |line| CallSite { line, ..source.call_site };
    let made =
        |line, parents| Arc::new(RddInfo::new(RddId(line), "TestRDD", of_line(line), 1, parents));
    let one = |rdd: &Rdd| narrow(rdd, NarrowMapping::OneToOne);
    let mut long = Arc::clone(&source);
    for line in 9001..=9010 {
        long = made(line, vec![one(&long)]);
    }
    let kept = made(9100, vec![one(&cached)]);
    kept.storage_level.set(StorageLevel::MEMORY_ONLY);
    let short = made(9101, vec![one(&kept)]);
    let zipped = made(9200, vec![one(&long), one(&short)]);
    let mut bench = Bench::new();
    bench.cache(&kept, 0, 1, true);
    bench.submit(0, &zipped);
    let failure = TaskFailure::Error { message: "disk full".into() };
    let cause = TaskSetFailure::TaskFailed { partition: 0, attempts: 4, failure };
    let failed = DagEvent::TaskSetFailed { stage: stage_ref(0, 0), cause };
    let error = bench.send(failed).pop().unwrap();
    let lines: Vec<u32> = [9200, 9010, 9101, 9009, 9100, 9008, 9007, 9006].into();
    let nearest: Vec<String> = lines.into_iter().map(|line| of_line(line).to_string()).collect();
    assert!(error.contains(&format!("of {}, and others)", nearest.join(", "))), "{error}");
}

#[test]
fn cancelling_a_job_ends_it_and_leaves_shared_stages_to_the_others() {
    let (mut bench, rdd) = (Bench::new(), two_stages());
    bench.submit(0, &rdd);
    bench.submit(1, &rdd);
    let cancel = |job| DagEvent::JobCancelled { job: JobId(job), reason: "enough".into() };
    let cancelled = |job: u32| format!("end job {job} ({ACTION}) cancelled: enough");
    assert_eq!(bench.send(cancel(0)), ["job 0 ends", &cancelled(0)]);
    assert_eq!(bench.send(cancel(0)), NOTHING);
    assert_eq!(bench.send(cancel(7)), NOTHING);
    assert!(bench.finish((0, 0), 2, 1).contains(&"run 2.0 [0 1]".into()));
    assert_eq!(
        bench.send(cancel(1)),
        ["cancel 2.0", "stage 2.0 failed", "job 1 ends", &cancelled(1)]
    );
    assert!(bench.dag.is_idle());
}

#[test]
fn a_group_a_stage_and_everything_can_be_cancelled() {
    let (mut bench, rdd) = (Bench::new(), Graph::default().source(1));
    for job in 0..4 {
        let mut properties = Properties::default();
        properties.set(Properties::GROUP, (job % 2 == 0).then_some("even"));
        properties.tags_mut().extend([format!("tag{job}"), "all".to_owned()]);
        bench.submit_in(job, &rdd, vec![0], properties);
    }
    let (group, reason) = ("even".to_string(), "enough".to_string());
    let lines = bench.send(DagEvent::JobGroupCancelled { group, reason: reason.clone() });
    assert!(lines.contains(&"job 0 ends".into()) && lines.contains(&"job 2 ends".into()));
    assert_eq!(lines.len(), 8);
    let stage = StageId(1);
    let lines = bench.send(DagEvent::StageCancelled { stage, reason: reason.clone() });
    assert_eq!(lines[2..], ["job 1 ends", "end job 1 cancelled: enough"]);
    assert_eq!(bench.send(DagEvent::StageCancelled { stage, reason: reason.clone() }), NOTHING);
    let group = "odd".to_string();
    assert_eq!(bench.send(DagEvent::JobGroupCancelled { group, reason: reason.clone() }), NOTHING);
    let tagged =
        |tag: &str| DagEvent::JobTagCancelled { tag: tag.to_owned(), reason: "enough".to_owned() };
    bench.submit_in(4, &rdd, vec![0], Properties::default());
    assert_eq!(bench.send(tagged("tag2")), NOTHING);
    let lines = bench.send(tagged("all"));
    assert_eq!((&*lines[2], lines.len()), ("job 3 ends", 4));
    assert_eq!(bench.send(DagEvent::AllJobsCancelled { reason })[2], "job 4 ends");
    assert!(bench.dag.is_idle());
}

#[test]
fn a_cancelled_job_leaves_no_timer_and_no_losses() {
    let (mut bench, _rdd) = reducing();
    bench.lose(1, true);
    bench.fail((1, 0), fetch_failure(0, 1, 1));
    assert!(!bench.dag.is_idle());
    bench.send(DagEvent::AllJobsCancelled { reason: "enough".into() });
    bench.send(DagEvent::ShuffleRemoved { shuffle: ShuffleId(0) });
    assert_eq!(bench.dag.counts(), Default::default());
    assert!(bench.dag.is_idle());
    assert_eq!(bench.tick(500), NOTHING);
}

#[test]
fn a_waiting_stage_looks_at_all_parents_again_before_it_is_submitted() {
    let mut graph = Graph::default();
    let (left, right) = (graph.source(1), graph.source(1));
    let joined = graph.shuffled(&[&left, &right], 1);
    let mut bench = Bench::new();
    bench.submit(0, &joined);
    bench.succeed((0, 0), 0, 1);
    assert_eq!(bench.lose(1, true), ["publish s0 [-]"]);
    let lines = bench.succeed((1, 0), 0, 2);
    assert_eq!(
        lines[2..],
        ["cancel 1.0", "stage 1.0 ok", "publish s1 [2]", "stage 0.1 starts", "run 0.1 [0]"]
    );
    assert_eq!(bench.succeed((0, 1), 0, 2).last().unwrap(), "run 2.0 [0]");
}

#[test]
fn an_executor_lost_between_jobs_takes_its_outputs_and_returning_brings_none_back() {
    let (mut bench, rdd) = reducing();
    bench.finish((1, 0), 2, 1);
    assert_eq!(bench.lose(1, true), ["publish s0 [- -]"]);
    bench.send(DagEvent::ExecutorAdded { executor: ExecutorId(1), host: host(1) });
    assert!(bench.submit(1, &rdd).contains(&"run 2.0 [0 1]".into()));
}

#[test]
fn a_shuffle_without_map_partitions_is_there_from_the_start() {
    let mut graph = Graph::default();
    let empty = graph.source(0);
    let reduced = graph.shuffled(&[&empty], 1);
    let lines = Bench::new().submit(0, &reduced);
    assert_eq!(lines[1..], ["publish s0 []", "stage 1.0 starts", "run 1.0 [0]"]);
}

/// Generous: the machine is shared, and what is to be caught takes minutes or for ever.
const SOON: Duration = Duration::from_secs(120);

#[test]
fn a_chain_of_100_000_narrow_nodes_is_one_stage_found_in_linear_time() {
    let begun = Instant::now();
    let mut graph = Graph::default();
    let mut rdd = graph.located(200, vec![], vec![vec![on(1)]; 200]);
    for _ in 0..100_000 {
        rdd = graph.map(&rdd);
    }
    let mut bench = Bench::new();
    let sets = task_sets(bench.effects(job(0, &rdd)));
    assert!(sets[0].tasks.iter().all(|task| task.preferred == [on(1)]));
    assert_eq!(bench.finish((0, 0), 200, 1).last().unwrap(), "end 0 ok");
    assert!(begun.elapsed() < SOON);
}

#[test]
fn a_chain_of_100_000_shuffles_runs_to_its_end_in_linear_time() {
    let begun = Instant::now();
    let mut graph = Graph::default();
    let mut rdd = graph.source(1);
    for _ in 0..100_000 {
        rdd = graph.shuffled(&[&rdd], 1);
    }
    let mut bench = Bench::new();
    bench.submit(0, &rdd);
    for stage in 0..100_000 {
        bench.succeed((stage, 0), 0, 1);
    }
    assert_eq!(bench.succeed((100_000, 0), 0, 1).last().unwrap(), "end 0 ok");
    assert!(bench.dag.is_idle());
    assert!(begun.elapsed() < SOON);
}

#[test]
fn a_ladder_of_diamonds_is_walked_once_and_not_once_per_path() {
    let begun = Instant::now();
    let mut graph = Graph::default();
    let mut rdd = graph.source(1);
    for step in 0..2_000 {
        let (left, right) = (graph.map(&rdd), graph.map(&rdd));
        rdd = if step % 2 == 0 {
            graph.shuffled(&[&left, &right], 1)
        } else {
            let dependencies = [&left, &right].map(|side| narrow(side, NarrowMapping::OneToOne));
            graph.rdd(1, dependencies.into())
        };
    }
    let lines = Bench::new().submit(0, &rdd);
    assert_eq!(lines[1..], ["stage 0.0 starts", "run 0.0 [0]", "stage 1.0 starts", "run 1.0 [0]"]);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn tasks_of_a_retired_attempt_go_with_the_job_that_is_cancelled_while_its_stages_rest_or_run_again()
{
    for ticks in [0, 200] {
        let (mut bench, _rdd) = reducing();
        bench.fail((1, 0), fetch_failure(0, 1, 1));
        bench.tick(ticks);
        let reason = "enough".to_string();
        let lines = bench.send(DagEvent::JobCancelled { job: JobId(0), reason });
        assert!(lines.contains(&"cancel 1.0".to_string()), "after {ticks} ms: {lines:?}");
        assert!(bench.dag.is_idle());
    }
}

#[test]
fn a_task_that_takes_along_what_its_own_stage_reads_ends_the_job_though_its_attempt_was_retired() {
    let (mut bench, _rdd) = reducing();
    bench.lose(1, true);
    let failure = TaskFailure::Error { message: "it ended its executor".into() };
    let cause = TaskSetFailure::TaskFailed { partition: 1, attempts: 4, failure };
    let lines = bench.send(DagEvent::TaskSetFailed { stage: stage_ref(1, 0), cause });
    assert!(lines.last().unwrap().ends_with("it ended its executor"), "{lines:?}");
    assert!(bench.dag.is_idle());
}

/// All four outputs of an executor are found unreadable one by one, or at once: neither ends the job.
#[test]
fn attempts_that_find_another_unreadable_output_do_not_count() {
    let mut graph = Graph::default();
    let source = graph.source(6);
    let rdd = graph.shuffled(&[&source], 1);
    let mut bench = Bench::new();
    bench.submit(0, &rdd);
    bench.finish((0, 0), 6, 1);
    for attempt in 0..6 {
        let lines = bench.fail((1, attempt), fetch_failure(0, attempt, 1));
        assert!(lines.contains(&format!("retire 1.{attempt}")), "{lines:?}");
        bench.tick(200);
        bench.succeed((0, attempt + 1), attempt, 2);
    }
    assert_eq!(bench.succeed((1, 6), 0, 1).last().unwrap(), "end 0 ok");
}

#[test]
fn all_outputs_that_an_executor_cannot_serve_are_recomputed_at_once_and_dropped_there() {
    let mut graph = Graph::default();
    let source = graph.source(3);
    let rdd = graph.shuffled(&[&source], 1);
    let mut bench = Bench::new();
    bench.submit(0, &rdd);
    bench.succeed((0, 0), 0, 1);
    bench.succeed((0, 0), 1, 2);
    bench.succeed((0, 0), 2, 1);
    let broken = |map_partition, task| MapAttempt { map_partition, task: TaskId(task) };
    let mut failure = fetch_failure(0, 0, 1);
    if let TaskFailure::FetchFailed { broken: all, .. } = &mut failure {
        // The last one is told of an attempt that was replaced since.
        all.extend([broken(0, 0), broken(2, 2), broken(1, 77)]);
    }
    let task = bench.task((1, 0), 0, 9);
    let outcome = TaskOutcome::Failed(failure);
    let effects = bench.effects(DagEvent::TaskEnded { task, outcome, written: None });
    let lines: Vec<String> = effects.iter().map(line).collect();
    assert_eq!(lines[..2], ["publish s0 [- 2 -]", "drop s0 [0@1 2@1]"]);
    assert_eq!(bench.tick(200), ["stage 0.1 starts", "run 0.1 [0 2]"]);
}

/// `source =s0=> middle =s1=> last`, 2 partitions each, where the outputs of shuffle 0 have these checksums.
fn indeterminate(checksums: [u64; 2]) -> (Bench, Rdd) {
    let mut graph = Graph::default();
    let source = graph.source(2);
    let middle = graph.shuffled(&[&source], 2);
    let last = graph.shuffled(&[&middle], 2);
    let mut bench = Bench::new();
    bench.submit(0, &last);
    for (partition, checksum) in (0u32..).zip(checksums) {
        bench.succeed_with((0, 0), partition, 1 + partition, checksum);
    }
    (bench, last)
}

#[test]
fn an_output_that_comes_out_different_rolls_back_what_was_made_of_the_one_before() {
    let (mut bench, _rdd) = indeterminate([7, 8]);
    bench.succeed((1, 0), 0, 3);
    bench.lose(2, true);
    bench.tick(200);
    // Another success of the attempt that read the old output, before and after the new one is there.
    let late = bench.task((1, 0), 1, 3);
    let lines = bench.succeed_with((0, 1), 1, 3, 9);
    assert!(lines.contains(&"publish s1 [- -]".to_string()), "nothing of it is read: {lines:?}");
    assert!(lines.contains(&"run 1.1 [0 1]".to_string()), "all of the reader again: {lines:?}");
    let effects = bench.effects(succeeded(late));
    let lines: Vec<String> = effects.iter().map(line).collect();
    assert_eq!(lines, ["drop s1 [1@3]", "release t3"], "it read the output that is no more");
    bench.finish((1, 1), 2, 3);
    assert!(bench.finish((2, 0), 2, 3).contains(&"end 0 ok".to_string()));
}

#[test]
fn an_output_that_comes_out_the_same_rolls_nothing_back() {
    let (mut bench, _rdd) = indeterminate([7, 8]);
    bench.succeed((1, 0), 0, 3);
    bench.lose(2, true);
    bench.tick(200);
    let lines = bench.succeed_with((0, 1), 1, 3, 8);
    assert!(lines.contains(&"run 1.1 [1]".to_string()), "{lines:?}");
}

#[test]
fn a_job_fails_that_delivered_results_of_an_output_that_came_out_different() {
    let mut graph = Graph::default();
    let source = graph.source(2);
    let rdd = graph.shuffled(&[&source], 2);
    let mut bench = Bench::new();
    bench.submit(0, &rdd);
    bench.succeed_with((0, 0), 0, 1, 7);
    bench.succeed_with((0, 0), 1, 2, 8);
    bench.succeed((1, 0), 0, 3);
    bench.lose(2, true);
    bench.tick(200);
    let lines = bench.succeed_with((0, 1), 1, 3, 9);
    let end = lines.iter().find(|line| line.starts_with("end job 0 aborted")).expect("it ends");
    assert!(end.contains("after 1 of its results were delivered"), "{end}");
    assert!(bench.dag.is_idle());
}

#[test]
fn outputs_made_of_an_older_generation_are_not_read_beside_the_newer_one() {
    let mut graph = Graph::default();
    let source = graph.source(1);
    let shared = graph.shuffle(&source);
    let first = graph.rdd(1, vec![shared.clone()]);
    let direct = graph.rdd(1, vec![shared]);
    let through = graph.shuffled(&[&first], 1);
    let both = graph.union(&[&direct, &through]);
    let mut bench = Bench::new();
    bench.submit(0, &through);
    bench.succeed_with((0, 0), 0, 1, 7);
    bench.succeed((1, 0), 0, 2);
    bench.succeed((2, 0), 0, 2);
    bench.lose(1, true);
    let lines = bench.submit(1, &both);
    assert!(lines.contains(&"run 3.0 [0]".to_string()), "shuffle 0 again: {lines:?}");
    let lines = bench.succeed_with((3, 0), 0, 2, 8);
    assert!(lines.contains(&"run 4.0 [0]".to_string()), "and what was made of it: {lines:?}");
}

#[test]
fn a_stage_that_reads_cached_partitions_of_records_that_changed_runs_again() {
    let mut graph = Graph::default();
    let source = graph.source(2);
    let middle = graph.shuffled(&[&source], 2);
    let shared = graph.shuffle(&middle);
    let cached = graph.rdd(2, vec![shared.clone()]);
    persist(&cached);
    let direct = graph.rdd(2, vec![shared]);
    let mut bench = Bench::new();
    bench.submit(0, &cached);
    bench.succeed_with((0, 0), 0, 1, 7);
    bench.succeed_with((0, 0), 1, 2, 8);
    bench.finish((1, 0), 2, 2);
    (0..2).for_each(|partition| bench.cache(&cached, partition, 3, true));
    bench.finish((2, 0), 2, 3);
    bench.lose(2, true);
    let lines = bench.submit(1, &cached);
    assert!(lines.contains(&"run 5.0 [0 1]".to_string()), "from the cache: {lines:?}");
    let lines = bench.submit(2, &direct);
    assert!(lines.contains(&"run 3.0 [1]".to_string()), "{lines:?}");
    let lines = bench.succeed_with((3, 0), 1, 3, 9);
    assert!(lines.contains(&"run 4.0 [0 1]".to_string()), "{lines:?}");
    assert!(lines.contains(&"cancel 5.0".to_string()), "what it would bring is void: {lines:?}");
    bench.finish((4, 0), 2, 3);
    let lines = bench.tick(200);
    assert!(lines.contains(&"run 5.1 [0 1]".to_string()), "{lines:?}");
    assert!(bench.finish((5, 1), 2, 3).contains(&"end 1 ok".to_string()));
}
