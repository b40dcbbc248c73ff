//! What an executor used over time: a series that stays short by becoming coarser, whatever the length of the application.

use firesteel_types::{ExecutorMetrics, Tick};

/// So many samples are held at most; beyond, two become one.
const SAMPLES: usize = 60;
/// Samples nearer to each other are one from the start, milliseconds.
const FIRST_STEP_MS: u64 = 1000;

/// What was used between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UsageSample {
    pub from: Tick,
    pub at: Tick,
    /// The most that was resident of the process, or on the heap of a JVM that tells nothing else.
    pub resident_memory: u64,
    /// The most that blocks and tasks held.
    pub unified_memory: u64,
    /// Processor time of tasks since the executor began, until `at`.
    pub cpu_ns: u64,
}

/// What an executor used over time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Usage {
    samples: Vec<UsageSample>,
    step_ms: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { samples: Vec::new(), step_ms: FIRST_STEP_MS }
    }
}

impl UsageSample {
    /// Takes the next one in, if both are of one step. Processor time never falls, in whatever order samples come.
    fn merge(&mut self, next: &UsageSample, step_ms: u64) -> bool {
        if next.at.since_ms(self.from) >= step_ms {
            return false;
        }
        self.at = self.at.max(next.at);
        self.resident_memory = self.resident_memory.max(next.resident_memory);
        self.unified_memory = self.unified_memory.max(next.unified_memory);
        self.cpu_ns = self.cpu_ns.max(next.cpu_ns);
        true
    }
}

impl Usage {
    /// The earliest first.
    pub fn samples(&self) -> &[UsageSample] {
        &self.samples
    }

    pub(crate) fn add(&mut self, at: Tick, metrics: &ExecutorMetrics, cpu_ns: u64) {
        let last = self.samples.last().copied();
        let next = UsageSample {
            from: at,
            // What comes late counts for now.
            at: last.map_or(at, |last| at.max(last.at)),
            resident_memory: metrics.resident_memory.max(metrics.managed.heap),
            unified_memory: metrics.unified_memory,
            cpu_ns: last.map_or(cpu_ns, |last| cpu_ns.max(last.cpu_ns)),
        };
        self.push(UsageSample { from: next.at, ..next });
        while self.samples.len() > SAMPLES {
            self.step_ms = self.step_ms.saturating_mul(2);
            let fine = std::mem::take(&mut self.samples);
            fine.into_iter().for_each(|sample| self.push(sample));
        }
    }

    fn push(&mut self, next: UsageSample) {
        let step_ms = self.step_ms;
        if !self.samples.last_mut().is_some_and(|last| last.merge(&next, step_ms)) {
            self.samples.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(resident_memory: u64) -> ExecutorMetrics {
        ExecutorMetrics { resident_memory, ..ExecutorMetrics::default() }
    }

    #[test]
    fn a_long_series_stays_short_and_keeps_its_peaks_and_its_end() {
        let mut usage = Usage::default();
        for second in 0..100_000u64 {
            let memory = if second == 77_777 { 5000 } else { 100 + second % 7 };
            usage.add(Tick(second * 1000), &used(memory), second * 10);
        }
        let samples = usage.samples();
        assert!((SAMPLES / 2 - 1..=SAMPLES).contains(&samples.len()), "{}", samples.len());
        assert_eq!(samples.iter().map(|it| it.resident_memory).max(), Some(5000));
        assert_eq!(samples.last().map(|it| (it.at, it.cpu_ns)), Some((Tick(99_999_000), 999_990)));
        assert!(
            samples
                .windows(2)
                .all(|pair| pair[0].at < pair[1].from && pair[0].cpu_ns <= pair[1].cpu_ns)
        );
    }

    #[test]
    fn times_that_go_back_or_are_absurd_break_nothing() {
        let mut usage = Usage::default();
        for at in [5000, 0, u64::MAX, 1, u64::MAX] {
            usage.add(Tick(at), &used(at), at);
        }
        let samples = usage.samples();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].at, samples[1].at), (Tick(5000), Tick(u64::MAX)));
    }
}
