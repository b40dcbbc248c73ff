//! Mistakes planted into the cores one by one, and the rules that find them out.

use crate::{
    DagMutant, MemoryMutant, Mutant, Planted, PlantedDag, PlantedMemory, Settings, simulate,
};

/// A mistake in one of the cores.
#[derive(Clone, Copy, Debug)]
pub enum Mistake {
    /// Of master, worker, the driver's registry and provider, or executor.
    Cluster(Mutant),
    /// Of the DAG scheduler, the task scheduler or the block master.
    Dag(DagMutant),
    /// Of who gets an executor's memory.
    Memory(MemoryMutant),
}

/// Every mistake, with the beginnings of the ids of the rules that it breaks.
pub const MUTANTS: &[(Mistake, &[&str])] = &[
    (Mistake::Cluster(Mutant::ForgetsLostLaunches), &["L01", "L02"]),
    (Mistake::Cluster(Mutant::ObeysOldRegistrations), &["S", "L"]),
    (Mistake::Cluster(Mutant::ReportsEndsOnce), &["L01", "L02", "L03"]),
    (Mistake::Cluster(Mutant::TakesLostExecutorsBack), &["S04", "L"]),
    (Mistake::Cluster(Mutant::IgnoresSilence), &["L05", "L01", "L02"]),
    (Mistake::Cluster(Mutant::OutlivesDriver), &["L03", "L01"]),
    (Mistake::Cluster(Mutant::ForgivesOnStart), &["L02"]),
    (Mistake::Cluster(Mutant::ReusesRegistrations), &["S", "L"]),
    (Mistake::Cluster(Mutant::KeepsSilentApplications), &["L01", "L02", "L03"]),
    (Mistake::Cluster(Mutant::ClearsTasksByExitZero), &["L06", "L02"]),
    (Mistake::Cluster(Mutant::ClearsTasksBySilence), &["L06", "L02"]),
    (Mistake::Cluster(Mutant::CancelsBeforeItEnds), &["L02"]),
    (Mistake::Cluster(Mutant::IgnoresMastersTimeout), &["L01", "L02", "L03", "L06", "S25"]),
    (Mistake::Cluster(Mutant::ReleasesOnce), &["L01", "L02", "L03"]),
    (Mistake::Cluster(Mutant::ReusesNumbers), &["S01", "S04", "S05", "L"]),
    (Mistake::Cluster(Mutant::CountsLaunchesGlobally), &["L06"]),
    (Mistake::Cluster(Mutant::RelaunchesAtOnce), &["L06"]),
    (Mistake::Cluster(Mutant::TrustsItsClock), &["L01", "L02", "L03"]),
    (Mistake::Cluster(Mutant::JudgesBacklog), &["L10"]),
    (Mistake::Cluster(Mutant::JudgesWorkersBacklog), &["L10"]),
    (Mistake::Cluster(Mutant::TakesExecutorsWithoutAddress), &["S22", "L02", "L07"]),
    (Mistake::Cluster(Mutant::ClearsTasksByOwnCodes), &["L06", "L02"]),
    (Mistake::Cluster(Mutant::RemovesOneByOne), &["S04"]),
    (Mistake::Cluster(Mutant::RemovesFilesInUse), &["S23"]),
    (Mistake::Cluster(Mutant::CleansUpRunningDrivers), &["S23"]),
    (Mistake::Cluster(Mutant::IgnoresPreparing), &["L11"]),
    (Mistake::Cluster(Mutant::KeepsItsTerm), &["S15", "S24", "S06", "L"]),
    (Mistake::Cluster(Mutant::LeavesNoRoomForTerms), &["S15"]),
    (Mistake::Cluster(Mutant::IgnoresItsLease), &["S24", "S15"]),
    (Mistake::Cluster(Mutant::IgnoresDeposition), &["S24", "S15"]),
    (Mistake::Cluster(Mutant::PersistsLast), &["S15"]),
    (Mistake::Cluster(Mutant::PersistsNoExecutors), &["S15"]),
    (Mistake::Cluster(Mutant::PersistsNoLimits), &["S15"]),
    (Mistake::Cluster(Mutant::ForgetsTheQueue), &["S15"]),
    (Mistake::Cluster(Mutant::DropsTheUnknown), &["S25", "L"]),
    (Mistake::Cluster(Mutant::WaitsForTheUnknown), &["L01", "L02", "L03", "L05"]),
    (Mistake::Cluster(Mutant::KillsTheUnknown), &["S25"]),
    (Mistake::Cluster(Mutant::LosesWorkersAtOnce), &["S25"]),
    (Mistake::Cluster(Mutant::SparesTheCutOff), &["L05"]),
    (Mistake::Cluster(Mutant::KeepsOldLocations), &["S21", "L07"]),
    (Mistake::Cluster(Mutant::ForgetsWhatDidNotCome), &["L07"]),
    (Mistake::Cluster(Mutant::AnswersAllOrNothing), &["L07"]),
    (Mistake::Cluster(Mutant::NeverAsksAgain), &["L07"]),
    (Mistake::Cluster(Mutant::AdoptsTheReleased), &["L01"]),
    (Mistake::Cluster(Mutant::TrustsAnyApplication), &["S27"]),
    (Mistake::Cluster(Mutant::RelaunchesDriversAtOnce), &["S36"]),
    (Mistake::Cluster(Mutant::RunsDriversWithoutLease), &["S36"]),
    (Mistake::Cluster(Mutant::UsesDecommissionedWorkers), &["S37"]),
    (Mistake::Cluster(Mutant::ForgetsItWasDecommissioned), &["L13"]),
    (Mistake::Cluster(Mutant::KeepsDecommissionedExecutors), &["L01"]),
    (Mistake::Dag(DagMutant::IgnoresChecksums), &["S20"]),
    (Mistake::Dag(DagMutant::KeepsOutdatedOutputs), &["S20"]),
    (Mistake::Dag(DagMutant::DeliversTwoGenerations), &["S20"]),
    (Mistake::Dag(DagMutant::FindsOneOutputPerAttempt), &["L07"]),
    (Mistake::Dag(DagMutant::KeepsUnreadableOutputs), &["L07", "L02"]),
    (Mistake::Dag(DagMutant::KeepsEpoch), &["S21"]),
    (Mistake::Dag(DagMutant::KeepsBlocksOfLostHolders), &["S22"]),
    (Mistake::Dag(DagMutant::NeverHeals), &["L08"]),
    (Mistake::Dag(DagMutant::NeverReplicatesAgain), &["L08"]),
    (Mistake::Dag(DagMutant::NotesOutdatedBlocks), &["S20", "L08"]),
    (Mistake::Dag(DagMutant::AssignsPiecesOfLostHolders), &["S22"]),
    (Mistake::Dag(DagMutant::UsesDecommissionedExecutors), &["S13"]),
    (Mistake::Dag(DagMutant::UsesExcludedExecutors), &["S13"]),
    (Mistake::Dag(DagMutant::CountsLossesByAttempt), &["L06", "L02"]),
    (Mistake::Memory(MemoryMutant::GrantsTwice), &["S26"]),
    (Mistake::Memory(MemoryMutant::NeverWaits), &["L12"]),
    (Mistake::Memory(MemoryMutant::WaitsAgain), &["L12"]),
    (Mistake::Memory(MemoryMutant::GrantsBeyondShares), &["L12"]),
    (Mistake::Memory(MemoryMutant::PinsWithoutLimit), &["L12"]),
    (Mistake::Memory(MemoryMutant::EvictsBelowTheFloor), &["S26"]),
    (Mistake::Memory(MemoryMutant::NeverWakes), &["L12"]),
    (Mistake::Memory(MemoryMutant::KeepsLastResorts), &["L12"]),
];

/// What so many runs with a mistake in them break first.
pub fn first_violation(mistake: Mistake, runs: u64) -> Option<String> {
    let settings = match mistake {
        Mistake::Cluster(mutant) => {
            Settings { planted: Planted::only(mutant), ..Settings::default() }
        }
        Mistake::Dag(mutant) => {
            Settings { planted_dag: PlantedDag::only(mutant), ..Settings::default() }
        }
        Mistake::Memory(mutant) => {
            Settings { planted_memory: PlantedMemory::only(mutant), ..Settings::default() }
        }
    };
    (0..runs).find_map(|seed| simulate(seed, &settings).err()).map(|broken| broken.message)
}

/// Whether that is one of the rules it should break.
pub fn is_caught(broken: Option<&str>, rules: &[&str]) -> bool {
    broken.is_some_and(|broken| rules.iter().any(|rule| broken.starts_with(rule)))
}
