//! A few thousand runs of executors on Kubernetes without a violation, and runs of mutants that are found out.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use firesteel_sim::{
    POD_MUTANTS, PlantedPods, PodCounters, first_pod_violation, is_caught, simulate_pods,
};

const RUNS: u64 = 2500;

#[test]
fn thousands_of_runs_break_no_rule_and_see_every_fault() {
    let mut all = PodCounters::default();
    for seed in 0..RUNS {
        let run = simulate_pods(seed, PlantedPods::default(), false);
        all.add(&run.unwrap_or_else(|broken| panic!("{broken:?}")).counters);
    }
    let never: Vec<_> = all.list().into_iter().filter(|(_, count)| *count == 0).collect();
    assert!(never.is_empty(), "never fired: {never:?}");
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let hash = |seed| simulate_pods(seed, PlantedPods::default(), false).unwrap().hash;
    for seed in 0..50 {
        assert_eq!(hash(seed), hash(seed), "S19: seed {seed}");
    }
    assert_ne!(hash(1), hash(2), "seeds make no difference");
}

#[test]
fn every_mutant_is_caught_by_the_rule_it_breaks() {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let search = || {
        while let Some(&(mutant, rules)) = POD_MUTANTS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let broken = first_pod_violation(mutant, 4 * RUNS);
            println!("{mutant:?}: {broken:?}");
            if !is_caught(broken.as_deref(), rules) {
                missed.lock().unwrap().push((mutant, broken));
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(search))));
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not caught, or by another rule: {missed:?}");
}
