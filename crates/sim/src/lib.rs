//! Whole clusters of production cores in one thread, from one seed.
//!
//! A run: a master, some workers, some applications with random jobs, and whatever can go wrong with
//! them, drawn from the seed. Then the faults stop, and by a deadline everything must have settled.
//!
//! | file | owns |
//! |---|---|
//! | `plan` | what a seed decides before a run begins: sizes, habits, which faults |
//! | `world` | the processes, the order of events, who hears what |
//! | `clock` | what each process's clock shows |
//! | `network` | connections: delay, loss, repetition, overtaking, stalls, breaks |
//! | `nodes`, `driver` | how the world carries out the effects of cores |
//! | `lineage` | random lineages, and what every partition's value has to be |
//! | `preparing` | executables that workers fetch before an executor starts |
//! | `launching`, `reports` | attempts that live, and how their end is reported |
//! | `outputs` | map outputs: versions by attempt, rot, what a reader finds missing |
//! | `reading` | what tasks read, by locations that may be out of date |
//! | `fetching` | the same step by step, as the core of the executors' fetches plans it |
//! | `cached`, `pieces` | cached partitions with their replicas, pieces of broadcast values |
//! | `memory` | memory that an executor's tasks ask for, wait for and spill |
//! | `book` | what the block master's answers are held against |
//! | `store` | where masters persist their state, sessions, the leader |
//! | `faults` | crashes, pauses, breaks, and what they have to lead to |
//! | `verdicts` | who is declared dead, and whose files go: rightly so? |
//! | `check` | the invariants, by id |
//! | `pods` | another world: executors on Kubernetes, their allocator and an API server |
//! | `load` | a large cluster's master, timed |
//! | `mutants` | planted mistakes, and the rules that find them |
//! | `counters` | what happened how often: a fault that never fires proves nothing |
//!
//! Nothing here decides anything a cluster would decide: cores do, and they are production's.

mod book;
mod cached;
mod check;
mod clock;
mod counters;
mod decommission;
mod driver;
mod faults;
mod fetching;
mod launching;
mod lineage;
mod load;
mod memory;
mod mutants;
mod network;
mod nodes;
mod outputs;
mod pieces;
mod plan;
mod pods;
mod poison;
mod port;
mod preparing;
mod reading;
mod reports;
mod results;
mod store;
mod submitted;
mod verdicts;
mod world;

pub use counters::Counters;
pub use firesteel_backend::mutant::{Mutant, Planted};
pub use firesteel_kubernetes_core::mutant::{Mutant as PodMutant, Planted as PlantedPods};
pub use firesteel_scheduler::mutant::{Mutant as DagMutant, Planted as PlantedDag};
pub use firesteel_storage::mutant::{Mutant as MemoryMutant, Planted as PlantedMemory};
pub use load::longest_decision;
pub use mutants::{MUTANTS, Mistake, first_violation, is_caught};
pub use pods::{POD_MUTANTS, PodCounters, PodRun, first_pod_violation, simulate_pods};

/// What to run, and how to tell of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// A mistake to plant; without effect unless the cores were built with it.
    pub planted: Planted,
    /// The same for the DAG scheduler.
    pub planted_dag: PlantedDag,
    /// The same for the rules of memory.
    pub planted_memory: PlantedMemory,
    /// Whether to print what happens.
    pub trace: bool,
}

/// How a run went.
#[derive(Debug)]
pub struct Run {
    /// The same for the same seed (S19).
    pub hash: u64,
    /// How many events the run took.
    pub events: u64,
    pub counters: Counters,
}

/// What a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub seed: u64,
    /// The invariant's id and what is wrong.
    pub message: String,
}

/// Runs one seed to its end, or to the first invariant that breaks.
pub fn simulate(seed: u64, settings: &Settings) -> Result<Run, Violation> {
    let ran = std::panic::catch_unwind(|| world::World::new(seed, settings).run());
    ran.unwrap_or_else(|payload| Err(panic_message(payload.as_ref())))
        .map_err(|message| Violation { seed, message })
}

/// What a core said that found a rule broken.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let message = payload.downcast_ref::<String>().cloned();
    let message = message.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    message.unwrap_or_else(|| "a panic".to_owned())
}
