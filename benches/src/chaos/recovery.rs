//! How long an application is short of executors after one died. Pure: it is told what happened, and when.
//!
//! A time counts if the cluster had the cores all the while: it is dropped, and counted as such, when another fault that
//! takes processes, disks or connections away came in between. If an application ends before it has its executors again, the
//! time until then counts when it is already too long.

use std::{collections::BTreeMap, time::Duration};

/// Shorter than this, an application that ended says nothing.
const TOO_LONG: Duration = Duration::from_secs(3);

/// What is known of the applications that run, by their number, and the times that were measured.
#[derive(Debug, Default)]
pub(crate) struct Recoveries {
    running: BTreeMap<usize, Executors>,
    times: Vec<Duration>,
    /// How long that was, which application's, and since when.
    longest: Option<(Duration, usize, Duration)>,
    overlapped: usize,
}

#[derive(Debug)]
struct Executors {
    wanted: usize,
    live: usize,
    death: Option<Death>,
}

#[derive(Debug)]
struct Death {
    at: Duration,
    /// The driver knows of it.
    noticed: bool,
    disturbed: bool,
}

impl Recoveries {
    pub(crate) fn started(&mut self, app: usize, wanted: usize) {
        self.running.insert(app, Executors { wanted, live: 0, death: None });
    }

    pub(crate) fn added(&mut self, app: usize, at: Duration) {
        let Some(executors) = self.running.get_mut(&app) else { return };
        executors.live += 1;
        let whole = executors.live >= executors.wanted;
        if let Some(death) = executors.death.take_if(|death| whole && death.noticed) {
            self.over(app, &death, at);
        }
    }

    pub(crate) fn removed(&mut self, app: usize) {
        let Some(executors) = self.running.get_mut(&app) else { return };
        executors.live = executors.live.saturating_sub(1);
        if let Some(death) = &mut executors.death {
            death.noticed = true;
        }
    }

    /// An executor of `app` was killed, while the cluster had cores for another. The last death counts: those before it
    /// end in the same moment. An application that had not all executors waits for something else already.
    pub(crate) fn died(&mut self, app: usize, at: Duration) {
        let Some(executors) = self.running.get_mut(&app) else { return };
        let disturbed = executors.death.as_ref().is_some_and(|death| death.disturbed);
        if executors.live >= executors.wanted || executors.death.is_some() {
            executors.death = Some(Death { at, noticed: false, disturbed });
        }
    }

    /// Something happened that takes resources away: what is measured now does not count.
    pub(crate) fn disturbed(&mut self) {
        for death in self.running.values_mut().filter_map(|executors| executors.death.as_mut()) {
            death.disturbed = true;
        }
    }

    pub(crate) fn ended(&mut self, app: usize, at: Duration) {
        let death = self.running.remove(&app).and_then(|executors| executors.death);
        match death {
            Some(death) if at.saturating_sub(death.at) > TOO_LONG => self.over(app, &death, at),
            _ => {}
        }
    }

    fn over(&mut self, app: usize, death: &Death, at: Duration) {
        if death.disturbed {
            self.overlapped += 1;
            return;
        }
        let time = at.saturating_sub(death.at);
        self.times.push(time);
        self.longest = self.longest.max(Some((time, app, death.at)));
    }

    /// How long the longest was, which application's, and since when.
    pub(crate) fn longest(&self) -> Option<(Duration, usize, Duration)> {
        self.longest
    }

    pub(crate) fn overlapped(&self) -> usize {
        self.overlapped
    }

    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// So many seconds at most in `percent` of all cases; none if there were none.
    pub(crate) fn seconds(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.times.clone();
        sorted.sort();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map(Duration::as_secs_f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Recoveries;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// An application with both of its executors.
    fn whole() -> Recoveries {
        let mut all = Recoveries::default();
        all.started(1, 2);
        all.added(1, at(1.0));
        all.added(1, at(2.0));
        all
    }

    #[test]
    fn the_time_is_from_the_death_to_the_executor_that_makes_it_whole() {
        let mut all = whole();
        all.died(1, at(10.0));
        all.removed(1);
        all.added(1, at(10.5));
        assert_eq!((all.count(), all.seconds(50)), (1, Some(0.5)));
    }

    #[test]
    fn an_executor_that_comes_before_the_death_is_noticed_ends_nothing() {
        let mut all = whole();
        all.died(1, at(10.0));
        all.removed(1);
        all.died(1, at(10.1));
        all.added(1, at(10.2));
        assert_eq!(all.count(), 0, "the second death is not noticed yet");
        all.removed(1);
        all.added(1, at(10.9));
        assert_eq!(all.seconds(100), Some(0.8));
    }

    #[test]
    fn what_another_fault_disturbed_is_counted_apart() {
        let mut all = whole();
        all.died(1, at(10.0));
        all.disturbed();
        all.removed(1);
        all.added(1, at(19.0));
        assert_eq!((all.count(), all.overlapped(), all.seconds(99)), (0, 1, None));
    }

    #[test]
    fn an_end_without_recovery_counts_when_it_took_too_long() {
        for (end, count) in [(12.0, 0), (14.0, 1)] {
            let mut all = whole();
            all.died(1, at(10.0));
            all.ended(1, at(end));
            assert_eq!(all.count(), count, "ended at {end}");
        }
    }

    #[test]
    fn an_application_that_never_had_its_executors_measures_nothing() {
        let mut all = Recoveries::default();
        all.started(1, 2);
        all.added(1, at(1.0));
        all.died(1, at(2.0));
        all.removed(1);
        all.added(1, at(3.0));
        all.added(1, at(4.0));
        assert_eq!((all.count(), all.overlapped()), (0, 0));
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut all = whole();
        for (died, back) in [(10.0, 11.0), (20.0, 22.0), (30.0, 33.0), (40.0, 44.0)] {
            all.died(1, at(died));
            all.removed(1);
            all.added(1, at(back));
        }
        assert_eq!([50, 75, 99].map(|percent| all.seconds(percent)), [2.0, 3.0, 4.0].map(Some));
    }
}
