//! Timers and histograms of Dropwizard's shape: how long something takes, or how large it is, and how often it happens. Memory is
//! bounded, and a thread that measures waits for nobody but others that measure the same.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::reservoir::{Distribution, Reservoir};

/// Rates are averages over these, in seconds.
const MINUTES: [f64; 3] = [60.0, 300.0, 900.0];
/// How often they are brought up to date.
const TICK_MS: u64 = 5000;

/// How often something happens, in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Since the beginning.
    pub mean: f64,
    /// Over one, five and fifteen minutes, the newest counting most.
    pub minutes: [f64; 3],
}

/// What a timer says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimerSnapshot {
    pub nanoseconds: Distribution,
    pub rates: Rates,
}

/// Moving averages, as those of a machine's load.
#[derive(Default)]
struct Meter {
    count: u64,
    /// Since the last tick.
    new: u64,
    ticked_ms: u64,
    /// `None` before the first tick.
    rates: Option<[f64; 3]>,
}

impl Meter {
    fn mark(&mut self, now_ms: u64, times: u64) {
        self.tick(now_ms);
        self.count += times;
        self.new += times;
    }

    fn tick(&mut self, now_ms: u64) {
        let ticks = now_ms.saturating_sub(self.ticked_ms) / TICK_MS;
        if ticks == 0 {
            return;
        }
        self.ticked_ms += ticks * TICK_MS;
        let seconds = TICK_MS as f64 / 1000.0;
        let now = std::mem::take(&mut self.new) as f64 / seconds;
        let stays = MINUTES.map(|minutes| (-seconds / minutes).exp());
        let first = match self.rates {
            None => [now; 3],
            Some(rates) => std::array::from_fn(|at| now + (rates[at] - now) * stays[at]),
        };
        // Nothing happened in the others.
        let idle = i32::try_from(ticks - 1).unwrap_or(i32::MAX);
        self.rates = Some(std::array::from_fn(|at| first[at] * stays[at].powi(idle)));
    }

    fn rates(&mut self, now_ms: u64) -> Rates {
        self.tick(now_ms);
        let mean = match now_ms {
            0 => 0.0,
            now_ms => self.count as f64 / (now_ms as f64 / 1000.0),
        };
        Rates { mean, minutes: self.rates.unwrap_or_default() }
    }
}

#[derive(Default)]
struct TimerState {
    reservoir: Reservoir,
    meter: Meter,
}

impl TimerState {
    fn update(&mut self, now_ms: u64, took: Duration, times: u64) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.reservoir.update(now_ms, nanoseconds);
        self.meter.mark(now_ms, times);
    }
}

/// Measures how long something takes.
pub struct Timer {
    begun: Instant,
    state: Mutex<TimerState>,
}

impl Default for Timer {
    fn default() -> Self {
        Timer { begun: Instant::now(), state: Mutex::default() }
    }
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

impl Timer {
    /// It took so long, and happened so many times since the last update: not every time has to be measured.
    pub fn update(&self, took: Duration, times: u64) {
        let now_ms = self.now_ms();
        lock(&self.state).update(now_ms, took, times);
    }

    pub fn snapshot(&self) -> TimerSnapshot {
        let now_ms = self.now_ms();
        let mut state = lock(&self.state);
        let (reservoir, count) = (state.reservoir.clone(), state.meter.count);
        let rates = state.meter.rates(now_ms);
        // Nobody who measures waits for this.
        drop(state);
        TimerSnapshot { nanoseconds: reservoir.distribution(count), rates }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Takes values of which not the time matters but the size.
pub struct Histogram {
    begun: Instant,
    state: Mutex<(Reservoir, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { begun: Instant::now(), state: Mutex::default() }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").finish_non_exhaustive()
    }
}

impl Histogram {
    pub fn update(&self, value: u64) {
        let now_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = lock(&self.state);
        state.0.update(now_ms, value);
        state.1 += 1;
    }

    pub fn snapshot(&self) -> Distribution {
        let (reservoir, count) = lock(&self.state).clone();
        reservoir.distribution(count)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_what_happens_and_fall_when_nothing_does() {
        let mut meter = Meter::default();
        // Ten a second for ten minutes.
        (0..600).for_each(|second| meter.mark(second * 1000, 10));
        let rates = meter.rates(600_000);
        assert!((rates.mean - 10.0).abs() < 1e-9, "{rates:?}");
        assert!(rates.minutes.iter().all(|rate| (rate - 10.0).abs() < 0.01), "{rates:?}");
        let later = meter.rates(660_000);
        let [one, five, fifteen] = later.minutes;
        assert!((one - 10.0 / std::f64::consts::E).abs() < 0.01, "{later:?}");
        assert!(one < five && five < fifteen && fifteen < 10.0, "{later:?}");
        let year = meter.rates(600_000 + 366 * 24 * 3_600_000);
        assert!(year.minutes.iter().all(|rate| rate.is_finite() && *rate < 1e-9), "{year:?}");
    }

    #[test]
    fn before_the_first_tick_there_are_no_rates_and_time_zero_harms_nobody() {
        let mut meter = Meter::default();
        meter.mark(0, 5);
        assert_eq!(meter.rates(0), Rates::default());
        assert_eq!(meter.rates(4999).minutes, [0.0; 3]);
        assert_eq!(meter.rates(5000).minutes, [1.0; 3]);
    }

    #[test]
    fn a_timer_counts_what_it_did_not_measure() {
        let timer = Timer::default();
        timer.update(Duration::from_micros(3), 1);
        timer.update(Duration::from_micros(5), 16);
        let told = timer.snapshot().nanoseconds;
        assert_eq!((told.count, told.min, told.max), (17, 3000, 5000));
        // The later one weighs a little more.
        assert!((told.mean - 4000.0).abs() < 10.0, "{told:?}");
        let sizes = Histogram::default();
        (1..=3).for_each(|size| sizes.update(size));
        let told = sizes.snapshot();
        assert_eq!((told.count, told.min, told.max, told.quantiles[0]), (3, 1, 3, 2.0));
    }
}
