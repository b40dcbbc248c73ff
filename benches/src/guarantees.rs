//! What a guarantee costs that can be left out: that records which are computed again are the same, or the difference is noticed.
//!
//! The same job runs in turns in one process, from an RDD of which the engine knows that it comes out the same every time, and from
//! the same one behind `indeterminate()`: there every record that is written for a shuffle goes into a checksum, and the schedulers
//! keep which attempt was read. The other guarantees have no switch (checksums of blocks, the books of memory, values that are
//! checked to come back as they were): what they cost shows only between commits.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};

use crate::{output::Output, process, spark, table::Spread};

/// Pairs of numbers in the job, and its partitions.
const SIZES: [&str; 2] = ["4000000", "4"];

/// The first turn fills caches.
const COLD: usize = 1;

const LIMIT: Duration = Duration::from_secs(300);

/// Seconds of the job without and with the guarantee, turn by turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    off: Vec<f64>,
    on: Vec<f64>,
}

impl Turns {
    /// Runs the job in one process after the other.
    pub(crate) fn take(app: &Path, rounds: usize) -> Result<Self> {
        let mut turns = Self::default();
        for round in 1..=rounds {
            let mut command = Command::new(app);
            spark::remove_settings(&mut command);
            let finished = process::run(command.arg("guarantees").args(SIZES), LIMIT)?;
            turns.add(&Output::parse(&finished.stdout))?;
            eprintln!(
                "guarantees {round}/{rounds}: {:.3} so far",
                turns.cost().unwrap_or(f64::NAN)
            );
        }
        Ok(turns)
    }

    fn add(&mut self, output: &Output) -> Result<()> {
        let (off, on) = (output.result("unguarded")?, output.result("guarded")?);
        ensure!(off == on, "results differ: `{off}`, `{on}`");
        let [off, on] = ["unguarded", "guarded"]
            .map(|name| output.warm_seconds(name, COLD).collect::<Vec<f64>>());
        ensure!(
            off.len() == on.len() && !on.is_empty(),
            "{} turns without, {} with",
            off.len(),
            on.len()
        );
        self.off.extend(off);
        self.on.extend(on);
        Ok(())
    }

    pub(crate) fn off(&self) -> Option<Spread> {
        Spread::of(self.off.iter().copied())
    }

    pub(crate) fn on(&self) -> Option<Spread> {
        Spread::of(self.on.iter().copied())
    }

    /// How many times as long the job takes with the guarantee: the median over the turns, so that what else the machine does
    /// meets both sides.
    pub(crate) fn cost(&self) -> Option<f64> {
        let ratios = self.off.iter().zip(&self.on).map(|(off, on)| on / off);
        Some(Spread::of(ratios)?.median)
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, Turns};

    fn printed(on: [f64; 3], result: &str) -> Output {
        let line =
            |name: &str, run: usize, seconds: f64| format!("BENCH {name} run{run} {seconds} s\n");
        let turn = |(at, on): (usize, &f64)| {
            line("unguarded", at + 1, 1.0) + &line("guarded", at + 1, *on)
        };
        let turns: String = on.iter().enumerate().map(turn).collect();
        Output::parse(&format!("{turns}RESULT unguarded n=1\nRESULT guarded {result}\n"))
    }

    #[test]
    fn the_cost_is_the_median_of_the_turns_after_the_first() {
        let mut turns = Turns::default();
        assert_eq!(turns.cost(), None);
        turns.add(&printed([9.0, 1.5, 1.25], "n=1")).unwrap();
        turns.add(&printed([9.0, 1.0, 1.25], "n=1")).unwrap();
        assert_eq!(turns.cost(), Some(1.25));
        assert_eq!((turns.off().unwrap().median, turns.on().unwrap().median), (1.0, 1.25));
    }

    #[test]
    fn turns_with_another_result_or_without_one_are_an_error() {
        let error = Turns::default().add(&printed([1.0; 3], "n=2")).unwrap_err();
        assert_eq!(error.to_string(), "results differ: `n=1`, `n=2`");
        Turns::default().add(&Output::parse("RESULT unguarded 1\nRESULT guarded 1\n")).unwrap_err();
    }
}
