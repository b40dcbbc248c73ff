//! Who computes what: of several threads that want a block which is not there, one computes it and
//! the others wait for that one. A claim ends with the value that stands for it, so nobody waits for
//! somebody who has failed.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::BlockId;

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The block is there, or was for a moment.
    Cached,
    /// It was computed, but storage memory and disk did not take it.
    NotCached,
    /// It was not computed to its end.
    Abandoned,
}

#[derive(Default)]
struct Turn {
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

/// The blocks that are being computed.
#[derive(Default)]
pub(crate) struct Claims {
    turns: Mutex<BTreeMap<BlockId, Arc<Turn>>>,
}

/// Whose turn it is.
pub enum Claim<'a> {
    /// The caller's: nobody else computes it meanwhile.
    Mine(Claimed<'a>),
    Theirs(Waiting),
}

/// The right to compute a block; dropping it releases the right.
pub struct Claimed<'a> {
    claims: &'a Claims,
    id: BlockId,
    turn: Arc<Turn>,
    outcome: Outcome,
}

/// The turn of another thread, which computes the block.
pub struct Waiting(Arc<Turn>);

const UNBROKEN: &str = "nothing panics under this lock";

impl Claims {
    pub(crate) fn claim(&self, id: BlockId) -> Claim<'_> {
        let mut turns = self.lock();
        if let Some(turn) = turns.get(&id) {
            return Claim::Theirs(Waiting(turn.clone()));
        }
        let turn = Arc::<Turn>::default();
        turns.insert(id, turn.clone());
        Claim::Mine(Claimed { claims: self, id, turn, outcome: Outcome::Abandoned })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BlockId, Arc<Turn>>> {
        self.turns.lock().expect(UNBROKEN)
    }
}

impl Claimed<'_> {
    /// Ends the claim and tells those who wait.
    pub fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.id);
        *self.turn.outcome.lock().expect(UNBROKEN) = Some(self.outcome);
        self.turn.ended.notify_all();
    }
}

impl Waiting {
    /// Waits for the end of the other's turn, but no longer than this.
    pub fn wait(&self, at_most: Duration) -> Option<Outcome> {
        let outcome = self.0.outcome.lock().expect(UNBROKEN);
        let running = |outcome: &mut Option<Outcome>| outcome.is_none();
        let waited = self.0.ended.wait_timeout_while(outcome, at_most, running);
        *waited.expect(UNBROKEN).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_types::RddId;

    const BLOCK: BlockId = BlockId::Rdd(RddId(1), 2);

    #[test]
    fn one_thread_has_the_claim_and_the_others_hear_how_it_ended() {
        let claims = Claims::default();
        for outcome in [Outcome::Cached, Outcome::NotCached] {
            let Claim::Mine(mine) = claims.claim(BLOCK) else { panic!("it is free") };
            let Claim::Theirs(waiting) = claims.claim(BLOCK) else { panic!("it is taken") };
            assert!(matches!(claims.claim(BlockId::Rdd(RddId(1), 3)), Claim::Mine(_)));
            assert_eq!(waiting.wait(Duration::ZERO), None);
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| waiting.wait(Duration::from_secs(60)));
                mine.end(outcome);
                assert_eq!(waits.join().unwrap(), Some(outcome));
            });
        }
    }

    #[test]
    fn a_claim_ends_with_the_thread_that_panics() {
        let claims = Claims::default();
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _mine = claims.claim(BLOCK);
                panic!("on purpose");
            });
            thread.join().is_err()
        });
        assert!(panicked);
        assert!(matches!(claims.claim(BLOCK), Claim::Mine(_)));
    }
}
