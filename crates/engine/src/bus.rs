//! The listener bus: events in the order they happened, to every listener, on a thread of its own.
//!
//! The queue is bounded (`spark.scheduler.listenerbus.eventqueue.capacity`): when listeners cannot
//! keep up, new events are dropped and counted, and the schedulers never wait. Without listeners
//! nothing is queued and no thread runs.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use firesteel_types::Event;

/// Hears what happens in an application.
pub trait Listener: Send {
    /// Called for each event, in order, on the bus's thread.
    fn on_event(&mut self, event: &Event);
}

impl<F: FnMut(&Event) + Send> Listener for F {
    fn on_event(&mut self, event: &Event) {
        self(event);
    }
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    listeners: Vec<Box<dyn Listener>>,
    added: Vec<Box<dyn Listener>>,
    dropped: u64,
    delivering: bool,
    closed: bool,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    active: AtomicBool,
    capacity: usize,
}

/// A handle on the bus.
#[derive(Clone)]
pub(crate) struct Bus(Arc<Shared>);

impl Bus {
    pub(crate) fn new(capacity: usize) -> Self {
        Bus(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            active: AtomicBool::new(false),
            capacity,
        }))
    }

    /// Adds a listener; it hears everything from now on.
    pub(crate) fn add(&self, listener: Box<dyn Listener>) {
        let mut queue = self.0.lock();
        if queue.closed {
            return;
        }
        queue.added.push(listener);
        self.0.active.store(true, Ordering::Release);
        if queue.thread.is_none() {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("firesteel-listener-bus".into());
            queue.thread = thread.spawn(move || shared.dispatch()).ok();
        }
    }

    /// Queues an event; never waits for listeners.
    pub(crate) fn post(&self, event: Event) {
        if !self.0.active.load(Ordering::Acquire) {
            return;
        }
        let mut queue = self.0.lock();
        if queue.closed || queue.events.len() >= self.0.capacity {
            queue.dropped += 1;
            return;
        }
        queue.events.push_back(event);
        if queue.events.len() == 1 {
            self.0.changed.notify_all();
        }
    }

    /// Waits until every event posted so far was heard.
    pub(crate) fn drain(&self) {
        let mut queue = self.0.lock();
        while queue.thread.is_some() && (queue.delivering || !queue.events.is_empty()) {
            queue = self.0.wait(queue);
        }
    }

    /// Delivers what is queued, then ends.
    pub(crate) fn close(&self) {
        let mut queue = self.0.lock();
        queue.closed = true;
        let thread = queue.thread.take();
        if queue.dropped > 0 {
            tracing::warn!(dropped = queue.dropped, "listeners were too slow, events were dropped");
        }
        drop(queue);
        self.0.changed.notify_all();
        let own = |handle: &JoinHandle<()>| handle.thread().id() == std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| !own(thread)) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn dispatch(&self) {
        let mut queue = self.lock();
        loop {
            if queue.events.is_empty() {
                if queue.closed {
                    // What listeners hold on to goes with the application, and not under the lock.
                    let heard_all = [take(&mut queue.listeners), take(&mut queue.added)];
                    drop(queue);
                    drop(heard_all);
                    return;
                }
                queue = self.wait(queue);
                continue;
            }
            let events = take(&mut queue.events);
            let mut listeners = take(&mut queue.listeners);
            listeners.append(&mut queue.added);
            queue.delivering = true;
            drop(queue);
            deliver(&mut listeners, events);
            queue = self.lock();
            queue.listeners = listeners;
            queue.delivering = false;
            self.changed.notify_all();
        }
    }
}

/// A listener that panics is dropped; the others go on.
fn deliver(listeners: &mut Vec<Box<dyn Listener>>, events: VecDeque<Event>) {
    for event in events {
        listeners.retain_mut(|listener| {
            let heard = std::panic::AssertUnwindSafe(|| listener.on_event(&event));
            let kept = std::panic::catch_unwind(heard).is_ok();
            if !kept {
                tracing::error!("a listener panicked and was removed");
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_types::Tick;
    use std::sync::mpsc::channel;

    fn end(at: u64) -> Event {
        Event::ApplicationEnd { at: Tick(at) }
    }

    #[test]
    fn every_listener_hears_every_event_in_order() {
        let bus = Bus::new(1000);
        let (sender, heard) = channel();
        for _ in 0..2 {
            let sender = sender.clone();
            bus.add(Box::new(move |event: &Event| sender.send(event.clone()).unwrap()));
        }
        (0..10).for_each(|at| bus.post(end(at)));
        bus.close();
        drop(sender);
        let heard: Vec<Event> = heard.into_iter().collect();
        let wanted: Vec<Event> = (0..10).flat_map(|at| [end(at), end(at)]).collect();
        assert_eq!(heard, wanted);
    }

    #[test]
    fn a_full_queue_drops_and_never_blocks() {
        let bus = Bus::new(5);
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let (sender, heard) = channel();
        let inner = gate.clone();
        bus.add(Box::new(move |event: &Event| {
            drop(inner.lock().unwrap());
            sender.send(event.clone()).unwrap();
        }));
        (0..100).for_each(|at| bus.post(end(at)));
        drop(held);
        bus.close();
        let heard = heard.into_iter().count();
        assert!((5..=10).contains(&heard), "{heard}");
    }

    #[test]
    fn a_listener_that_panics_does_not_take_the_others_along() {
        let bus = Bus::new(100);
        let (sender, heard) = channel();
        bus.add(Box::new(|_: &Event| std::panic::resume_unwind(Box::new("on purpose"))));
        bus.add(Box::new(move |event: &Event| sender.send(event.clone()).unwrap()));
        (0..3).for_each(|at| bus.post(end(at)));
        bus.close();
        assert_eq!(heard.into_iter().count(), 3);
    }
}
