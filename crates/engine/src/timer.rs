//! The timer thread: sleeps until the earliest moment a scheduler asked for. Started when the first
//! one is asked for; most jobs never do.

use std::sync::Arc;
use std::time::Duration;

use firesteel_scheduler::SchedulerInput;

use super::state::State;
use super::{Engine, local};

pub(super) fn ensure_running(engine: &Arc<Engine>, state: &mut State) {
    if state.timer_running || state.stopped {
        return;
    }
    let shared = engine.clone();
    let thread = std::thread::Builder::new().name("firesteel-timer".into());
    match thread.spawn(move || local::guarded(&shared, run)) {
        Ok(thread) => {
            state.timer_running = true;
            state.threads.push(thread);
        }
        Err(error) => tracing::error!(%error, "could not start the timer thread"),
    }
}

fn run(engine: &Arc<Engine>) {
    let mut state = engine.lock();
    while !state.stopped {
        let now = engine.now();
        match state.timers.first().copied() {
            Some(at) if at <= now => {
                state.timers.retain(|timer| *timer > now);
                engine.carry_out(state, SchedulerInput::Ticked);
                state = engine.lock();
            }
            Some(at) => {
                let wait = Duration::from_millis(at.since_ms(now).max(1));
                state = match engine.timer.wait_timeout(state, wait) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
            None => state = engine.wait(&engine.timer, state),
        }
    }
}
