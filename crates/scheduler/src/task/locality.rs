//! The waiting tasks of one set, and how near to their data they may be placed now.
//!
//! A waiting task stands in the stack of every executor and host it prefers and in `anywhere`; a
//! task without preference stands in `no_preference` alone. Taking a task from one stack leaves
//! stale entries in the others: they are dropped when they come to the top. How many entries still
//! count is kept per stack and per level, so whether a level has anything to wait for is known
//! without looking.
//!
//! ```text
//!   PROCESS_LOCAL ──wait──► NODE_LOCAL ──wait──► ANY
//!        ▲  (a level with nothing to wait for is skipped at once)
//!        └── local launch, unless a free executor was refused since the level was last ANY
//! ```
//!
//! Invariant L04: that "unless" bounds the wait. A steady stream of local launches would otherwise
//! put the next level off for as long as it lasts, with executors idle beside it.

use std::collections::BTreeMap;

use firesteel_types::event::Locality;
use firesteel_types::{ExecutorId, Host, Tick};

use super::executors::Executors;
use crate::messages::{TaskOptions, TaskSpec};

/// How long to hold out for each level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    process_ms: u64,
    node_ms: u64,
}

impl Waits {
    pub(super) fn of(options: &TaskOptions) -> Self {
        Waits { process_ms: options.wait_process_ms, node_ms: options.wait_node_ms }
    }
}

/// An executor that looks for a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    pub(super) now: Tick,
    pub(super) executor: ExecutorId,
    pub(super) host: &'a Host,
    /// It has a free core; else the task queues there, pipelined.
    pub(super) is_free: bool,
    /// Tasks further from their data than this are held back: a nearer executor may be free too.
    pub(super) farthest: Locality,
}

/// What a set answers to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Launch {
        index: u32,
        locality: Locality,
        speculative: bool,
    },
    /// There is a task, but further from its data than asked for.
    Later,
    /// Nothing now, but there may be at that moment: a farther level opens, or an executor is avoided no longer.
    Held {
        until: Tick,
    },
    /// Nothing for this executor.
    Nothing,
}

#[derive(Debug)]
struct Place {
    level: Level,
    usable: bool,
    waiting: u32,
    stack: Vec<u32>,
}

/// The levels that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Process,
    Node,
}

/// Waiting tasks by place, and the level now allowed.
#[derive(Debug)]
pub(super) struct Waiting {
    waits: Waits,
    is_waiting: Vec<bool>,
    count: u32,
    no_preference: Vec<u32>,
    anywhere: Vec<u32>,
    places: Vec<Place>,
    by_executor: BTreeMap<ExecutorId, u32>,
    by_host: BTreeMap<Host, u32>,
    /// Task `i` prefers `preferred[bounds[i]..bounds[i + 1]]`, positions in `places`.
    preferred: Vec<u32>,
    bounds: Vec<u32>,
    /// Waiting entries at usable places: of executors, of hosts.
    reachable: [u32; 2],
    level: Locality,
    since: Tick,
    refused: bool,
    nearest_launch: Option<Locality>,
}

impl Waiting {
    /// All tasks of a set, waiting; the first is picked first.
    pub(super) fn new(tasks: &[TaskSpec], executors: &Executors, waits: Waits, now: Tick) -> Self {
        let mut waiting = Waiting {
            waits,
            is_waiting: vec![false; tasks.len()],
            count: 0,
            no_preference: Vec::new(),
            anywhere: Vec::new(),
            places: Vec::new(),
            by_executor: BTreeMap::new(),
            by_host: BTreeMap::new(),
            preferred: Vec::new(),
            bounds: Vec::with_capacity(tasks.len() + 1),
            reachable: [0; 2],
            level: Locality::ProcessLocal,
            since: now,
            refused: false,
            nearest_launch: None,
        };
        for task in tasks {
            waiting.bounds.push(waiting.preferred.len() as u32);
            waiting.note_preferences(task, executors);
        }
        waiting.bounds.push(waiting.preferred.len() as u32);
        for index in (0..tasks.len() as u32).rev() {
            waiting.push(index);
        }
        waiting
    }

    fn note_preferences(&mut self, task: &TaskSpec, executors: &Executors) {
        for location in &task.preferred {
            if let Some(executor) = location.executor {
                let next = self.places.len() as u32;
                let place = *self.by_executor.entry(executor).or_insert(next);
                self.note_place(place, Level::Process, || executors.is_usable(executor));
            }
            let place = match self.by_host.get(&location.host) {
                Some(place) => *place,
                None => {
                    self.by_host.insert(location.host.clone(), self.places.len() as u32);
                    self.places.len() as u32
                }
            };
            self.note_place(place, Level::Node, || executors.is_host_usable(&location.host));
        }
    }

    fn note_place(&mut self, place: u32, level: Level, usable: impl FnOnce() -> bool) {
        if place as usize == self.places.len() {
            self.places.push(Place { level, usable: usable(), waiting: 0, stack: Vec::new() });
        }
        self.preferred.push(place);
    }

    fn preferences(&self, index: u32) -> std::ops::Range<usize> {
        self.bounds[index as usize] as usize..self.bounds[index as usize + 1] as usize
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.is_waiting[index as usize]
    }

    /// Any task that waits.
    pub(super) fn first(&self) -> Option<u32> {
        self.is_waiting.iter().position(|waits| *waits).map(|index| index as u32)
    }

    /// Lets a task wait, to be picked before those that wait already.
    pub(super) fn push(&mut self, index: u32) {
        if std::mem::replace(&mut self.is_waiting[index as usize], true) {
            return;
        }
        self.count += 1;
        let preferences = self.preferences(index);
        if preferences.is_empty() {
            self.no_preference.push(index);
            return;
        }
        self.anywhere.push(index);
        for position in preferences {
            let place = &mut self.places[self.preferred[position] as usize];
            place.stack.push(index);
            place.waiting += 1;
            self.reachable[place.level as usize] += u32::from(place.usable);
        }
    }

    /// The task waits no longer. True if a level lost its last task by it, so that others may open.
    pub(super) fn remove(&mut self, index: u32) -> bool {
        if !std::mem::replace(&mut self.is_waiting[index as usize], false) {
            return false;
        }
        self.count -= 1;
        let mut drained = false;
        for position in self.preferences(index) {
            let place = &mut self.places[self.preferred[position] as usize];
            place.waiting -= 1;
            if place.usable {
                let reachable = &mut self.reachable[place.level as usize];
                *reachable -= 1;
                drained |= *reachable == 0;
            }
        }
        drained
    }

    /// Answers an offer with the nearest task the level allows. A launch still has to be taken
    /// note of with [`Waiting::remove`] and [`Waiting::note_launch`].
    pub(super) fn answer(&mut self, offer: &Offer<'_>, allowed: impl Fn(u32) -> bool) -> Answer {
        if self.count == 0 {
            return Answer::Nothing;
        }
        self.advance(offer.now);
        let (is_waiting, places) = (&self.is_waiting, &mut self.places);
        let take = |stack: &mut Vec<u32>, locality| {
            let position = top(stack, is_waiting, &allowed)?;
            if locality > offer.farthest && locality != Locality::NoPref {
                return Some(Answer::Later);
            }
            let index = stack.remove(position);
            Some(Answer::Launch { index, locality, speculative: false })
        };
        let process = self.by_executor.get(&offer.executor);
        let node = self.by_host.get(offer.host).filter(|_| self.level >= Locality::NodeLocal);
        process
            .and_then(|place| take(&mut places[*place as usize].stack, Locality::ProcessLocal))
            .or_else(|| {
                node.and_then(|place| take(&mut places[*place as usize].stack, Locality::NodeLocal))
            })
            .or_else(|| take(&mut self.no_preference, Locality::NoPref))
            .or_else(|| match self.level {
                Locality::Any => take(&mut self.anywhere, Locality::Any),
                _ => None,
            })
            .unwrap_or_else(|| self.refuse(offer.is_free))
    }

    /// Steps to the level allowed at `now`.
    fn advance(&mut self, now: Tick) {
        while let Some((reachable, wait_ms, next)) = self.held_level() {
            if reachable == 0 {
                self.since = now;
            } else if now.since_ms(self.since) >= wait_ms {
                self.since = self.since.plus_ms(wait_ms);
            } else {
                return;
            }
            self.level = next;
        }
        self.refused = false;
    }

    fn held_level(&self) -> Option<(u32, u64, Locality)> {
        match self.level {
            Locality::ProcessLocal => {
                Some((self.reachable[0], self.waits.process_ms, Locality::NodeLocal))
            }
            Locality::NodeLocal => Some((self.reachable[1], self.waits.node_ms, Locality::Any)),
            _ => None,
        }
    }

    fn refuse(&mut self, is_free: bool) -> Answer {
        let Some((_, wait_ms, _)) = self.held_level() else { return Answer::Nothing };
        self.refused |= is_free;
        Answer::Held { until: self.since.plus_ms(wait_ms) }
    }

    /// A waiting task was launched at this level.
    pub(super) fn note_launch(&mut self, locality: Locality) {
        if locality != Locality::NoPref {
            let nearest = self.nearest_launch.map_or(locality, |nearest| nearest.min(locality));
            self.nearest_launch = Some(nearest);
        }
    }

    /// All offers of this moment were made: go back to the level of the nearest launch. Not sooner,
    /// or one local launch would close the level to executors whose turn comes after.
    pub(super) fn end_offers(&mut self, now: Tick) {
        let Some(nearest) = self.nearest_launch.take() else { return };
        if !self.refused {
            self.level = nearest;
            self.since = now;
        }
    }

    /// An executor, and with it perhaps its host, can or cannot be had any more.
    pub(super) fn update_place(
        &mut self,
        now: Tick,
        executor: (ExecutorId, bool),
        host: (&Host, bool),
    ) {
        let process = self.by_executor.get(&executor.0).map(|place| (*place, executor.1));
        let node = self.by_host.get(host.0).map(|place| (*place, host.1));
        for (place, usable) in [process, node].into_iter().flatten() {
            self.set_usable(now, place, usable);
        }
    }

    fn set_usable(&mut self, now: Tick, place: u32, usable: bool) {
        let place = &mut self.places[place as usize];
        if std::mem::replace(&mut place.usable, usable) == usable || place.waiting == 0 {
            return;
        }
        let reachable = &mut self.reachable[place.level as usize];
        if !usable {
            *reachable -= place.waiting;
            return;
        }
        let is_new = *reachable == 0;
        *reachable += place.waiting;
        let level = match place.level {
            Level::Process => Locality::ProcessLocal,
            Level::Node => Locality::NodeLocal,
        };
        if is_new && level < self.level {
            self.level = level;
            self.since = now;
        }
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of waiting tasks.
    pub(super) fn assert_consistent(&self, executors: &Executors) {
        let count = self.is_waiting.iter().filter(|waits| **waits).count();
        assert_eq!(count, self.count as usize, "waiting tasks are miscounted");
        for (executor, place) in &self.by_executor {
            let usable = self.places[*place as usize].usable;
            assert_eq!(usable, executors.is_usable(*executor), "executor {executor}");
        }
        for (host, place) in &self.by_host {
            let usable = self.places[*place as usize].usable;
            assert_eq!(usable, executors.is_host_usable(host), "host {host}");
        }
        let mut reachable = [0; 2];
        for index in (0..self.is_waiting.len() as u32).filter(|index| self.contains(*index)) {
            for position in self.preferences(index) {
                let place = &self.places[self.preferred[position] as usize];
                assert!(place.stack.contains(&index), "task {index} is not queued where it waits");
                reachable[place.level as usize] += u32::from(place.usable);
            }
        }
        assert_eq!(reachable, self.reachable, "reachable tasks are miscounted");
    }

    /// How near to its data a task would be on an executor.
    pub(super) fn locality_of(&self, index: u32, executor: ExecutorId, host: &Host) -> Locality {
        let preferred = &self.preferred[self.preferences(index)];
        let prefers = |place: Option<&u32>| place.is_some_and(|place| preferred.contains(place));
        if preferred.is_empty() {
            Locality::NoPref
        } else if prefers(self.by_executor.get(&executor)) {
            Locality::ProcessLocal
        } else if prefers(self.by_host.get(host)) {
            Locality::NodeLocal
        } else {
            Locality::Any
        }
    }
}

/// The topmost entry that waits and is allowed; stale entries above it are dropped.
fn top(stack: &mut Vec<u32>, is_waiting: &[bool], allowed: impl Fn(u32) -> bool) -> Option<usize> {
    while stack.last().is_some_and(|index| !is_waiting[*index as usize]) {
        stack.pop();
    }
    stack.iter().rposition(|index| is_waiting[*index as usize] && allowed(*index))
}
