//! A few thousand lives without a violation, and lives of mutants that are found out.

use firesteel_sim::{Counters, Mutant, Planted, Settings, live};

const LIVES: u64 = 2500;

#[test]
fn thousands_of_lives_break_no_rule_and_see_every_fault() {
    let settings = Settings::default();
    let mut all = Counters::default();
    for seed in 0..LIVES {
        let life = live(seed, &settings);
        all.add(&life.unwrap_or_else(|broken| panic!("{broken:?}")).counters);
    }
    let never: Vec<_> = all.list().into_iter().filter(|(_, count)| *count == 0).collect();
    assert!(never.is_empty(), "never fired: {never:?}");
}

#[test]
fn the_same_seed_lives_the_same_life() {
    let settings = Settings::default();
    for seed in 0..50 {
        let hashes = [live(seed, &settings), live(seed, &settings)].map(|life| life.unwrap().hash);
        assert_eq!(hashes[0], hashes[1], "S19: seed {seed}");
    }
    let (one, other) = (live(1, &settings).unwrap(), live(2, &settings).unwrap());
    assert_ne!(one.hash, other.hash, "seeds make no difference");
}

/// Which rule a mutant breaks first, over so many lives.
fn caught(mutant: Mutant, lives: u64) -> Option<String> {
    let settings = Settings { planted: Planted::only(mutant), ..Settings::default() };
    (0..lives).find_map(|seed| live(seed, &settings).err()).map(|broken| broken.message)
}

#[test]
fn every_mutant_is_caught_by_the_rule_it_breaks() {
    let mut missed = Vec::new();
    for (mutant, rules) in [
        (Mutant::ForgetsLostLaunches, &["L01", "L02"][..]),
        (Mutant::ObeysOldRegistrations, &["S", "L"]),
        (Mutant::ReportsEndsOnce, &["L01", "L02", "L03"]),
        (Mutant::TakesLostExecutorsBack, &["S04", "L"]),
        (Mutant::IgnoresSilence, &["L05", "L01", "L02"]),
        (Mutant::OutlivesDriver, &["L03", "L01"]),
        (Mutant::ForgivesOnStart, &["L02"]),
        (Mutant::ReusesRegistrations, &["S", "L"]),
        (Mutant::KeepsSilentApplications, &["L01", "L02", "L03"]),
    ] {
        let broken = caught(mutant, 4 * LIVES);
        println!("{mutant:?}: {broken:?}");
        let right = |broken: &String| rules.iter().any(|rule| broken.starts_with(rule));
        if !broken.as_ref().is_some_and(right) {
            missed.push((mutant, broken));
        }
    }
    assert!(missed.is_empty(), "not caught, or by another rule: {missed:?}");
}
