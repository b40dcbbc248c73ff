//! What has happened so far: faults that fired, applications that ended, everything that went wrong; and what that makes
//! of the bars.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{recovery::Recoveries, schedule::Kind};
use crate::bars::{Bar, Bars, Target};

/// Faults that a minute has at least.
const FAULTS_PER_MINUTE: f64 = 15.0;
/// How long an application may be short of an executor.
const RECOVERY_SECONDS: f64 = 3.0;

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    WrongAnswer,
    /// An application ended with an error of its own.
    FailedJob,
    Hang,
    /// A master or worker ended that nobody killed.
    Crash,
    Leak,
}

impl Failure {
    const ALL: [Self; 5] =
        [Self::WrongAnswer, Self::FailedJob, Self::Hang, Self::Crash, Self::Leak];

    fn name(self) -> &'static str {
        match self {
            Self::WrongAnswer => "wrong_answers",
            Self::FailedJob => "failed_jobs",
            Self::Hang => "hangs",
            Self::Crash => "crashes",
            Self::Leak => "leaks",
        }
    }
}

/// The counts of a run.
#[derive(Debug)]
pub(crate) struct Tally {
    seed: u64,
    logs: PathBuf,
    began: Instant,
    fired: BTreeMap<Kind, usize>,
    missed: usize,
    right: usize,
    restarted: usize,
    failures: BTreeMap<Failure, Vec<String>>,
}

impl Tally {
    pub(crate) fn new(seed: u64, logs: PathBuf) -> Self {
        Self {
            seed,
            logs,
            began: Instant::now(),
            fired: BTreeMap::new(),
            missed: 0,
            right: 0,
            restarted: 0,
            failures: BTreeMap::new(),
        }
    }

    /// The time of the run begins now.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    pub(crate) fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    /// Says something, with the time.
    pub(crate) fn say(&self, text: &str) {
        println!("{:8.1} s  {text}", self.began.elapsed().as_secs_f64());
    }

    pub(crate) fn fired(&mut self, kind: Kind, text: &str) {
        *self.fired.entry(kind).or_default() += 1;
        self.say(&format!("{kind:14} {text}"));
    }

    /// Nobody was there whom it could have struck.
    pub(crate) fn missed(&mut self, kind: Kind, why: &str) {
        self.missed += 1;
        self.say(&format!("{kind:14} missed: {why}"));
    }

    pub(crate) fn right(&mut self, text: &str) {
        self.right += 1;
        self.say(text);
    }

    pub(crate) fn restarted(&mut self) {
        self.restarted += 1;
    }

    pub(crate) fn fail(&mut self, failure: Failure, text: &str) {
        let at = self.began.elapsed().as_secs_f64();
        let logs = self.logs.display();
        let what = failure.name();
        let text =
            format!("FAILURE ({what}) at {at:.1} s, seed {}, logs {logs}: {text}", self.seed);
        println!("{text}");
        self.failures.entry(failure).or_default().push(text);
    }

    fn count(&self, failure: Failure) -> usize {
        self.failures.get(&failure).map_or(0, Vec::len)
    }

    /// Prints everything that was counted.
    pub(crate) fn report(&self, recoveries: &Recoveries, impossible: &BTreeMap<Kind, String>) {
        println!("\nfaults fired:");
        for kind in Kind::ALL {
            let fired = self.fired.get(&kind).copied().unwrap_or(0);
            match impossible.get(&kind) {
                Some(why) => println!("  {kind:14} could not run: {why}"),
                None => println!("  {kind:14} {fired}"),
            }
        }
        println!("faults that found nobody to strike: {}", self.missed);
        println!(
            "jobs right: {}, restarted after their driver was killed: {}",
            self.right, self.restarted
        );
        for failure in Failure::ALL {
            println!("{}: {}", failure.name(), self.count(failure));
        }
        let seconds = |percent| match recoveries.seconds(percent) {
            Some(seconds) => format!("{seconds:.2} s"),
            None => "not measured".to_owned(),
        };
        println!(
            "recovery of executors: median {}, p99 {}, of {} measured; {} more were disturbed by another fault",
            seconds(50),
            seconds(99),
            recoveries.count(),
            recoveries.overlapped()
        );
        if let Some((time, app, since)) = recoveries.longest() {
            let (time, since) = (time.as_secs_f64(), since.as_secs_f64());
            println!("the longest: {time:.2} s, of application {app} from {since:.1} s on");
        }
        for text in self.failures.values().flatten() {
            println!("{text}");
        }
    }

    /// The verdict on a run of so many minutes.
    pub(crate) fn bars(
        &self,
        minutes: u64,
        recoveries: &Recoveries,
        impossible: &BTreeMap<Kind, String>,
    ) -> Bars {
        let mut bars = Bars::default();
        let mut bar = |name: &str, value: Option<f64>, target: Target| {
            bars.push(Bar { name: name.to_owned(), value, target });
        };
        let faults: usize = self.fired.values().sum();
        let wanted = FAULTS_PER_MINUTE * minutes as f64;
        bar("faults", Some(faults as f64), Target::AtLeast(wanted));
        let never = |kind: &&Kind| !impossible.contains_key(kind) && !self.fired.contains_key(kind);
        let never = Kind::ALL.iter().filter(never).count();
        bar("kinds_never_fired", Some(never as f64), Target::AtMost(0.0));
        bar("kinds_impossible", Some(impossible.len() as f64), Target::AtMost(0.0));
        bar("jobs_right", Some(self.right as f64), Target::AtLeast(1.0));
        for failure in Failure::ALL {
            bar(failure.name(), Some(self.count(failure) as f64), Target::AtMost(0.0));
        }
        // A percentile of few cases says nothing.
        bar("recoveries", Some(recoveries.count() as f64), Target::AtLeast(minutes as f64));
        bar("recovery_p99_s", recoveries.seconds(99), Target::AtMost(RECOVERY_SECONDS));
        bars
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf, time::Duration};

    use super::{Failure, Kind, Recoveries, Tally};

    fn recovered(seconds: u64) -> Recoveries {
        let mut all = Recoveries::default();
        all.started(1, 1);
        all.added(1, Duration::ZERO);
        all.died(1, Duration::ZERO);
        all.removed(1);
        all.added(1, Duration::from_secs(seconds));
        all
    }

    /// A minute in which everything was as it should be.
    fn good() -> Tally {
        let mut tally = Tally::new(7, PathBuf::from("logs"));
        for kind in Kind::ALL.into_iter().chain([Kind::ExecutorKill; 5]) {
            tally.fired(kind, "it");
        }
        tally.right("application 1");
        tally
    }

    fn met(tally: &Tally, recoveries: &Recoveries) -> bool {
        tally.bars(1, recoveries, &BTreeMap::new()).all_met()
    }

    #[test]
    fn a_run_without_failures_meets_its_bars() {
        assert!(met(&good(), &recovered(1)));
    }

    #[test]
    fn each_failure_fails_the_run_and_names_seed_and_logs() {
        for failure in Failure::ALL {
            let mut tally = good();
            tally.fail(failure, "application 2");
            assert!(!met(&tally, &recovered(1)), "{failure:?}");
            let text = &tally.failures[&failure][0];
            assert!(text.contains("seed 7, logs logs: application 2"), "{text}");
        }
    }

    #[test]
    fn slow_recoveries_and_those_that_nobody_measured_fail_the_run() {
        assert!(!met(&good(), &recovered(4)));
        assert!(!met(&good(), &Recoveries::default()));
    }

    #[test]
    fn a_kind_that_never_fired_fails_the_run_and_so_does_one_that_could_not_run() {
        let mut tally = good();
        tally.fired.remove(&Kind::ClockJump);
        tally.fired(Kind::ExecutorKill, "it");
        assert!(!met(&tally, &recovered(1)));
        let impossible = BTreeMap::from([(Kind::ClockJump, "no compiler".to_owned())]);
        let bars = tally.bars(1, &recovered(1), &impossible);
        assert!(!bars.all_met());
        let text = bars.to_string();
        assert!(text.contains("bar kinds_never_fired 0.000 0 ok"), "{text}");
        assert!(text.contains("bar kinds_impossible 1.000 0 short"), "{text}");
    }

    #[test]
    fn a_percentile_of_few_recoveries_fails_a_long_run() {
        let mut tally = good();
        (0..15).for_each(|_| tally.fired(Kind::ExecutorKill, "it"));
        assert!(!tally.bars(2, &recovered(1), &BTreeMap::new()).all_met());
        let mut twice = recovered(1);
        twice.died(1, Duration::from_secs(10));
        twice.removed(1);
        twice.added(1, Duration::from_secs(11));
        assert!(tally.bars(2, &twice, &BTreeMap::new()).all_met());
    }

    #[test]
    fn too_few_faults_and_no_job_at_all_fail_the_run() {
        assert!(!good().bars(2, &recovered(1), &BTreeMap::new()).all_met());
        let mut idle = good();
        idle.right = 0;
        assert!(!met(&idle, &recovered(1)));
    }
}
