//! The one timer that a core asks its shell for, as the shell has it. Every shell uses this: a shell that kept the earlier of two
//! moments lost the later one when an event came just as the timer fell due.

use firesteel_types::Tick;

/// The moment that a core asked for last. A core asks for the earliest of all that it waits for, and counts on being woken then; the
/// moments it asked for before that count no more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    at: Option<Tick>,
}

impl Timer {
    /// Carries out a core's `ArmTimer`.
    pub fn arm(&mut self, at: Tick) {
        self.at = Some(at);
    }

    /// When to wake the core; `None` while it waits for nothing.
    pub fn next(&self) -> Option<Tick> {
        self.at
    }

    /// Whether to wake the core now. Then nothing is armed until it asks again.
    pub fn rings(&mut self, now: Tick) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_rings_once_and_not_before_its_moment() {
        let mut timer = Timer::default();
        assert!(!timer.rings(Tick(9)));
        timer.arm(Tick(10));
        assert_eq!((timer.rings(Tick(9)), timer.next()), (false, Some(Tick(10))));
        assert_eq!((timer.rings(Tick(11)), timer.rings(Tick(12))), (true, false));
    }

    #[test]
    fn a_moment_asked_for_when_the_one_before_was_due_and_had_not_rung_is_not_lost() {
        let mut timer = Timer::default();
        timer.arm(Tick(10));
        // An event came first, at 12: the core has no more to do before 50.
        timer.arm(Tick(50));
        assert!(!timer.rings(Tick(12)));
        assert!(timer.rings(Tick(50)));
    }
}
