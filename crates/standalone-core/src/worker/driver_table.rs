//! The drivers of a worker: as its executors, and with those that are about to be started again.
//!
//! Invariant: a driver that is over is reported until its end is acknowledged, and holds nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::Tick;

use super::state::Phase;
use crate::DriverId;
use crate::description::{DriverDescription, DriverReport, DriverState, ProcessEnd};

/// The first wait before a supervised driver is started again; each further one is twice as long.
const PAUSE_MS: u64 = 1000;
const MAX_PAUSE_MS: u64 = 60_000;
/// A driver that ran so long starts again without a longer wait.
const HEALTHY_MS: u64 = 5000;
/// For so long a driver is tried again that cannot be started because something it needs cannot be had just now.
const PATIENCE_MS: u64 = 120_000;
/// The same of one that is supervised.
const SUPERVISED_PATIENCE_MS: u64 = 600_000;

/// A driver that has not ended.
#[derive(Debug)]
struct Driver {
    description: Arc<DriverDescription>,
    phase: Phase,
    /// When its process was started last.
    started: Tick,
    /// How long to wait before it is started again.
    pause_ms: u64,
    /// Since when it could not be started, if the last try failed.
    failing_since: Option<Tick>,
}

impl Driver {
    fn pause(&mut self, now: Tick) {
        self.phase = Phase::Pausing(now.plus_ms(self.pause_ms));
        self.pause_ms = (self.pause_ms * 2).min(MAX_PAUSE_MS);
    }

    fn report(&self, id: &DriverId) -> DriverReport {
        let running = self.phase.holds_capacity();
        DriverReport {
            driver: id.clone(),
            cores: self.description.cores,
            memory_mb: self.description.memory_mb,
            state: if running { DriverState::Running } else { DriverState::Submitted },
            description: None,
            end: None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Drivers {
    live: BTreeMap<DriverId, Driver>,
    ended: BTreeMap<DriverId, DriverReport>,
}

impl Drivers {
    /// Takes an order; it waits to be started.
    pub(super) fn add(&mut self, id: DriverId, description: Arc<DriverDescription>, now: Tick) {
        let (phase, started) = (Phase::Waiting, now);
        let (pause_ms, failing_since) = (PAUSE_MS, None);
        self.live.insert(id, Driver { description, phase, started, pause_ms, failing_since });
    }

    /// Those that wait, in the order of names.
    pub(super) fn waiting(&self) -> Vec<(DriverId, Arc<DriverDescription>)> {
        let waiting = self.live.iter().filter(|(_, driver)| driver.phase == Phase::Waiting);
        waiting.map(|(id, driver)| (id.clone(), driver.description.clone())).collect()
    }

    /// Starts one that waits; its report.
    pub(super) fn start(&mut self, id: &DriverId, now: Tick) -> DriverReport {
        let driver = self.live.get_mut(id).expect("a waiting driver");
        (driver.phase, driver.started) = (Phase::Running, now);
        driver.report(id)
    }

    pub(super) fn phase(&self, id: &DriverId) -> Option<Phase> {
        self.live.get(id).map(|driver| driver.phase)
    }

    /// The process of a running one is told to end.
    pub(super) fn kill(&mut self, id: &DriverId) {
        if let Some(driver) = self.live.get_mut(id) {
            driver.phase = Phase::Killing;
        }
    }

    /// Its process failed: it is started again after a while, if it is supervised. True if so.
    pub(super) fn pause(&mut self, id: &DriverId, now: Tick) -> bool {
        let driver = self.live.get_mut(id).filter(|driver| driver.description.supervise);
        let Some(driver) = driver else { return false };
        if now.since_ms(driver.started) >= HEALTHY_MS {
            driver.pause_ms = PAUSE_MS;
        }
        driver.failing_since = None;
        driver.pause(now);
        true
    }

    /// It could not be started, which may pass: it is tried again after a while, unless that went on for too long. Whether this is
    /// the first time, if so.
    pub(super) fn retry(&mut self, id: &DriverId, now: Tick) -> Option<bool> {
        let driver = self.live.get_mut(id)?;
        let patience_ms = match driver.description.supervise {
            true => SUPERVISED_PATIENCE_MS,
            false => PATIENCE_MS,
        };
        let is_first = driver.failing_since.is_none();
        let since = *driver.failing_since.get_or_insert(now);
        if now.since_ms(since) >= patience_ms {
            return None;
        }
        driver.pause(now);
        Some(is_first)
    }

    /// Those whose pause is over wait to be started.
    pub(super) fn end_pauses(&mut self, now: Tick) {
        for driver in self.live.values_mut() {
            if matches!(driver.phase, Phase::Pausing(until) if until <= now) {
                driver.phase = Phase::Waiting;
            }
        }
    }

    /// When the next pause is over.
    pub(super) fn next_start(&self) -> Option<Tick> {
        let pauses = self.live.values().filter_map(|driver| match driver.phase {
            Phase::Pausing(until) => Some(until),
            _ => None,
        });
        pauses.min()
    }

    /// A driver is over: the report of its end. `None` if there is no such driver.
    pub(super) fn end(
        &mut self,
        id: &DriverId,
        state: DriverState,
        end: ProcessEnd,
    ) -> Option<DriverReport> {
        let driver = self.live.remove(id)?;
        let report = DriverReport { state, end: Some(end), ..driver.report(id) };
        self.ended.insert(id.clone(), report.clone());
        Some(report)
    }

    /// The end of a driver that is not live: as it was, or else this one.
    pub(super) fn ended_or(&mut self, report: DriverReport) -> DriverReport {
        self.ended.entry(report.driver.clone()).or_insert(report).clone()
    }

    /// A master knows of the end.
    pub(super) fn acknowledge(&mut self, id: &DriverId) {
        self.ended.remove(id);
    }

    /// Ends that no master has acknowledged.
    pub(super) fn untold(&self) -> usize {
        self.ended.len()
    }

    /// The same, with all that a master has to know which never heard of them.
    pub(super) fn introductions(&self) -> Vec<DriverReport> {
        let live = self.live.iter().map(|(id, driver)| {
            let description = Some(driver.description.clone());
            DriverReport { description, ..driver.report(id) }
        });
        live.chain(self.ended.values().cloned()).collect()
    }

    /// Of all, live or ended.
    pub(super) fn reports(&self) -> Vec<DriverReport> {
        let live = self.live.iter().map(|(id, driver)| driver.report(id));
        live.chain(self.ended.values().cloned()).collect()
    }

    /// Those that have not ended.
    pub(super) fn names(&self) -> impl Iterator<Item = &DriverId> {
        self.live.keys()
    }

    /// Cores and memory of the processes that may be there.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, u64)> {
        let there = self.live.values().filter(|driver| driver.phase.holds_capacity());
        there.map(|driver| (driver.description.cores, driver.description.memory_mb))
    }
}
