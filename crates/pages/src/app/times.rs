//! Where the time of tasks went, as parts of a bar.

use firesteel_status::{AppStatus, ExecutorStatus, StageStatus};
use firesteel_types::{TaskMetrics, Tick};
use maud::{Markup, html};

use super::task_time_ms;
use crate::chart::Segment;
use crate::text::{micros, percent};

/// Microseconds of tasks, by what they did.
pub(crate) struct Times {
    cpu: u64,
    garbage: u64,
    blocked: u64,
    fetching: u64,
    writing: u64,
    overhead: u64,
    running: u64,
    idle: u64,
}

impl Times {
    fn of(metrics: &TaskMetrics, task_time_ms: u64) -> Self {
        let run = metrics.run_time_us;
        let fetching = metrics.shuffle_fetch_wait_us.min(run);
        let writing = (metrics.shuffle_write_time_ns / 1000).min(run - fetching);
        let garbage = metrics.gc_time_ms.saturating_mul(1000).min(run - fetching - writing);
        let rest = run - fetching - writing - garbage;
        // Old logs tell no processor time: then all of it is taken for computing.
        let cpu =
            if metrics.cpu_time_ns == 0 { rest } else { (metrics.cpu_time_ns / 1000).min(rest) };
        let overhead = task_time_ms.saturating_mul(1000).saturating_sub(run);
        Times {
            cpu,
            garbage,
            blocked: rest - cpu,
            fetching,
            writing,
            overhead,
            running: 0,
            idle: 0,
        }
    }

    pub(crate) fn of_stage(stage: &StageStatus) -> Self {
        Self::of(&stage.metrics, task_time_ms(stage))
    }

    /// Of all executors, with the tasks that still run and the time that cores had nothing to do.
    pub(crate) fn of_application(status: &AppStatus, until: Tick) -> Self {
        let forgotten = status.forgotten_executors();
        let idle_ms = forgotten.core_time_ms.saturating_sub(forgotten.task_time_ms);
        let mut sum = Times::of(&forgotten.metrics, forgotten.task_time_ms);
        sum.idle = idle_ms.saturating_mul(1000);
        for executor in status.executors() {
            let own = Times::of(&executor.metrics, executor.task_time_ms);
            let gone = executor.removed.as_ref().map_or(until, |(at, _)| *at);
            let running = executor.running_ms(gone).saturating_mul(1000);
            let busy = executor.task_time_ms.saturating_mul(1000).saturating_add(running);
            let idle = core_time_us(executor, gone).saturating_sub(busy);
            sum.add(&Times { running, idle, ..own });
        }
        sum
    }

    fn add(&mut self, other: &Times) {
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.garbage = self.garbage.saturating_add(other.garbage);
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.fetching = self.fetching.saturating_add(other.fetching);
        self.writing = self.writing.saturating_add(other.writing);
        self.overhead = self.overhead.saturating_add(other.overhead);
        self.running = self.running.saturating_add(other.running);
        self.idle = self.idle.saturating_add(other.idle);
    }

    pub(crate) fn segments(&self) -> Vec<Segment> {
        let part = |label, class, value, about| Segment {
            label,
            class,
            value,
            text: micros(value),
            about,
        };
        vec![
            part("Computing", "c-cpu", self.cpu, "Tasks that used a processor"),
            part(
                "Blocked",
                "c-block",
                self.blocked,
                "Tasks in their own code that used no processor: reading, locks, sleeping",
            ),
            part(
                "Waiting for map outputs",
                "c-wait",
                self.fetching,
                "Tasks that waited for what other executors send",
            ),
            part(
                "Writing map outputs",
                "c-write",
                self.writing,
                "Tasks that finished and stored map outputs",
            ),
            part("Garbage collection", "c-gc", self.garbage, "Time that a JVM collected garbage"),
            part(
                "Scheduling and decoding",
                "c-over",
                self.overhead,
                "From launch to report, besides the task's own code",
            ),
            part(
                "Tasks that still run",
                "c-live",
                self.running,
                "From their launch until now: what they did is told when they end",
            ),
        ]
    }

    /// `Cores were idle 93 % of the time: 12 min of core time.` Beside what they did that would be all of the bar. Nothing: they
    /// were not.
    pub(crate) fn idle(&self) -> Markup {
        let parts = [
            self.cpu,
            self.garbage,
            self.blocked,
            self.fetching,
            self.writing,
            self.overhead,
            self.running,
        ];
        let whole = parts.into_iter().fold(self.idle, u64::saturating_add);
        html! {
            @if self.idle > 0 {
                p { "Cores were idle " strong { (percent(self.idle, whole)) } " of the time: " (micros(self.idle)) " of " (micros(whole)) " that all of them were there." }
            }
        }
    }
}

fn core_time_us(executor: &ExecutorStatus, gone: Tick) -> u64 {
    gone.since_ms(executor.added).saturating_mul(1000).saturating_mul(executor.info.cores.into())
}

#[cfg(test)]
mod tests {
    use firesteel_status::Retention;
    use firesteel_types::event::Locality;
    use firesteel_types::{
        Event, ExecutorId, ExecutorInfo, Host, StageId, StageRef, TaskId, TaskInfo,
    };

    use super::*;

    #[test]
    fn executors_that_are_forgotten_still_count() {
        let spent = |retained: usize| {
            let retention = Retention { jobs: 9, stages: 9, tasks: 9, dead_executors: retained };
            let mut status = AppStatus::new(retention);
            for id in 0..50 {
                let (executor, at) = (ExecutorId(id), Tick(u64::from(id) * 10_000));
                let info = ExecutorInfo::new(Host::new("a"), 2);
                status.take(Event::ExecutorAdded { executor, info, at });
                let task = TaskInfo {
                    task: TaskId(id.into()),
                    stage: StageRef { stage: StageId(0), attempt: 0 },
                    partition: id,
                    index: id,
                    attempt: 0,
                    executor,
                    host: Host::new("a"),
                    speculative: false,
                    locality: Locality::Any,
                    launched: at,
                };
                status.take(Event::TaskStart { task: task.clone(), at });
                let metrics = TaskMetrics {
                    run_time_us: 3_000_000,
                    cpu_time_ns: 2_000_000_000,
                    ..TaskMetrics::default()
                };
                status.take(Event::TaskEnd {
                    task,
                    failure: None,
                    metrics: Some(Box::new(metrics)),
                    at: at.plus_ms(4000),
                });
                let reason = "idle".to_owned();
                status.take(Event::ExecutorRemoved { executor, reason, at: at.plus_ms(5000) });
            }
            let times = Times::of_application(&status, Tick(500_000));
            [times.cpu, times.blocked, times.overhead, times.idle].map(|it| it / 1_000_000)
        };
        assert_eq!(spent(100), [100, 50, 50, 300]);
        assert_eq!(spent(3), spent(100));
    }

    #[test]
    fn a_core_with_a_task_that_still_runs_is_not_idle() {
        let retention = Retention { jobs: 9, stages: 9, tasks: 9, dead_executors: 9 };
        let (mut status, executor, host) =
            (AppStatus::new(retention), ExecutorId(1), Host::new("a"));
        let info = ExecutorInfo::new(host.clone(), 2);
        status.take(Event::ExecutorAdded { executor, info, at: Tick(1000) });
        let task = TaskInfo {
            task: TaskId(0),
            stage: StageRef { stage: StageId(0), attempt: 0 },
            partition: 0,
            index: 0,
            attempt: 0,
            executor,
            host,
            speculative: false,
            locality: Locality::Any,
            launched: Tick(2000),
        };
        status.take(Event::TaskStart { task: task.clone(), at: Tick(2000) });
        let times = |status: &AppStatus, now: u64| {
            let times = Times::of_application(status, Tick(now));
            (times.running / 1000, times.overhead / 1000, times.idle / 1000)
        };
        assert_eq!(times(&status, 11_000), (9000, 0, 11_000));
        status.take(Event::TaskEnd {
            task: task.clone(),
            failure: None,
            metrics: None,
            at: Tick(11_000),
        });
        assert_eq!(times(&status, 11_000), (0, 9000, 11_000));
        // An end without a beginning, as in a log that lost events.
        status.take(Event::TaskEnd { task, failure: None, metrics: None, at: Tick(11_000) });
        assert_eq!(times(&status, 11_000).0, 0);
    }
}
