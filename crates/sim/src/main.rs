//! The simulator's command: many runs for figures, or one to read.
//!
//! ```sh
//! cargo run --release -p firesteel-sim -- --seeds 0..20000
//! cargo run --release -p firesteel-sim -- --seed 17 --trace
//! cargo run --release -p firesteel-sim -- --master-load
//! cargo run --release -p firesteel-sim --features mutants -- --mutants
//! cargo run --release -p firesteel-sim -- --pods --seeds 0..20000
//! cargo run --release -p firesteel-sim --features mutants -- --pods --mutants
//! ```

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use firesteel_sim::{
    Counters, MUTANTS, POD_MUTANTS, PlantedPods, PodCounters, Settings, Violation,
    first_pod_violation, first_violation, is_caught, longest_decision, simulate, simulate_pods,
};

const USAGE: &str = "usage: firesteel-sim [--pods] --seeds FROM..TO [--threads N] | [--pods] --seed N [--trace] | \
                     [--pods] --mutants | --master-load";
/// Microseconds of a master's longest decision, with 200 workers and 50 applications.
const DECISION_TARGET: f64 = 10_000.0;
/// Runs a minute on two cores.
const RATE_TARGET: f64 = 60_000.0;
/// So many runs should show every kind of fault.
const ENOUGH: u64 = 5000;
/// So many runs are a proof; fewer are a quick look.
const PROOF: u64 = 1_000_000;
/// The same for pods.
const PODS_PROOF: u64 = 200_000;
/// Per cent of the mutants that have to be caught.
const CATCH_TARGET: f64 = 95.0;
/// So many runs should find any mistake.
const MUTANT_RUNS: u64 = 40_000;

struct Arguments {
    seeds: Range<u64>,
    threads: u64,
    trace: bool,
    /// Executors on Kubernetes, and not a standalone cluster.
    pods: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { seeds: 0..0, threads: 2, trace: false, pods: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => {
                let value = words.next()?;
                let (from, to) = value.split_once("..")?;
                arguments.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--seed" => {
                let seed = words.next()?.parse().ok()?;
                arguments.seeds = seed..seed + 1;
            }
            "--threads" => arguments.threads = words.next()?.parse().ok().filter(|n| *n > 0)?,
            "--trace" => arguments.trace = true,
            "--pods" => arguments.pods = true,
            _ => return None,
        }
    }
    (!arguments.seeds.is_empty()).then_some(arguments)
}

#[derive(Default)]
struct Figures {
    counters: Counters,
    pods: PodCounters,
    events: u64,
    violations: Vec<Violation>,
}

impl Figures {
    /// One run of a standalone cluster; the hash of its trace.
    fn run_cluster(&mut self, seed: u64, settings: &Settings) -> Result<u64, Violation> {
        let run = simulate(seed, settings)?;
        self.counters.add(&run.counters);
        self.events += run.events;
        Ok(run.hash)
    }

    /// One run of executors on Kubernetes.
    fn run_pods(&mut self, seed: u64, settings: &Settings) -> Result<u64, Violation> {
        let run = simulate_pods(seed, PlantedPods::default(), settings.trace)?;
        self.pods.add(&run.counters);
        self.events += run.events;
        Ok(run.hash)
    }

    /// What happened how often.
    fn counts(&self, pods: bool) -> Vec<(&'static str, u64)> {
        if pods { self.pods.list() } else { self.counters.list() }
    }
}

/// Every so-manieth seed from `first` on; one in a hundred is run twice (S19).
fn run_lane(first: u64, step: u64, end: u64, (settings, pods): (&Settings, bool)) -> Figures {
    let mut figures = Figures::default();
    let run = if pods { Figures::run_pods } else { Figures::run_cluster };
    for seed in (first..end).step_by(step as usize) {
        match run(&mut figures, seed, settings) {
            Ok(hash) => {
                let again = seed % 100 == 0;
                if again && run(&mut Figures::default(), seed, settings) != Ok(hash) {
                    let message = "S19: the same seed makes another run".to_owned();
                    figures.violations.push(Violation { seed, message });
                }
            }
            Err(violation) => figures.violations.push(violation),
        }
    }
    figures
}

fn run_all(arguments: &Arguments) -> Figures {
    let settings = Settings { trace: arguments.trace, ..Settings::default() };
    let Range { start, end } = arguments.seeds;
    let (threads, pods) = (arguments.threads, arguments.pods);
    let mut all = Figures::default();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..threads)
            .map(|lane| {
                scope.spawn(move || run_lane(start + lane, threads, end, (&settings, pods)))
            })
            .collect();
        for lane in lanes {
            let figures = lane.join().expect("violations are caught");
            all.counters.add(&figures.counters);
            all.pods.add(&figures.pods);
            all.events += figures.events;
            all.violations.extend(figures.violations);
        }
    });
    all.violations.sort_by_key(|violation| violation.seed);
    all
}

/// The machine may be busy: the best of a few.
fn master_load() -> ExitCode {
    let longest = (0..5).map(|_| longest_decision(200, 50)).min().unwrap_or_default();
    let micros = longest.as_secs_f64() * 1e6;
    let ok = bar("longest_decision_us", micros, DECISION_TARGET, micros <= DECISION_TARGET);
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Without the feature nothing is planted, and so nothing would be caught.
fn mutants(pods: bool) -> ExitCode {
    if !cfg!(feature = "mutants") {
        eprintln!("firesteel-sim: no mistake can be planted: build with --features mutants");
        return ExitCode::from(2);
    }
    std::panic::set_hook(Box::new(|_| {}));
    let lanes = std::thread::scope(|scope| {
        let lanes = [0, 1].map(|lane| scope.spawn(move || mutants_caught(lane, pods)));
        lanes.map(|lane| lane.join().expect("violations are caught"))
    });
    let all = if pods { POD_MUTANTS.len() } else { MUTANTS.len() };
    let caught = lanes.iter().sum::<usize>();
    println!("{caught} of {all} mutants were caught by a rule that they break");
    let rate = 100.0 * caught as f64 / all as f64;
    let name = if pods { "pod_mutants_caught" } else { "mutants_caught" };
    let ok = bar(name, rate, CATCH_TARGET, rate >= CATCH_TARGET);
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Of every other mutant from this one on.
fn mutants_caught(lane: usize, pods: bool) -> usize {
    if pods {
        let own = POD_MUTANTS.iter().skip(lane).step_by(2);
        let caught = own.filter(|(mutant, rules)| {
            verdict(&format!("{mutant:?}"), first_pod_violation(*mutant, MUTANT_RUNS), rules)
        });
        return caught.count();
    }
    let own = MUTANTS.iter().skip(lane).step_by(2);
    let caught = own.filter(|(mutant, rules)| {
        verdict(&format!("{mutant:?}"), first_violation(*mutant, MUTANT_RUNS), rules)
    });
    caught.count()
}

/// Whether a rule that the mutant breaks found it.
fn verdict(mutant: &str, broken: Option<String>, rules: &[&str]) -> bool {
    let caught = is_caught(broken.as_deref(), rules);
    let verdict = if caught { "" } else { "not caught: " };
    println!("{mutant}: {verdict}{}", broken.as_deref().unwrap_or("nothing is broken"));
    caught
}

fn main() -> ExitCode {
    if std::env::args().skip(1).eq(["--master-load"]) {
        return master_load();
    }
    if std::env::args().skip(1).eq(["--mutants"]) {
        return mutants(false);
    }
    if std::env::args().skip(1).eq(["--pods", "--mutants"]) {
        return mutants(true);
    }
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // A broken rule inside a core panics; it is told below, with its seed.
    if !arguments.trace {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let started = Instant::now();
    let figures = run_all(&arguments);
    report(&arguments, &figures, started.elapsed().as_secs_f64())
}

fn bar(name: &str, value: f64, target: f64, ok: bool) -> bool {
    println!("bar {name} {value:.0} {target:.0} {}", if ok { "ok" } else { "short" });
    ok
}

fn report(arguments: &Arguments, figures: &Figures, seconds: f64) -> ExitCode {
    let runs = arguments.seeds.end - arguments.seeds.start;
    for Violation { seed, message } in figures.violations.iter().take(20) {
        println!("seed {seed}: {message}");
    }
    let kinds = figures.counts(arguments.pods);
    for (name, count) in &kinds {
        println!("{count:>10} {name}{}", if *count == 0 { " (never fired)" } else { "" });
    }
    println!("{runs} runs, {} events, {seconds:.1} s", figures.events);
    let violations = figures.violations.len() as f64;
    let prefix = if arguments.pods { "pod_" } else { "" };
    let bar = |name: &str, value, target, ok| bar(&format!("{prefix}{name}"), value, target, ok);
    let mut ok = bar("violations", violations, 0.0, violations == 0.0);
    let proof = if arguments.pods { PODS_PROOF } else { PROOF };
    if runs >= proof {
        bar("runs", runs as f64, proof as f64, true);
    }
    if runs >= ENOUGH {
        let rate = runs as f64 / seconds * 60.0;
        ok &= bar("runs_per_minute", rate, RATE_TARGET, rate >= RATE_TARGET);
        let fired = kinds.iter().filter(|(_, count)| *count > 0).count();
        ok &= bar("fault_kinds_fired", fired as f64, kinds.len() as f64, fired == kinds.len());
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
