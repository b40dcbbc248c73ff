//! The moment a core wants to be woken at. One is enough: a core that wants a later one too asks again
//! when it is woken.

use std::sync::Mutex;

use firesteel_storage::Clock;
use firesteel_types::Tick;
use tokio::sync::Notify;

/// The earliest moment that was asked for and has not come yet.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    at: Mutex<Option<Tick>>,
    changed: Notify,
}

/// The moment has come.
struct Due;

impl Alarm {
    /// Rings at this moment, unless it rings earlier.
    pub(crate) fn arm(&self, tick: Tick) {
        let mut at = self.at.lock().expect("no panic while it is locked");
        *at = Some(at.map_or(tick, |earlier| earlier.min(tick)));
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
        let mut at = self.at.lock().expect("no panic while it is locked");
        match at.take_if(|at| *at <= now) {
            Some(_) => Err(Due),
            None => Ok(*at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_earliest_moment_rings_and_one_that_is_over_rings_at_once() {
        let (alarm, clock) = (Alarm::default(), Clock::new());
        alarm.arm(Tick(clock.now().0 + 3_600_000));
        alarm.arm(Tick(1));
        alarm.arm(Tick(clock.now().0 + 7_200_000));
        alarm.ring(&clock).await;
        assert!(alarm.at.lock().unwrap().is_none());
    }
}
