//! Which applications a directory of logs has. Of each log the beginning is read, and the end: enough to list it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firesteel_types::{Event, Tick};

use crate::log::{Lines, LogSource, last_lines};
use crate::rest::{ApplicationEntry, AttemptEntry};
use crate::spark::{Decoder, quick_name};

/// The end of an application is looked for in so many bytes: Spark's `endEventReparseChunkSize`.
const TAIL: u64 = 1 << 20;

/// What the list shows of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    id: String,
    name: String,
    attempt: Option<String>,
    started: Tick,
    ended: Option<Tick>,
    exit_code: Option<i32>,
    user: String,
    version: String,
}

/// All logs, by their paths.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// `None`: a log without an application, or one that could not be read.
    logs: BTreeMap<PathBuf, (LogSource, Option<Listed>)>,
}

impl Listing {
    /// Forgets the logs that are gone. Those that are new, or have changed.
    pub(super) fn retain(&mut self, found: &[LogSource]) -> Vec<LogSource> {
        let paths: std::collections::BTreeSet<&Path> =
            found.iter().map(|log| log.path.as_path()).collect();
        self.logs.retain(|path, _| paths.contains(path.as_path()));
        let changed =
            |log: &&LogSource| self.logs.get(&log.path).is_none_or(|(old, _)| old != *log);
        found.iter().filter(changed).cloned().collect()
    }

    pub(super) fn insert(&mut self, log: LogSource, listed: Option<Listed>) {
        self.logs.insert(log.path.clone(), (log, listed));
    }

    pub(super) fn knows(&self, path: &Path) -> bool {
        self.logs.contains_key(path)
    }

    pub(super) fn logs(&self) -> Vec<LogSource> {
        self.logs.values().map(|(log, _)| log.clone()).collect()
    }

    fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (&'a LogSource, &'a Listed)> {
        let listed = self.logs.values().filter_map(|(log, listed)| Some((log, listed.as_ref()?)));
        listed.filter(move |(_, listed)| listed.id == id)
    }

    pub(super) fn path(&self, id: &str, attempt: Option<&str>) -> Option<PathBuf> {
        let mut attempts = self.of(id).filter(|(_, it)| it.attempt.as_deref() == attempt);
        // A log and its successor of the same name may both be there for a moment: the whole one counts.
        let first = attempts.next()?;
        let best = attempts.fold(first, |best, next| if best.0.in_progress { next } else { best });
        Some(best.0.path.clone())
    }

    /// The logs of an application, or of one of its attempts.
    pub(super) fn logs_of(&self, id: &str, attempt: Option<&str>) -> Vec<LogSource> {
        let wanted = |listed: &Listed| attempt.is_none() || listed.attempt.as_deref() == attempt;
        self.of(id).filter(|(_, it)| wanted(it)).map(|(log, _)| log.clone()).collect()
    }

    /// What ended last comes first, what runs comes last.
    pub(super) fn applications(&self, source: &str) -> Vec<ApplicationEntry> {
        let mut all: BTreeMap<&str, ApplicationEntry> = BTreeMap::new();
        for (log, listed) in self.logs.values() {
            let Some(listed) = listed else { continue };
            let new = || ApplicationEntry {
                id: listed.id.clone(),
                name: listed.name.clone(),
                attempts: Vec::new(),
            };
            let entry = all.entry(&listed.id).or_insert_with(new);
            entry.attempts.push(attempt_of(log, listed, source));
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.iter_mut().for_each(|entry| {
            entry.attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.started));
            entry.attempts.dedup_by(|a, b| a.id == b.id && !a.completed);
        });
        let ended = |entry: &ApplicationEntry| entry.attempts.first().and_then(|it| it.ended);
        all.sort_by(|a, b| ended(b).cmp(&ended(a)).then_with(|| b.id.cmp(&a.id)));
        all
    }
}

fn attempt_of(log: &LogSource, listed: &Listed, source: &str) -> AttemptEntry {
    AttemptEntry {
        id: listed.attempt.clone(),
        started: listed.started,
        ended: listed.ended,
        updated: log.modified,
        user: listed.user.clone(),
        version: listed.version.clone(),
        exit_code: listed.exit_code,
        completed: listed.ended.is_some(),
        source: Some(source.to_owned()),
    }
}

/// Reads what the list shows; `None`: there is no application in it.
pub(super) fn read(log: &LogSource) -> Option<Listed> {
    let (mut listed, mut found) = (Listed::default(), false);
    let mut begin = |line: &[u8]| {
        match quick_name(line) {
            Some("SparkListenerLogStart" | "SparkListenerApplicationStart") | None => {
                found |= listed.take(line);
            }
            _ => {}
        }
        !found
    };
    if let Err(error) = Lines::default().read(log, &mut begin) {
        tracing::warn!(%error, log = %log.path.display(), "a log could not be read");
        return None;
    }
    let mut end = |line: &[u8]| {
        if quick_name(line) == Some("SparkListenerApplicationEnd") {
            listed.take(line);
        }
        true
    };
    let _ = last_lines(log, TAIL, &mut end);
    // Spark leaves out what has no id as well.
    (!listed.id.is_empty()).then_some(listed)
}

impl Listed {
    /// Whether the line was the application's start.
    fn take(&mut self, line: &[u8]) -> bool {
        let mut events = Vec::new();
        let _ = Decoder::default().decode(line, &mut events);
        match events.pop() {
            Some(Event::LogStart { version }) => self.version = version,
            Some(Event::ApplicationStart { name, app_id, attempt_id, user, at, .. }) => {
                (self.name, self.id, self.user) = (name, app_id, user);
                (self.attempt, self.started) = (attempt_id, at);
                return true;
            }
            Some(Event::ApplicationEnd { exit_code, at }) => {
                (self.exit_code, self.ended) = (exit_code, Some(at));
            }
            _ => {}
        }
        false
    }
}
