//! How many cores ran tasks, and how many there were, over time: a series that stays short by becoming coarser, as [`crate::Usage`] does.
//! It is told as things happen, so that what is forgotten of stages and executors changes nothing.

use firesteel_types::Tick;

/// So many steps are held at most; beyond, two become one.
const STEPS: usize = 240;

/// A part of the series. Cores are those of tasks with one core each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Step {
    /// Milliseconds that tasks ran, all together.
    busy_ms: u64,
    /// The most cores there were.
    there: u64,
}

/// What ran between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadStep {
    pub from: Tick,
    pub to: Tick,
    /// How many tasks ran at once, on average.
    pub running: f64,
    /// The most cores there were.
    pub cores: u64,
}

/// What runs now, and what ran so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Load {
    start: Option<Tick>,
    now: Tick,
    step_ms: u64,
    steps: Vec<Step>,
    running: u64,
    cores: u64,
}

impl Default for Load {
    fn default() -> Self {
        let (now, steps) = (Tick(0), Vec::new());
        Load { start: None, now, step_ms: 1, steps, running: 0, cores: 0 }
    }
}

impl Load {
    /// So many tasks more, or fewer, from now on.
    pub(crate) fn tasks(&mut self, at: Tick, change: i64) {
        self.advance(at);
        self.running = self.running.saturating_add_signed(change);
    }

    /// So many cores more, or fewer, from now on.
    pub(crate) fn cores(&mut self, at: Tick, change: i64) {
        self.advance(at);
        self.cores = self.cores.saturating_add_signed(change);
    }

    /// What comes late counts for now.
    fn advance(&mut self, to: Tick) {
        let start = *self.start.get_or_insert(to);
        let (mut from, to) = (self.now.max(start).since_ms(start), to.since_ms(start));
        while to / self.step_ms >= STEPS as u64 {
            self.coarsen();
        }
        while from < to {
            let index = (from / self.step_ms) as usize;
            let end = (from / self.step_ms + 1).saturating_mul(self.step_ms).min(to);
            if self.steps.len() <= index {
                self.steps.resize(index + 1, Step::default());
            }
            let step = &mut self.steps[index];
            let ran = self.running.saturating_mul(end - from);
            step.busy_ms = step.busy_ms.saturating_add(ran);
            step.there = step.there.max(self.cores);
            from = end;
        }
        self.now = self.now.max(Tick(start.0.saturating_add(to)));
    }

    fn coarsen(&mut self) {
        self.step_ms = self.step_ms.saturating_mul(2);
        let pairs = self.steps.chunks(2);
        self.steps = pairs
            .map(|pair| Step {
                busy_ms: pair.iter().fold(0, |sum, step| sum.saturating_add(step.busy_ms)),
                there: pair.iter().map(|step| step.there).max().unwrap_or(0),
            })
            .collect();
    }

    /// Until a moment, to which what runs now goes on.
    pub(crate) fn until(&self, until: Tick) -> Vec<LoadStep> {
        let Some(start) = self.start else { return Vec::new() };
        let mut whole = self.clone();
        whole.advance(until.max(self.now));
        let (end, step_ms) = (whole.now.since_ms(start), whole.step_ms);
        let steps = whole.steps.iter().enumerate().map(|(index, step)| {
            let from = step_ms.saturating_mul(index as u64);
            let to = from.saturating_add(step_ms).min(end);
            LoadStep {
                from: Tick(start.0.saturating_add(from)),
                to: Tick(start.0.saturating_add(to)),
                running: step.busy_ms as f64 / to.saturating_sub(from).max(1) as f64,
                cores: step.there,
            }
        });
        steps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a moment, in seconds: tasks that ran, cores that were there.
    fn at(load: &Load, until: u64, second: u64) -> (f64, u64) {
        let steps = load.until(Tick(until * 1000));
        assert!(steps.len() <= STEPS, "{}", steps.len());
        let found = steps.iter().find(|it| it.from.0 <= second * 1000 && second * 1000 < it.to.0);
        found.map_or((-1.0, 0), |it| (it.running, it.cores))
    }

    #[test]
    fn one_core_for_an_hour_and_eight_now_are_told_apart() {
        let mut load = Load::default();
        load.cores(Tick(0), 8);
        load.tasks(Tick(0), 1);
        load.tasks(Tick(3_600_000), 7);
        for second in [1, 1000, 3500] {
            assert_eq!(at(&load, 3660, second), (1.0, 8), "{second}");
        }
        assert_eq!(at(&load, 3660, 3650), (8.0, 8));
        // Nothing is asked for that is over.
        assert_eq!(at(&load, 3660, 4000).0, -1.0);
    }

    #[test]
    fn a_long_series_stays_short_and_loses_no_time() {
        let mut load = Load::default();
        for second in 0..100_000u64 {
            load.tasks(Tick(second * 1000), 3);
            load.tasks(Tick(second * 1000 + 500), -3);
        }
        let steps = load.until(Tick(100_000_000));
        assert!((STEPS / 2 - 1..=STEPS).contains(&steps.len()), "{}", steps.len());
        let sum: f64 = steps.iter().map(|it| it.running * it.to.since_ms(it.from) as f64).sum();
        assert!((sum - 150_000_000.0).abs() < 1.0, "{sum}");
        assert!(steps.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn times_that_go_back_or_are_absurd_break_nothing() {
        let mut load = Load::default();
        for at in [5000, 0, u64::MAX, 1, u64::MAX] {
            load.tasks(Tick(at), -1);
            load.cores(Tick(at), 2);
        }
        assert!(load.until(Tick(0)).len() <= STEPS);
        assert_eq!(Load::default().until(Tick(9)), []);
    }
}
