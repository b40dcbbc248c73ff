//! What a process tells on standard error where nobody else says how: a line for each event of the crate `tracing`, from a level on.
//! A program that has a subscriber of its own keeps it.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use firesteel_conf::LogLevel;
use firesteel_types::date::civil;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A longer line is cut.
const LONGEST: usize = 64 << 10;

/// Has this process tell what is at least so important, unless its program has said otherwise.
pub fn to_stderr(level: LogLevel) {
    let most = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // An error is a program that has one.
    let _ = tracing::subscriber::set_global_default(Lines { most });
}

struct Lines {
    most: LevelFilter,
}

/// The fields of an event as `name=value`, its message without a name.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// `2026-11-18T06:00:00.123Z  WARN`
fn head(now: SystemTime, level: tracing::Level) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = civil((since.as_secs() / 86_400) as i64);
    let of_day = since.as_secs() % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let ms = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z {level:>5}")
}

fn line(now: SystemTime, event: &Event<'_>) -> String {
    let mut line = head(now, *event.metadata().level());
    event.record(&mut Fields(&mut line));
    if line.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(cut);
    }
    line.push('\n');
    line
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    /// Spans are not told: all are the same.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // In one piece: other threads, and other processes, write there too.
        let _ = std::io::stderr().write_all(line(SystemTime::now(), event).as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    /// Keeps lines instead of printing them.
    struct Kept(Lines, Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }
        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            self.0.new_span(attributes)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.1
                .lock()
                .unwrap()
                .push(line(UNIX_EPOCH + Duration::from_millis(1_794_765_966_138), event));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_event_is_a_line_with_its_fields_and_what_is_less_important_is_left_out() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Kept(Lines { most: LevelFilter::INFO }, lines.clone());
        tracing::subscriber::with_default(kept, || {
            tracing::warn!(task = 7, error = %"broken", "it {}", "failed");
            tracing::info!("a b");
            tracing::debug!("not told");
            tracing::error!("{}", "é".repeat(LONGEST));
        });
        let lines = lines.lock().unwrap();
        assert_eq!(lines[0], "2026-11-15T18:06:06.138Z  WARN it failed task=7 error=broken\n");
        assert_eq!(lines[1], "2026-11-15T18:06:06.138Z  INFO a b\n");
        assert_eq!(lines.len(), 3);
        assert!(lines[2].len() <= LONGEST + 1 && lines[2].ends_with("é\n"));
    }
}
