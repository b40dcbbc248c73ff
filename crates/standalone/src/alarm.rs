//! Waits for the moment a core wants to be woken at.

use std::sync::Mutex;

use firesteel_backend::timer::Timer;
use firesteel_storage::Clock;
use firesteel_types::Tick;
use tokio::sync::Notify;

/// A core's timer, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    timer: Mutex<Timer>,
    changed: Notify,
}

/// The moment has come.
struct Due;

impl Alarm {
    /// Rings at this moment, and no longer at the one before.
    pub(crate) fn arm(&self, at: Tick) {
        self.timer.lock().expect("no panic while it is locked").arm(at);
        self.changed.notify_one();
    }

    /// Waits until it rings; then nothing is armed.
    pub(crate) async fn ring(&self, clock: &Clock) {
        loop {
            match self.next_unless_due(clock.now()) {
                Err(Due) => return,
                Ok(None) => self.changed.notified().await,
                Ok(Some(at)) => tokio::select! {
                    () = tokio::time::sleep(clock.until(at)) => {}
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    /// The next moment; one that has come is taken in the same step, so that none is lost that is asked for meanwhile.
    fn next_unless_due(&self, now: Tick) -> Result<Option<Tick>, Due> {
        let mut timer = self.timer.lock().expect("no panic while it is locked");
        if timer.rings(now) { Err(Due) } else { Ok(timer.next()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_moment_that_is_over_rings_at_once_and_the_last_one_asked_for_counts() {
        let (alarm, clock) = (Alarm::default(), Clock::new());
        alarm.arm(clock.now().plus_ms(3_600_000));
        alarm.arm(Tick(1));
        alarm.ring(&clock).await;
        assert_eq!(alarm.timer.lock().unwrap().next(), None);
        alarm.arm(Tick(1));
        let later = clock.now().plus_ms(20);
        alarm.arm(later);
        alarm.ring(&clock).await;
        assert!(clock.now() >= later, "the moment before it is asked for no more");
    }
}
