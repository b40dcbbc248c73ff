//! Why executors are missing: one sentence for each, and one for all of them.

use std::collections::BTreeMap;
use std::fmt;

use firesteel_backend::provider::{Capacity, ProviderEvent};
use firesteel_types::date::civil;
use firesteel_types::{ExecutorId, Tick};

use super::core::{Allocator, Turn};
use super::slots::{Slot, Stage};
use crate::mutant::Mutant;
use crate::pod::{Obstacle, log_lines};

/// An executor that is wanted and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// If it was asked for.
    pub executor: Option<ExecutorId>,
    /// When it was first asked for, if it was.
    pub since: Option<Tick>,
    pub why: Why,
}

/// Why an executor is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The API server refuses its pod, or is not to be asked now; executors were lost and the next one waits.
    Refused(String),
    /// As many pods are pending as may be.
    PendingLimit,
    /// All claims of volumes are mounted, and no more are made.
    AwaitsClaim,
    /// It will be asked for in the next round.
    NextRound,
    /// The API server has not answered.
    Requested,
    /// It is there, and has not been seen yet.
    Created,
    /// It has no node; the scheduler's words.
    Unscheduled(Option<String>),
    /// It has this node, whose kubelet has not taken it.
    Assigned(String),
    /// It has a node and does not run yet; the kubelet's words.
    Starting(Option<String>),
    /// It runs and has not registered.
    Registering,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Refused(words) => f.write_str(words),
            Why::PendingLimit => f.write_str(
                "as many pods are pending as spark.kubernetes.allocation.maxPendingPods allows",
            ),
            Why::AwaitsClaim => f.write_str(
                "it waits for the volume of an executor that ends \
                 (spark.kubernetes.driver.waitToReusePersistentVolumeClaim)",
            ),
            Why::NextRound => f.write_str("its pod will be asked for in the next round"),
            Why::Requested => {
                f.write_str("the API server has not answered the request for its pod")
            }
            Why::Created => f.write_str("its pod was created and has not been seen yet"),
            Why::Unscheduled(Some(words)) => write!(f, "no node can take its pod: {words}"),
            Why::Unscheduled(None) => f.write_str("its pod waits for the scheduler"),
            Why::Assigned(node) => {
                write!(f, "the kubelet of node {node} has not taken its pod yet")
            }
            Why::Starting(Some(words)) => write!(f, "its container cannot start: {words}"),
            Why::Starting(None) => f.write_str("its container is being created"),
            Why::Registering => f.write_str("it runs and has not registered with the driver yet"),
        }
    }
}

/// What the user was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    missing_since: Option<Tick>,
    last: Option<Tick>,
    words: Option<String>,
    loss: Option<Loss>,
}

/// The last executor that was lost.
#[derive(Debug)]
struct Loss {
    executor: ExecutorId,
    cause: String,
    /// What it said last, if it failed by itself.
    words: Option<String>,
}

impl Told {
    /// An executor is over.
    pub(super) fn ended(&mut self, executor: ExecutorId, cause: String, words: Option<String>) {
        self.loss = Some(Loss { executor, cause, words });
    }

    /// The end of its log came.
    pub(super) fn logged(&mut self, executor: ExecutorId, text: &str) {
        let loss = self.loss.as_mut().filter(|loss| loss.executor == executor);
        if let (Some(loss), Some(words)) = (loss, log_lines(text)) {
            loss.words = Some(words);
        }
    }

    /// When the user is to hear something, or hear again.
    pub(super) fn due(&self, patience_ms: u64) -> Option<Tick> {
        let since = self.missing_since?;
        Some(self.last.unwrap_or(since).max(since).plus_ms(patience_ms))
    }
}

impl Allocator {
    /// Every executor that is wanted and not there.
    pub fn missing(&self, now: Tick) -> Vec<Missing> {
        let lacking = self.target().saturating_sub(self.healthy()) as usize;
        let coming =
            self.slots.iter().filter(|(_, slot)| !slot.is_leaving() && slot.registered().is_none());
        let coming = coming.map(|(executor, slot)| Missing {
            executor: Some(executor),
            since: Some(slot.wanted()),
            why: self.why(slot, now),
        });
        let others = || Missing { executor: None, since: None, why: self.why_not_asked(now) };
        coming.chain(std::iter::repeat_with(others)).take(lacking).collect()
    }

    fn why(&self, slot: &Slot, now: Tick) -> Why {
        match slot.stage() {
            Stage::Requested { in_flight: false } => self.why_not_asked(now),
            // A request that finds out whether it is refused still: it was.
            Stage::Requested { .. } => match self.backoff.words(now) {
                Some(words) => Why::Refused(words.to_owned()),
                None => Why::Requested,
            },
            Stage::Created => Why::Created,
            Stage::Pending(words) => Why::Unscheduled(words.clone()),
            Stage::Assigned => {
                Why::Assigned(slot.node().map(ToString::to_string).unwrap_or_default())
            }
            Stage::Scheduled(obstacle) => {
                Why::Starting(obstacle.as_ref().map(|(_, obstacle)| match obstacle {
                    Obstacle::Image(words) | Obstacle::Config(words) | Obstacle::Other(words) => {
                        words.clone()
                    }
                }))
            }
            Stage::Running | Stage::Leaving(_) => Why::Registering,
        }
    }

    fn why_not_asked(&self, now: Tick) -> Why {
        match self.backoff.words(now) {
            Some(words) => Why::Refused(words.to_owned()),
            None if self.slots.pending() >= self.options.max_pending => Why::PendingLimit,
            None if !self.can_mount() => Why::AwaitsClaim,
            None => Why::NextRound,
        }
    }

    /// One sentence for all that are missing, in which no time and no number changes by itself.
    pub fn shortage(&self, now: Tick) -> Option<String> {
        let missing = self.missing(now);
        if missing.is_empty() {
            return None;
        }
        let mut reasons: BTreeMap<&Why, Vec<&Missing>> = BTreeMap::new();
        missing.iter().for_each(|missing| reasons.entry(&missing.why).or_default().push(missing));
        let reasons: Vec<String> =
            reasons.iter().map(|(why, those)| format!("{}: {why}", which(those))).collect();
        let loss = self.told_ref().loss.as_ref().map_or_else(String::new, |loss| {
            let reason = with_words(&loss.cause, loss.words.as_deref());
            format!("; the last one that was lost was executor {}: {reason}", loss.executor)
        });
        let (short, target) = (missing.len(), self.target());
        Some(format!("{short} of {target} executors are missing ({}){loss}", reasons.join("; ")))
    }

    /// Since when the one is missing that has been asked for the longest; without any, since when there are fewer than wanted.
    pub fn missing_since(&self, now: Tick) -> Option<Tick> {
        let asked = self.missing(now).into_iter().filter_map(|missing| missing.since).min();
        asked.or(self.told_ref().missing_since)
    }

    /// Tells the user when executors have been missing for a while, and when they are not any more.
    pub(super) fn tell_why(&mut self, turn: &mut Turn<'_>) {
        let (now, patience) = (turn.now, self.options.shortage_ms);
        if self.healthy() >= self.target() || !self.is_alive() {
            let told = std::mem::take(self.told());
            self.told().loss = told.loss;
            if told.words.is_some() {
                turn.report(ProviderEvent::Capacity(Capacity { shortage: None }));
            }
            return;
        }
        self.told().missing_since.get_or_insert(now);
        let due = self.told().due(patience).is_some_and(|due| due <= now);
        if !due || self.options.planted.is(Mutant::SaysNothing) {
            return;
        }
        let shortage = self.shortage(now);
        self.told().last = Some(now);
        if self.told().words != shortage {
            self.told().words.clone_from(&shortage);
            turn.report(ProviderEvent::Capacity(Capacity { shortage }));
        }
    }
}

/// So many executors are named that are missing for one reason.
const NAMED: usize = 10;

/// How many are missing for a reason, which of them were asked for, and since when.
fn which(those: &[&Missing]) -> String {
    let asked: Vec<String> =
        those.iter().filter_map(|missing| Some(missing.executor?.to_string())).collect();
    let Some(since) = those.iter().filter_map(|missing| missing.since).min() else {
        return those.len().to_string();
    };
    let names = match &asked[..] {
        [only] => format!("executor {only}"),
        all if all.len() <= NAMED => format!("executors {}", all.join(", ")),
        all => format!("executors {} and {} more", all[..NAMED].join(", "), all.len() - NAMED),
    };
    format!("{}, {names}, pending since {}", those.len(), moment(since))
}

/// Ticks are milliseconds since 1970.
fn moment(at: Tick) -> String {
    let seconds = at.0 / 1000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(i64::try_from(days).unwrap_or(i64::MAX));
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Why an executor is over, with what it said last.
pub(super) fn with_words(cause: &str, words: Option<&str>) -> String {
    match words {
        Some(words) => format!("{cause}; it said last: {words}"),
        None => cause.to_owned(),
    }
}
