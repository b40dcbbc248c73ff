//! Mistakes that the simulator plants to show that it would find them. Without the feature `mutants`
//! none of them can be chosen, and the compiler removes the questions.

/// One mistake in the DAG scheduler, the task scheduler or the block master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Map outputs that come out different are taken for the same.
    IgnoresChecksums,
    /// Map outputs stay that were computed from another generation.
    KeepsOutdatedOutputs,
    /// A result stage goes on after it delivered results of another generation.
    DeliversTwoGenerations,
    /// Of the outputs that an executor cannot serve one is unregistered, and every such attempt counts.
    FindsOneOutputPerAttempt,
    /// A fetch failure unregisters nothing.
    KeepsUnreadableOutputs,
    /// Locations of map outputs change without a new epoch.
    KeepsEpoch,
    /// Cached partitions of lost holders stay, and are noted of them.
    KeepsBlocksOfLostHolders,
    /// What holders say that they cache is not compared with what is known.
    NeverHeals,
    /// Cached partitions that lost a replica get no other.
    NeverReplicatesAgain,
    /// Cached partitions of tasks that were launched before a roll-back count, and executors are not told.
    NotesOutdatedBlocks,
    /// Readers get pieces of broadcast values from lost holders.
    AssignsPiecesOfLostHolders,
    /// Executors that are to go get new tasks.
    UsesDecommissionedExecutors,
    /// Executors on which too much failed get new tasks of the application.
    UsesExcludedExecutors,
    /// Losses of executors count against the attempt of a stage that saw them, not against its task (confirmed case 4).
    CountsLossesByAttempt,
}

/// The mistake the scheduler makes, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted(Option<Mutant>);

impl Planted {
    pub fn only(mutant: Mutant) -> Self {
        Planted(Some(mutant))
    }

    /// Whether the scheduler makes this mistake: never, without the feature.
    pub(crate) fn is(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.0 == Some(mutant)
    }
}
