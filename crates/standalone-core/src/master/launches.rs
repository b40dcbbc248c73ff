//! Executors that came to nothing, counted per application and worker, and how long the master waits before it starts
//! the next one.
//!
//! A launch that fails speaks against its worker: the master avoids that worker for this application, twice as
//! long each time, and longer while others work for it. An executor that worked and crashed speaks against what it
//! ran, which its driver counts; here it only makes the next launch wait, so that an application that crashes is
//! not started over more than a few times a second.

use std::collections::BTreeMap;

use firesteel_types::Tick;

use crate::WorkerId;

/// How long a worker is avoided after its first failure.
const FIRST_WAIT_MS: u64 = 100;
/// How long at most, while the application has an executor that works.
const LONGEST_WAIT_MS: u64 = 60_000;
/// How long at most, while it has none.
const LONGEST_WAIT_IDLE_MS: u64 = 1_000;
/// So many crashes are followed by another launch at once: a task is tried four times.
const FREE_CRASHES: u32 = 4;
/// How long at most a launch waits after crashes.
const LONGEST_REST_MS: u64 = 2_000;
/// A worker that failed so often in a row is not counted on any more; one executor may have been unlucky.
const HOPELESS: u32 = 3;
/// So many workers are named when none of them can run an executor.
const NAMED: usize = 5;

/// What went wrong on one worker.
#[derive(Debug)]
struct Failures {
    failures: u32,
    last: Tick,
    cause: String,
    /// Its process ran: the driver may have known it, and not have told the master in time.
    ran: bool,
}

/// How the launches of one application went.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// Executors in a row that ended before they registered.
    useless: u32,
    failed: BTreeMap<WorkerId, Failures>,
    crashes: u32,
    last_crash: Tick,
    /// No launch before this moment.
    resting_until: Tick,
}

/// `FIRST_WAIT_MS`, doubled so often, but not longer than this.
fn doubled(times: u32, longest_ms: u64) -> u64 {
    FIRST_WAIT_MS.saturating_mul(1 << times.min(20)).min(longest_ms)
}

impl Launches {
    /// An executor ended on this worker before it registered.
    pub(super) fn failed(&mut self, now: Tick, worker: &WorkerId, ran: bool, cause: &str) {
        self.useless = self.useless.saturating_add(1);
        let failures = self.failed.get(worker).map_or(0, |failed| failed.failures);
        let failures = failures.saturating_add(1);
        let failed = Failures { failures, last: now, cause: cause.to_owned(), ran };
        self.failed.insert(worker.clone(), failed);
    }

    /// An executor registered: this worker can run them, and what went wrong elsewhere is not in a row.
    pub(super) fn registered(&mut self, worker: &WorkerId) {
        self.useless = 0;
        self.failed.remove(worker);
    }

    /// An executor registered, wherever: what failed before is not in a row with what fails after it.
    pub(super) fn some_registered(&mut self) {
        self.useless = 0;
    }

    /// An executor registered and was gone before the master heard of it: it was one whose process ran.
    pub(super) fn some_came_and_went(&mut self) {
        self.useless = 0;
        self.failed.retain(|_, failed| !failed.ran);
    }

    /// An executor that was registered ended by itself. Crashes are forgotten after so long without one.
    pub(super) fn crashed(&mut self, now: Tick, memory_ms: u64) {
        if now.since_ms(self.last_crash) > memory_ms {
            self.crashes = 0;
        }
        (self.crashes, self.last_crash) = (self.crashes.saturating_add(1), now);
        if let Some(beyond) = self.crashes.checked_sub(FREE_CRASHES).filter(|beyond| *beyond > 0) {
            self.resting_until = now.plus_ms(doubled(beyond - 1, LONGEST_REST_MS));
        }
    }

    /// No launch at all before this moment.
    pub(super) fn resting_until(&self) -> Tick {
        self.resting_until
    }

    /// Until when this worker is avoided, if it is; `works`: the application has an executor that works.
    pub(super) fn avoided_until(&self, worker: &WorkerId, works: bool) -> Option<Tick> {
        let failed = self.failed.get(worker)?;
        let longest = if works { LONGEST_WAIT_MS } else { LONGEST_WAIT_IDLE_MS };
        Some(failed.last.plus_ms(doubled(failed.failures - 1, longest)))
    }

    /// When the next worker is avoided no longer.
    pub(super) fn next_retry(&self, now: Tick, works: bool) -> Option<Tick> {
        let until = self.failed.keys().filter_map(|worker| self.avoided_until(worker, works));
        until.filter(|until| *until > now).min()
    }

    /// Whether there is a worker on which the last executor came to nothing.
    pub(super) fn has_trouble(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Whether the last executor on this worker came to nothing.
    pub(super) fn is_troubled(&self, worker: &WorkerId) -> bool {
        self.failed.contains_key(worker)
    }

    /// Whether nothing is to be hoped for of this worker, for an application that may fail so often in all.
    pub(super) fn is_hopeless(&self, worker: &WorkerId, limit: u32) -> bool {
        let failures = self.failed.get(worker).map_or(0, |failed| failed.failures);
        failures >= HOPELESS.min(limit.max(1))
    }

    /// Executors in a row that ended before they registered.
    pub(super) fn useless(&self) -> u32 {
        self.useless
    }

    /// What is known of each worker, for people.
    pub(super) fn history(&self) -> String {
        let told = self.failed.iter().take(NAMED);
        let mut told: Vec<String> = told
            .map(|(worker, failed)| {
                let Failures { failures, cause, .. } = failed;
                format!("{failures} on {worker}, most recently {cause}")
            })
            .collect();
        if self.failed.len() > NAMED {
            told.push(format!("and on {} more workers", self.failed.len() - NAMED));
        }
        told.join("; ")
    }

    /// Workers that are gone are not spoken of any more.
    pub(super) fn keep_workers(&mut self, is_known: impl Fn(&WorkerId) -> bool) {
        self.failed.retain(|worker, _| is_known(worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_avoided_twice_as_long_each_time_and_longer_while_others_work() {
        let (bad, good) = (WorkerId::new("bad"), WorkerId::new("good"));
        let mut launches = Launches::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            launches.failed(Tick(1000), &bad, false, "no disk");
            let wait = |works| launches.avoided_until(&bad, works).unwrap().0 - 1000;
            waits.push((wait(false), wait(true)));
        }
        assert_eq!(waits[..4], [(100, 100), (200, 200), (400, 400), (800, 800)]);
        assert_eq!(waits[4..6], [(1000, 1600), (1000, 3200)]);
        assert_eq!(waits[11], (1000, 60_000));
        assert_eq!((launches.avoided_until(&good, true), launches.useless()), (None, 12));
        launches.registered(&good);
        assert_eq!((launches.is_troubled(&bad), launches.useless()), (true, 0));
        launches.registered(&bad);
        assert_eq!(launches.avoided_until(&bad, true), None);
    }

    #[test]
    fn a_few_crashes_cost_no_time_and_many_ever_more_of_it() {
        let mut launches = Launches::default();
        let mut rests = Vec::new();
        for at in 1..=12 {
            launches.crashed(Tick(at), 10_000);
            rests.push(launches.resting_until().0.saturating_sub(at));
        }
        assert_eq!(rests, [0, 0, 0, 0, 100, 200, 400, 800, 1600, 2000, 2000, 2000]);
        launches.crashed(Tick(20_000), 10_000);
        assert!(launches.resting_until() < Tick(20_000), "they are forgotten");
    }
}
