//! Runs with one thing wrong each, and a healthy one.

use std::sync::Arc;

use firesteel_types::event::{Locality, RddDescription, RddScope, StageRdd};
use firesteel_types::{
    Determinism, Event, ExecutorId, ExecutorInfo, Host, JobId, RddId, StageId, StageInfo, StageRef,
    StorageLevel, TaskId, TaskInfo, TaskMetrics, Tick,
};

use super::*;
use crate::Retention;

/// A run that is told event by event.
struct Run {
    status: AppStatus,
    now: u64,
    next_task: u64,
}

/// What one task does.
#[derive(Clone, Default)]
struct Does {
    /// How long after the stage began it is launched.
    after_ms: u64,
    ms: u64,
    bytes: u64,
    executor: u32,
    cost: TaskMetrics,
}

fn takes(ms: u64, bytes: u64) -> Does {
    Does { ms, bytes, executor: 1, ..Does::default() }
}

impl Run {
    /// With executors of so many cores each.
    fn new(executors: u32, cores: u32) -> Self {
        let retention = Retention { jobs: 99, stages: 99, tasks: 99_999, dead_executors: 9 };
        let mut run = Run { status: AppStatus::new(retention), now: 1_000_000, next_task: 0 };
        for executor in 1..=executors {
            let info = ExecutorInfo::new(Host::new("h"), cores);
            let at = Tick(run.now);
            run.tell(Event::ExecutorAdded { executor: ExecutorId(executor), info, at });
        }
        run
    }

    fn tell(&mut self, event: Event) {
        self.status.apply(&event);
    }

    fn lose(&mut self, executor: u32) {
        let (at, reason) = (Tick(self.now), "killed by signal 9".to_owned());
        self.tell(Event::ExecutorRemoved { executor: ExecutorId(executor), reason, at });
    }

    fn job(&mut self, number: u32, stage: StageInfo, tasks: &[Does]) {
        let (job, at, properties) = (JobId(number), Tick(self.now), Arc::default());
        self.tell(Event::JobStart { job, properties, stages: vec![stage.clone()], at });
        self.attempt(stage, tasks);
        self.tell(Event::JobEnd { job, result: Ok(()), at: Tick(self.now) });
    }

    fn attempt(&mut self, mut stage: StageInfo, tasks: &[Does]) {
        let begin = self.now;
        stage.tasks = tasks.len() as u32;
        stage.submitted = Some(Tick(begin));
        let properties = Arc::default();
        self.tell(Event::StageSubmitted { stage: stage.clone(), properties, at: Tick(begin) });
        for (index, does) in (0..).zip(tasks) {
            self.task(stage.stage, index, does);
        }
        self.now = begin + tasks.iter().map(|does| does.after_ms + does.ms).max().unwrap_or(0);
        self.tell(Event::StageCompleted { stage, failure: None, at: Tick(self.now) });
    }

    fn task(&mut self, stage: StageRef, index: u32, does: &Does) {
        self.next_task += 1;
        let launched = Tick(self.now + does.after_ms);
        let task = TaskInfo {
            task: TaskId(self.next_task),
            stage,
            partition: index,
            index,
            attempt: 0,
            executor: ExecutorId(does.executor),
            host: Host::new("h"),
            speculative: false,
            locality: Locality::Any,
            launched,
        };
        self.tell(Event::TaskStart { task: task.clone(), at: launched });
        let metrics = TaskMetrics {
            shuffle_local_bytes: does.bytes,
            run_time_us: does.cost.run_time_us.max(does.ms * 900),
            ..does.cost.clone()
        };
        let (metrics, at) = (Some(Box::new(metrics)), launched.plus_ms(does.ms));
        self.tell(Event::TaskEnd { task, failure: None, metrics, at });
    }

    fn insights(&self) -> Vec<Insight> {
        self.status.insights(Tick(self.now))
    }

    #[track_caller]
    fn only(&self, kind: InsightKind) -> Insight {
        let mut all = self.insights();
        assert_eq!(all.iter().map(|it| it.kind).collect::<Vec<_>>(), [kind], "{all:#?}");
        all.remove(0)
    }
}

fn rdd(id: u32, parents: &[u32], level: StorageLevel) -> StageRdd {
    let rdd = RddDescription {
        id: RddId(id),
        name: "r".to_owned(),
        scope: RddScope { id: 0, name: "s".to_owned(), parent: None },
        call_site: format!("rdd {id} at main.rs:{id}"),
        parents: parents.iter().copied().map(RddId).collect(),
        partitions: 4,
        determinism: Determinism::Determinate,
    };
    StageRdd { rdd: Arc::new(rdd), level }
}

fn stage(id: u32) -> StageInfo {
    StageInfo {
        stage: StageRef { stage: StageId(id), attempt: 0 },
        name: format!("collect at main.rs:{id}").into(),
        tasks: 0,
        parents: Vec::new(),
        // Reads the shuffle of an RDD that another stage computes.
        rdds: Arc::from([rdd(100 + id, &[90 + id], StorageLevel::NONE)]),
        shuffle_map: false,
        submitted: None,
        completed: None,
        details: None,
        resource_profile: 0,
    }
}

#[test]
fn a_healthy_run_has_no_insights() {
    let mut run = Run::new(2, 4);
    let even: Vec<Does> = (0..64)
        .map(|n| Does { executor: 1 + n as u32 % 2, ..takes(2000 + n * 9, 1 << 20) })
        .collect();
    (0..5).for_each(|job| run.job(job, stage(job), &even));
    assert_eq!(run.insights(), []);
    assert_eq!(run.status.job_insights(JobId(0), Tick(run.now)), []);
}

#[test]
fn quick_jobs_have_no_insights_however_uneven_they_are() {
    let mut run = Run::new(1, 4);
    let tasks = [takes(1, 1), takes(1, 1), takes(1, 1), takes(1, 1), takes(900, 1 << 30)];
    run.job(0, stage(0), &tasks);
    assert_eq!(run.insights(), []);
}

#[test]
fn a_partition_with_most_of_the_data_is_skew_at_the_call_that_shuffled() {
    let mut run = Run::new(1, 8);
    let mut tasks = vec![takes(1000, 1 << 20); 7];
    tasks.push(takes(20_000, 300 << 20));
    run.job(3, stage(5), &tasks);
    let skew = run.only(InsightKind::Skew);
    assert_eq!((skew.job, skew.stage.unwrap().stage), (Some(JobId(3)), StageId(5)));
    assert_eq!(skew.place, "rdd 105 at main.rs:105");
    assert_eq!(
        skew.figure,
        "partition 7 read 300.0 MiB and took 20.0 s, where half of 8 tasks read 1.0 MiB or less and took 1.0 s or less"
    );
    // Even tasks would have taken 27 s on 8 cores.
    assert_eq!(skew.lost_ms, Some(16_625));
    assert_eq!(run.status.job_insights(JobId(3), Tick(run.now)), [skew]);
}

#[test]
fn skew_costs_nothing_where_tasks_run_one_after_the_other() {
    let mut run = Run::new(1, 1);
    let mut tasks = vec![takes(1000, 1 << 20); 7];
    tasks.push(takes(5000, 300 << 20));
    run.job(0, stage(0), &tasks);
    assert_eq!(run.insights(), []);
}

#[test]
fn a_slow_task_with_as_much_data_is_a_straggler_and_names_its_executor() {
    let mut run = Run::new(3, 4);
    let mut tasks = vec![takes(1000, 1 << 20); 11];
    tasks.push(Does { executor: 3, ..takes(9000, 1 << 20) });
    run.job(0, stage(0), &tasks);
    let straggler = run.only(InsightKind::Straggler);
    assert!(straggler.figure.contains("9.0 s on executor 3"), "{straggler}");
    assert!(straggler.advice.contains("spark.speculation"), "{straggler}");
    assert!(straggler.to_string().starts_with("straggler in stage 0.0 (collect at main.rs:0): "));
}

/// A stage of which so many tasks ended, each after the one before on its slot, and one runs since the stage began; until `now`.
fn one_runs(ended: u64, slots: u64, read: u64, lasts_ms: u64) -> Run {
    let mut run = Run::new(1, slots as u32);
    let (begin, info) = (run.now, StageInfo { tasks: ended as u32 + 1, ..stage(0) });
    let (at, properties) = (Tick(begin), Arc::default());
    run.tell(Event::StageSubmitted { stage: info.clone(), properties, at });
    run.next_task += 1;
    let task = TaskInfo {
        task: TaskId(run.next_task),
        stage: info.stage,
        partition: ended as u32,
        index: ended as u32,
        attempt: 0,
        executor: ExecutorId(1),
        host: Host::new("h"),
        speculative: false,
        locality: Locality::Any,
        launched: Tick(begin),
    };
    run.tell(Event::TaskStart { task: task.clone(), at });
    let others = slots - 1;
    (0..ended).for_each(|n| {
        run.task(info.stage, n as u32, &Does { after_ms: n / others * 80, ..takes(80, 1 << 20) })
    });
    run.now = begin + lasts_ms;
    let metrics = TaskMetrics { shuffle_local_bytes: read, ..TaskMetrics::default() };
    run.tell(Event::ExecutorMetricsUpdate {
        executor: ExecutorId(1),
        metrics: Default::default(),
        stages: Vec::new(),
        tasks: vec![firesteel_types::RunningTask { task: task.task, stage: info.stage, metrics }],
        at: Some(Tick(run.now)),
    });
    run
}

#[test]
fn a_task_that_still_runs_long_after_the_others_is_told_while_it_runs() {
    let straggler = one_runs(199, 4, 1 << 20, 3_600_000).only(InsightKind::Straggler);
    assert!(
        straggler.figure.contains("partition 199 has run for 60 min 0 s so far"),
        "{straggler}"
    );
    assert!(straggler.figure.contains("half of 199 tasks took 80 ms or less"), "{straggler}");
    let skew = one_runs(199, 4, 1 << 30, 3_600_000).only(InsightKind::Skew);
    assert!(skew.figure.contains("partition 199 has read 1.0 GiB and has run for"), "{skew}");
}

#[test]
fn tasks_that_run_as_long_as_others_or_beside_busy_slots_are_no_stragglers() {
    // The others kept their slots busy all the while: nobody waited.
    assert_eq!(one_runs(2000, 4, 1 << 20, 54_000).insights(), []);
    // It began just now.
    assert_eq!(one_runs(199, 4, 1 << 20, 5500).insights(), []);
    // Too few have ended to tell.
    assert_eq!(one_runs(3, 4, 1 << 20, 60_000).insights(), []);
}

#[test]
fn spills_are_told_when_they_are_large() {
    for (disk, told) in [(1 << 20, 0), (500 << 20, 1)] {
        let mut run = Run::new(1, 2);
        let cost = TaskMetrics {
            disk_bytes_spilled: disk,
            memory_bytes_spilled: 4 * disk,
            ..TaskMetrics::default()
        };
        run.job(0, stage(0), &[Does { cost, ..takes(9000, 1) }, takes(9000, 1)]);
        assert_eq!(run.insights().len(), told);
        let figure =
            "tasks spilled 1.9 GiB of memory to disk as 500.0 MiB; the largest held 0 B at once";
        assert!(run.insights().iter().all(|it| it.figure == figure), "{:?}", run.insights());
    }
}

#[test]
fn many_tasks_that_do_next_to_nothing_are_tiny() {
    let mut run = Run::new(1, 2);
    let cost = TaskMetrics { run_time_us: 500, ..TaskMetrics::default() };
    let quick = |n| Does { cost: cost.clone(), after_ms: n, ..takes(0, 1) };
    run.job(0, stage(0), &(0..=3000).map(quick).collect::<Vec<_>>());
    let tiny = run.only(InsightKind::TinyTasks);
    assert!(
        tiny.figure.starts_with("3001 tasks ran for 0.5 ms each, but the stage took 3.0 s"),
        "{tiny}"
    );
}

#[test]
fn fewer_tasks_than_cores_leave_executors_idle() {
    let mut run = Run::new(2, 8);
    let tasks = [takes(20_000, 1), Does { executor: 2, ..takes(20_000, 1) }];
    run.job(0, stage(0), &tasks);
    let idle = run.only(InsightKind::IdleExecutors);
    assert_eq!(idle.figure, "2 tasks for 16 that could run at once, for 20.0 s");
    assert_eq!(idle.lost_ms, Some(17_500));
}

#[test]
fn an_executor_that_never_gets_a_task_is_idle() {
    let mut run = Run::new(3, 1);
    let even: Vec<Does> =
        (0..9).map(|n| Does { executor: 1 + n % 2, ..takes(12_000, 1) }).collect();
    run.job(0, stage(0), &even);
    let idle = run.only(InsightKind::IdleExecutors);
    assert_eq!(idle.figure, "1 of 3 executors (3) ran no task while jobs ran for 12.0 s");
    assert_eq!((idle.job, idle.stage), (None, None));
}

#[test]
fn executors_that_do_not_come_are_told_before_all_else_until_they_do() {
    let mut run = Run::new(2, 1);
    let missing = |shortage: Option<&str>| Event::ExecutorsMissing {
        shortage: shortage.map(str::to_owned),
        at: Tick(1),
    };
    run.tell(missing(Some("1 of 3 executors are missing (1: no node)")));
    let found = run.only(InsightKind::MissingExecutors);
    assert!(found.figure.contains("1 of 3") && found.lost_ms.is_none(), "{found}");
    run.tell(missing(None));
    assert!(run.insights().is_empty());
    // A run that is over is told of as such.
    run.tell(missing(Some("1 of 3 executors are missing (1: no node)")));
    run.tell(Event::ApplicationEnd { exit_code: Some(0), at: Tick(run.now) });
    let over = run.only(InsightKind::MissingExecutors);
    assert!(over.figure.starts_with("they had not come when the application ended: 1 of 3"));
}

#[test]
fn without_a_look_at_each_task_a_stage_still_tells_what_its_sums_show() {
    let mut run = Run::new(1, 4);
    let cost = TaskMetrics {
        memory_bytes_spilled: 4 << 30,
        disk_bytes_spilled: 1 << 30,
        ..TaskMetrics::default()
    };
    let mut tasks = vec![takes(1000, 1 << 20); 7];
    tasks.push(Does { cost, ..takes(20_000, 300 << 20) });
    run.job(0, stage(0), &tasks);
    let found = run.status.last_attempt(StageId(0)).unwrap();
    let kinds = |all: Vec<Insight>| all.into_iter().map(|it| it.kind).collect::<Vec<_>>();
    let (whole, sums) = (
        kinds(run.status.stage_insights(found, Tick(run.now))),
        kinds(run.status.stage_insights_of_sums(found, Tick(run.now))),
    );
    assert_eq!(whole, [InsightKind::Skew, InsightKind::Spill]);
    assert_eq!(sums, [InsightKind::Spill]);
}

#[test]
fn partitions_that_are_computed_again_name_the_loss() {
    let mut run = Run::new(2, 2);
    run.job(0, stage(0), &[takes(2000, 1), takes(2000, 1)]);
    run.lose(1);
    let mut again = stage(0);
    again.stage.attempt = 1;
    let mut does = takes(2000, 1);
    does.executor = 2;
    run.attempt(again, &[does.clone(), does]);
    let recomputed = run.only(InsightKind::RecomputedStage);
    assert_eq!(
        recomputed.figure,
        "2 partitions computed again: executor 1 was lost (killed by signal 9)"
    );
    assert_eq!(recomputed.lost_ms, Some(2000));
}

#[test]
fn a_driver_that_works_between_jobs_is_named_with_the_job_that_waited() {
    let mut run = Run::new(1, 2);
    let even = [takes(2000, 1), takes(2000, 1)];
    run.job(0, stage(0), &even);
    run.now += 1000;
    run.job(1, stage(1), &even);
    run.now += 30_000;
    run.job(2, stage(2), &even);
    let driver = run.only(InsightKind::DriverBound);
    assert_eq!((driver.job, driver.place.as_str()), (Some(JobId(2)), "collect at main.rs:2"));
    assert!(driver.figure.starts_with("no job ran for 31.0 s of 37.0 s (83 %)"), "{driver}");
}

#[test]
fn results_that_the_driver_fetches_for_long_are_told() {
    let mut run = Run::new(1, 4);
    let cost = TaskMetrics {
        getting_result_time_ms: 4000,
        result_bytes: 1 << 30,
        ..TaskMetrics::default()
    };
    run.job(
        0,
        stage(0),
        &[Does { cost, ..takes(5000, 1) }, takes(5000, 1), takes(5000, 1), takes(5000, 1)],
    );
    let driver = run.only(InsightKind::DriverBound);
    assert_eq!(driver.figure, "the driver took 4.0 s to fetch 1.0 GiB of results");
}

#[test]
fn an_rdd_that_two_stages_compute_is_told_once_unless_it_is_cached() {
    for (level, told) in [(StorageLevel::NONE, 1), (StorageLevel::MEMORY_ONLY, 0)] {
        let mut run = Run::new(1, 2);
        let shared = [rdd(8, &[7], level), rdd(7, &[], StorageLevel::NONE)];
        for job in 0..2 {
            let mut stage = stage(job);
            stage.rdds = [rdd(20 + job, &[8], StorageLevel::NONE)]
                .into_iter()
                .chain(shared.clone())
                .collect();
            run.job(job, stage, &[takes(3000, 1), takes(3000, 1)]);
        }
        let all = run.insights();
        assert_eq!(all.len(), told, "{all:?}");
        assert!(all.iter().all(|it| it.place == "rdd 8 at main.rs:8" && it.lost_ms == Some(3000)));
    }
}

#[test]
fn of_many_insights_the_costliest_are_told() {
    let mut run = Run::new(1, 8);
    for job in 0..30 {
        let mut tasks = vec![takes(1000, 1 << 20); 7];
        tasks.push(takes(20_000 + u64::from(job) * 1000, 300 << 20));
        run.job(job, stage(job), &tasks);
    }
    let jobs: Vec<_> = run.insights().iter().map(|it| it.job.unwrap().0).collect();
    assert_eq!(jobs, [29, 28, 27, 26, 25]);
}

#[test]
fn any_numbers_give_insights_and_no_panic() {
    let mut run = Run::new(2, u32::MAX / 4);
    let cost = TaskMetrics {
        run_time_us: u64::MAX,
        input_bytes: u64::MAX,
        disk_bytes_spilled: u64::MAX,
        memory_bytes_spilled: u64::MAX,
        getting_result_time_ms: u64::MAX,
        ..TaskMetrics::default()
    };
    let strange = Does { cost, ..takes(0, u64::MAX) };
    run.job(0, stage(0), &vec![strange; 200]);
    run.now = u64::MAX;
    run.tell(Event::StageSubmitted { stage: stage(1), properties: Arc::default(), at: Tick(0) });
    run.status.insights(Tick(u64::MAX));
    run.status.insights(Tick(0));
}
