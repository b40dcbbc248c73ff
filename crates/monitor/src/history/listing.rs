//! Which applications a directory of logs has. Of each log the beginning is read, and the end: enough to list it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use firesteel_types::{Event, Tick};
use serde::{Deserialize, Serialize};

use crate::log::{Lines, LogSource, last_lines};
use crate::rest::{ApplicationEntry, AttemptEntry};
use crate::spark::{Decoder, quick_name};

/// The end of an application is looked for in so many bytes: Spark's `endEventReparseChunkSize`.
const TAIL: u64 = 1 << 20;
/// The start of an application is within the first of its lines, which have so many bytes at most: what has no start there
/// is no log.
const HEAD: u64 = 64 << 20;
const LONGEST: usize = 16 << 20;
/// So few logs are not worth a thread.
const FEW: usize = 16;
/// Of so many logs that cannot be read is told once, and no more of others.
const REFUSED: usize = 1000;

/// What the list shows of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// All logs, by their paths. What is the log of no application takes a few numbers, and an empty file nothing.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The logs of applications, with the look at the directory that found them last.
    logs: BTreeMap<PathBuf, (LogSource, Listed, u64)>,
    /// What else was read: by a hash of its path, a hash of what it was then, and the look that found it last.
    others: HashMap<u64, (u64, u64)>,
    hashes: RandomState,
    /// The logs of each application.
    ids: BTreeMap<String, BTreeSet<PathBuf>>,
    /// Logs that the system did not let us read, with the look that found them last: it may the next time.
    refused: BTreeMap<PathBuf, u64>,
    /// How often the directory was looked at.
    looks: u64,
}

impl Listing {
    /// Begins another look at the directory.
    pub(super) fn begin(&mut self) {
        self.looks += 1;
    }

    /// Takes what is in the directory; `true`: it is new, or has changed, and has to be read.
    pub(super) fn see(&mut self, log: &LogSource) -> bool {
        if let Some(look) = self.refused.get_mut(&log.path) {
            *look = self.looks;
        }
        if let Some((known, _, look)) = self.logs.get_mut(&log.path) {
            *look = self.looks;
            return known != log;
        }
        let (path, now) = self.hashed(log);
        match self.others.get_mut(&path) {
            Some((then, look)) if *then == now => {
                *look = self.looks;
                false
            }
            _ => log.bytes > 0,
        }
    }

    /// Forgets what was not in the directory.
    pub(super) fn end(&mut self) {
        let now = self.looks;
        let gone = self.logs.iter().filter(|(_, (_, _, look))| *look != now);
        let gone: Vec<PathBuf> = gone.map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| self.remove(path));
        self.others.retain(|_, (_, look)| *look == now);
        self.refused.retain(|_, look| *look == now);
    }

    fn hashed(&self, log: &LogSource) -> (u64, u64) {
        let now = (log.bytes, log.modified, log.made, log.in_progress, log.files().count());
        (self.hashes.hash_one(&log.path), self.hashes.hash_one(now))
    }

    /// Takes what was read of a log; `false`: nothing was, for now.
    pub(super) fn take(&mut self, log: LogSource, read: io::Result<Option<Listed>>) -> bool {
        match read {
            Ok(Some(listed)) => {
                self.insert(log, listed);
                true
            }
            Ok(None) => {
                self.remove(&log.path);
                self.refused.remove(&log.path);
                let (path, now) = self.hashed(&log);
                self.others.insert(path, (now, self.looks));
                true
            }
            Err(error) => {
                // What was read of it before counts until it is gone. It is other than it was: so it is read again the next time.
                if error.kind() == io::ErrorKind::NotFound {
                    self.remove(&log.path);
                }
                let is_new = !self.refused.contains_key(&log.path);
                if is_new && self.refused.len() < REFUSED {
                    self.refused.insert(log.path.clone(), self.looks);
                    tracing::warn!(%error, log = %log.path.display(), "a log could not be read");
                }
                false
            }
        }
    }

    pub(super) fn insert(&mut self, log: LogSource, listed: Listed) {
        self.remove(&log.path);
        self.refused.remove(&log.path);
        self.others.remove(&self.hashes.hash_one(&log.path));
        self.ids.entry(listed.id.clone()).or_default().insert(log.path.clone());
        self.logs.insert(log.path.clone(), (log, listed, self.looks));
    }

    fn remove(&mut self, path: &Path) {
        let Some((_, listed, _)) = self.logs.remove(path) else { return };
        if let Some(paths) = self.ids.get_mut(&listed.id) {
            paths.remove(path);
            if paths.is_empty() {
                self.ids.remove(&listed.id);
            }
        }
    }

    /// What is stored of it.
    pub(super) fn entries(&self) -> Vec<(&LogSource, &Listed)> {
        self.logs.values().map(|(log, listed, _)| (log, listed)).collect()
    }

    /// How many logs there are, those of no application among them, and how many applications.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.logs.len() + self.others.len(), self.ids.len())
    }

    /// Whether it is the log of an application.
    pub(super) fn knows(&self, path: &Path) -> bool {
        self.logs.contains_key(path)
    }

    /// The logs of applications.
    pub(super) fn logs(&self) -> Vec<LogSource> {
        self.logs.values().map(|(log, _, _)| log.clone()).collect()
    }

    fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (&'a LogSource, &'a Listed)> {
        let logs = self.ids.get(id).into_iter().flatten().filter_map(|path| self.logs.get(path));
        logs.map(|(log, listed, _)| (log, listed))
    }

    /// Where several logs name the same attempt, the one that was made first counts: no other one takes its place, wherever it comes from.
    pub(super) fn log(&self, id: &str, attempt: Option<&str>) -> Option<LogSource> {
        let logs = self.of(id).filter(|(_, it)| it.attempt.as_deref() == attempt);
        let logs: Vec<&LogSource> = logs.map(|(log, _)| log).collect();
        // A log and its successor of the same name may both be there for a moment: the whole one counts.
        let is_succeeded = |log: &LogSource| logs.iter().any(|other| other.succeeds(log));
        let counting = logs.iter().filter(|log| !is_succeeded(log));
        let first = counting.min_by_key(|log| (log.made, log.in_progress, &log.path))?;
        Some((*first).clone())
    }

    /// The logs of an application, or of one of its attempts.
    pub(super) fn logs_of(&self, id: &str, attempt: Option<&str>) -> Vec<LogSource> {
        let wanted = |listed: &Listed| attempt.is_none() || listed.attempt.as_deref() == attempt;
        self.of(id).filter(|(_, it)| wanted(it)).map(|(log, _)| log.clone()).collect()
    }

    /// What ended last comes first, what runs comes last.
    pub(super) fn applications(&self, source: &str) -> Vec<ApplicationEntry> {
        let mut all: Vec<_> =
            self.ids.keys().filter_map(|id| self.application(id, source)).collect();
        let ended = |entry: &ApplicationEntry| entry.attempts.first().and_then(|it| it.ended);
        all.sort_by(|a, b| ended(b).cmp(&ended(a)).then_with(|| b.id.cmp(&a.id)));
        all
    }

    /// One of them, its latest attempt first.
    pub(super) fn application(&self, id: &str, source: &str) -> Option<ApplicationEntry> {
        let first = self.of(id).min_by_key(|(log, _)| log.made)?;
        let name = first.1.name.clone();
        let mut attempts: Vec<_> =
            self.of(id).map(|(log, listed)| attempt_of(log, listed, source)).collect();
        attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.started));
        attempts.dedup_by(|a, b| a.id == b.id && !a.completed);
        Some(ApplicationEntry { id: id.to_owned(), name, attempts })
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

/// Reads what the list shows of many logs, several at once.
pub(super) fn read_all(
    logs: &[LogSource],
    take: &(dyn Fn(LogSource, io::Result<Option<Listed>>) + Sync),
) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)) {
            take(log.clone(), read(log));
        }
    };
    if logs.len() < FEW {
        return work();
    }
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
}

/// Reads what the list shows; `None`: there is no application in it.
fn read(log: &LogSource) -> io::Result<Option<Listed>> {
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
    Lines::up_to(LONGEST, HEAD).read(log, &mut begin)?;
    let mut end = |line: &[u8]| {
        if quick_name(line) == Some("SparkListenerApplicationEnd") {
            listed.take(line);
        }
        true
    };
    // A compressed log would be read from its beginning, each time that it has grown, for an end that it does not have.
    let has_end = !log.in_progress || log.files_are_plain();
    match has_end.then(|| last_lines(log, TAIL, &mut end)) {
        Some(Err(error)) if is_passing(&error) => return Err(error),
        _ => {}
    }
    // Spark leaves out what has no id as well.
    Ok((!listed.id.is_empty()).then_some(listed))
}

/// Whether what could not be read may be read the next time.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, PermissionDenied, UnexpectedEof};
    !matches!(error.kind(), InvalidData | NotFound | PermissionDenied | UnexpectedEof)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What has to be read of what is in a directory.
    fn look(listing: &mut Listing, found: &[LogSource]) -> Vec<LogSource> {
        listing.begin();
        let changed = found.iter().filter(|log| listing.see(log)).cloned().collect();
        listing.end();
        changed
    }

    #[test]
    fn a_log_that_the_system_did_not_let_us_read_is_tried_again_and_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        ["a", "b"]
            .iter()
            .for_each(|name| std::fs::write(directory.path().join(name), "x").unwrap());
        let logs = ["a", "b"].map(|name| LogSource::at(&directory.path().join(name)).unwrap());
        let mut listing = Listing::default();
        assert_eq!(look(&mut listing, &logs), logs);
        assert!(!listing.take(logs[0].clone(), Err(io::Error::other("too many open files"))));
        assert!(listing.take(logs[1].clone(), Ok(None)));
        assert_eq!(look(&mut listing, &logs), [logs[0].clone()]);
        assert!(listing.take(logs[0].clone(), Ok(None)));
        assert_eq!((look(&mut listing, &logs), listing.refused.len()), (Vec::new(), 0));
        assert!(!listing.take(logs[0].clone(), Err(io::Error::other("gone"))));
        assert_eq!((look(&mut listing, &[]), listing.refused.len()), (Vec::new(), 0));
        assert_eq!((listing.others.len(), listing.counts()), (0, (0, 0)));
    }

    #[test]
    fn what_is_no_log_takes_two_numbers_and_is_read_again_when_it_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut listing = Listing::default();
        let now = |text: &str| {
            std::fs::write(&path, text).unwrap();
            [LogSource::at(&path).unwrap()]
        };
        assert!(look(&mut listing, &now("")).is_empty(), "nothing is in an empty file");
        assert_eq!(listing.counts(), (0, 0));
        let log = now("x");
        assert_eq!(look(&mut listing, &log), log);
        assert!(listing.take(log[0].clone(), Ok(None)));
        assert!(look(&mut listing, &log).is_empty() && listing.logs.is_empty());
        assert_eq!(listing.counts(), (1, 0));
        let log = now("xy");
        assert_eq!(look(&mut listing, &log), log);
        let listed = Listed { id: "app-1".to_owned(), ..Listed::default() };
        assert!(listing.take(log[0].clone(), Ok(Some(listed))));
        assert_eq!((listing.counts(), listing.others.len()), ((1, 1), 0));
        let log = now("");
        assert_eq!(look(&mut listing, &log), log, "it was a log");
        assert!(listing.take(log[0].clone(), Ok(None)));
        assert_eq!((listing.counts(), listing.others.len()), ((1, 0), 1));
    }

    #[test]
    fn of_very_many_logs_that_cannot_be_read_few_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let log = LogSource::at(&path).unwrap();
        let mut listing = Listing::default();
        for number in 0..3 * REFUSED {
            let mut log = log.clone();
            log.path = directory.path().join(number.to_string());
            assert!(!listing.take(log, Err(io::Error::other("refused"))));
        }
        assert_eq!(listing.refused.len(), REFUSED);
    }
}
