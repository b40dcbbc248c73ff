//! When a master acts although nobody told it to: its looks at who is silent, launches that it tries again, and
//! what it schedules because of a change.

use firesteel_types::Tick;

/// What a tick means for the regular look at workers and applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is not due yet.
    Early,
    Due,
    /// It is overdue: this process stood still.
    Late,
}

/// What falls due when, and the timer for it.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    next_look: Option<Tick>,
    /// When an application may have executors that it may not have now.
    next_retry: Option<Tick>,
    armed: Option<Tick>,
    /// Something changed that may let something run.
    reschedule: bool,
}

impl Agenda {
    /// Something changed that may let something run.
    pub(super) fn reschedule(&mut self) {
        self.reschedule = true;
    }

    /// The same, if so.
    pub(super) fn reschedule_if(&mut self, changed: bool) {
        self.reschedule |= changed;
    }

    /// Whether to schedule now. What is to be tried again later is noted anew by that.
    pub(super) fn take_reschedule(&mut self) -> bool {
        let due = std::mem::take(&mut self.reschedule);
        if due {
            self.next_retry = None;
        }
        due
    }

    /// Schedules again at that moment, if it lies ahead.
    pub(super) fn retry_at(&mut self, now: Tick, at: Option<Tick>) {
        let at = at.filter(|at| *at > now);
        self.next_retry = self.next_retry.into_iter().chain(at).min();
    }

    /// Begins anew: the first look is so far away.
    pub(super) fn begin(&mut self, now: Tick, look_every_ms: u64) {
        let next_look = Some(now.plus_ms(look_every_ms));
        *self = Agenda { next_look, reschedule: true, ..Agenda::default() };
    }

    /// There is nothing to do any more.
    pub(super) fn end(&mut self) {
        *self = Agenda::default();
    }

    /// A tick came for which there is nothing to do.
    pub(super) fn rang(&mut self, now: Tick) {
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
        }
    }

    /// A tick came. One that makes a look due books the next one.
    pub(super) fn ticked(&mut self, now: Tick, look_every_ms: u64) -> Look {
        self.rang(now);
        self.reschedule |= self.next_retry.is_some_and(|at| at <= now);
        if self.next_look.is_some_and(|at| now < at) {
            return Look::Early;
        }
        let late = self.next_look.is_some_and(|at| now.since_ms(at) > look_every_ms);
        self.reschedule = true;
        self.next_look = Some(now.plus_ms(look_every_ms));
        if late { Look::Late } else { Look::Due }
    }

    /// The moment to be woken at, unless that is asked for already; `also`: something else falls due then.
    pub(super) fn arm(&mut self, now: Tick, also: Option<Tick>) -> Option<Tick> {
        let also = also.map(|at| at.max(now.plus_ms(1)));
        let wake = self.next_look.into_iter().chain(self.next_retry).chain(also).min()?;
        let asked = self.armed.is_some_and(|armed| armed <= wake && armed > now);
        if asked {
            return None;
        }
        self.armed = Some(wake);
        Some(wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_at_once_and_then_at_its_interval() {
        let mut agenda = Agenda::default();
        assert_eq!(agenda.ticked(Tick(5), 100), Look::Due);
        assert_eq!(agenda.arm(Tick(5), None), Some(Tick(105)));
        assert_eq!(agenda.arm(Tick(50), None), None, "it is asked for already");
        assert_eq!(agenda.ticked(Tick(104), 100), Look::Early);
        assert_eq!(agenda.ticked(Tick(205), 100), Look::Due);
        assert_eq!(agenda.ticked(Tick(406), 100), Look::Late);
    }

    #[test]
    fn a_retry_wakes_before_the_look_and_is_noted_anew_each_time() {
        let mut agenda = Agenda::default();
        agenda.ticked(Tick(0), 100);
        assert!(agenda.take_reschedule());
        agenda.retry_at(Tick(0), Some(Tick(40)));
        agenda.retry_at(Tick(0), Some(Tick(30)));
        agenda.retry_at(Tick(0), Some(Tick(0)));
        assert_eq!(agenda.arm(Tick(0), None), Some(Tick(30)));
        assert_eq!((agenda.ticked(Tick(30), 100), agenda.take_reschedule()), (Look::Early, true));
        assert_eq!(
            (agenda.arm(Tick(30), None), agenda.take_reschedule()),
            (Some(Tick(100)), false)
        );
    }
}
