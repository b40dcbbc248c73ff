//! When the scheduler must be woken: the one timer of its shell, and the next look out for slow tasks.

use firesteel_types::Tick;

/// The one timer that the shell holds for the scheduler.
#[derive(Debug, Default)]
pub(super) struct Timer {
    /// The moment the shell was asked for.
    armed: Option<Tick>,
    next_check: Option<Tick>,
}

impl Timer {
    /// Time has passed. A timer that came early is asked for again.
    pub(super) fn passed(&mut self, now: Tick, ticked: bool) {
        if ticked || self.armed.is_some_and(|armed| armed <= now) {
            self.armed = None;
        }
    }

    /// Whether the shell owes the moment it was asked for: a process that stood still hears other things first.
    pub(super) fn is_overdue(&self, now: Tick) -> bool {
        self.armed.is_some_and(|armed| armed <= now)
    }

    /// Books a look out for slow tasks, unless there is one.
    pub(super) fn book_check(&mut self, at: Tick) {
        self.next_check.get_or_insert(at);
    }

    /// Whether the look out for slow tasks has fallen due. It has to be booked again.
    pub(super) fn take_check(&mut self, now: Tick) -> bool {
        self.next_check.take_if(|check| *check <= now).is_some()
    }

    /// The moment to ask the shell for, given what else falls due: none, if it was asked for one that comes no later.
    pub(super) fn arm(&mut self, due: impl IntoIterator<Item = Tick>) -> Option<Tick> {
        let wake = due.into_iter().chain(self.next_check).min()?;
        if self.armed.is_some_and(|armed| armed <= wake) {
            return None;
        }
        self.armed = Some(wake);
        self.armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_asked_once_for_the_next_moment_and_again_when_it_came_early() {
        let mut timer = Timer::default();
        assert_eq!(timer.arm([]), None);
        assert_eq!(timer.arm([Tick(50)]), Some(Tick(50)));
        timer.book_check(Tick(20));
        timer.book_check(Tick(10));
        assert_eq!((timer.arm([Tick(50)]), timer.arm([Tick(50)])), (Some(Tick(20)), None));
        timer.passed(Tick(19), false);
        assert_eq!((timer.take_check(Tick(19)), timer.arm([])), (false, None));
        timer.passed(Tick(19), true);
        assert_eq!(timer.arm([]), Some(Tick(20)));
        timer.passed(Tick(20), false);
        assert_eq!((timer.take_check(Tick(20)), timer.arm([])), (true, None));
    }
}
