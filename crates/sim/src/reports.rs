//! How reports of tasks come to a driver's schedulers: at once, late because the result is fetched from its executor first,
//! twice, or not at all because a connection breaks.

use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::TaskEvent;
use firesteel_types::{
    ExecutorId, MapOutputSizes, MapStatus, TaskFailure, TaskId, TaskMetrics, TaskOutcome,
};

use crate::world::{Body, Event, ProcId, World};

/// So often a driver asks for a result that waits on an executor which stands still.
const RETRIES: u8 = 2;
const RETRY_MS: u64 = 300;

/// A report whose result is under way.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) driver: ProcId,
    holder: Option<ProcId>,
    retries: u8,
    report: TaskEvent,
}

impl World {
    /// What the schedulers hear at once of a report.
    pub(crate) fn take_report(
        &mut self,
        proc: ProcId,
        executor: ExecutorId,
        task: TaskId,
        outcome: TaskOutcome,
        data: &[u8],
    ) -> Option<SchedulerInput> {
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return None };
        let run_time_us = self.rng.u64(..200_000);
        let checksum = node.checksum(task);
        // A byte for every reader.
        let written = Some(MapStatus { checksum, sizes: MapOutputSizes::Average(1) });
        let metrics = Some(Box::new(TaskMetrics { run_time_us, ..Default::default() }));
        let large = matches!(outcome, TaskOutcome::Success) && self.rng.u8(..12) == 0;
        let report = TaskEvent::TaskReported { task, executor, outcome, metrics, written };
        if let Ok(bytes) = <[u8; 8]>::try_from(data) {
            node.outputs.insert(task, u64::from_le_bytes(bytes));
        }
        if self.faulty() && self.rng.u8(..24) == 0 {
            self.counters.reports_doubled += 1;
            self.fetch_result(proc, executor, report.clone());
        }
        if large {
            self.counters.results_fetched += 1;
            self.fetch_result(proc, executor, report);
            return None;
        }
        Some(SchedulerInput::Task(report))
    }

    fn fetch_result(&mut self, driver: ProcId, executor: ExecutorId, report: TaskEvent) {
        let holder = self.executor_of(driver, executor);
        let most = if self.faulty() && self.rng.u8(..4) == 0 { 5000 } else { 100 };
        let at = self.now + 1 + self.rng.u64(..most);
        let fetching = Fetching { driver, holder, retries: RETRIES, report };
        self.push(at, Event::Fetched(Box::new(fetching)));
    }

    /// A result was read from its executor, or that is gone.
    pub(crate) fn fetched(&mut self, mut fetching: Box<Fetching>) -> Result<(), String> {
        let TaskEvent::TaskReported { outcome, .. } = &mut fetching.report else { return Ok(()) };
        let holder = fetching.holder.map(|holder| &self.procs[holder]);
        let holder = holder.filter(|holder| holder.alive);
        let pauses = holder.is_some_and(|holder| holder.paused_until > self.now);
        if pauses && fetching.retries > 0 {
            fetching.retries -= 1;
            self.push(self.now + RETRY_MS, Event::Fetched(fetching));
            return Ok(());
        }
        if (holder.is_none() || pauses) && *outcome == TaskOutcome::Success {
            self.counters.results_gone += 1;
            let message = "its result could not be fetched".to_owned();
            *outcome = TaskOutcome::Failed(TaskFailure::Error { message });
        }
        self.feed_schedulers(fetching.driver, vec![SchedulerInput::Task(fetching.report)])
    }
}
