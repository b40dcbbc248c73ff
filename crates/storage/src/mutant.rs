//! Mistakes that the simulator plants to show that it would find them. Without the feature `mutants`
//! none of them can be chosen, and the compiler removes the questions.

/// One mistake in who gets memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// What tasks have is granted again.
    GrantsTwice,
    /// A task that is sure of what it asks for is refused at once (engine review 3).
    NeverWaits,
    /// A task that has waited as long as it may waits again.
    WaitsAgain,
    /// A task gets whatever is free, though others are to have it (engine review 3).
    GrantsBeyondShares,
    /// Map outputs in memory take all that is free (engine review 2).
    PinsWithoutLimit,
    /// Cached partitions are evicted for tasks beyond what storage keeps (engine review 2).
    EvictsBelowTheFloor,
    /// Those who wait are not told that something was given back.
    NeverWakes,
    /// The right to a last resort stays with a task that is over.
    KeepsLastResorts,
}

/// The mistake that is made, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted(Option<Mutant>);

impl Planted {
    pub fn only(mutant: Mutant) -> Self {
        Planted(Some(mutant))
    }

    /// Whether this mistake is made: never, without the feature.
    pub(crate) fn is(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.0 == Some(mutant)
    }
}
