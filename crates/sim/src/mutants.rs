//! Mistakes planted into the cores one by one, and the rules that find them out.

use crate::{Mutant, Planted, Settings, live};

/// Every mistake, with the beginnings of the ids of the rules that it breaks.
pub const MUTANTS: [(Mutant, &[&str]); 9] = [
    (Mutant::ForgetsLostLaunches, &["L01", "L02"]),
    (Mutant::ObeysOldRegistrations, &["S", "L"]),
    (Mutant::ReportsEndsOnce, &["L01", "L02", "L03"]),
    (Mutant::TakesLostExecutorsBack, &["S04", "L"]),
    (Mutant::IgnoresSilence, &["L05", "L01", "L02"]),
    (Mutant::OutlivesDriver, &["L03", "L01"]),
    (Mutant::ForgivesOnStart, &["L02"]),
    (Mutant::ReusesRegistrations, &["S", "L"]),
    (Mutant::KeepsSilentApplications, &["L01", "L02", "L03"]),
];

/// What so many lives with a mistake in them break first.
pub fn first_violation(mutant: Mutant, lives: u64) -> Option<String> {
    let settings = Settings { planted: Planted::only(mutant), ..Settings::default() };
    (0..lives).find_map(|seed| live(seed, &settings).err()).map(|broken| broken.message)
}

/// Whether that is one of the rules it should break.
pub fn is_caught(broken: Option<&str>, rules: &[&str]) -> bool {
    broken.is_some_and(|broken| rules.iter().any(|rule| broken.starts_with(rule)))
}
