//! What is not to be tried before when. Each class of refusal has its own pause: a used up quota is no reason not to
//! delete a pod, and a slow API server none to wait for half an hour.

use std::collections::BTreeMap;

use firesteel_backend::jitter::Jitter;
use firesteel_types::{ExecutorId, Tick};

use crate::api::ApiError;
use crate::mutant::{Mutant, Planted};
use crate::options::Waits;

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The API server fails, is overloaded or does not answer: no request is made.
    Server,
    /// It does not accept the credentials: the same.
    Credentials,
    /// No pod is created until there is room in a quota.
    Quota,
    /// Nor until a right is given.
    Rights,
    /// Nor while admission control says no, or the pod is invalid.
    Refused,
    /// Nor while no node takes them.
    Capacity,
    /// Executors were lost soon after they came: the next ones wait.
    Losses,
    /// No pod is deleted until a right is given.
    Deletes,
}

#[derive(Clone, Debug)]
struct Pause {
    since: Tick,
    times: u32,
    /// When it was counted last.
    last: Tick,
    until: Tick,
    /// The server asked to be left alone until then, whatever else it answers.
    asked: Tick,
    words: String,
}

#[derive(Debug)]
pub(super) struct Backoff {
    waits: Waits,
    planted: Planted,
    jitter: Jitter,
    pauses: BTreeMap<Class, Pause>,
}

impl Backoff {
    pub(super) fn new(waits: Waits, planted: Planted, jitter: Jitter) -> Self {
        Backoff { waits, planted, jitter, pauses: BTreeMap::new() }
    }

    /// A request was refused.
    pub(super) fn refused(&mut self, now: Tick, error: &ApiError) {
        let (class, at_least) = match error {
            ApiError::Quota(_) => (Class::Quota, 0),
            ApiError::Forbidden(_) => (Class::Rights, 0),
            ApiError::Denied(_) | ApiError::Invalid(_) | ApiError::NoNamespace(_) => {
                (Class::Refused, 0)
            }
            ApiError::Unauthorized(_) => (Class::Credentials, 0),
            ApiError::Throttled { retry_after_ms, .. } => {
                (Class::Server, retry_after_ms.unwrap_or(0))
            }
            ApiError::Unavailable(_) | ApiError::Unreachable(_) => (Class::Server, 0),
            ApiError::NotFound | ApiError::Conflict | ApiError::Expired => return,
        };
        if !matches!(class, Class::Server | Class::Credentials) {
            self.request_succeeded(now);
        }
        let at_least = if self.planted.is(Mutant::IgnoresRetryAfter) { 0 } else { at_least };
        let wait = self.pause(class, now, error.to_string());
        let until = now.plus_ms(wait.max(at_least));
        if let Some(pause) = self.pauses.get_mut(&class) {
            pause.until = pause.until.max(until);
            pause.asked = pause.asked.max(Tick(now.0 + at_least).min(until));
        }
    }

    /// Counts once more, unless it is paused for already: what was on its way then says nothing new.
    fn pause(&mut self, class: Class, now: Tick, words: String) -> u64 {
        let new = Pause {
            since: now,
            times: 0,
            last: now,
            until: now,
            asked: Tick(0),
            words: String::new(),
        };
        let pause = self.pauses.entry(class).or_insert(new);
        pause.words = words;
        if pause.until <= now {
            (pause.times, pause.last) = (pause.times.saturating_add(1), now);
        }
        let times = pause.times;
        self.wait(times)
    }

    /// How long to wait after so many refusals in a row.
    pub(super) fn wait(&mut self, times: u32) -> u64 {
        let doubled = self.waits.first_ms << (times.clamp(1, 20) - 1);
        let wait = doubled.min(self.waits.longest_ms);
        // Many drivers that lost one API server shall not come back to it in one moment.
        wait + self.jitter.below(wait / 4 + 1)
    }

    /// No pod may be deleted; creating them is another right.
    pub(super) fn deletes_forbidden(&mut self, now: Tick, words: &str) {
        let wait = self.pause(Class::Deletes, now, words.to_owned());
        if let Some(pause) = self.pauses.get_mut(&Class::Deletes) {
            pause.until = pause.until.max(now.plus_ms(wait));
        }
    }

    /// A pod was deleted, or was gone.
    pub(super) fn delete_succeeded(&mut self, now: Tick) {
        self.request_succeeded(now);
        self.pauses.remove(&Class::Deletes);
    }

    /// An executor was lost soon after it came. The first ones are replaced at once; many in one moment are one.
    pub(super) fn lost(&mut self, now: Tick, executor: ExecutorId, words: &str, moment_ms: u64) {
        let forgotten = self.waits.longest_ms.saturating_mul(2);
        let old = |pause: &Pause| now.since_ms(pause.last) > forgotten;
        if self.pauses.get(&Class::Losses).is_some_and(old) {
            self.pauses.remove(&Class::Losses);
        }
        let words = format!("executor {executor}: {words}");
        match self.pauses.get_mut(&Class::Losses) {
            None => {
                let pause =
                    Pause { since: now, times: 1, last: now, until: now, asked: Tick(0), words };
                self.pauses.insert(Class::Losses, pause);
            }
            Some(pause) if now.since_ms(pause.last) < moment_ms => pause.words = words,
            Some(_) => {
                let wait = self.pause(Class::Losses, now, words) / 2;
                if let Some(pause) = self.pauses.get_mut(&Class::Losses) {
                    pause.until = pause.until.max(now.plus_ms(wait));
                }
            }
        }
    }

    /// No node took a pod, and it was withdrawn.
    pub(super) fn crowded(&mut self, now: Tick, words: &str) {
        let wait = self.pause(Class::Capacity, now, words.to_owned());
        if let Some(pause) = self.pauses.get_mut(&Class::Capacity) {
            pause.until = pause.until.max(now.plus_ms(wait));
        }
    }

    /// A node took a pod.
    pub(super) fn scheduled(&mut self) {
        self.pauses.remove(&Class::Capacity);
    }

    /// A request that was on its way when the server asked to be left alone says nothing against that.
    pub(super) fn request_succeeded(&mut self, now: Tick) {
        self.pauses.retain(|class, pause| match class {
            Class::Server => pause.asked > now,
            Class::Credentials => false,
            _ => true,
        });
    }

    pub(super) fn create_succeeded(&mut self, now: Tick) {
        self.request_succeeded(now);
        for class in [Class::Quota, Class::Rights, Class::Refused] {
            self.pauses.remove(&class);
        }
    }

    /// A pod is gone: there may be room in the quota.
    pub(super) fn freed(&mut self, now: Tick) {
        if let Some(pause) = self.pauses.get_mut(&Class::Quota) {
            pause.until = pause.until.min(now);
        }
    }

    /// The application ends, and somebody waits for that: what stands in the way is asked about again soon, unless the API server
    /// wants to be left alone.
    pub(super) fn hurry(&mut self, now: Tick) {
        let soon = now.plus_ms(self.waits.first_ms);
        self.waits.longest_ms = self.waits.longest_ms.min(self.waits.first_ms.saturating_mul(2));
        for pause in self.pauses.values_mut() {
            pause.until = pause.until.min(soon).max(pause.asked);
        }
    }

    fn until(&self, is: impl Fn(Class) -> bool) -> Tick {
        let pauses = self.pauses.iter().filter(|(class, _)| is(**class));
        pauses.map(|(_, pause)| pause.until).max().unwrap_or_default()
    }

    /// No request is made before.
    pub(super) fn requests_until(&self) -> Tick {
        self.until(|class| matches!(class, Class::Server | Class::Credentials))
    }

    /// No pod is created before.
    pub(super) fn creates_until(&self) -> Tick {
        self.until(|class| class != Class::Deletes)
    }

    /// No pod is deleted before.
    pub(super) fn deletes_until(&self) -> Tick {
        self.until(|class| matches!(class, Class::Server | Class::Credentials | Class::Deletes))
    }

    /// Whether the API server refused the last pods: one request finds out whether it still does.
    pub(super) fn is_probing(&self) -> bool {
        self.pauses.keys().any(|class| !matches!(class, Class::Losses | Class::Deletes))
    }

    /// Since when no request succeeds, or with `refusals` none for a pod, and why the last one did not.
    pub(super) fn failing(&self, refusals: bool) -> Option<(Tick, &str)> {
        let counts = |class: Class| match class {
            Class::Server | Class::Credentials => true,
            Class::Rights | Class::Refused => refusals,
            _ => false,
        };
        let pauses = self.pauses.iter().filter(|(class, _)| counts(**class));
        let first = pauses.map(|(_, pause)| pause).min_by_key(|pause| pause.since);
        first.map(|pause| (pause.since, pause.words.as_str()))
    }

    /// Why no pod is created, if that is so.
    pub(super) fn words(&self, now: Tick) -> Option<&str> {
        let refuses = |class: &Class| !matches!(class, Class::Losses | Class::Deletes);
        let refused = self.pauses.iter().find(|(class, _)| refuses(class));
        let paced = self.pauses.get(&Class::Losses).filter(|pause| pause.until > now);
        refused.map(|(_, pause)| pause).or(paced).map(|pause| pause.words.as_str())
    }
}
