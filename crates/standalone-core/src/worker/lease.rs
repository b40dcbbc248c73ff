//! How long a worker's supervised drivers may run: for a while after each heartbeat that a master answered.
//!
//! A master starts such a driver elsewhere when the worker is lost, which may only have been cut off. So each of the two counts
//! from a heartbeat: the worker from when it sent one that was answered, the master from when it heard the last one, which is
//! later, and longer. What the worker may be unable to do then, the guard does that it told of every answer (S36).

use firesteel_types::Tick;

#[derive(Debug, Default)]
pub(super) struct Lease {
    /// How long a heartbeat counts; 0: for ever.
    length_ms: u64,
    /// The last report that was sent, and when.
    sent: Option<(u64, Tick)>,
    /// Until when supervised drivers may run.
    until: Tick,
}

impl Lease {
    /// The master that took the worker in says how long heartbeats count there. Those of before count as they did.
    pub(super) fn set_length(&mut self, length_ms: u64) {
        self.length_ms = length_ms;
        self.sent = None;
    }

    /// A report is sent that will be answered.
    pub(super) fn sends(&mut self, number: u64, now: Tick) {
        self.sent = Some((number, now));
    }

    /// The report of this number was answered: the new end of the lease. `None` if it has none, or this was not the last report.
    pub(super) fn is_answered(&mut self, number: u64) -> Option<Tick> {
        let (_, at) = self.sent.filter(|(sent, _)| *sent == number && self.length_ms > 0)?;
        self.until = self.until.max(at.plus_ms(self.length_ms));
        Some(self.until)
    }

    /// Whether supervised drivers may be started.
    pub(super) fn holds(&self, now: Tick) -> bool {
        self.length_ms == 0 || now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_when_the_answered_report_was_sent() {
        let mut lease = Lease::default();
        assert!(lease.holds(Tick(5)), "nobody asks for one");
        lease.set_length(100);
        assert!(!lease.holds(Tick(5)));
        lease.sends(1, Tick(10));
        assert_eq!(lease.is_answered(1), Some(Tick(110)), "not from when the answer came");
        assert!(lease.holds(Tick(109)) && !lease.holds(Tick(110)));
        lease.sends(2, Tick(50));
        assert_eq!(lease.is_answered(1), None, "an answer to an older one says less");
        assert_eq!(lease.is_answered(2), Some(Tick(150)));
        lease.set_length(100);
        assert_eq!(lease.is_answered(2), None, "that was another master");
        lease.set_length(0);
        assert!(lease.holds(Tick(1000)));
    }
}
