//! Mistakes planted into the allocator one by one, and the rules that find them out.

use firesteel_kubernetes_core::mutant::{Mutant, Planted};

use super::simulate_pods;

/// Every mistake, with the beginnings of the ids of the rules that it breaks.
pub const POD_MUTANTS: &[(Mutant, &[&str])] = &[
    (Mutant::CountsSeenPodsOnly, &["S14", "S12", "L01"]),
    (Mutant::AwaitsLostCreates, &["L01", "L03"]),
    (Mutant::TakesNewNumbers, &["S14", "S31"]),
    (Mutant::AwaitsUnseenPods, &["L01", "L22"]),
    (Mutant::TrustsStaleLists, &["S12", "S32", "S39", "L0"]),
    (Mutant::TrustsWatchesAlone, &["S12"]),
    (Mutant::ResumesExpiredWatches, &["L21", "L23", "S12"]),
    (Mutant::WatchesOnce, &["L21", "L23"]),
    (Mutant::ListsOnce, &["L01", "L03", "L21", "L23"]),
    (Mutant::CountsTerminatingPods, &["L01", "L21"]),
    (Mutant::BlamesApplication, &["S12"]),
    (Mutant::ForgivesApplication, &["L01"]),
    (Mutant::CountsQuota, &["L02"]),
    (Mutant::IgnoresRetryAfter, &["S34"]),
    (Mutant::ReusesNumbers, &["S05", "S32", "L01"]),
    (Mutant::LeavesPreviousGeneration, &["L01", "L03"]),
    (Mutant::AwaitsRegistration, &["L01"]),
    (Mutant::DeletesOnce, &["L01", "L03"]),
    (Mutant::NeverForces, &["L01", "L03"]),
    (Mutant::EndsWorkingExecutors, &["S32"]),
    (Mutant::IgnoresBatches, &["S31", "S14"]),
    (Mutant::IgnoresPendingLimit, &["S31"]),
    (Mutant::KeepsNoPods, &["S33"]),
    (Mutant::EndsBeforeAnswers, &["L03"]),
    (Mutant::SaysNothing, &["L22"]),
    (Mutant::ForgivesNodes, &["S35"]),
    (Mutant::AwaitsRights, &["L01"]),
    (Mutant::TakesPodsOfOthers, &["S38"]),
    (Mutant::TrustsSilentNodes, &["L23"]),
    (Mutant::AwaitsKubelets, &["L23"]),
    (Mutant::ForgetsReasons, &["S33"]),
    (Mutant::SharesClaims, &["S39"]),
];

/// What the first of so many runs broke that broke something, with this mistake.
pub fn first_pod_violation(mutant: Mutant, runs: u64) -> Option<String> {
    let planted = Planted::only(mutant);
    (0..runs)
        .find_map(|seed| simulate_pods(seed, planted, false).err())
        .map(|broken| broken.message)
}
