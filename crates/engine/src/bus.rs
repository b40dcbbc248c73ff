//! The listener bus: events in the order they happened, to every listener, each on a thread of its own.
//!
//! Every listener has a queue of its own, which is bounded
//! (`spark.scheduler.listenerbus.eventqueue.NAME.capacity`): one that cannot keep up loses events, which are counted
//! and told once a minute, and costs nobody else any. The schedulers never wait. Without listeners nothing is queued
//! and no thread runs.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firesteel_types::Event;

use crate::observe::{Observation, Observed};

/// How often lost events are told of.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// An application that ends waits so long for the rest of its event log: a disk may never answer.
const LOG_TIME: Duration = Duration::from_secs(30);

/// Hears what happens in an application.
pub trait Listener: Send {
    /// Called for each event, in order, on the listener's thread.
    fn on_event(&mut self, event: &Event);

    /// Called when the listener was too slow: so many events went lost since it was told last. The end of the
    /// application is never lost.
    fn on_lost(&mut self, _events: u64) {}

    /// Whose queue it has: `eventLog` for a log of events, `shared` for all that programs add.
    fn queue(&self) -> &'static str {
        SHARED
    }
}

/// The name of the queues of listeners that programs add.
pub(crate) const SHARED: &str = "shared";
/// The name of the queue of the event log.
pub(crate) const EVENT_LOG: &str = "eventLog";

impl<F: FnMut(&Event) + Send> Listener for F {
    fn on_event(&mut self, event: &Event) {
        self(event);
    }
}

/// The queues of all listeners.
#[derive(Default)]
pub(crate) struct Bus {
    active: AtomicBool,
    queues: Mutex<Queues>,
    observation: Observation,
}

#[derive(Default)]
struct Queues {
    all: Vec<Arc<Queue>>,
    closed: bool,
}

impl Bus {
    pub(crate) fn new(observation: Observation) -> Self {
        Bus { observation, ..Bus::default() }
    }

    /// Adds a listener with a queue of this name and capacity; it hears everything from now on.
    pub(crate) fn add(&self, name: &'static str, capacity: usize, listener: Box<dyn Listener>) {
        let mut queues = lock(&self.queues);
        if queues.closed {
            return;
        }
        let patience = (name == EVENT_LOG).then_some(LOG_TIME);
        let observation = self.observation.clone();
        if let Some(queue) = Queue::start(name, capacity, patience, observation, listener) {
            queues.all.push(queue);
            self.active.store(true, Ordering::Release);
        }
    }

    /// Queues an event; never waits for listeners.
    #[inline]
    pub(crate) fn post(&self, event: &Event) {
        if self.active.load(Ordering::Acquire) {
            self.queue(&Arc::new(event.clone()));
        }
    }

    fn queue(&self, event: &Arc<Event>) {
        // Under the lock: all queues have the same order.
        let queues = lock(&self.queues);
        queues.all.iter().for_each(|queue| queue.push(event));
    }

    /// Waits until every event posted so far was heard, or lost.
    pub(crate) fn drain(&self) {
        let queues = lock(&self.queues).all.clone();
        queues.iter().for_each(|queue| queue.drain());
    }

    /// How the queues stand: name, events that wait, events that were lost. Queues of one name are told together.
    pub(crate) fn queues(&self) -> Vec<(&'static str, u64, u64)> {
        let mut found: Vec<(&'static str, u64, u64)> = Vec::new();
        for queue in &lock(&self.queues).all {
            let state = lock(&queue.state);
            let (size, lost) = (state.events.len() as u64, state.lost.total);
            match found.iter_mut().find(|(name, ..)| *name == queue.name) {
                Some(known) => (known.1, known.2) = (known.1 + size, known.2 + lost),
                None => found.push((queue.name, size, lost)),
            }
        }
        found
    }

    /// Delivers what is queued, then ends.
    pub(crate) fn close(&self) {
        let queues = {
            let mut queues = lock(&self.queues);
            queues.closed = true;
            self.active.store(false, Ordering::Release);
            take(&mut queues.all)
        };
        queues.iter().for_each(|queue| queue.close());
    }
}

/// The events that one listener has not heard yet.
struct Queue {
    name: &'static str,
    capacity: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// How long the queue is waited for when it is closed; `None`: as long as it takes.
    patience: Option<Duration>,
    observation: Observation,
}

#[derive(Default)]
struct State {
    events: VecDeque<Arc<Event>>,
    lost: Lost,
    delivering: bool,
    closed: bool,
    /// The thread has nothing more to do.
    ended: bool,
    thread: Option<JoinHandle<()>>,
}

/// Events that a queue had no room for.
#[derive(Default)]
struct Lost {
    /// Lost since the last warning about it was logged.
    untold: u64,
    /// The listener has not been told of these.
    unheard: u64,
    total: u64,
    told_at: Option<Instant>,
}

impl Lost {
    /// Counts one more; how many are to be told of now.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        self.unheard += 1;
        self.total += 1;
        let is_due = self.told_at.is_none_or(|told| now.duration_since(told) >= TOLD_EVERY);
        is_due.then(|| {
            self.told_at = Some(now);
            take(&mut self.untold)
        })
    }
}

impl Queue {
    /// Starts the listener's thread; without one it hears nothing.
    fn start(
        name: &'static str,
        capacity: usize,
        patience: Option<Duration>,
        observation: Observation,
        listener: Box<dyn Listener>,
    ) -> Option<Arc<Self>> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { name, capacity, state, changed, patience, observation });
        let own = queue.clone();
        let thread = std::thread::Builder::new().name("firesteel-listener".into());
        match thread.spawn(move || own.dispatch(listener)) {
            Ok(thread) => {
                lock(&queue.state).thread = Some(thread);
                Some(queue)
            }
            Err(error) => {
                tracing::error!(%error, queue = name, "a listener could not be started");
                None
            }
        }
    }

    fn push(&self, event: &Arc<Event>) {
        let mut state = lock(&self.state);
        if state.closed {
            return;
        }
        let is_end = matches!(**event, Event::ApplicationEnd { .. });
        if state.events.len() >= self.capacity && !is_end {
            if let Some(lost) = state.lost.add(Instant::now()) {
                self.warn(lost);
            }
            return;
        }
        state.events.push_back(event.clone());
        if state.events.len() == 1 {
            self.changed.notify_all();
        }
    }

    fn warn(&self, lost: u64) {
        tracing::warn!(queue = self.name, lost, "a listener is too slow and lost events");
    }

    /// Waits until all was heard; a listener does not wait for itself.
    fn drain(&self) {
        let mut state = lock(&self.state);
        if state.thread.as_ref().is_some_and(is_current) {
            return;
        }
        while !state.closed && (state.delivering || !state.events.is_empty()) {
            state = self.wait(state);
        }
    }

    fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let lost = take(&mut state.lost.untold);
        let thread = state.thread.take();
        drop(state);
        if lost > 0 {
            self.warn(lost);
        }
        self.changed.notify_all();
        if let Some(thread) = thread.filter(|thread| !is_current(thread))
            && self.ends_in_time()
        {
            let _ = thread.join();
        }
    }

    /// Whether the thread has heard everything, or is waited for however long it takes.
    fn ends_in_time(&self) -> bool {
        let Some(patience) = self.patience else { return true };
        let has_work = |state: &mut State| !state.ended;
        let waited = self.changed.wait_timeout_while(lock(&self.state), patience, has_work);
        let (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        if !state.ended {
            let seconds = patience.as_secs();
            tracing::error!(
                queue = self.name,
                seconds,
                "a listener did not end in time and is left behind"
            );
        }
        state.ended
    }

    fn dispatch(&self, listener: Box<dyn Listener>) {
        let mut listener = Some(listener);
        let mut state = lock(&self.state);
        loop {
            if state.events.is_empty() {
                if state.closed {
                    // What the listener holds on to goes with the application, and not under the lock.
                    let lost = take(&mut state.lost.unheard);
                    drop(state);
                    self.deliver(&mut listener, lost, &VecDeque::new());
                    drop(listener);
                    lock(&self.state).ended = true;
                    self.changed.notify_all();
                    return;
                }
                state = self.wait(state);
                continue;
            }
            let events = take(&mut state.events);
            let lost = take(&mut state.lost.unheard);
            state.delivering = true;
            drop(state);
            self.deliver(&mut listener, lost, &events);
            drop(events);
            state = lock(&self.state);
            state.delivering = false;
            self.changed.notify_all();
        }
    }

    /// A listener that panics is dropped.
    fn deliver(
        &self,
        listener: &mut Option<Box<dyn Listener>>,
        lost: u64,
        events: &VecDeque<Arc<Event>>,
    ) {
        let mut tell = |tell: &mut dyn FnMut(&mut dyn Listener)| {
            let Some(hears) = listener else { return };
            let heard = std::panic::AssertUnwindSafe(|| tell(&mut **hears));
            if std::panic::catch_unwind(heard).is_err() {
                tracing::error!("a listener panicked and was removed");
                *listener = None;
            }
        };
        // Before the events, though these came first: the last of them may be the end of the application.
        if lost > 0 {
            tell(&mut |listener| listener.on_lost(lost));
        }
        for event in events {
            let begun = self.observation.begin();
            tell(&mut |listener| listener.on_event(event));
            self.observation.end(Observed::Listener(self.name), begun);
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn is_current(thread: &JoinHandle<()>) -> bool {
    thread.thread().id() == std::thread::current().id()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_types::{ExecutorId, Tick};
    use std::sync::mpsc::{Receiver, Sender, channel};

    fn end(at: u64) -> Event {
        Event::ExecutorUnexcluded { executor: ExecutorId(0), at: Tick(at) }
    }

    fn post(bus: &Bus, at: u64) {
        bus.post(&end(at));
    }

    #[test]
    fn every_listener_hears_every_event_in_order() {
        let bus = Bus::default();
        let heard: Vec<_> = ["shared", "shared", "eventLog"]
            .into_iter()
            .map(|name| {
                let (sender, heard) = channel();
                bus.add(
                    name,
                    100,
                    Box::new(move |event: &Event| sender.send(event.clone()).unwrap()),
                );
                heard
            })
            .collect();
        (0..10).for_each(|at| post(&bus, at));
        bus.close();
        for heard in heard {
            assert!(heard.into_iter().eq((0..10).map(end)));
        }
    }

    #[test]
    fn a_listener_that_is_too_slow_loses_its_own_events_and_nobody_elses() {
        let bus = Bus::default();
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let (slow_sender, slow) = channel();
        let inner = gate.clone();
        bus.add(
            "shared",
            5,
            Box::new(move |event: &Event| {
                drop(inner.lock().unwrap());
                slow_sender.send(event.clone()).unwrap();
            }),
        );
        let (sender, quick) = channel();
        let quick_one = move |event: &Event| sender.send(event.clone()).unwrap();
        bus.add("eventLog", 1000, Box::new(quick_one));
        (0..100).for_each(|at| post(&bus, at));
        assert!((0..100).all(|at| quick.recv().unwrap() == end(at)), "while the other is stuck");
        drop(held);
        bus.close();
        let heard = slow.into_iter().count();
        assert!((5..=10).contains(&heard), "{heard}");
    }

    #[test]
    fn a_listener_may_wait_for_the_others_and_does_not_wait_for_itself() {
        let bus = Arc::new(Bus::default());
        let (sender, heard) = channel();
        let (own, told) = (bus.clone(), sender.clone());
        let waits = move |_: &Event| {
            own.drain();
            told.send("waited").unwrap();
        };
        bus.add("shared", 100, Box::new(waits));
        bus.add("shared", 100, Box::new(move |_: &Event| sender.send("heard").unwrap()));
        post(&bus, 1);
        let both: Vec<_> = heard.iter().take(2).collect();
        assert!(both.contains(&"waited") && both.contains(&"heard"), "{both:?}");
        bus.close();
    }

    /// Hears nothing before the gate opens; tells how many events it heard and how many were lost.
    struct Gated {
        gate: Receiver<()>,
        heard: u64,
        lost: u64,
        told: Sender<(u64, u64)>,
    }

    impl Listener for Gated {
        fn on_event(&mut self, event: &Event) {
            let _ = self.gate.recv();
            self.heard += 1;
            if matches!(event, Event::ApplicationEnd { .. }) {
                self.told.send((self.heard, self.lost)).unwrap();
            }
        }

        fn on_lost(&mut self, events: u64) {
            self.lost += events;
        }
    }

    fn gated() -> (Gated, Sender<()>, Receiver<(u64, u64)>) {
        let ((open, gate), (told, counts)) = (channel(), channel());
        (Gated { gate, heard: 0, lost: 0, told }, open, counts)
    }

    #[test]
    fn a_slow_listener_is_told_what_it_lost_before_the_end_which_it_always_hears() {
        let (bus, (listener, open, counts)) = (Bus::default(), gated());
        bus.add("eventLog", 5, Box::new(listener));
        (0..100).for_each(|at| post(&bus, at));
        bus.post(&Event::ApplicationEnd { exit_code: None, at: Tick(100) });
        drop(open);
        bus.close();
        let (heard, lost) = counts.recv().unwrap();
        assert!(heard + lost == 101 && lost >= 90, "{heard} {lost}");
    }

    #[test]
    fn an_event_log_that_hangs_does_not_keep_the_application_from_ending() {
        let (listener, open, _) = gated();
        let patience = Some(Duration::from_millis(20));
        let observation = Observation::default();
        let queue = Queue::start(EVENT_LOG, 5, patience, observation, Box::new(listener)).unwrap();
        queue.push(&Arc::new(end(1)));
        queue.close();
        assert!(!lock(&queue.state).ended, "it still hangs");
        drop(open);
        let ended = queue.changed.wait_while(lock(&queue.state), |state| !state.ended);
        assert!(ended.unwrap().ended, "and goes when the disk answers");
    }

    #[test]
    fn lost_events_are_told_of_at_once_and_then_once_a_minute() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        let mut told = Vec::new();
        for second in 0..150 {
            let now = start + Duration::from_secs(second);
            told.extend(lost.add(now).map(|lost| (second, lost)));
        }
        assert_eq!((told, lost.untold), (vec![(0, 1), (60, 60), (120, 60)], 29));
    }

    #[test]
    fn how_long_listeners_take_is_told_by_their_queues() {
        let observation = Observation::default();
        let bus = Bus::new(observation.clone());
        let (sender, told) = channel();
        let sender = Mutex::new(sender);
        observation.set(Box::new(move |what, _, times| {
            lock(&sender).send((what, times)).unwrap();
        }));
        bus.add("eventLog", 100, Box::new(|_: &Event| {}));
        (0..3).for_each(|at| post(&bus, at));
        bus.close();
        let told: Vec<_> = told.try_iter().collect();
        assert_eq!(told, [(Observed::Listener("eventLog"), 1); 3]);
    }

    #[test]
    fn a_listener_that_panics_does_not_take_the_others_along() {
        let bus = Bus::default();
        let (sender, heard) = channel();
        let panics = |_: &Event| std::panic::resume_unwind(Box::new("on purpose"));
        bus.add("shared", 100, Box::new(panics));
        let hears = move |event: &Event| sender.send(event.clone()).unwrap();
        bus.add("shared", 100, Box::new(hears));
        (0..3).for_each(|at| post(&bus, at));
        bus.drain();
        bus.close();
        assert_eq!(heard.into_iter().count(), 3);
    }
}
