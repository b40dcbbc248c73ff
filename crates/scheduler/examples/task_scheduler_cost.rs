//! What one task costs in the task scheduler's core: `cargo run --release --example
//! task_scheduler_cost`. Submission, launch, report and all effects are in the figure; running the
//! task is not.

use std::collections::VecDeque;
use std::time::Instant;

use firesteel_scheduler::messages::{
    ExclusionOptions, SchedulingMode, SpeculationOptions, TaskEffect, TaskEvent, TaskOptions,
    TaskSet, TaskSetKind, TaskSpec,
};
use firesteel_scheduler::task::TaskScheduler;
use firesteel_types::{
    ExecutorId, Host, JobId, Location, RddId, StageId, StageRef, TaskOutcome, Tick,
};

fn main() {
    let plain = TaskOptions::default;
    let all = TaskOptions {
        mode: SchedulingMode::Fair,
        speculation: Some(SpeculationOptions::default()),
        exclusion: Some(ExclusionOptions::default()),
        ..plain()
    };
    measure("10,000 tasks on 2 slots", plain(), (1, 2), 1, 10_000, false);
    measure("100,000 tasks on 2 slots", plain(), (1, 2), 1, 100_000, false);
    measure("100,000 tasks on 100 executors of 8", plain(), (100, 8), 1, 100_000, false);
    measure("100,000 tasks with places, 100 executors of 8", plain(), (100, 8), 1, 100_000, true);
    measure("1,000 sets of 100 tasks, 100 executors of 8", plain(), (100, 8), 1_000, 100, false);
    measure("100,000 tasks with places, all options", all, (100, 8), 1, 100_000, true);
}

fn measure(
    name: &str,
    options: TaskOptions,
    (executors, cores): (u32, u32),
    sets: u32,
    tasks: u32,
    places: bool,
) {
    let best = (0..5)
        .map(|_| {
            let sets: Vec<TaskSet> = (0..sets).map(|id| task_set(id, tasks, places)).collect();
            let start = Instant::now();
            run(options.clone(), executors, cores, sets);
            start.elapsed()
        })
        .min()
        .expect("five runs");
    let total = f64::from(sets) * f64::from(tasks);
    println!("{name}: {:.3} us per task", best.as_secs_f64() * 1e6 / total);
}

fn task_set(id: u32, tasks: u32, places: bool) -> TaskSet {
    let location = |n: u32| Location {
        host: Host::new(&format!("host{}", n % 50)),
        executor: Some(ExecutorId(n % 100)),
    };
    let spec = |partition| TaskSpec {
        partition,
        preferred: if places { vec![location(partition), location(partition + 7)] } else { vec![] },
    };
    TaskSet {
        stage: StageRef { stage: StageId(id), attempt: 0 },
        kind: TaskSetKind::Result(JobId(id)),
        priority: JobId(id),
        pool: None,
        rdd: RddId(0),
        tasks: (0..tasks).map(spec).collect(),
    }
}

fn run(options: TaskOptions, executors: u32, cores: u32, sets: Vec<TaskSet>) {
    let mut scheduler = TaskScheduler::new(options);
    let (mut out, mut running, mut now) = (Vec::new(), VecDeque::new(), 0);
    for id in 0..executors {
        let (executor, host) = (ExecutorId(id), Host::new(&format!("host{}", id % 50)));
        scheduler.handle(Tick(0), TaskEvent::ExecutorAdded { executor, host, cores }, &mut out);
    }
    for set in sets {
        scheduler.handle(Tick(0), TaskEvent::TaskSetSubmitted(set), &mut out);
    }
    while !scheduler.is_idle() {
        for effect in out.drain(..) {
            if let TaskEffect::LaunchTask(info) = effect {
                running.push_back((info.task, info.executor));
            }
        }
        let event = match running.pop_front() {
            Some((task, executor)) => {
                let outcome = TaskOutcome::Success;
                TaskEvent::TaskReported { task, executor, outcome, metrics: None, written: None }
            }
            None => TaskEvent::Ticked,
        };
        now += 1;
        scheduler.handle(Tick(now / 100), event, &mut out);
    }
}
