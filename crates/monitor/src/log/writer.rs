//! A log that is written while its application runs.
//!
//! The log hears events on a thread and in a queue of its own: no job waits for it. What it cannot write makes the log
//! incomplete, which is told once, and nothing else. After every event but those of tasks, all that was heard is with the
//! system: a driver that is killed leaves a log that opens. Where an object store has the log, that is so within a minute.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, ConfError, Redaction, entries};
use firesteel_types::{Event, Properties};

use super::upload::Uploader;
use super::{Codec, IN_PROGRESS, LogDirectory, ROLLING};
use crate::spark::{Encoder, Extent};

/// Why an application that wants a log cannot have one.
#[derive(Debug, thiserror::Error)]
pub enum EventLogError {
    #[error(transparent)]
    Setting(#[from] ConfError),
    #[error("spark.eventLog.dir={directory}: {source}")]
    Store { directory: String, source: io::Error },
    #[error(
        "spark.eventLog.dir={directory}: objects cannot grow, so a log in an object store is a rolling one; leave \
         spark.eventLog.rolling.enabled out"
    )]
    OneObject { directory: String },
    #[error("spark.eventLog.dir={}: there is no such directory; make it, or set spark.eventLog.enabled=false", directory.display())]
    NoDirectory { directory: PathBuf },
}

#[derive(Debug)]
struct Options {
    directory: LogDirectory,
    codec: Codec,
    /// Bytes of a file of a rolling log; `None`: one file.
    roll_at: Option<u64>,
    overwrite: bool,
    /// So many bytes are gathered before they are written.
    buffer: usize,
    extent: Extent,
    secrets: Redaction,
}

/// Writes the log of one application.
#[derive(Debug)]
pub struct EventLog {
    options: Options,
    encoder: Encoder,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The application has not told its id yet.
    Unnamed,
    Open(Target),
    /// It goes to an object store.
    Uploaded(Uploader),
    Finished,
    /// The log is incomplete: nothing more is written.
    Broken,
}

/// The files of a log that is open.
#[derive(Debug)]
struct Target {
    /// The file or directory.
    path: PathBuf,
    /// Application and attempt, as a part of names.
    name: String,
    file: File,
    /// Of the file of a rolling log.
    number: u64,
    written: u64,
}

impl EventLog {
    /// The log that the settings ask for, if they do.
    pub fn from_conf(conf: &Conf) -> Result<Option<Self>, EventLogError> {
        if !conf.get(&entries::EVENT_LOG_ENABLED)? {
            return Ok(None);
        }
        let text = conf.get(&entries::EVENT_LOG_DIR)?;
        let directory = LogDirectory::of(&text, conf)
            .map_err(|source| EventLogError::Store { directory: text.clone(), source })?;
        if directory.store().is_none() && !directory.path().is_dir() {
            return Err(EventLogError::NoDirectory { directory: directory.path().to_owned() });
        }
        let codec = match conf.get(&entries::EVENT_LOG_COMPRESS)? {
            false => Codec::None,
            true => match conf.get(&entries::EVENT_LOG_CODEC)? {
                firesteel_conf::CompressionCodec::Zstd => Codec::Zstd,
                firesteel_conf::CompressionCodec::Lz4 => Codec::Lz4,
            },
        };
        let rolling = conf.get(&entries::EVENT_LOG_ROLLING)?;
        if directory.store().is_some() && !rolling {
            return Err(EventLogError::OneObject { directory: text });
        }
        let roll_at = conf.get(&entries::EVENT_LOG_ROLLING_SIZE)?.0;
        let options = Options {
            directory,
            codec,
            roll_at: rolling.then_some(roll_at),
            secrets: conf.get(&entries::REDACTION_REGEX)?,
            overwrite: conf.get(&entries::EVENT_LOG_OVERWRITE)?,
            buffer: usize::try_from(conf.get(&entries::EVENT_LOG_BUFFER)?.0).unwrap_or(usize::MAX),
            extent: Extent {
                block_updates: conf.get(&entries::EVENT_LOG_BLOCK_UPDATES)?,
                executor_metrics: conf.get(&entries::EVENT_LOG_EXECUTOR_METRICS)?,
            },
        };
        let (encoder, lines) = (Encoder::new(options.extent), Vec::new());
        Ok(Some(EventLog { options, encoder, lines, state: State::Unnamed }))
    }

    /// Takes an event. Never fails.
    pub fn on_event(&mut self, event: &Event) {
        if matches!(self.state, State::Finished | State::Broken) {
            return;
        }
        match self.without_secrets(event) {
            Some(redacted) => self.encoder.encode(&redacted, &mut self.lines),
            None => self.encoder.encode(event, &mut self.lines),
        }
        if let Event::ApplicationStart { app_id, attempt_id, .. } = event {
            self.open(&name_of(app_id, attempt_id.as_deref()));
        }
        let of_a_task = matches!(
            event,
            Event::TaskStart { .. }
                | Event::TaskEnd { .. }
                | Event::TaskGettingResult { .. }
                | Event::AccumulableUpdated { .. }
                | Event::BlockUpdated { .. }
        );
        if !of_a_task || self.lines.len() >= self.options.buffer {
            self.flush();
        }
        if matches!(event, Event::ApplicationEnd { .. }) {
            self.finish();
        }
    }

    /// So many events never came: the log says so.
    pub fn on_lost(&mut self, events: u64) {
        self.on_event(&Event::EventsLost { events });
    }

    /// An event whose properties have secrets in them, without these. The settings came without.
    fn without_secrets(&self, event: &Event) -> Option<Event> {
        let (Event::JobStart { properties, .. } | Event::StageSubmitted { properties, .. }) = event
        else {
            return None;
        };
        let shown = |key: &str, value: &str| self.options.secrets.apply(key, value).to_owned();
        let has_secrets = properties.iter().any(|(key, value)| shown(key, value) != value);
        let mut event = has_secrets.then(|| event.clone())?;
        if let Event::JobStart { properties, .. } | Event::StageSubmitted { properties, .. } =
            &mut event
        {
            let mut redacted = Properties::clone(properties);
            properties.iter().for_each(|(key, value)| redacted.set(key, Some(&shown(key, value))));
            *properties = redacted.into();
        }
        Some(event)
    }

    fn open(&mut self, name: &str) {
        if !matches!(self.state, State::Unnamed) {
            return;
        }
        let Options { directory, codec, overwrite, .. } = &self.options;
        let opened = match directory.store() {
            Some(store) => {
                Uploader::start(store.clone(), name, *codec, *overwrite).map(State::Uploaded)
            }
            None => Target::create(&self.options, name).map(State::Open),
        };
        match opened {
            Ok(state) => self.state = state,
            Err(error) => self.give_up("could not be created", &error),
        }
    }

    fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let written = match &mut self.state {
            State::Open(target) => target.write(&self.options, &self.lines),
            State::Uploaded(uploader) => {
                let mut packed = Vec::new();
                let written = self.options.codec.write(&self.lines, &mut packed);
                written.and_then(|_| uploader.write(packed))
            }
            _ => return,
        };
        self.lines.clear();
        if let Err(error) = written {
            self.give_up("is incomplete: it could not be written", &error);
        }
    }

    /// Writes what is left, and says by the name that the log is whole.
    fn finish(&mut self) {
        self.encoder.finish(&mut self.lines);
        self.flush();
        let finished = match std::mem::replace(&mut self.state, State::Finished) {
            State::Open(target) => target.finish(&self.options),
            State::Uploaded(uploader) => uploader.finish(),
            _ => return,
        };
        if let Err(error) = finished {
            self.give_up("could not be finished", &error);
        }
    }

    fn give_up(&mut self, what: &str, error: &io::Error) {
        let directory = self.options.directory.path().display();
        tracing::error!(%error, %directory, "the event log {what}; jobs go on without it");
        (self.state, self.lines) = (State::Broken, Vec::new());
    }
}

/// An application that ends without saying so has a log in progress: what was heard is in it.
impl Drop for EventLog {
    fn drop(&mut self) {
        self.encoder.finish(&mut self.lines);
        self.flush();
    }
}

/// Application and attempt as a part of a file's name, as Spark makes it.
fn name_of(app: &str, attempt: Option<&str>) -> String {
    let clean = |text: &str| {
        let safe = text.chars().map(|letter| match letter {
            ' ' | ':' | '/' | '\\' | '\0' => '-',
            '.' | '$' | '{' | '}' | '\'' | '"' => '_',
            other => other.to_ascii_lowercase(),
        });
        safe.collect::<String>()
    };
    let attempt = attempt.map(|attempt| format!("_{}", clean(attempt)));
    format!("{}{}", clean(app), attempt.unwrap_or_default())
}

/// Spark's rights: the user and the group. What is there under the name goes: a link is not followed, wherever somebody
/// who may write to the directory let it lead.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).mode(0o660).open(path),
    }
}

impl Target {
    fn create(options: &Options, name: &str) -> io::Result<Self> {
        match options.roll_at {
            None => Self::create_single(options, name),
            Some(_) => Self::create_rolling(options, name),
        }
    }

    fn create_single(options: &Options, name: &str) -> io::Result<Self> {
        let path = options.directory.path().join(format!("{name}{}", options.codec.extension()));
        make_room(&path, options.overwrite)?;
        let file = create(&in_progress(&path))?;
        Ok(Target { path, name: name.to_owned(), file, number: 0, written: 0 })
    }

    fn create_rolling(options: &Options, name: &str) -> io::Result<Self> {
        let path = options.directory.path().join(format!("{ROLLING}{name}"));
        make_room(&path, options.overwrite)?;
        DirBuilder::new().mode(0o770).create(&path)?;
        create(&in_progress(&path.join(format!("appstatus_{name}"))))?;
        let file = create(&events_path(&path, name, 1, options.codec))?;
        Ok(Target { path, name: name.to_owned(), file, number: 1, written: 0 })
    }

    fn write(&mut self, options: &Options, lines: &[u8]) -> io::Result<()> {
        if options.roll_at.is_some_and(|most| self.written >= most) {
            options.codec.finish(&mut self.file)?;
            self.number += 1;
            self.file = create(&events_path(&self.path, &self.name, self.number, options.codec))?;
            self.written = 0;
        }
        self.written += options.codec.write(lines, &mut self.file)?;
        Ok(())
    }

    fn finish(mut self, options: &Options) -> io::Result<()> {
        options.codec.finish(&mut self.file)?;
        self.file.sync_all()?;
        let done = match options.roll_at {
            None => self.path,
            Some(_) => self.path.join(format!("appstatus_{}", self.name)),
        };
        fs::rename(in_progress(&done), done)
    }
}

fn in_progress(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(IN_PROGRESS);
    name.into()
}

fn events_path(directory: &Path, name: &str, number: u64, codec: Codec) -> PathBuf {
    directory.join(format!("events_{number}_{name}{}", codec.extension()))
}

/// Another log of this name goes if it may.
fn make_room(path: &Path, overwrite: bool) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !overwrite {
        let text = format!("{} exists already; set spark.eventLog.overwrite=true", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Replay;
    use crate::log::{Lines, discover};
    use firesteel_status::Retention;
    use firesteel_types::Tick;
    use std::collections::BTreeMap;

    fn conf(directory: &Path, more: &[(&str, &str)]) -> Conf {
        let mut conf = Conf::default();
        conf.set("spark.eventLog.enabled", "true");
        conf.set("spark.eventLog.dir", directory.display().to_string());
        for (key, value) in more {
            conf.set(*key, *value);
        }
        conf
    }

    fn start() -> Event {
        Event::ApplicationStart {
            name: "n".to_owned(),
            app_id: "App 1/../x".to_owned(),
            attempt_id: None,
            user: "u".to_owned(),
            driver_log_urls: BTreeMap::new(),
            driver_attributes: BTreeMap::new(),
            at: Tick(1),
        }
    }

    fn removed(number: u64) -> Event {
        Event::ExecutorRemoved {
            executor: firesteel_types::ExecutorId(number as u32),
            reason: format!("reason {number} {}", "x".repeat(100)),
            at: Tick(number),
        }
    }

    /// Name, whether it is in progress, lines.
    fn logs(directory: &Path) -> Vec<(String, bool, Vec<String>)> {
        let read = |log: &crate::log::LogSource| {
            let mut lines = Vec::new();
            Lines::default()
                .read(log, &mut |line| {
                    lines.push(String::from_utf8(line.to_vec()).unwrap());
                    true
                })
                .unwrap();
            let name = log.path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, log.in_progress, lines)
        };
        discover(directory).unwrap().iter().map(read).collect()
    }

    const FORMS: [(&str, &str, &str); 6] = [
        ("false", "false", "zstd"),
        ("false", "true", "zstd"),
        ("false", "true", "lz4"),
        ("true", "false", "zstd"),
        ("true", "true", "zstd"),
        ("true", "true", "lz4"),
    ];

    fn settings<'a>(
        (rolling, compress, codec): (&'a str, &'a str, &'a str),
    ) -> [(&'a str, &'a str); 4] {
        [
            ("spark.eventLog.rolling.enabled", rolling),
            ("spark.eventLog.rolling.maxFileSize", "10m"),
            ("spark.eventLog.compress", compress),
            ("spark.eventLog.compression.codec", codec),
        ]
    }

    #[test]
    fn a_log_of_any_form_can_be_read_while_it_is_written_and_when_it_is_whole() {
        for form in FORMS {
            let directory = tempfile::tempdir().unwrap();
            let conf = conf(directory.path(), &settings(form));
            let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
            log.on_event(&Event::LogStart { version: "1".to_owned() });
            assert_eq!(logs(directory.path()), []);
            log.on_event(&start());
            (0..100).for_each(|number| log.on_event(&removed(number)));
            let found = logs(directory.path());
            assert_eq!((found.len(), found[0].1, found[0].2.len()), (1, true, 102), "{form:?}");
            log.on_event(&Event::ApplicationEnd { exit_code: Some(0), at: Tick(9) });
            drop(log);
            let found = logs(directory.path());
            assert_eq!((found.len(), found[0].1, found[0].2.len()), (1, false, 103), "{form:?}");
            assert!(found[0].0.contains("app-1-__-x"), "{}", found[0].0);
        }
    }

    #[test]
    fn a_killed_drivers_log_opens_wherever_it_was_cut() {
        let retention = Retention { jobs: 9, stages: 9, tasks: 9, dead_executors: 9 };
        for form in FORMS {
            let directory = tempfile::tempdir().unwrap();
            let conf = conf(directory.path(), &settings(form));
            let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
            log.on_event(&start());
            (0..20).for_each(|number| log.on_event(&removed(number)));
            let found = discover(directory.path()).unwrap();
            let path = found[0].files().next().unwrap().to_owned();
            let bytes = fs::read(&path).unwrap();
            for cut in (0..bytes.len()).step_by(37).chain([bytes.len()]) {
                fs::write(&path, &bytes[..cut]).unwrap();
                let Some(log) = discover(directory.path()).unwrap().pop() else { continue };
                let (mut lines, mut replay) = (Lines::default(), Replay::new(retention));
                let mut take = |line: &[u8]| {
                    replay.line(line);
                    true
                };
                lines.read(&log, &mut take).unwrap();
                assert_eq!(replay.unreadable(), 0, "{form:?} cut at {cut}");
                assert!(cut < bytes.len() || replay.status().application().id == "App 1/../x");
            }
        }
    }

    #[test]
    fn a_rolling_log_goes_on_in_the_next_file_and_is_one_log() {
        let directory = tempfile::tempdir().unwrap();
        let conf = conf(directory.path(), &settings(("true", "false", "zstd")));
        let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
        log.options.roll_at = Some(1000);
        log.on_event(&start());
        (0..100).for_each(|number| log.on_event(&removed(number)));
        let found = discover(directory.path()).unwrap();
        assert!(found[0].files().count() > 10, "{found:?}");
        let lines = &logs(directory.path())[0].2;
        assert_eq!(lines.len(), 101);
        assert!(lines[100].contains("reason 99"));
    }

    #[test]
    fn a_log_that_cannot_be_written_says_so_and_takes_every_event() {
        let directory = tempfile::tempdir().unwrap();
        let conf = conf(directory.path(), &settings(("false", "false", "zstd")));
        let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
        log.on_event(&start());
        let State::Open(target) = &mut log.state else { panic!("{log:?}") };
        // A file that takes nothing: what a full disk is.
        target.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        (0..100).for_each(|number| log.on_event(&removed(number)));
        assert!(matches!(log.state, State::Broken));
        log.on_event(&Event::ApplicationEnd { exit_code: Some(0), at: Tick(9) });
        drop(log);
        assert!(logs(directory.path())[0].1, "it is not whole");
    }

    #[test]
    fn another_log_of_the_name_stays_unless_it_may_be_overwritten() {
        for rolling in ["false", "true"] {
            let directory = tempfile::tempdir().unwrap();
            let write = |overwrite: &str| {
                let mut more = settings((rolling, "false", "zstd")).to_vec();
                more.push(("spark.eventLog.overwrite", overwrite));
                let mut log = EventLog::from_conf(&conf(directory.path(), &more)).unwrap().unwrap();
                log.on_event(&start());
                log.on_event(&Event::ApplicationEnd { exit_code: Some(0), at: Tick(9) });
                matches!(log.state, State::Finished)
            };
            assert_eq!((write("false"), write("false"), write("true")), (true, false, true));
        }
    }

    #[test]
    fn a_link_under_the_logs_name_is_replaced_and_not_followed() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = other.path().join("precious");
        fs::write(&precious, "of somebody else").unwrap();
        let link = directory.path().join("app-1-__-x.inprogress");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let conf = conf(directory.path(), &settings(("false", "false", "zstd")));
        let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
        log.on_event(&start());
        log.on_event(&Event::ApplicationEnd { exit_code: Some(0), at: Tick(9) });
        assert_eq!(fs::read_to_string(&precious).unwrap(), "of somebody else");
        assert_eq!(logs(directory.path())[0].2.len(), 2);
    }

    #[test]
    fn a_log_that_lost_events_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let conf = conf(directory.path(), &settings(("false", "false", "zstd")));
        let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
        log.on_event(&start());
        log.on_lost(7);
        log.on_event(&Event::ApplicationEnd { exit_code: Some(0), at: Tick(9) });
        let retention = Retention { jobs: 9, stages: 9, tasks: 9, dead_executors: 9 };
        let mut replay = Replay::new(retention);
        logs(directory.path())[0].2.iter().for_each(|line| replay.line(line.as_bytes()));
        assert_eq!((replay.status().lost_events(), replay.unreadable()), (7, 0));
    }

    #[test]
    fn secrets_in_the_properties_of_jobs_stay_out_of_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let conf = conf(directory.path(), &settings(("false", "false", "zstd")));
        let mut log = EventLog::from_conf(&conf).unwrap().unwrap();
        log.on_event(&start());
        let properties = Properties::default().with("my.password", "hunter2").with("k", "v");
        log.on_event(&Event::JobStart {
            job: firesteel_types::JobId(0),
            properties: properties.into(),
            stages: Vec::new(),
            at: Tick(2),
        });
        let line = &logs(directory.path())[0].2[1];
        assert!(line.contains("(redacted)") && line.contains("\"k\":\"v\""), "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }

    #[test]
    fn a_directory_that_is_not_there_or_of_no_known_store_is_refused_at_the_start() {
        let refused = |directory: &str| {
            EventLog::from_conf(&conf(Path::new(directory), &[])).unwrap_err().to_string()
        };
        assert!(refused("/nowhere/at/all").contains("no such directory"));
        assert!(refused("hdfs://host/logs").contains("hdfs:// is not supported"));
        assert!(EventLog::from_conf(&Conf::default()).unwrap().is_none());
    }
}
