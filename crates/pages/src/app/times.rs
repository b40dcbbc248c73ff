//! Where the time of tasks went, as parts of a bar.

use firesteel_status::{AppStatus, ExecutorStatus, StageStatus};
use firesteel_types::{TaskMetrics, Tick};

use super::task_time_ms;
use crate::chart::Segment;
use crate::text::micros;

/// Microseconds of tasks, by what they did.
pub(crate) struct Times {
    cpu: u64,
    garbage: u64,
    blocked: u64,
    fetching: u64,
    writing: u64,
    overhead: u64,
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
        Times { cpu, garbage, blocked: rest - cpu, fetching, writing, overhead, idle: 0 }
    }

    pub(crate) fn of_stage(stage: &StageStatus) -> Self {
        Self::of(&stage.metrics, task_time_ms(stage))
    }

    /// Of all executors, with the time that their cores had nothing to do.
    pub(crate) fn of_application(status: &AppStatus, until: Tick) -> Self {
        let mut sum = Times::of(&TaskMetrics::default(), 0);
        for executor in status.executors() {
            let own = Times::of(&executor.metrics, executor.task_time_ms);
            let there = core_time_us(executor, until);
            sum.cpu = sum.cpu.saturating_add(own.cpu);
            sum.garbage = sum.garbage.saturating_add(own.garbage);
            sum.blocked = sum.blocked.saturating_add(own.blocked);
            sum.fetching = sum.fetching.saturating_add(own.fetching);
            sum.writing = sum.writing.saturating_add(own.writing);
            sum.overhead = sum.overhead.saturating_add(own.overhead);
            let idle = there.saturating_sub(executor.task_time_ms.saturating_mul(1000));
            sum.idle = sum.idle.saturating_add(idle);
        }
        sum
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
            part("Idle cores", "c-idle", self.idle, "Cores of executors that ran no task"),
        ]
    }
}

fn core_time_us(executor: &ExecutorStatus, until: Tick) -> u64 {
    let gone = executor.removed.as_ref().map_or(until, |(at, _)| *at);
    gone.since_ms(executor.added).saturating_mul(1000).saturating_mul(executor.info.cores.into())
}
