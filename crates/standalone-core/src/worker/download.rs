//! One download of one file by a worker: from whom to ask for the next bytes, when a source is too slow, when to give up.
//!
//! Sources are drivers that serve the file and workers that have it, or fetch it and pass on what they have. Workers are asked
//! first: a driver serves a few at a time. Wherever the bytes come from, the hash is checked over the whole at the end, and a
//! download whose parts do not fit is begun anew, from one source alone.

use std::collections::BTreeSet;

use firesteel_backend::provider::Preparing;
use firesteel_types::Tick;

/// How long to wait before a source is asked again that had nothing new.
const AGAIN_MS: u64 = 200;
/// How long to wait before a source is asked again that serves others, or cannot be reached.
const LATER_MS: u64 = 1000;
/// A driver that failed so often in a row is not asked any more.
const DRIVER_TRIES: u32 = 3;
/// Likewise a worker. It may have been told of the file a moment later.
const WORKER_TRIES: u32 = 10;

/// Who serves a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Another worker, with all of it or a part.
    Worker,
    /// The application's driver.
    Driver,
}

/// How it ended to read from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// It has sent what it has.
    Read,
    /// It serves as many others as it may.
    Busy,
    /// The connection could not be made or broke.
    Broken,
    /// It does not have the file, or does not give it.
    Refused,
    /// Too few bytes came.
    Slow,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRead {
    /// Read from this source, from where the last one ended.
    Ask(usize),
    /// Nothing before this moment, unless a source is added.
    WaitUntil(Tick),
    GiveUp(GivenUp),
}

/// Why a download is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// No source is left.
    NoSource,
    /// All sources served others for too long.
    Waited,
    /// Nobody wants it any more.
    Unwanted,
}

/// The rules of a download.
#[derive(Clone, Copy, Debug)]
pub struct DownloadOptions {
    /// How many bytes a source has to bring in each window.
    pub min_bytes: u64,
    /// How long a window is.
    pub window_ms: u64,
    /// How long sources may serve others while nothing comes.
    pub waiting_ms: u64,
    /// How long it goes on when nobody wants it.
    pub unwanted_ms: u64,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        let (min_bytes, window_ms) = (1 << 20, 60_000);
        DownloadOptions { min_bytes, window_ms, waiting_ms: 600_000, unwanted_ms: 300_000 }
    }
}

#[derive(Debug)]
struct Source {
    kind: SourceKind,
    /// In a row, without a byte.
    failures: u32,
    is_out: bool,
    not_before: Tick,
}

/// How far the download of one file is, and from whom it goes on.
#[derive(Debug)]
pub struct Download {
    options: DownloadOptions,
    sources: Vec<Source>,
    position: u64,
    length: u64,
    /// Bytes that came to nothing: they were progress.
    wasted: u64,
    waits: u64,
    /// Sources of the bytes so far.
    contributors: BTreeSet<usize>,
    /// From one source alone: parts of several did not fit.
    alone: bool,
    wanted_by: usize,
    unwanted_since: Tick,
    last_byte: Tick,
    /// Since when, and from which position, the current source is measured.
    window: (Tick, u64),
}

impl Download {
    /// Of so many bytes, of which the first are there.
    pub fn new(options: DownloadOptions, now: Tick, position: u64, length: u64) -> Self {
        Download {
            options,
            sources: Vec::new(),
            position,
            length,
            wasted: 0,
            waits: 0,
            contributors: BTreeSet::new(),
            alone: false,
            wanted_by: 0,
            unwanted_since: now,
            last_byte: now,
            window: (now, position),
        }
    }

    /// One more source: its number.
    pub fn add(&mut self, kind: SourceKind) -> usize {
        self.sources.push(Source { kind, failures: 0, is_out: false, not_before: Tick(0) });
        self.sources.len() - 1
    }

    /// Somebody wants this source, which was there before, to be tried once more.
    pub fn renew(&mut self, source: usize) {
        let source = &mut self.sources[source];
        (source.failures, source.is_out) = (0, false);
    }

    /// One more wants the file.
    pub fn want(&mut self) {
        self.wanted_by += 1;
    }

    /// One of those does not any more.
    pub fn unwant(&mut self, now: Tick) {
        self.wanted_by -= 1;
        self.unwanted_since = now;
    }

    /// Some bytes are there from an earlier attempt.
    pub fn resume(&mut self, position: u64) {
        self.position = position;
    }

    pub fn options(&self) -> DownloadOptions {
        self.options
    }

    /// Sources of the bytes so far.
    pub fn contributors(&self) -> impl Iterator<Item = usize> {
        self.contributors.iter().copied()
    }

    /// Where to go on.
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn is_complete(&self) -> bool {
        self.position >= self.length
    }

    /// Whether others may be served what there is so far.
    pub fn may_be_served(&self) -> bool {
        !self.alone
    }

    /// How far it is, for those who wait.
    pub fn preparing(&self) -> Preparing {
        let of = self.wasted + self.length;
        Preparing { bytes: self.wasted + self.position, of, waits: self.waits }
    }

    /// Whom to ask now.
    pub fn next(&mut self, now: Tick) -> NextRead {
        if self.wanted_by == 0 && now.since_ms(self.unwanted_since) >= self.options.unwanted_ms {
            return NextRead::GiveUp(GivenUp::Unwanted);
        }
        if now.since_ms(self.last_byte) >= self.options.waiting_ms {
            return NextRead::GiveUp(GivenUp::Waited);
        }
        let open = || self.sources.iter().enumerate().filter(|(_, source)| !source.is_out);
        let ready = open().filter(|(_, source)| source.not_before <= now);
        let first = ready.min_by_key(|(at, source)| (source.failures > 0, source.kind, *at));
        match first {
            Some((at, _)) => {
                self.window = (now, self.position);
                NextRead::Ask(at)
            }
            None => match open().map(|(_, source)| source.not_before).min() {
                Some(at) => NextRead::WaitUntil(at),
                None => NextRead::GiveUp(GivenUp::NoSource),
            },
        }
    }

    /// A source has answered, and bytes come from this position on.
    pub fn reads_from(&mut self, source: usize) -> u64 {
        if self.alone && !self.contributors.is_empty() && !self.contributors.contains(&source) {
            self.begin_anew();
        }
        self.position
    }

    pub fn arrived(&mut self, now: Tick, source: usize, bytes: u64) {
        self.position += bytes;
        self.last_byte = now;
        self.sources[source].failures = 0;
        self.contributors.insert(source);
    }

    /// Whether the current source has brought too few bytes, or when to ask next.
    pub fn is_slow(&mut self, now: Tick) -> Result<(), Tick> {
        let (since, from) = self.window;
        let due = since.plus_ms(self.options.window_ms);
        if now < due {
            return Err(due);
        }
        let enough = self.options.min_bytes.min(self.length - from);
        if self.position - from < enough {
            return Ok(());
        }
        self.window = (now, self.position);
        Err(now.plus_ms(self.options.window_ms))
    }

    /// Nothing more comes from this source for now.
    pub fn ended(&mut self, now: Tick, source: usize, end: ReadEnd) {
        let came = self.position > self.window.1;
        let source = &mut self.sources[source];
        let wait_ms = match end {
            ReadEnd::Read if came => 0,
            ReadEnd::Read => AGAIN_MS,
            ReadEnd::Slow => self.options.window_ms,
            ReadEnd::Busy | ReadEnd::Broken | ReadEnd::Refused => LATER_MS,
        };
        source.not_before = now.plus_ms(wait_ms);
        match (end, source.kind) {
            (ReadEnd::Read, _) => {}
            (ReadEnd::Busy, _) => self.waits += 1,
            (ReadEnd::Refused, SourceKind::Driver) => source.is_out = true,
            (ReadEnd::Slow, _) => source.failures += 1,
            (ReadEnd::Broken, _) if came => {}
            (ReadEnd::Broken | ReadEnd::Refused, _) => source.failures += 1,
        }
        let tries = match source.kind {
            SourceKind::Driver => DRIVER_TRIES,
            SourceKind::Worker => WORKER_TRIES,
        };
        source.is_out |= source.failures >= tries;
    }

    /// The bytes are not those that were meant. True if it is tried again: from another source, or from one alone, since nobody
    /// knows which of several it was.
    pub fn mismatched(&mut self) -> bool {
        let single = self.contributors.len() <= 1;
        for at in std::mem::take(&mut self.contributors) {
            let source = &mut self.sources[at];
            source.is_out |= single || source.kind == SourceKind::Worker;
        }
        self.alone = true;
        self.begin_anew();
        self.sources.iter().any(|source| !source.is_out)
    }

    fn begin_anew(&mut self) {
        self.wasted += self.position;
        self.position = 0;
        self.window.1 = 0;
        self.contributors.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: DownloadOptions =
        DownloadOptions { min_bytes: 100, window_ms: 1000, waiting_ms: 60_000, unwanted_ms: 5000 };

    fn download(kinds: &[SourceKind]) -> Download {
        let mut download = Download::new(RULES, Tick(0), 0, 1000);
        download.want();
        for kind in kinds {
            download.add(*kind);
        }
        download
    }

    #[test]
    fn workers_are_asked_before_the_driver_and_the_driver_when_they_have_nothing() {
        let mut download = download(&[SourceKind::Driver, SourceKind::Worker]);
        assert_eq!(download.next(Tick(0)), NextRead::Ask(1));
        download.ended(Tick(0), 1, ReadEnd::Read);
        assert_eq!(download.next(Tick(0)), NextRead::Ask(0));
        download.ended(Tick(0), 0, ReadEnd::Busy);
        assert_eq!(download.next(Tick(0)), NextRead::WaitUntil(Tick(AGAIN_MS)));
        assert_eq!(download.preparing().waits, 1, "its turn will come");
        assert_eq!(download.next(Tick(AGAIN_MS)), NextRead::Ask(1));
        download.arrived(Tick(AGAIN_MS), 1, 10);
        download.ended(Tick(AGAIN_MS), 1, ReadEnd::Read);
        assert_eq!(download.next(Tick(AGAIN_MS)), NextRead::Ask(1), "it may have more by now");
    }

    #[test]
    fn a_source_that_drips_is_left_for_another_one_which_goes_on_where_it_ended() {
        let mut download = download(&[SourceKind::Driver, SourceKind::Driver]);
        assert_eq!(download.next(Tick(0)), NextRead::Ask(0));
        download.arrived(Tick(900), 0, 100);
        assert_eq!(download.is_slow(Tick(999)), Err(Tick(1000)));
        assert_eq!(download.is_slow(Tick(1000)), Err(Tick(2000)), "fast enough");
        download.arrived(Tick(1900), 0, 99);
        assert_eq!(download.is_slow(Tick(2000)), Ok(()));
        download.ended(Tick(2000), 0, ReadEnd::Slow);
        assert_eq!((download.next(Tick(2000)), download.position()), (NextRead::Ask(1), 199));
        download.arrived(Tick(2001), 1, 796);
        assert_eq!(download.is_slow(Tick(3000)), Err(Tick(4000)));
        assert_eq!(download.is_slow(Tick(4000)), Ok(()), "5 bytes are left, and none of them came");
    }

    #[test]
    fn a_driver_that_stays_slow_or_broken_is_out_and_then_there_is_none() {
        for end in [ReadEnd::Slow, ReadEnd::Broken] {
            let (mut download, mut now) = (download(&[SourceKind::Driver]), Tick(0));
            for _ in 0..DRIVER_TRIES {
                assert_eq!(download.next(now), NextRead::Ask(0), "{end:?}");
                download.ended(now, 0, end);
                now = now.plus_ms(1000);
            }
            assert_eq!(download.next(now), NextRead::GiveUp(GivenUp::NoSource));
            download.renew(0);
            assert_eq!(download.next(now), NextRead::Ask(0), "another executor wants it");
        }
        let mut download = download(&[SourceKind::Driver]);
        download.ended(Tick(0), 0, ReadEnd::Refused);
        assert_eq!(download.next(Tick(9)), NextRead::GiveUp(GivenUp::NoSource));
    }

    #[test]
    fn a_source_with_which_it_begins_anew_is_measured_from_there() {
        let mut download = download(&[SourceKind::Driver, SourceKind::Driver]);
        download.arrived(Tick(0), 0, 500);
        download.arrived(Tick(0), 1, 500);
        assert!(download.mismatched());
        assert_eq!((download.next(Tick(0)), download.reads_from(0)), (NextRead::Ask(0), 0));
        download.arrived(Tick(1), 0, 400);
        download.ended(Tick(1), 0, ReadEnd::Broken);
        assert_eq!((download.next(Tick(2)), download.reads_from(1)), (NextRead::Ask(1), 0));
        download.arrived(Tick(500), 1, 100);
        assert_eq!(download.is_slow(Tick(1002)), Err(Tick(2002)), "a hundred bytes are enough");
    }

    #[test]
    fn it_goes_on_for_a_while_when_nobody_wants_it_and_not_for_ever() {
        let mut download = download(&[SourceKind::Driver]);
        download.unwant(Tick(100));
        assert_eq!(download.next(Tick(5099)), NextRead::Ask(0));
        assert_eq!(download.next(Tick(5100)), NextRead::GiveUp(GivenUp::Unwanted));
        download.want();
        assert_eq!(download.next(Tick(5100)), NextRead::Ask(0));
        assert_eq!(download.next(Tick(60_000)), NextRead::GiveUp(GivenUp::Waited));
    }

    #[test]
    fn parts_that_do_not_fit_are_fetched_again_from_one_source_alone_and_that_is_progress() {
        let mut download = download(&[SourceKind::Worker, SourceKind::Driver]);
        download.arrived(Tick(0), 0, 400);
        download.arrived(Tick(0), 1, 600);
        assert!(download.is_complete());
        let before = download.preparing();
        assert!(download.mismatched() && !download.may_be_served());
        assert_eq!(download.next(Tick(0)), NextRead::Ask(1), "the worker is out");
        assert_eq!(download.reads_from(1), 0);
        download.arrived(Tick(0), 1, 10);
        assert!(download.preparing().is_further_than(before));
        assert_eq!(download.preparing().of, 2000);
        assert!(!download.mismatched(), "all came from the driver");
    }
}
